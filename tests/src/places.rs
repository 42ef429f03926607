//! Where the programs under test are. `cargo xtask test` names them; run by hand,
//! a test finds what `cargo xtask stage` left in the target directory it was
//! built in.

use std::env;
use std::path::{Path, PathBuf};

/// The host: `IKIGAI_TEST_HOST`, or `TARGET/debug/ikigai`.
#[must_use]
pub fn host() -> PathBuf {
    existing("IKIGAI_TEST_HOST", "debug/ikigai", "cargo xtask stage")
}

/// The supervisor: `IKIGAI_TEST_SUPERVISOR`, or `TARGET/libexec/ikigai-supervisor`.
#[must_use]
pub fn supervisor() -> PathBuf {
    existing("IKIGAI_TEST_SUPERVISOR", "libexec/ikigai-supervisor", "cargo xtask stage")
}

/// The six tools, both builds: `IKIGAI_TEST_TOOLS`, or `TARGET/libexec/ikigai`.
#[must_use]
pub fn tools() -> PathBuf {
    existing("IKIGAI_TEST_TOOLS", "libexec/ikigai", "cargo xtask stage")
}

/// The hostile components of `tests/guests`: `IKIGAI_TEST_GUESTS`, or
/// `TARGET/test-guests`.
#[must_use]
pub fn guests() -> PathBuf {
    existing("IKIGAI_TEST_GUESTS", "test-guests", "cargo xtask test")
}

/// The component examples as built, a folder each: `IKIGAI_TEST_EXAMPLES`, or
/// `TARGET/examples`. An example whose language is not on the machine is missing.
#[must_use]
pub fn built_examples() -> PathBuf {
    named("IKIGAI_TEST_EXAMPLES", "examples")
}

/// The Python environment that has llmock: `IKIGAI_TEST_LLMOCK`, or `TARGET/llmock`.
/// Where there is no Python it is missing.
#[must_use]
pub fn llmock() -> PathBuf {
    named("IKIGAI_TEST_LLMOCK", "llmock")
}

/// The Python environment that has wasmtime: `IKIGAI_TEST_OTHER_HOSTS`, or
/// `TARGET/other-hosts`. Where there is no Python it is missing.
#[must_use]
pub fn other_hosts() -> PathBuf {
    named("IKIGAI_TEST_OTHER_HOSTS", "other-hosts")
}

/// The root of the repository.
#[must_use]
pub fn repository() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    root.expect("the tests lie in a folder of the repository").to_owned()
}

/// A place for what is costly to make and safe to share between tests, such as
/// compiled components: `TARGET/tmp`.
#[must_use]
pub fn shared_scratch() -> PathBuf {
    target().join("tmp")
}

fn existing(variable: &str, default: &str, made_by: &str) -> PathBuf {
    let path = named(variable, default);
    assert!(path.exists(), "`{}` is missing: run `{made_by}` first", path.display());
    path
}

fn named(variable: &str, default: &str) -> PathBuf {
    env::var_os(variable).map_or_else(|| target().join(default), PathBuf::from)
}

/// The target directory: this program is `TARGET/PROFILE/deps/NAME`.
fn target() -> PathBuf {
    let program = env::current_exe().expect("the path of the test");
    let target = program.ancestors().nth(3);
    target.expect("a test lies three levels deep in its target directory").to_owned()
}
