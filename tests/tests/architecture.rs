//! The arrows of docs/architecture.md: which package may depend on which, and
//! which module of the host may use which. A rule that could not fail would be
//! worth nothing, so each is also tried on something that breaks it.

#[path = "architecture/modules.rs"]
mod modules;
#[path = "architecture/packages.rs"]
mod packages;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use ikigai_tests::host::Ran;
use ikigai_tests::places;
use serde_json::{Value, json};

use modules::{HOST, PROGRAM, SUPERVISOR};

#[test]
fn packages_depend_downward_only() {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--no-deps", "--format-version=1", "--offline", "--manifest-path"]);
    cargo.arg(places::repository().join("Cargo.toml"));
    let metadata = Ran::of(&mut cargo, b"").expect_code(0).json();
    assert_eq!(packages::wrong_arrows(&metadata), Vec::<String>::new());
}

#[test]
fn a_package_that_depends_upward_is_found() {
    let package = |name: &str, dependencies: &[(&str, Value)]| {
        let dependency = |(name, kind): &(&str, Value)| json!({ "name": name, "kind": kind });
        let dependencies: Vec<Value> = dependencies.iter().map(dependency).collect();
        json!({ "name": name, "dependencies": dependencies })
    };
    let metadata = json!({ "packages": [
        package("ikigai-protocol", &[("serde", Value::Null)]),
        package("ikigai-tools", &[("ikigai-protocol", Value::Null), ("ikigai", json!("dev"))]),
        package("ikigai", &[("ikigai-tools", Value::Null), ("wasmtime", Value::Null)]),
        package("newcomer", &[]),
    ] });
    assert_eq!(
        packages::wrong_arrows(&metadata),
        [
            "`ikigai-tools` must not depend on `ikigai`",
            "`ikigai` must not depend on `ikigai-tools`",
            "`newcomer` has no place in the architecture: give it a row in \
             tests/tests/architecture/packages.rs",
        ]
    );
}

#[test]
fn modules_use_lower_ones_only() {
    for (of, source) in [
        (HOST, "exec/envelope.rs"),
        (PROGRAM, "commands/call.rs"),
        (SUPERVISOR, "filesystems/linux.rs"),
    ] {
        let sources = modules::read(&places::repository().join(of.folder).join("src"));
        assert!(sources.contains_key(source), "the sources of `{}`: {sources:?}", of.folder);
        assert_eq!(modules::wrong_arrows(&of, &sources), Vec::<String>::new());
        assert_eq!(modules::stale_rows(&of, &sources), Vec::<&str>::new(), "each row has a module");
    }
}

#[test]
fn a_row_without_a_module_is_found() {
    let root = places::repository().join("host").join("src");
    let mut sources = modules::read(&root);
    sources.retain(|path, _| !path.starts_with("audit"));
    // Neither is the module of that name.
    sources.insert("auditor.rs".to_owned(), String::new());
    sources.insert("exec/audit.rs".to_owned(), String::new());
    assert_eq!(modules::stale_rows(&HOST, &sources), ["audit"]);
}

#[test]
fn a_module_that_uses_an_upper_one_is_found() {
    let sources: BTreeMap<String, String> = [
        ("lib.rs", "pub mod host;\npub mod policy;\npub mod gossip;"),
        ("host.rs", "use crate::registry::Registry;\nuse crate::exec;"),
        ("host/call.rs", "use super::super::registry;\nuse super::error;"),
        ("policy.rs", "// crate::host is only spoken of here\nuse crate::digest::Digest;"),
        ("policy/file.rs", "use super::super::registry::Tool;\nuse super::Grant;"),
        ("exec.rs", "fn f() { crate::host::call(b\"\"); }"),
        ("exec/wasm/cache.rs", "use crate::{digest, registry::Snapshot, policy::{self, Grant}};"),
        ("registry.rs", "use crate::host;\nconst TEXT: &str = \"crate::host\";"),
        ("gossip.rs", "use crate::digest;"),
    ]
    .into_iter()
    .map(|(path, text)| (path.to_owned(), text.to_owned()))
    .collect();
    assert_eq!(
        modules::wrong_arrows(&HOST, &sources),
        [
            "exec.rs:1: `exec` must not use `host`",
            "exec/wasm/cache.rs:1: `exec` must not use `registry`",
            "`gossip` has no place in the architecture: give it a row in \
             tests/tests/architecture/modules.rs",
            "policy/file.rs:1: `policy` must not use `registry`",
            "registry.rs:1: `registry` must not use `host`",
        ]
    );
}

/// The bans of clippy that keep what only one place may do in that place. Clippy
/// enforces them; this says that nobody has dropped the file.
#[test]
fn the_bans_are_in_force() {
    let banned = |folder: &str, what: &[&str]| {
        let path = places::repository().join(folder).join("clippy.toml");
        let text = read(&path);
        for what in what {
            assert!(text.contains(&format!("\"{what}\"")), "{} bans `{what}`", path.display());
        }
    };
    for folder in ["host", "agent", "cli"] {
        banned(folder, &["std::process::Command::new", "cap_std::ambient_authority"]);
    }
    banned("tools", &["std::process::Command", "std::fs::File", "std::net::TcpStream"]);
    let manifest = read(&places::repository().join("Cargo.toml"));
    for lint in ["print_stdout", "print_stderr", "unwrap_used", "undocumented_unsafe_blocks"] {
        assert!(
            manifest.contains(&format!("{lint} = \"warn\"")),
            "the workspace warns of `{lint}`"
        );
    }
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
