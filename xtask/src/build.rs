//! The three builds: the host, the native tools, the components. Each returns what it built; other
//! modules place the files.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::portable;
use crate::project::{
    ASYNC_GUESTS, ASYNC_TOOLS, BuiltProgram, COMPILER, COMPONENTS, CargoProject, HOST,
    NATIVE_TOOLS, SUPERVISOR, TEST_GUESTS,
};
use crate::run;
use crate::toolchain::WASM_TARGET;

/// The profile of daily work and of the tests.
pub(crate) const EVERYDAY: &str = "dev";

/// The profile of a release: each program is optimised as a whole.
pub(crate) const RELEASE_LTO: &str = "release-lto";

/// The profile of the components that go with a host of `profile`. All release profiles use the
/// same one.
fn of_components(profile: &str) -> &'static str {
    if profile == EVERYDAY { "guest-dev" } else { "guest" }
}

/// Builds the host, the programs that it starts, and all native tools with `profile`.
///
/// Cargo unifies features over all packages of a build. So the compiler has a build of its own, and
/// the host no compiler in it. The everyday build is one, of all default members, which the tests
/// need: there wasmtime is compiled once.
pub(crate) fn native(project: &CargoProject, profile: &str) -> anyhow::Result<()> {
    let build = || project.cargo(&["build", "--bins", "--profile", profile]);
    if profile == EVERYDAY {
        return run::run(&mut build());
    }
    let packages = ["--package", HOST, "--package", SUPERVISOR, "--package", NATIVE_TOOLS];
    run::run(build().args(packages))?;
    run::run(build().args(["--package", COMPILER]))
}

/// Builds everything that runs natively, tests included, in the everyday profile.
/// Benchmarks are left to `lint`, which checks them without linking wasmtime again.
pub(crate) fn with_tests(project: &CargoProject) -> anyhow::Result<()> {
    run::run(&mut project.cargo(&["build", "--bins", "--tests", "--examples"]))
}

/// Builds the fuzz targets, with coverage of the workspace's own crates, and returns the path of
/// their program.
pub(crate) fn fuzz_targets(project: &CargoProject) -> anyhow::Result<PathBuf> {
    let mut command = project.cargo(&["build", "--bin", "fuzz"]);
    command.args(["--features", "ikigai-fuzz/libfuzzer"]);
    // Cargo separates the results of a wrapper from other builds.
    let wrapper = project.root.join("fuzz").join("rustc-with-coverage");
    run::run(command.env("RUSTC_WORKSPACE_WRAPPER", wrapper))?;
    Ok(project.built(EVERYDAY).join("fuzz"))
}

/// Returns the host that [`native`] built.
pub(crate) fn host(project: &CargoProject, profile: &str) -> BuiltProgram {
    BuiltProgram { file: project.built(profile).join(HOST), name: HOST.to_owned() }
}

/// Returns the programs that the host starts, and that [`native`] built: `libexec` has them.
pub(crate) fn helpers(project: &CargoProject, profile: &str) -> [BuiltProgram; 2] {
    [SUPERVISOR, COMPILER]
        .map(|name| BuiltProgram { file: project.built(profile).join(name), name: name.to_owned() })
}

/// Builds only the named native tools.
pub(crate) fn some_native_tools(project: &CargoProject, names: &[String]) -> anyhow::Result<()> {
    let mut command = project.cargo(&["build", "--package", NATIVE_TOOLS]);
    named(&mut command, names);
    run::run(&mut command)
}

/// Returns the native tools that [`native`] built.
pub(crate) fn native_tools(
    project: &CargoProject,
    profile: &str,
) -> anyhow::Result<Vec<BuiltProgram>> {
    let directory = project.built(profile);
    let built = |name: String| BuiltProgram { file: directory.join(&name), name };
    Ok(project.binaries(NATIVE_TOOLS)?.into_iter().map(built).collect())
}

/// Builds the tools as components, all or the named ones, so that each starts in every host; see
/// [`portable`].
pub(crate) fn components(
    project: &CargoProject,
    profile: &str,
    names: &[String],
) -> anyhow::Result<Vec<BuiltProgram>> {
    let profile = of_components(profile);
    let (mut built, mut own) = (Vec::new(), Vec::new());
    for package in COMPONENTS {
        let mut wanted = project.binaries(package)?;
        if !names.is_empty() {
            wanted.retain(|name| names.contains(name));
        }
        for tool in for_wasm(project, profile, package, wanted, &[])? {
            if portable::is_for_this_host_only(&tool)? {
                // The file must be read before the other build overwrites it.
                let bytes = portable::read(&tool)?;
                own.push((tool, bytes));
            } else {
                built.push(tool);
            }
        }
    }
    let name = |(tool, _): &(BuiltProgram, _)| tool.name.trim_end_matches(".wasm").to_owned();
    let names = own.iter().map(name).collect();
    let flags = portable::WITHOUT_HOST_IMPORTS;
    let for_others = for_wasm(project, profile, portable::PACKAGE, names, flags)?;
    built.extend(portable::join(project, own, for_others)?);
    Ok(built)
}

/// Builds the components that only the tests run.
pub(crate) fn test_guests(project: &CargoProject) -> anyhow::Result<Vec<BuiltProgram>> {
    let profile = of_components(EVERYDAY);
    let mut built = for_wasm(project, profile, TEST_GUESTS, project.binaries(TEST_GUESTS)?, &[])?;
    let target = project.target.join("guest");
    let build = |package: &str, kind: &str| {
        let mut command = project.cargo(&["build", "--package", package, "--target", WASM_TARGET]);
        run::run(command.args([kind, "--profile", profile, "--target-dir"]).arg(&target))
    };
    let libraries = target.join(WASM_TARGET).join(profile);
    let (package, library) = ASYNC_GUESTS;
    build(package, "--lib")?;
    built.push(library_in(&libraries, library));
    build(ASYNC_TOOLS, "--examples")?;
    let examples = libraries.join("examples");
    built.extend(project.examples(ASYNC_TOOLS)?.iter().map(|name| library_in(&examples, name)));
    Ok(built)
}

fn library_in(directory: &Path, name: &str) -> BuiltProgram {
    let name = format!("{name}.wasm");
    BuiltProgram { file: directory.join(&name), name }
}

/// Builds binaries of `package` as components, with further flags for cargo.
///
/// The components have a separate target directory, because the tools as components have the same
/// names as the native ones.
fn for_wasm(
    project: &CargoProject,
    profile: &str,
    package: &str,
    names: Vec<String>,
    flags: &[&str],
) -> anyhow::Result<Vec<BuiltProgram>> {
    // Without a name, cargo would build all binaries.
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let target = project.target.join("guest");
    let mut command = project.cargo(&["build", "--package", package, "--target", WASM_TARGET]);
    command.args(["--profile", profile, "--target-dir"]).arg(&target).args(flags);
    named(&mut command, &names);
    run::run(&mut command)?;
    let directory = target.join(WASM_TARGET).join(profile);
    let built = |name: String| {
        let name = format!("{name}.wasm");
        BuiltProgram { file: directory.join(&name), name }
    };
    Ok(names.into_iter().map(built).collect())
}

fn named(command: &mut Command, names: &[String]) {
    for name in names {
        command.args(["--bin", name]);
    }
}
