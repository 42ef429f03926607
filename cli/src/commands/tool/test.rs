//! `ikigai tool test`: calls the built tool of a project, and compares the answers with those that
//! its author expects.
//!
//! The test does not use the user's policy, tools or store. It only keeps compiled components in
//! the user's cache.

mod bless;
mod cases;
mod judge;
mod names;
mod server;
mod sources;
mod trials;

use std::fs::File;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueHint};
use ikigai_packages::Manifest;
use serde_json::{Value, json};

use crate::commands::cancelled_by_signals;
use crate::error::{self, CliError, with_path};
use crate::options::SharedOptions;
use crate::output::{print, print_json};
use crate::shipping::ProjectDirectory;
use cases::{Case, Cases};
use judge::{Judgement, Verdict};
use trials::Trials;

/// The format of the cases, and example uses of the command.
pub(super) const NOTES: &str = "\
Each line of cases.jsonl is one call:
  {\"name\": \"counts words\", \"arguments\": {\"text\": \"a b\"}, \"expect\": {\"words\": 2}}
  {\"name\": \"no text\", \"arguments\": {}, \"expect\": {\"error_code\": \"INVALID_PARAMS\"}}
  {\"name\": \"a file\", \"files\": {\"a.txt\": \"a b\"}, \"arguments\": {\"path\": \"a.txt\"}}
`expect` is the whole answer. If `expect` has an `error_code`, only the members of `expect` are \
compared. A case may also have `files`, `env`, `assets` and a `server` on loopback, if `needs` in \
tool.toml asks for them. In a case ${IKIGAI_WORKSPACE} is the path of the workspace, and \
${IKIGAI_SERVER} the server's HOST:PORT.

Examples:
  ikigai tool test             the project in this directory
  ikigai tool test --bless     replaces the expected answers with the actual ones";

#[derive(Debug, Args)]
pub(in crate::commands) struct Arguments {
    /// The project's directory
    #[arg(default_value = ".", value_hint = ValueHint::DirPath)]
    dir: PathBuf,
    /// Replace expected answers that differ from the actual ones, and change nothing else
    #[arg(long)]
    bless: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(
    options: &SharedOptions,
    arguments: Arguments,
) -> Result<ExitCode, CliError> {
    let project = ProjectDirectory::read(&arguments.dir)?;
    let cases = Cases::read(&project.path)?;
    check_built(&project, &cases)?;
    let trials = Trials::new(options, &project, &cases)?;
    let cancel = cancelled_by_signals()?;
    let mut judgements = Vec::new();
    for case in cases.iter() {
        let called = cancel.run_until_cancelled(trials.call(case, &cancel)).await;
        let Some(called) = called.filter(|_| !cancel.is_cancelled()) else {
            return Ok(ExitCode::from(error::INTERRUPTED));
        };
        let judgement = judge::judge(case, &called?, arguments.bless)?;
        if !arguments.json {
            print(&as_text(case, &judgement))?;
        }
        judgements.push(judgement);
    }
    if arguments.bless {
        bless::write(&cases, &judgements)?;
    }
    let count = |verdict| judgements.iter().filter(|it| it.verdict == verdict).count();
    let (passed, failed) = (count(Verdict::Passed), count(Verdict::Failed));
    let rewritten = count(Verdict::Rewritten);
    if arguments.json {
        let pairs = cases.iter().zip(&judgements);
        print_json(&json!({
            "passed": passed,
            "failed": failed,
            "rewritten": rewritten,
            "cases": pairs.map(|(case, judgement)| as_json(case, judgement)).collect::<Vec<_>>(),
        }))?;
    } else {
        let mut text = format!("{passed} passed, {failed} failed");
        if rewritten > 0 {
            text += &format!(", {rewritten} rewritten");
        }
        print(&format!("{text}\n"))?;
    }
    Ok(ExitCode::from(if failed == 0 { 0 } else { error::FAILED }))
}

/// Checks that the tool exists and was built from the present project.
fn check_built(project: &ProjectDirectory, cases: &Cases) -> Result<(), CliError> {
    let path = project.built();
    let what = if path.is_file() {
        let file = with_path(File::open(&path), "read", &path)?;
        match Manifest::of_file(file) {
            Ok(Some(manifest)) if manifest == *project.manifest() => {
                let changed = sources::changed_since(&path, &project.path, cases);
                match with_path(changed, "compare the sources with", &path)? {
                    Some(source) => {
                        format!("was built before `{}` was changed", source.display())
                    }
                    None => return Ok(()),
                }
            }
            Ok(_) => "was built before `tool.toml` was changed".to_owned(),
            Err(error) => error.to_string(),
        }
    } else {
        "is not there".to_owned()
    };
    let dir = ikigai_host::policy::shell_quoted(&project.path.display().to_string());
    let error = anyhow::Error::msg(format!("`{}` {what}", path.display()));
    Err(CliError::usage(error).hint(format!("build it: `ikigai tool build {dir}`")))
}

fn as_text(case: &Case, judgement: &Judgement) -> String {
    let mark = match judgement.verdict {
        Verdict::Passed => "ok",
        Verdict::Failed => "FAIL",
        Verdict::Rewritten => "new",
    };
    let mut text = format!("{mark:4}  {}", case.name);
    if judgement.verdict != Verdict::Passed {
        text += &format!(" (line {})", case.line);
    }
    text.push('\n');
    for line in judgement.difference() {
        text += &format!("      {line}\n");
    }
    text
}

fn as_json(case: &Case, judgement: &Judgement) -> Value {
    json!({
        "name": case.name,
        "line": case.line,
        "verdict": match judgement.verdict {
            Verdict::Passed => "ok",
            Verdict::Failed => "fail",
            Verdict::Rewritten => "rewritten",
        },
        "expected": case.expected.as_ref().map(|expected| &expected.value),
        "actual": judgement.actual,
    })
}
