//! `ikigai doctor`: checks of this machine, the installation and the configuration, each with
//! advice if something is missing; and, with `--verify`, of a downloaded release.

mod apparmor;
mod assets;
mod download;
mod locks;
mod machine;
mod offers;
mod policy;
mod runtime;
mod sandbox;
mod storage;
mod tools;

use std::fmt::Write as _;
use std::process::ExitCode;

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use clap::Args;
use ikigai_protocol::ProviderKey;
use ikigai_terminal::sanitize;
use serde::Serialize;

use crate::error::{self, CliError};
use crate::options::SharedOptions;
use crate::output::{print_json, print_raw};
use crate::variables;
use ikigai_host::host::{CallTarget, Host};
use ikigai_host::registry::{ScanDepth, Snapshot, Tool};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    download: download::DownloadFlags,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The result of one check.
#[derive(Debug, Serialize)]
struct DoctorCheck {
    section: &'static str,
    what: String,
    status: Status,
    detail: String,
    /// The advice, if there is something to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

/// The status of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    /// Nothing is wrong.
    Ok,
    /// Something is missing, but everything that the policy requires is still enforced.
    Warn,
    /// The policy requires something that this machine does not have.
    Fail,
}

impl DoctorCheck {
    fn new(section: &'static str, what: impl Into<String>, detail: impl Into<String>) -> Self {
        let (what, detail) = (what.into(), detail.into());
        Self { section, what, status: Status::Ok, detail, advice: None }
    }

    fn warn(self, advice: impl Into<String>) -> Self {
        Self { status: Status::Warn, advice: Some(advice.into()), ..self }
    }

    /// Warns without advice, since the user cannot fix this.
    fn warn_only(self) -> Self {
        Self { status: Status::Warn, ..self }
    }

    fn fail(self, advice: impl Into<String>) -> Self {
        Self { status: Status::Fail, advice: Some(advice.into()), ..self }
    }
}

pub(super) async fn run(
    options: &SharedOptions,
    arguments: Arguments,
) -> Result<ExitCode, CliError> {
    if let Some(file) = &arguments.download.verify {
        return download::run(options, file, &arguments.download, arguments.json);
    }
    let checks = match options.host() {
        Ok(host) => all(options, &host).await?,
        Err(error) => without_host(options, &error).await?,
    };
    let good = checks.iter().all(|check| check.status != Status::Fail);
    if arguments.json {
        let value = serde_json::json!({ "good": good, "checks": checks });
        print_json(&value)?;
    } else {
        print_raw(as_text(&checks, colour()).as_bytes())?;
    }
    Ok(ExitCode::from(if good { 0 } else { error::FAILED }))
}

async fn all(options: &SharedOptions, host: &Host) -> Result<Vec<DoctorCheck>, CliError> {
    // This must run before the scan. If a sandbox worked once, the scan assumes that it still does.
    let sandbox = host.machine().await;
    let snapshot = host.registry().scan(ScanDepth::Failed).await;
    let mut checks = machine::checks(host.registry().paths());
    checks.extend(runtime::checks(host.registry().paths()));
    checks.extend(sandbox::checks(host, &snapshot, sandbox));
    checks.extend(policy::checks(host, &snapshot));
    checks.extend(tools::checks(host, &snapshot));
    checks.extend(locks::checks(host, &snapshot));
    checks.extend(storage::checks(host.registry().paths()));
    checks.extend(assets::checks(options).await?);
    checks.extend(offers::checks(&options.config, host, &snapshot));
    checks.extend(keys(host, &snapshot));
    Ok(checks)
}

/// Checks the parts that need no policy and no tools, since this error prevents a host.
async fn without_host(
    options: &SharedOptions,
    error: &CliError,
) -> Result<Vec<DoctorCheck>, CliError> {
    let paths = options.paths();
    let mut checks = machine::checks(&paths);
    checks.extend(runtime::checks(&paths));
    checks.push(policy::none(error));
    checks.extend(storage::checks(&paths));
    checks.extend(assets::checks(options).await?);
    Ok(checks)
}

/// Checks which keys of model providers are set, and which tools get them. Does not show their
/// values.
fn keys(host: &Host, snapshot: &Snapshot) -> Vec<DoctorCheck> {
    let has = |tool: &&Tool, name: &str| {
        let decision = host.decide(CallTarget::from(*tool));
        decision.is_ok_and(|it| it.variables.iter().any(|variable| variable.name == name))
    };
    let state = |name: &str| match variables::value(name) {
        Some(value) if !value.is_empty() => {
            let granted = snapshot.tools().filter(|tool| has(tool, name)).map(Tool::name);
            match &granted.collect::<Vec<_>>()[..] {
                [] => "set, and hidden from tools".to_owned(),
                granted => format!("set, and granted to {}", granted.join(", ")),
            }
        }
        _ => "not set".to_owned(),
    };
    ProviderKey::ALL
        .iter()
        .map(|key| DoctorCheck::new("keys of model providers", key.as_str(), state(key.as_str())))
        .collect()
}

/// Returns true if stdout is a terminal with colours.
fn colour() -> bool {
    AutoStream::choice(&std::io::stdout()) != ColorChoice::Never
}

fn as_text(checks: &[DoctorCheck], colour: bool) -> String {
    let width = checks.iter().map(|check| check.what.chars().count()).max().unwrap_or_default();
    let paint = |style: Style, text: &str| match colour {
        true => format!("{style}{text}{style:#}"),
        false => text.to_owned(),
    };
    let mut text = String::new();
    let mut section = "";
    for check in checks {
        if check.section != section {
            let gap = if section.is_empty() { "" } else { "\n" };
            section = check.section;
            // Writing to a string cannot fail, here and below.
            let _ = writeln!(text, "{gap}{}", paint(Style::new().bold(), section));
        }
        let (mark, hue) = match check.status {
            Status::Ok => ("ok  ", AnsiColor::Green),
            Status::Warn => ("warn", AnsiColor::Yellow),
            Status::Fail => ("FAIL", AnsiColor::Red),
        };
        let mark = paint(Style::new().fg_color(Some(hue.into())), mark);
        // Paths and names may have control characters; only the marks are coloured.
        let (what, detail) = (sanitize(&check.what), sanitize(&check.detail));
        let _ = writeln!(text, "  {mark}  {what:width$}  {detail}");
        if let Some(advice) = &check.advice {
            let _ = writeln!(text, "  {:4}  {:width$}  to do: {}", "", "", sanitize(advice));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_colours_are_for_terminals() {
        let checks = [
            DoctorCheck::new("one", "short", "fine"),
            DoctorCheck::new("one", "rather long", "meagre").warn("feed it"),
            DoctorCheck::new("two", "x", "missing").fail("find it"),
        ];
        let expected = "one\n  ok    short        fine\n  warn  rather long  meagre\n                     \
                        to do: feed it\n\ntwo\n  FAIL  x            missing\n                     \
                        to do: find it\n";
        assert_eq!(as_text(&checks, false), expected);
        let coloured = as_text(&checks, true);
        assert!(coloured.contains("\x1b[31mFAIL\x1b[0m"), "{coloured:?}");
        assert_eq!(anstream::adapter::strip_str(&coloured).to_string(), expected);
    }
}
