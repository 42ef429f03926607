//! `cargo xtask test`: all tests, after the builds that they need.

use std::env;
use std::ffi::OsString;
use std::process::Command;

use clap::Args;

use crate::build::{self, EVERYDAY};
use crate::project::{Project, SUPERVISOR};
use crate::run::{self, step};
use crate::{examples, python, stage};

#[derive(Args)]
pub(crate) struct Options {
    /// Arguments for the test runner, as a filter for example
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

pub(crate) fn test(project: &Project, options: &Options) -> anyhow::Result<()> {
    step("Building the host, the native tools and the tests");
    build::with_tests(project)?;
    step("Building a program that embeds the host");
    build::embedding(project)?;
    stage::lay_out(project)?;
    stage::test_guests(project)?;
    examples::build(project)?;
    python::install(project)?;

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
    run::run(with_places(project, command.args(&options.args)))
}

/// Sets the variables by which the tests find the programs that they run.
fn with_places<'a>(project: &Project, command: &'a mut Command) -> &'a mut Command {
    command
        .env("IKIGAI_TEST_HOST", build::host(project, EVERYDAY).file)
        .env("IKIGAI_TEST_PROGRAMS", project.built(EVERYDAY))
        .env("IKIGAI_TEST_SUPERVISOR", project.staged().join(SUPERVISOR))
        .env("IKIGAI_TEST_TOOLS", project.staged_tools())
        .env("IKIGAI_TEST_GUESTS", project.staged_guests())
        .env("IKIGAI_TEST_EXAMPLES", project.built_examples())
        .env("IKIGAI_TEST_LLMOCK", project.python(python::LLMOCK))
        .env("IKIGAI_TEST_OTHER_HOSTS", project.python(python::OTHER_HOSTS))
}
