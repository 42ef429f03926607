//! `cargo xtask lint`: formatting, clippy, documentation, other targets, and dependencies.

use std::env;

use anyhow::bail;

use crate::portable;
use crate::ports;
use crate::project::CargoProject;
use crate::run::{self, note, step};

pub(crate) fn lint(project: &CargoProject) -> anyhow::Result<()> {
    step("Formatting");
    run::run(&mut project.cargo(&["fmt", "--all", "--check"]))?;

    step("Clippy");
    // Nothing in the components compiles for WebAssembly only. For the other target, all dependencies
    // would be checked once more.
    let denied = ["--", "--deny", "warnings"];
    run::run(project.cargo(&["clippy", "--workspace", "--all-targets"]).args(denied))?;
    let mut command = project.cargo(&["clippy", "--package", portable::PACKAGE]);
    run::run(command.args(portable::WITHOUT_HOST_IMPORTS).args(denied))?;

    step("Documentation");
    // Other people read the documentation of the library, so no link in it may be broken. Of all
    // packages of the everyday build: for one package, dependencies would be checked again with its
    // features.
    let mut command = project.cargo(&["doc", "--no-deps", "--lib"]);
    run::run(command.env("RUSTDOCFLAGS", "--deny warnings"))?;

    ports::check(project)?;

    step("Dependencies: bans, licences, sources");
    if run::works("cargo", &["deny", "--version"]) {
        // This includes packages of other platforms: they are in the lock file, and cargo-deny
        // reads the manifest of each. Packages that are present are not fetched again.
        run::run(&mut project.cargo(&["fetch"]))?;
        // The advisories check needs a database from the network. These checks do not.
        let checks = ["deny", "--offline", "check", "bans", "licenses", "sources"];
        run::run(&mut project.cargo(&checks))
    } else if env::var_os("CI").is_some() {
        bail!("cargo-deny is missing; install it with `cargo install --locked cargo-deny`")
    } else {
        note("cargo-deny is not installed, so dependencies go unchecked; CI checks them");
        Ok(())
    }
}
