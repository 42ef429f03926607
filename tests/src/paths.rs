//! The paths of the programs under test. `cargo xtask test` sets them. If you run a test by hand,
//! it finds the results of `cargo xtask stage` in the target directory that it was built in.

use std::env;
use std::path::{Path, PathBuf};

/// Returns the host: `IKIGAI_TEST_HOST`, or `TARGET/debug/ikigai`.
#[must_use]
pub fn host() -> PathBuf {
    existing("IKIGAI_TEST_HOST", "debug/ikigai", "cargo xtask stage")
}

/// Returns the directory of everything that was built to be run: `IKIGAI_TEST_PROGRAMS`, or
/// `TARGET/debug`. Examples are in its folder `examples`.
#[must_use]
pub fn programs() -> PathBuf {
    named("IKIGAI_TEST_PROGRAMS", "debug")
}

/// Returns the supervisor: `IKIGAI_TEST_SUPERVISOR`, or `TARGET/libexec/ikigai-supervisor`.
#[must_use]
pub fn supervisor() -> PathBuf {
    existing("IKIGAI_TEST_SUPERVISOR", "libexec/ikigai-supervisor", "cargo xtask stage")
}

/// Returns the compiler, which lies beside the supervisor.
#[must_use]
pub fn compiler() -> PathBuf {
    supervisor().with_file_name("ikigai-compiler")
}

/// Returns the directory of the six tools, both builds: `IKIGAI_TEST_TOOLS`, or
/// `TARGET/libexec/ikigai`.
#[must_use]
pub fn tools() -> PathBuf {
    existing("IKIGAI_TEST_TOOLS", "libexec/ikigai", "cargo xtask stage")
}

/// Returns the directory of the hostile components of `tests/guests`: `IKIGAI_TEST_GUESTS`, or
/// `TARGET/test-guests`.
#[must_use]
pub fn guests() -> PathBuf {
    existing("IKIGAI_TEST_GUESTS", "test-guests", "cargo xtask test")
}

/// Returns the directory of the built component examples, with a folder for each:
/// `IKIGAI_TEST_EXAMPLES`, or `TARGET/examples`. If the machine lacks an example's language, that
/// example is missing.
#[must_use]
pub fn built_examples() -> PathBuf {
    named("IKIGAI_TEST_EXAMPLES", "examples")
}

/// Returns the Python environment with wasmtime: `IKIGAI_TEST_OTHER_HOSTS`, or
/// `TARGET/other-hosts`. It is missing if Python is not installed.
#[must_use]
pub fn other_hosts() -> PathBuf {
    named("IKIGAI_TEST_OTHER_HOSTS", "other-hosts")
}

/// Returns the Python environment with compilers of Go and C: `IKIGAI_TEST_TOOLCHAINS`, or
/// `TARGET/toolchains`. It is missing if Python is not installed.
#[must_use]
pub fn toolchains() -> PathBuf {
    named("IKIGAI_TEST_TOOLCHAINS", "toolchains")
}

/// Returns the Python environment with an MCP client, fuzzer and server: `IKIGAI_TEST_MCP_CLIENTS`,
/// or `TARGET/mcp-clients`. It is missing if Python is not installed.
#[must_use]
pub fn mcp_clients() -> PathBuf {
    named("IKIGAI_TEST_MCP_CLIENTS", "mcp-clients")
}

/// Returns the folder whose `node_modules` contains an MCP client and server for Node.js and the
/// conformance suite: `IKIGAI_TEST_MCP_NODE`, or `TARGET/mcp-node`. It is missing if npm is not
/// installed.
#[must_use]
pub fn mcp_node() -> PathBuf {
    named("IKIGAI_TEST_MCP_NODE", "mcp-node")
}

/// Returns the folder whose `node_modules` contains Claude Code and Codex:
/// `IKIGAI_TEST_CODING_AGENTS`, or `TARGET/coding-agents`. It is missing if npm is not installed.
#[must_use]
pub fn coding_agents() -> PathBuf {
    named("IKIGAI_TEST_CODING_AGENTS", "coding-agents")
}

/// Returns the root of the repository.
#[must_use]
pub fn repository() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    root.expect("the tests lie in a folder of the repository").to_owned()
}

/// Returns a directory for results that are costly to make and safe to share between tests, such as
/// compiled components: `TARGET/tmp`.
#[must_use]
pub fn shared_scratch() -> PathBuf {
    target().join("tmp")
}

/// Returns a directory that a test's tools see unchanged: `TARGET/tmp`, or the home directory if
/// `TARGET/tmp` lies in a directory that the sandbox replaces by a private one.
#[must_use]
pub fn shown_scratch() -> PathBuf {
    let shared = shared_scratch();
    if !["/tmp", "/var/tmp", "/dev/shm"].iter().any(|own| shared.starts_with(own)) {
        return shared;
    }
    env::home_dir().expect("a home, since the target directory is a temporary one")
}

fn existing(variable: &str, default: &str, made_by: &str) -> PathBuf {
    let path = named(variable, default);
    assert!(path.exists(), "`{}` is missing: run `{made_by}` first", path.display());
    path
}

fn named(variable: &str, default: &str) -> PathBuf {
    env::var_os(variable).map_or_else(|| target().join(default), PathBuf::from)
}

/// Returns the target directory: this program is `TARGET/PROFILE/deps/NAME`.
fn target() -> PathBuf {
    let program = env::current_exe().expect("the path of the test");
    let target = program.ancestors().nth(3);
    target.expect("a test lies three levels deep in its target directory").to_owned()
}
