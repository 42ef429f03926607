//! One libFuzzer program for all targets. `IKIGAI_FUZZ_TARGET` selects the target. `cargo xtask
//! fuzz` builds and runs the program.

#![no_main]

use std::sync::LazyLock;

use ikigai_fuzz::{Target, target};
use libfuzzer_sys::fuzz_target;

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("IKIGAI_FUZZ_TARGET").unwrap_or_default();
    target(&name).unwrap_or_else(|| panic!("IKIGAI_FUZZ_TARGET=`{name}` is no target"))
});

fuzz_target!(|data: &[u8]| (TARGET.run)(data));
