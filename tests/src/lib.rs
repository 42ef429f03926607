//! What the tests of whole programs share.

pub mod component;
pub mod conformance;
pub mod draw;
pub mod fidelity;
pub mod host;
pub mod leftovers;
#[cfg(target_os = "linux")]
pub mod openings;
pub mod places;

/// Says that something is not tested because this machine lacks what can be installed;
/// nothing of that kind is left out in CI.
///
/// # Panics
///
/// In CI, which says so by the variable of that name.
pub fn left_out<T>(what: &str, missing: &str) -> Option<T> {
    assert!(std::env::var_os("CI").is_none(), "`{what}` cannot be tested: {missing} is missing");
    #[expect(clippy::print_stderr, reason = "the only way to say that a test did nothing")]
    {
        eprintln!("left out: `{what}` needs {missing}");
    }
    None
}
