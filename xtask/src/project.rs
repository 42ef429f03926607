//! The facts about this repository that cargo reports: its root, its target directory, and the
//! binaries of a package. This module builds nothing.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use serde_json::Value;

use crate::run;

/// The package of the host.
pub(crate) const HOST: &str = "ikigai";
/// The package of the supervisor, and its program.
pub(crate) const SUPERVISOR: &str = "ikigai-supervisor";
/// The package of the compiler, and its program.
pub(crate) const COMPILER: &str = "ikigai-compiler";
/// The tools as native executables.
pub(crate) const NATIVE_TOOLS: &str = "ikigai-tools-native";
/// The tools as components.
pub(crate) const COMPONENTS: [&str; 2] = ["ikigai-tools-wasm", "ikigai-shell-wasm"];
/// The components that only the tests run.
pub(crate) const TEST_GUESTS: &str = "ikigai-test-guests";
/// The package of the components of WASI 0.3 that only the tests run, and its library, which is the
/// component.
pub(crate) const ASYNC_GUESTS: (&str, &str) = ("ikigai-test-async-guests", "async_guest");
/// The tools of files as components of WASI 0.3 that only the tests run; each is an example.
pub(crate) const ASYNC_TOOLS: &str = "ikigai-test-async-tools";

/// The directory of the WIT in an installation, relative to its prefix.
/// docs/guides/write-a-component.md states it.
pub(crate) const INSTALLED_WIT: &str = "share/ikigai/wit";

/// One built program, and the name for its installation.
pub(crate) struct BuiltProgram {
    pub(crate) file: PathBuf,
    pub(crate) name: String,
}

/// The repository, as cargo sees it.
#[derive(Clone)]
pub(crate) struct CargoProject {
    /// The root of the workspace.
    pub(crate) root: PathBuf,
    /// The target directory of cargo; `CARGO_TARGET_DIR` is respected.
    pub(crate) target: PathBuf,
    /// Further variables for every cargo command.
    pub(crate) variables: Vec<(String, String)>,
    packages: Vec<Value>,
}

impl CargoProject {
    /// Asks cargo about the workspace this program was compiled from.
    pub(crate) fn load() -> anyhow::Result<Self> {
        // The folder this program was compiled in, unless cargo names another: several clones may
        // share a target directory.
        let manifest_dir = env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = manifest_dir.parent().context("this program is not a member of a workspace")?;
        let mut command = Command::new(cargo());
        command
            .args(["metadata", "--no-deps", "--format-version=1", "--manifest-path"])
            .arg(root.join("Cargo.toml"));
        let text = run::output(&mut command)?;
        let metadata: Value = serde_json::from_str(&text).context("cannot read cargo metadata")?;
        let path = |key: &str| {
            let value = metadata.get(key).and_then(Value::as_str).map(PathBuf::from);
            value.with_context(|| format!("cargo metadata has no `{key}`"))
        };
        Ok(Self {
            root: path("workspace_root")?,
            target: path("target_directory")?,
            variables: Vec::new(),
            packages: array(&metadata, "packages").to_vec(),
        })
    }

    /// Returns a cargo command in the root of the repository.
    pub(crate) fn cargo(&self, args: &[&str]) -> Command {
        let mut command = Command::new(cargo());
        command.current_dir(&self.root).args(args);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        // `cargo run` sets these variables to describe this program's package. If they change,
        // ring's build script runs again, and everything that depends on ring is rebuilt. That
        // would happen with each clone, and whenever this program and a manual cargo run alternate.
        let describes_package = |name: &str| {
            ["CARGO_MANIFEST_", "CARGO_PKG_"].iter().any(|prefix| name.starts_with(prefix))
        };
        for (name, _) in env::vars_os() {
            if name.to_str().is_some_and(describes_package) {
                command.env_remove(name);
            }
        }
        command
    }

    /// Returns the version of `package`.
    pub(crate) fn version(&self, package: &str) -> anyhow::Result<String> {
        Ok(text(self.package(package)?, "version").to_owned())
    }

    fn package(&self, name: &str) -> anyhow::Result<&Value> {
        let found = self.packages.iter().find(|candidate| text(candidate, "name") == name);
        let Some(found) = found else { bail!("the workspace has no package `{name}`") };
        Ok(found)
    }

    /// Returns the binaries of `package`, sorted.
    pub(crate) fn binaries(&self, package: &str) -> anyhow::Result<Vec<String>> {
        self.targets(package, "bin")
    }

    /// Returns the examples of `package`, sorted.
    pub(crate) fn examples(&self, package: &str) -> anyhow::Result<Vec<String>> {
        self.targets(package, "example")
    }

    fn targets(&self, package: &str, kind: &str) -> anyhow::Result<Vec<String>> {
        let found = self.package(package)?;
        let is_of_kind = |target: &&Value| array(target, "kind").iter().any(|it| it == kind);
        let mut names: Vec<String> = array(found, "targets")
            .iter()
            .filter(is_of_kind)
            .map(|target| text(target, "name").to_owned())
            .collect();
        names.sort();
        Ok(names)
    }

    /// Returns the directory of native binaries that were built with `profile`.
    pub(crate) fn built(&self, profile: &str) -> PathBuf {
        self.target.join(if profile == "dev" { "debug" } else { profile })
    }

    /// Returns the directory of a build tree for programs that do not belong on a `PATH`.
    pub(crate) fn staged(&self) -> PathBuf {
        self.target.join("libexec")
    }

    /// Returns the directory of a build tree for tools, where `target/debug/ikigai` looks for them.
    pub(crate) fn staged_tools(&self) -> PathBuf {
        self.staged().join("ikigai")
    }

    /// Returns the directory of the interfaces that a component may import, as WIT.
    pub(crate) fn wit(&self) -> PathBuf {
        self.root.join("wit")
    }

    /// Returns the directory of the WIT in a build tree. It has the same relative path as in an
    /// installation.
    pub(crate) fn staged_wit(&self) -> PathBuf {
        self.target.join(INSTALLED_WIT)
    }

    /// Returns the directory of the components that only the tests run.
    pub(crate) fn staged_guests(&self) -> PathBuf {
        self.target.join("test-guests")
    }

    /// Returns the directory in which the component examples of docs/guides/write-a-component.md
    /// are built.
    pub(crate) fn built_examples(&self) -> PathBuf {
        self.target.join("examples")
    }

    /// Returns the environment `name` of the tests.
    pub(crate) fn environment(&self, name: &str) -> PathBuf {
        self.target.join(name)
    }

    /// Returns `path` for display: relative to the repository if it lies in it.
    pub(crate) fn shown<'a>(&self, path: &'a Path) -> std::path::Display<'a> {
        path.strip_prefix(&self.root).unwrap_or(path).display()
    }
}

/// Returns the cargo that runs this program, so that a chosen toolchain stays chosen.
fn cargo() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

pub(crate) fn array<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

pub(crate) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}
