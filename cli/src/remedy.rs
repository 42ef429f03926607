//! Hints for the errors of libraries, in the words of this program: its flags, its commands, its
//! configuration. The libraries only know the kind of remedy.

pub(crate) mod asset;
pub(crate) mod layer;
pub(crate) mod offer;
pub(crate) mod policy;
pub(crate) mod provider;
pub(crate) mod spend;

/// The way to get a part of the installation that is missing, whether ikigai came as a package or
/// from its source.
pub(crate) const REINSTALL: &str = "reinstall ikigai the way you installed it; in a clone of its \
    source, with `cargo xtask install`";

/// Returns the hint for something that was refused and that a command would allow.
pub(crate) fn allow_with(command: &str) -> String {
    format!("hint: to allow it: {command}")
}
