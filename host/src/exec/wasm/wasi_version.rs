//! The versions of WASI that components are built for, and the errors about them.

use super::ComponentError;
use super::engine::EngineKind;
use crate::policy::{WasiUse, WasiVersion};

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

/// Returns whether an interface, named with its version, is one of WASI in a version that this host
/// does not have. A draft is another version: its types differ.
pub(super) fn is_other_version(interface: &str) -> bool {
    let is_known = |version: &str| {
        !version.contains('-') && (version.starts_with("0.2.") || version.starts_with("0.3."))
    };
    version(interface).is_some_and(|version| !is_known(version))
}

/// The reason that a component of WASI 0.2 counts as one of 0.3: its engine is the one of 0.3.
const ASYNC: &str = "the async functions of the component model";

/// Returns the versions of WASI that a component with these interfaces uses, in order.
pub(super) fn uses(interfaces: &[String], engine: EngineKind) -> Vec<WasiUse> {
    let first = |beginning: &str| {
        let is_of = |name: &&String| version(name).is_some_and(|it| it.starts_with(beginning));
        interfaces.iter().find(is_of).map(|name| format!("`{name}`"))
    };
    let of_async = (engine == EngineKind::Concurrent).then(|| ASYNC.to_owned());
    let of_0_3 = first("0.3.").or(of_async).map(|by| (WasiVersion::V0_3, by));
    let of_0_2 = first("0.2.").map(|by| (WasiVersion::V0_2, by));
    of_0_2.into_iter().chain(of_0_3).map(|(version, by)| WasiUse { version, by }).collect()
}

/// Returns the version of an interface of WASI.
pub(super) fn version(interface: &str) -> Option<&str> {
    let versioned = interface.starts_with(WASI).then(|| interface.split_once('@'));
    versioned.flatten().map(|(_, version)| version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_uses_the_versions_of_its_interfaces_and_of_its_engine() {
        let used = |names: &[&str], engine| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let uses = uses(&names, engine).into_iter();
            uses.map(|WasiUse { version, by }| format!("{version} {by}")).collect::<Vec<_>>()
        };
        let (old, new) = ("wasi:cli/run@0.2.3", "wasi:cli/stdin@0.3.0");
        let (sequential, concurrent) = (EngineKind::Sequential, EngineKind::Concurrent);
        assert_eq!(used(&["ikigai:tool/assets@0.3.0", old], sequential), [format!("0.2 `{old}`")]);
        assert_eq!(used(&[new], concurrent), [format!("0.3 `{new}`")]);
        let both = [format!("0.2 `{old}`"), format!("0.3 `{new}`")];
        assert_eq!(used(&[new, "wasi:cli/run@0.3.0", old], concurrent), both);
        assert_eq!(used(&[old], concurrent), [format!("0.2 `{old}`"), format!("0.3 {ASYNC}")]);
        assert!(used(&["acme:db/query@0.2.0"], sequential).is_empty());
    }

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
