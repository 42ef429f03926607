//! `cargo xtask`: the tasks of this repository, for developers, the `justfile` and CI.
//!
//! This module owns the command line; each command has a module of its name.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line program")]

mod bench;
mod build;
mod environments;
mod examples;
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

use crate::project::Project;

#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", about = "Build, install and test ikigai")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Build in release and install the host, the tools and a sample configuration
    Install(install::Options),
    /// Build in the everyday profile and lay the tools out where that build finds them
    Stage,
    /// Build and lay out all tools, or the named ones (`file-read`, `grep`, …)
    Tools {
        /// Names of tools, which are the names of their files
        names: Vec<String>,
    },
    /// Run all tests; CI also lints, fuzzes and installs
    Test(test::Options),
    /// Measure today's figures against their targets
    Bench(bench::Options),
    /// Fuzz the parsers of foreign input
    Fuzz(fuzz::Options),
    /// Check formatting, clippy, other targets and, where cargo-deny is installed, dependencies
    Lint,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    let project = Project::load()?;
    match command {
        Command::Install(options) => install::install(&project, &options),
        Command::Stage => stage::stage(&project),
        Command::Tools { names } => stage::tools(&project, &names),
        Command::Test(options) => test::test(&project, &options),
        Command::Bench(options) => bench::bench(&project, &options),
        Command::Fuzz(options) => fuzz::fuzz(&project, &options),
        Command::Lint => lint::lint(&project),
    }
}
