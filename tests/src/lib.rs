//! The common parts of the tests of whole programs.
//!
//! 1. [`host::Host`] runs the host in an environment of the test's own, with tools from
//!    [`component`] or the build.
//! 2. [`conformance`] and [`fidelity`] run the recorded cases of the standard tools.
//! 3. [`leftovers`] and [`openings`] observe the effects of a run.
//! 4. [`places`] has the paths of the programs under test.

pub mod component;
pub mod conformance;
pub mod draw;
pub mod fidelity;
pub mod host;
pub mod leftovers;
#[cfg(target_os = "linux")]
pub mod openings;
pub mod places;

/// Prints that something is not tested because this machine lacks a program that can be installed.
///
/// # Panics
///
/// Panics in CI, where the variable of that name is set: nothing is left out there.
pub fn left_out<T>(what: &str, missing: &str) -> Option<T> {
    assert!(std::env::var_os("CI").is_none(), "`{what}` cannot be tested: {missing} is missing");
    #[expect(clippy::print_stderr, reason = "the only way to say that a test did nothing")]
    {
        eprintln!("left out: `{what}` needs {missing}");
    }
    None
}
