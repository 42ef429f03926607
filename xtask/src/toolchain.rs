//! The toolchain's targets for WebAssembly, added through rustup if they are missing.

use std::path::Path;
use std::process::Command;

use anyhow::Context as _;

use crate::project::CargoProject;
use crate::run;

/// The target of every component.
pub(crate) const WASM_TARGET: &str = "wasm32-wasip2";

/// The ability of the toolchain to build components.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Components {
    /// The target is installed.
    Buildable,
    /// The target is missing, and so is rustup, which could add it.
    NoRustup,
}

/// Adds the target of components through rustup if it is missing, and prints that.
pub(crate) fn prepare(project: &CargoProject) -> anyhow::Result<Components> {
    add(project, WASM_TARGET)
}

/// Adds a target through rustup if it is missing, and prints that.
pub(crate) fn add(project: &CargoProject, target: &str) -> anyhow::Result<Components> {
    if has(project, target)? {
        return Ok(Components::Buildable);
    }
    if !run::works("rustup", &["--version"]) {
        return Ok(Components::NoRustup);
    }
    run::step(&format!("Adding the target {target} to the active toolchain (once)"));
    let mut command = Command::new("rustup");
    // The command runs in the repository, so that its toolchain file or override applies.
    command.current_dir(&project.root).args(["target", "add", target]);
    run::run(&mut command).with_context(|| {
        format!(
            "this build needs the target {target}; \
             once there is a network, try `rustup target add {target}`"
        )
    })?;
    Ok(Components::Buildable)
}

/// Returns `true` if the standard library for `target` is there, however it was installed.
pub(crate) fn has(project: &CargoProject, target: &str) -> anyhow::Result<bool> {
    let mut command = Command::new("rustc");
    command.current_dir(&project.root).args(["--print=target-libdir", "--target", target]);
    // A compiler too old to know the target fails here, with its own message.
    let directory = run::output(&mut command)?;
    Ok(Path::new(directory.trim()).is_dir())
}
