//! Hints for the errors of libraries, in the words of this program: its flags, its commands, its
//! configuration. The libraries only know the kind of remedy.

pub(crate) mod asset;
pub(crate) mod layer;
pub(crate) mod offer;
pub(crate) mod policy;
pub(crate) mod provider;
pub(crate) mod spend;

/// Returns the hint about a refused access, with the command that would allow it.
pub(crate) fn allow_with(command: &str) -> String {
    format!("hint: to allow it: {command}")
}
