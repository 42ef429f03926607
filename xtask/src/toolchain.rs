//! Whether the toolchain can build components, and making it so through rustup.

use std::path::Path;
use std::process::Command;

use anyhow::Context as _;

use crate::project::Project;
use crate::run;

/// The target of every component.
pub(crate) const WASM_TARGET: &str = "wasm32-wasip2";

/// Whether components can be built.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Components {
    /// The target is installed.
    Buildable,
    /// There is no target, and no rustup to add it.
    NoRustup,
}

/// Adds the target through rustup if it is missing, and says so.
pub(crate) fn prepare(project: &Project) -> anyhow::Result<Components> {
    if has(project, WASM_TARGET)? {
        return Ok(Components::Buildable);
    }
    if !run::works("rustup", &["--version"]) {
        return Ok(Components::NoRustup);
    }
    run::step(&format!("Adding the target {WASM_TARGET} to the active toolchain (once)"));
    let mut command = Command::new("rustup");
    // In the repository, so that a toolchain file or an override there counts.
    command.current_dir(&project.root).args(["target", "add", WASM_TARGET]);
    run::run(&mut command).with_context(|| {
        format!(
            "components need the target {WASM_TARGET}; \
             once there is a network, try `rustup target add {WASM_TARGET}`"
        )
    })?;
    Ok(Components::Buildable)
}

/// Whether the standard library for `target` is there, however it was installed.
pub(crate) fn has(project: &Project, target: &str) -> anyhow::Result<bool> {
    let mut command = Command::new("rustc");
    command.current_dir(&project.root).args(["--print=target-libdir", "--target", target]);
    // A compiler too old to know the target fails here, with a message of its own.
    let directory = run::output(&mut command)?;
    Ok(Path::new(directory.trim()).is_dir())
}
