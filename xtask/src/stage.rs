//! The layout of a build tree, which is the same as in an installation: the tools are in
//! `target/libexec/ikigai`, where `target/debug/ikigai` looks for them.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::build::{self, EVERYDAY};
use crate::place::{self, CopyResult, PROGRAM};
use crate::project::{BuiltProgram, CargoProject, NATIVE_TOOLS};
use crate::run::{self, note, step};
use crate::toolchain::{self, Components};

/// The directory of compiled components, inside the tools' directory. The host owns this rule. It
/// is repeated here because this program does not depend on the host.
const CACHE: &str = ".cache";

/// Builds everything in the everyday profile and lays the tools out.
pub(crate) fn stage(project: &CargoProject) -> anyhow::Result<()> {
    step("Building the host and the native tools");
    build::native(project, EVERYDAY)?;
    lay_out(project)
}

/// Lays out the native builds, and the components, which are built here.
pub(crate) fn lay_out(project: &CargoProject) -> anyhow::Result<()> {
    let mut tools = build::native_tools(project, EVERYDAY)?;
    tools.extend(components(project, EVERYDAY, &[])?);
    let directory = project.staged_tools();
    remove_others(&tools, &directory)?;
    place_tools(&build::helpers(project, EVERYDAY), &project.staged())?;
    place_tools(&tools, &directory)?;
    place::tree(&project.wit(), &project.staged_wit())?;
    precompile(&build::host(project, EVERYDAY).file, &directory)?;
    step(&format!("Staged {} in {}", listed(&tools), project.shown(&directory)));
    Ok(())
}

/// Builds and lays out the named tools, or all tools. The host stays unchanged.
pub(crate) fn tools(project: &CargoProject, names: &[String]) -> anyhow::Result<()> {
    let known = project.binaries(NATIVE_TOOLS)?;
    if let Some(unknown) = names.iter().find(|name| !known.contains(name)) {
        bail!("there is no tool `{unknown}`; the tools are {}", known.join(", "));
    }
    let names = if names.is_empty() { &known } else { names };
    step(&format!("Building {}", names.join(", ")));
    build::some_native_tools(project, names)?;
    let mut tools = build::native_tools(project, EVERYDAY)?;
    tools.retain(|tool| names.contains(&tool.name));
    tools.extend(components(project, EVERYDAY, names)?);
    let directory = project.staged_tools();
    place_tools(&tools, &directory)?;
    step(&format!("Staged {} in {}", listed(&tools), project.shown(&directory)));
    Ok(())
}

/// Builds the components for a host of `profile`, all or the named ones, if the toolchain can.
pub(crate) fn components(
    project: &CargoProject,
    profile: &str,
    names: &[String],
) -> anyhow::Result<Vec<BuiltProgram>> {
    match toolchain::prepare(project)? {
        Components::Buildable => {
            step("Building the tools as components");
            build::components(project, profile, names)
        }
        Components::NoRustup => {
            note(&format!(
                "the target {} is missing and there is no rustup to add it: \
                 the tools are built natively only, without the sandbox of components",
                toolchain::WASM_TARGET
            ));
            Ok(Vec::new())
        }
    }
}

/// Builds the components that only the tests run, and lays them out.
pub(crate) fn test_guests(project: &CargoProject) -> anyhow::Result<()> {
    if toolchain::prepare(project)? == Components::NoRustup {
        return Ok(());
    }
    step("Building the guests of the tests");
    let guests = build::test_guests(project)?;
    let directory = project.staged_guests();
    remove_others(&guests, &directory)?;
    place_tools(&guests, &directory).map(drop)
}

/// Copies `tools` to `directory`. Returns `true` if any of them changed.
pub(crate) fn place_tools(tools: &[BuiltProgram], directory: &Path) -> anyhow::Result<bool> {
    place::directory(directory)?;
    let mut changed = false;
    for tool in tools {
        let placed = place::file(&tool.file, &directory.join(&tool.name), PROGRAM)?;
        changed |= placed == CopyResult::Written;
        if placed == CopyResult::Written && tool.name.ends_with(".wasm") {
            discard_compiled(directory)?;
        }
    }
    Ok(changed)
}

/// Makes `host` compile the components in `directory` ahead of their first use. Compiled code that
/// is there already stays.
pub(crate) fn precompile(host: &Path, directory: &Path) -> anyhow::Result<()> {
    run::run(Command::new(host).arg("__precompile").arg(directory))
        .context("cannot compile the components ahead of their first use")
}

/// Removes the machine code of earlier components, which nothing would read any more.
fn discard_compiled(directory: &Path) -> anyhow::Result<()> {
    let cache = directory.join(CACHE);
    match fs::remove_dir_all(&cache) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove `{}`", cache.display()))
        }
        _ => Ok(()),
    }
}

/// Removes tools that an earlier state of the repository left in a build tree.
fn remove_others(tools: &[BuiltProgram], directory: &Path) -> anyhow::Result<()> {
    place::directory(directory)?;
    let list = || format!("cannot list `{}`", directory.display());
    for entry in fs::read_dir(directory).with_context(list)? {
        let entry = entry.with_context(list)?;
        let name = entry.file_name();
        if name != CACHE && !tools.iter().any(|tool| name == tool.name.as_str()) {
            let path = entry.path();
            fs::remove_file(&path)
                .with_context(|| format!("cannot remove `{}`", path.display()))?;
        }
    }
    Ok(())
}

fn listed(tools: &[BuiltProgram]) -> String {
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    if names.is_empty() { "nothing".to_owned() } else { names.join(" ") }
}
