//! `cargo xtask fidelity`: runs the test suites of WASI's authors with ikigai.
//!
//! This module owns the counts and what is printed. [`testsuite`] and [`wasmtime`] find the cases,
//! [`case`] reads the file that describes a case, [`execution`] runs a case, and [`exceptions`] lists
//! the cases that fail.

mod case;
mod exceptions;
mod execution;
mod testsuite;
mod wasmtime;

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use serde_json::{Value, json};

use self::case::TestCase;
use self::execution::{CaseOutcome, CaseRunner};
use crate::build::{self, EVERYDAY};
use crate::place;
use crate::project::CargoProject;
use crate::run::{self, note, step};

#[derive(Args)]
pub(crate) struct FidelityOptions {
    /// A checkout of the branch prod/testsuite-base of github.com/WebAssembly/wasi-testsuite
    #[arg(long, value_name = "DIR", required_unless_present = "wasmtime")]
    wasi_testsuite: Option<PathBuf>,
    /// A checkout of github.com/bytecodealliance/wasmtime; its test programs are built
    #[arg(long, value_name = "DIR")]
    wasmtime: Option<PathBuf>,
    /// The ikigai to test [default: the everyday build's]
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
    /// The program for cases that need a directory named `/` [default: built now]
    #[arg(long, value_name = "PATH")]
    root_program: Option<PathBuf>,
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
}

/// The example of the tests that runs a file with a directory as its `/`.
const ROOT_PROGRAM: (&str, &str) = ("ikigai-tests", "wasi_root");

/// Cases that find their directory in the same way.
pub(crate) struct TestSuite {
    name: &'static str,
    root: RootPlace,
    cases: Vec<TestCase>,
}

/// The way in which the cases of a suite find the directory that they work in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RootPlace {
    /// By relative paths, so it can be the workspace.
    Workspace,
    /// As the preopen of the name `/`.
    Slash,
    /// As the only preopen, of any name.
    OnlyPreopen,
}

pub(crate) fn fidelity(project: &CargoProject, options: &FidelityOptions) -> anyhow::Result<()> {
    let built = || build::host(project, EVERYDAY).file;
    let program = options.program.clone().unwrap_or_else(built);
    ensure!(
        program.exists(),
        "there is no `{}`; run `cargo xtask stage`, or use `--program`",
        program.display()
    );
    let root_program = match &options.root_program {
        Some(program) => Some(program.clone()),
        None if options.wasi_testsuite.is_some() => Some(build_root_program(project)?),
        None => None,
    };
    let mut suites = Vec::new();
    if let Some(checkout) = &options.wasi_testsuite {
        suites.extend(testsuite::suites(checkout)?);
    }
    if let Some(checkout) = &options.wasmtime {
        suites.extend(wasmtime::suites(project, checkout)?);
    }
    let scratch = project.target.join("fidelity");
    place::directory(&scratch)?;
    let runner = CaseRunner::new(&program, root_program.as_deref(), &scratch)?;
    if let Some(reason) = runner.missing_root() {
        note(&format!("cases that need a directory named `/` are left out: {reason}"));
    }
    let mut results = Vec::new();
    for suite in suites {
        step(suite.name);
        results.push(run_suite(suite, &runner)?);
    }
    if options.json {
        println!("{:#}", json!({ "suites": results.iter().map(to_json).collect::<Vec<_>>() }));
    } else {
        print!("{}", results.iter().map(to_text).collect::<String>());
    }
    let unexpected: usize = results.iter().map(SuiteResult::unexpected).sum();
    if unexpected > 0 {
        bail!("{unexpected} results differ from the list in xtask/src/fidelity/exceptions.rs");
    }
    Ok(())
}

fn build_root_program(project: &CargoProject) -> anyhow::Result<PathBuf> {
    let (package, example) = ROOT_PROGRAM;
    run::run(&mut project.cargo(&["build", "--package", package, "--example", example]))?;
    Ok(project.built(EVERYDAY).join("examples").join(example))
}

/// The results of a suite's cases, each with its name.
struct SuiteResult {
    suite: &'static str,
    cases: Vec<CaseResult>,
}

struct CaseResult {
    name: String,
    outcome: CaseOutcome,
    /// The reason for a failure, if the list of exceptions has the case.
    exception: Option<&'static str>,
}

impl CaseResult {
    /// Returns whether the list of exceptions and the result contradict each other.
    fn is_unexpected(&self) -> bool {
        match self.outcome {
            CaseOutcome::Passed => self.exception.is_some(),
            CaseOutcome::Failed(_) => self.exception.is_none(),
            CaseOutcome::LeftOut(_) => false,
        }
    }
}

impl SuiteResult {
    fn passed(&self) -> usize {
        self.cases.iter().filter(|case| matches!(case.outcome, CaseOutcome::Passed)).count()
    }

    fn left_out(&self) -> usize {
        self.cases.iter().filter(|case| matches!(case.outcome, CaseOutcome::LeftOut(_))).count()
    }

    fn unexpected(&self) -> usize {
        self.cases.iter().filter(|case| case.is_unexpected()).count()
    }
}

fn run_suite(suite: TestSuite, runner: &CaseRunner) -> anyhow::Result<SuiteResult> {
    let mut cases = Vec::new();
    for case in suite.cases {
        let outcome = runner
            .run(suite.root, &case)
            .with_context(|| format!("cannot run the case `{}`", case.file.display()))?;
        let exception = exceptions::reason(suite.name, &case.name);
        cases.push(CaseResult { name: case.name, outcome, exception });
    }
    Ok(SuiteResult { suite: suite.name, cases })
}

fn to_text(result: &SuiteResult) -> String {
    let mut text = format!("{}: {} of {} pass", result.suite, result.passed(), result.cases.len());
    if result.left_out() > 0 {
        // Writing to a `String` cannot fail.
        let _ = write!(text, ", {} left out", result.left_out());
    }
    text.push('\n');
    for case in &result.cases {
        let reason = match &case.outcome {
            CaseOutcome::Passed if case.exception.is_none() => continue,
            CaseOutcome::Passed => "passes, but is in the list of exceptions",
            CaseOutcome::Failed(reason) => reason,
            CaseOutcome::LeftOut(reason) => reason,
        };
        let _ = writeln!(text, "  {}: {reason}", case.name);
        if let (Some(exception), false) = (case.exception, case.is_unexpected()) {
            let _ = writeln!(text, "      known: {exception}");
        }
    }
    text
}

fn to_json(result: &SuiteResult) -> Value {
    let case = |case: &CaseResult| {
        let (outcome, reason) = match &case.outcome {
            CaseOutcome::Passed => ("passed", None),
            CaseOutcome::Failed(reason) => ("failed", Some(reason.as_str())),
            CaseOutcome::LeftOut(reason) => ("left out", Some(*reason)),
        };
        json!({
            "name": case.name,
            "outcome": outcome,
            "reason": reason,
            "exception": case.exception,
        })
    };
    json!({
        "name": result.suite,
        "total": result.cases.len(),
        "passed": result.passed(),
        "left_out": result.left_out(),
        "cases": result.cases.iter().map(case).collect::<Vec<_>>(),
    })
}
