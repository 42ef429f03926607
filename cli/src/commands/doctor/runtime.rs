//! Whether components run here, and how fast they can start.

use super::Check;
use ikigai_host::exec::wasm::{self, Capability};

const SECTION: &str = "components";

pub(super) fn checks() -> Vec<Check> {
    let Capability { engine, pool, pagemap_scan } = wasm::capability();
    let engine = match engine {
        Ok(()) => Check::new(SECTION, "runtime", "compiles and runs components"),
        Err(why) => {
            return vec![Check::new(SECTION, "runtime", why).fail(
                "the standard tools are components; without a runtime only native tools work, \
                 with --backend native",
            )];
        }
    };
    let pool = match pool {
        Ok(()) => Check::new(SECTION, "pool", "places for guests can be made in advance"),
        Err(why) => Check::new(SECTION, "pool", format!("none, each call makes its own: {why}"))
            .warn("raise the limit on address space (`ulimit -v`); calls work, only slower"),
    };
    let scan = match pagemap_scan {
        Ok(()) => Check::new(SECTION, "pagemap scan", "a place is cleaned by what was written"),
        Err(why) => Check::new(SECTION, "pagemap scan", format!("none: {why}"))
            .warn("a kernel from Linux 6.7 on has it; calls work, only slower"),
    };
    vec![engine, pool, scan]
}
