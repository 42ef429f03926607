//! `cargo xtask test`: all tests, after the builds that they need.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::process::Command;

use anyhow::Context as _;
use clap::Args;

use crate::build::{self, EVERYDAY};
use crate::project::{CargoProject, SUPERVISOR};
use crate::run::{self, note, step};
use crate::{environments, examples, place, stage};

#[derive(Args)]
pub(crate) struct Options {
    /// Arguments for the test runner, as a filter for example
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

pub(crate) fn test(project: &CargoProject, options: &Options) -> anyhow::Result<()> {
    step("Building the host, the native tools and the tests");
    build::with_tests(project)?;
    stage::lay_out(project)?;
    stage::test_guests(project)?;
    examples::build(project)?;
    environments::install(project, environments::EnvironmentPurpose::Tests)?;

    // The test runner is last: its summary is the line that a reader looks for.
    step("Documentation tests");
    run::run(&mut project.cargo(&["test", "--doc"]))?;
    step("Tests");
    let nextest = run::works("cargo", &["nextest", "--version"]);
    let runner: &[&str] = if nextest { &["nextest", "run"] } else { &["test", "--tests"] };
    let mut command = project.cargo(runner);
    if env::var_os("CI").is_some() {
        // One failure must not hide the others from a reader of the log.
        command.arg("--no-fail-fast");
    }
    let left_out = project.target.join("tmp").join("left-out.txt");
    place::directory(left_out.parent().unwrap_or(&project.target))?;
    fs::write(&left_out, "").context("cannot prepare the report of what is left out")?;
    command.env("IKIGAI_TEST_LEFT_OUT", &left_out);
    let ran = run::run(with_paths(project, command.args(&options.args)));
    report(&fs::read_to_string(&left_out).context("cannot read what was left out")?);
    ran
}

/// Prints what the tests left out, each line once.
fn report(left_out: &str) {
    for line in left_out.lines().collect::<BTreeSet<_>>() {
        note(&format!("left out: {line}"));
    }
}

/// Sets the variables by which the tests find the programs that they run.
fn with_paths<'a>(project: &CargoProject, command: &'a mut Command) -> &'a mut Command {
    command
        .env("IKIGAI_TEST_HOST", build::host(project, EVERYDAY).file)
        .env("IKIGAI_TEST_PROGRAMS", project.built(EVERYDAY))
        .env("IKIGAI_TEST_SUPERVISOR", project.staged().join(SUPERVISOR))
        .env("IKIGAI_TEST_TOOLS", project.staged_tools())
        .env("IKIGAI_TEST_GUESTS", project.staged_guests())
        .env("IKIGAI_TEST_EXAMPLES", project.built_examples())
        .env("IKIGAI_TEST_OTHER_HOSTS", project.environment(environments::OTHER_HOSTS))
        .env("IKIGAI_TEST_TOOLCHAINS", project.environment(environments::TOOLCHAINS))
        .env("IKIGAI_TEST_MCP_CLIENTS", project.environment(environments::MCP_CLIENTS))
        .env("IKIGAI_TEST_MCP_NODE", project.environment(environments::MCP_NODE))
        .env("IKIGAI_TEST_CODING_AGENTS", project.environment(environments::CODING_AGENTS))
}
