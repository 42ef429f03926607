//! The versions of WASI that components are built for, and the errors about them.

use super::ComponentError;

/// The beginning of the names of interfaces that every host of components may have.
pub(super) const WASI: &str = "wasi:";

/// The export that makes a component a command, without its version.
pub(super) const RUN: &str = "wasi:cli/run@";

/// The error that a component imports an interface in a version that this host does not have. It
/// names the interface.
#[derive(Clone, Debug, thiserror::Error)]
#[error(
    "imports `{0}`, a version of WASI that this host does not run; build it for WASI 0.2 or 0.3.0"
)]
pub(super) struct OtherWasi(pub(super) String);

/// The error that a component is a command of WASI in a version that this host does not have. It
/// names the export.
#[derive(Clone, Debug, thiserror::Error)]
#[error(
    "exports `{0}`, a version of WASI that this host does not run; build it for WASI 0.2 or 0.3.0"
)]
pub(super) struct OtherCommand(pub(super) String);

/// The error that a component uses a part of the async feature of the component model that this
/// host does not have. It names the built-in.
#[derive(Clone, Debug, thiserror::Error)]
#[error(
    "uses `{0}`, a part of the component model's async feature that this host does not run; build \
     it without that part"
)]
pub(super) struct UsesAsync(pub(super) String);

/// Returns the reason why a component with these exports is no command that this host starts.
pub(super) fn no_command(exports: Vec<String>) -> ComponentError {
    let other = exports.into_iter().find(|name| name.starts_with(RUN) && is_other_version(name));
    other.map_or(ComponentError::NotACommand, ComponentError::OtherCommand)
}

/// Returns whether an interface, named with its version, is one of WASI 0.3 or of its drafts.
pub(super) fn is_version_0_3(interface: &str) -> bool {
    version(interface).is_some_and(|version| version.starts_with("0.3."))
}

/// Returns whether an interface, named with its version, is one of WASI in a version that this host
/// does not have. A draft is another version: its types differ.
pub(super) fn is_other_version(interface: &str) -> bool {
    let is_known = |version: &str| {
        !version.contains('-') && (version.starts_with("0.2.") || version.starts_with("0.3."))
    };
    version(interface).is_some_and(|version| !is_known(version))
}

/// Returns the version of an interface of WASI.
fn version(interface: &str) -> Option<&str> {
    let versioned = interface.starts_with(WASI).then(|| interface.split_once('@'));
    versioned.flatten().map(|(_, version)| version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drafts_and_later_versions_are_other_versions() {
        for known in
            ["wasi:cli/run@0.2.0", "wasi:cli/run@0.2.12", "wasi:cli/run@0.3.0", "a:b/c@9.0.0"]
        {
            assert!(!is_other_version(known), "{known}");
        }
        for other in
            ["wasi:cli/run@0.3.0-rc-2026-02-09", "wasi:cli/run@0.4.0", "wasi:http/types@1.0.0"]
        {
            assert!(is_other_version(other), "{other}");
        }
    }
}
