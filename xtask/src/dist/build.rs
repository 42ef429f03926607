//! Builds an installation for a target of a release.
//!
//! cargo-zigbuild links with an old glibc and for other processors, and cargo-auditable stores the
//! list of crates in each program. Both are optional for the machine's own target, so that the rest
//! can be tried without them. Paths of the builder's machine are removed from the programs, so two
//! builds in two directories are equal.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::build::EVERYDAY;
use crate::dist::target::ReleaseTarget;
use crate::install;
use crate::place::{self, PROGRAM};
use crate::project::{
    BuiltProgram, COMPILER, CargoProject, HOST, INSTALLED_WIT, NATIVE_TOOLS, SUPERVISOR,
};
use crate::run::{self, note, step};
use crate::stage;
use crate::toolchain::{self, WASM_TARGET};

/// Builds everything for `target` and returns the directory of the installation. `time` is the
/// release's, in seconds since 1970.
pub(crate) fn build(
    project: &CargoProject,
    target: &ReleaseTarget,
    profile: &str,
    time: u64,
) -> anyhow::Result<PathBuf> {
    step(&format!("Building for {} ({profile})", target.triple));
    let project = &reproducible(project, target, time)?;
    // As for an installation: the compiler apart, so that the host has none in it.
    for packages in [&[HOST, SUPERVISOR, NATIVE_TOOLS][..], &[COMPILER]] {
        let mut command = cargo(project, target, profile)?;
        command.args(packages.iter().flat_map(|package| ["--package", package]));
        run::run(&mut command)?;
    }
    let folder = if profile == EVERYDAY { "debug" } else { profile };
    let programs = project.target.join(target.triple).join(folder);
    let program = |name: String| BuiltProgram { file: programs.join(&name), name };

    let mut tools: Vec<_> = project.binaries(NATIVE_TOOLS)?.into_iter().map(program).collect();
    let components = stage::components(project, profile, &[])?;
    if components.is_empty() {
        bail!("a release needs the components; install rustup's target {WASM_TARGET}");
    }
    tools.extend(components);

    let prefix = project.target.join("dist-staged").join(target.triple);
    place::empty_directory(&prefix)?;
    let libexec = prefix.join("libexec");
    stage::place_tools(&tools, &libexec.join("ikigai"))?;
    let helpers = [SUPERVISOR, COMPILER].map(|name| program(name.to_owned()));
    stage::place_tools(&helpers, &libexec)?;
    let host = prefix.join("bin").join(HOST);
    place::directory(&prefix.join("bin"))?;
    place::file(&programs.join(HOST), &host, PROGRAM)?;
    place::tree(&project.wit(), &prefix.join(INSTALLED_WIT))?;

    if !run::works(&host.to_string_lossy(), &["--version"]) {
        bail!(
            "`{}` does not run on this machine; for another processor, install qemu-user-static, \
             binfmt-support and that processor's C library (Debian: `libc6:arm64`)",
            host.display()
        );
    }
    let share = prefix.join("share");
    install::install_completions(project, &host, &share)?;
    install::install_manual(project, &host, &share)?;
    stage::precompile(&host, &libexec.join("ikigai"))?;
    Ok(prefix)
}

/// Returns the command that builds the programs.
fn cargo(project: &CargoProject, target: &ReleaseTarget, profile: &str) -> anyhow::Result<Command> {
    let mut arguments = Vec::new();
    if run::works("cargo", &["auditable", "--version"]) {
        arguments.push("auditable");
    } else {
        note("cargo-auditable is not installed, so the programs do not list their crates");
    }
    let triple = if run::works("cargo", &["zigbuild", "--help"]) {
        arguments.push("zigbuild");
        target.zig_triple()
    } else if is_own(project, target)? {
        note("cargo-zigbuild is not installed, so the programs need this machine's glibc");
        arguments.push("build");
        target.triple.to_owned()
    } else {
        bail!(
            "{} needs cargo-zigbuild; install it with `pip install cargo-zigbuild ziglang`",
            target.triple
        );
    };
    if !toolchain::has(project, target.triple)? {
        bail!("the standard library is missing; run `rustup target add {}`", target.triple);
    }
    let mut command = project.cargo(&arguments);
    command.args(["--locked", "--bins", "--profile", profile, "--target", &triple]);
    Ok(command)
}

/// Returns whether this machine runs and links programs for `target` without help.
fn is_own(project: &CargoProject, target: &ReleaseTarget) -> anyhow::Result<bool> {
    let mut command = Command::new("rustc");
    let version = run::output(command.current_dir(&project.root).arg("-vV"))?;
    Ok(version.lines().any(|line| line.strip_prefix("host: ") == Some(target.triple)))
}

/// Returns the project with settings under which two builds are equal.
fn reproducible(
    project: &CargoProject,
    target: &ReleaseTarget,
    time: u64,
) -> anyhow::Result<CargoProject> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| env::home_dir().map(|home| home.join(".cargo")));
    let home = home.context("there is no home directory; set `CARGO_HOME`")?;
    // The last prefix that fits counts, and the target directory may lie in the repository.
    let prefixes = [(&project.root, "/ikigai"), (&home, "/cargo"), (&project.target, "/target")];
    let rust = prefixes.map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display()));
    let c = prefixes.map(|(from, to)| format!("-ffile-prefix-map={}={to}", from.display()));
    let mut project = project.clone();
    for triple in [target.triple, WASM_TARGET] {
        let name = triple.replace('-', "_");
        let flags = format!("CARGO_TARGET_{}_RUSTFLAGS", name.to_uppercase());
        project.variables.push((flags, rust.join(" ")));
        project.variables.push((format!("CFLAGS_{name}"), c.join(" ")));
    }
    project.variables.push(("SOURCE_DATE_EPOCH".to_owned(), time.to_string()));
    Ok(project)
}
