//! The common parts of the tests of whole programs.
//!
//! 1. [`host::Host`] runs the host in an environment of the test's own, with tools from
//!    [`component`], [`core_module`] or the build.
//! 2. [`conformance`] and [`fidelity`] run the recorded cases of the standard tools.
//! 3. [`leftovers`] and [`openings`] observe the effects of a run.
//! 4. [`mcp::Client`] talks to a server of the Model Context Protocol, [`mcp::peer`] runs such a
//!    server, and [`browser`] logs in at it.
//! 5. [`paths`] has the paths of the programs under test.
//! 6. [`wait::eventually`] waits for a state that no event announces, and [`mode::permit`] sets
//!    the mode of a file.

pub mod browser;
pub mod component;
pub mod conformance;
pub mod core_module;
pub mod draw;
pub mod fidelity;
pub mod host;
pub mod leftovers;
pub mod mcp;
pub mod mode;
#[cfg(target_os = "linux")]
pub mod openings;
pub mod paths;
pub mod tiers;
pub mod wait;

use std::fs::File;
use std::io::Write as _;

/// The variable with the file that gets a line for everything that was left out. `cargo xtask test`
/// prints these lines after the summary of the test runner, which shows no output of passing tests.
pub const LEFT_OUT: &str = "IKIGAI_TEST_LEFT_OUT";

/// Reports that something is not tested because this machine lacks a program that can be installed.
///
/// # Panics
///
/// Panics in CI, which sets the variable `CI`: nothing may be left out there.
pub fn left_out<T>(what: &str, missing: &str) -> Option<T> {
    assert!(std::env::var_os("CI").is_none(), "`{what}` cannot be tested: {missing} is missing");
    impossible_here(&format!("`{what}` needs {missing}"));
    None
}

/// Reports that something is not tested because this machine cannot do it. This is allowed in CI as
/// well.
///
/// # Panics
///
/// Panics if the report cannot be written.
pub fn impossible_here(what: &str) {
    #[expect(clippy::print_stderr, reason = "the only way to say that a test did nothing")]
    {
        eprintln!("left out: {what}");
    }
    let Some(path) = std::env::var_os(LEFT_OUT) else { return };
    let file = File::options().append(true).create(true).open(path);
    // It is one write, so that the lines of concurrent tests stay apart.
    let written = file.and_then(|mut file| file.write_all(format!("{what}\n").as_bytes()));
    written.expect("the report of what was left out");
}
