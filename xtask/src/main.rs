//! `cargo xtask`: the tasks of this repository, for developers, the `justfile` and CI.
//!
//! This module owns the command line; each command has a module of its name.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line program")]

mod apparmor;
mod bench;
mod build;
mod dist;
mod docs;
mod environments;
mod examples;
mod fidelity;
mod fuzz;
mod install;
mod lint;
mod place;
mod portable;
mod ports;
mod project;
mod run;
mod stage;
mod test;
mod toolchain;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::project::CargoProject;

#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", about = "Build, install and test ikigai")]
struct XtaskCli {
    #[command(subcommand)]
    command: XtaskCommand,
}

#[derive(Subcommand)]
enum XtaskCommand {
    /// Build in release and install the host, the tools and a sample configuration
    Install(install::InstallOptions),
    /// Make the files of a release: archives, packages, digests
    Dist(dist::DistOptions),
    /// Build in the everyday profile and lay the tools out where that build finds them
    Stage,
    /// Build and lay out all tools, or the named ones (`file-read`, `grep`, …)
    Tools {
        /// Names of tools, which are the names of their files
        names: Vec<String>,
    },
    /// Write the reference pages of the documentation with the program of the everyday build
    Docs,
    /// Run all tests; CI also lints, fuzzes and installs
    Test(test::Options),
    /// Measure how long users wait, against targets, limits and other programs
    Bench(bench::BenchOptions),
    /// Fuzz the parsers of foreign input, and the imports of components
    Fuzz(fuzz::FuzzOptions),
    /// Run the test suites of WASI's authors and of wasmtime, from checkouts
    Fidelity(fidelity::FidelityOptions),
    /// Check formatting, clippy, other targets and, where cargo-deny is installed, dependencies
    Lint,
}

fn main() -> ExitCode {
    let cli = XtaskCli::parse();
    match run(cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: XtaskCommand) -> anyhow::Result<()> {
    let project = CargoProject::load()?;
    match command {
        XtaskCommand::Install(options) => install::install(&project, &options),
        XtaskCommand::Dist(options) => dist::dist(&project, &options),
        XtaskCommand::Stage => stage::stage(&project),
        XtaskCommand::Tools { names } => stage::tools(&project, &names),
        XtaskCommand::Docs => docs::docs(&project),
        XtaskCommand::Test(options) => test::test(&project, &options),
        XtaskCommand::Bench(options) => bench::bench(&project, &options),
        XtaskCommand::Fuzz(options) => fuzz::fuzz(&project, &options),
        XtaskCommand::Fidelity(options) => fidelity::fidelity(&project, &options),
        XtaskCommand::Lint => lint::lint(&project),
    }
}
