//! `ikigai tool check`: findings on a file that should be a tool, for its author.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bytes::Bytes;
use clap::{Args, ValueHint};
use ikigai_protocol::{ResultKind, ToolSchema};
use ikigai_provider::{Loss, Provider, SAFE_DESCRIPTION, translate};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::decision;
use crate::error::{self, CliError};
use crate::options::SharedOptions;
use crate::output::{print, print_json};
use ikigai_host::audit::Via;
use ikigai_host::exec::envelope::Envelope;
use ikigai_host::exec::output::Sink;
use ikigai_host::exec::scrub::SecretValues;
use ikigai_host::exec::{Exit, Outcome, Stdin};
use ikigai_host::host::{CallStreams, CallTarget, Host};
use ikigai_host::limits::STDERR_KEPT;
use ikigai_host::policy::Backend;
use ikigai_host::registry::{Build, ScanDepth, Tool};

#[derive(Debug, Args)]
pub(in crate::commands) struct Arguments {
    /// The file
    #[arg(value_hint = ValueHint::FilePath)]
    path: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The result of one check.
pub(super) struct CheckFinding {
    check: &'static str,
    pub(super) verdict: Grade,
    text: String,
}

/// The result of all checks.
pub(super) struct CheckResults {
    pub(super) findings: Vec<CheckFinding>,
    /// The tool in the file, if it is one.
    pub(super) tool: Option<Tool>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Grade {
    Good,
    /// The tool works, but could be better.
    Doubtful,
    Bad,
}

impl Grade {
    fn mark(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Doubtful => "warn",
            Self::Bad => "FAIL",
        }
    }
}

pub(super) async fn run(
    options: &SharedOptions,
    arguments: Arguments,
) -> Result<ExitCode, CliError> {
    let host = options.host()?;
    let findings = check(&host, &options.config, &arguments.path).await.findings;
    let good = findings.iter().all(|finding| finding.verdict != Grade::Bad);
    if arguments.json {
        print_json(&as_json(&arguments.path, &findings, good))?;
    } else {
        print(&as_text(&arguments.path, &findings, good))?;
    }
    Ok(ExitCode::from(if good { 0 } else { error::FAILED }))
}

/// Checks a file.
pub(super) async fn check(host: &Host, config: &Config, path: &Path) -> CheckResults {
    let mut findings = Vec::new();
    let build = match host.registry().build_at(path).await {
        Ok(build) => build,
        Err(reason) => {
            findings.push(finding("file", Grade::Bad, reason));
            return CheckResults { findings, tool: None };
        }
    };
    let kind = match build.backend() {
        Backend::Wasm => "a WebAssembly file",
        Backend::Native => "an executable",
        Backend::Mcp => "a definition of a server",
    };
    let kind = match build.wrapped_program() {
        Some(program) => format!("a definition, whose program `{}` is {kind}", program.display()),
        None => kind.to_owned(),
    };
    findings.push(finding("file", Grade::Good, kind));
    if build.backend() == Backend::Wasm {
        match build.imports().await {
            Ok(imports) => {
                findings.push(finding("imports", Grade::Good, imports_text(&imports)));
                let wasi = wasi(host, &build);
                let is_refused = wasi.verdict == Grade::Bad;
                findings.push(wasi);
                if is_refused {
                    return CheckResults { findings, tool: None };
                }
            }
            Err(error) => {
                findings.push(finding("component", Grade::Bad, error.to_string()));
                return CheckResults { findings, tool: None };
            }
        }
    }
    let tool = match host.registry().tool_at(path, ScanDepth::Everything).await {
        Ok(tool) => {
            check_schema(&mut findings, config, path, &tool);
            Some(tool)
        }
        Err(reason) => {
            findings.push(finding("schema", Grade::Bad, reason));
            None
        }
    };
    let kind = tool.as_ref().map_or_else(ResultKind::default, |tool| tool.schema.result);
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    let name = tool.as_ref().map_or(&*file, |tool| tool.name());
    findings.push(malformed_call(host, &build, (name, kind)).await);
    CheckResults { findings, tool }
}

/// Returns the versions of WASI that a build uses, or the reason that the policy refuses one.
fn wasi(host: &Host, build: &Build) -> CheckFinding {
    match host.check_wasi(build) {
        Ok(()) => finding("wasi", Grade::Good, decision::wasi(build).join(", ")),
        Err(denial) => finding("wasi", Grade::Bad, denial.to_string()),
    }
}

fn check_schema(findings: &mut Vec<CheckFinding>, config: &Config, path: &Path, tool: &Tool) {
    let name = tool.name();
    findings.push(finding("schema", Grade::Good, format!("valid, of a tool called `{name}`")));
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().replace('-', "_");
    let stem = match tool.build.wrapped_program() {
        Some(_) => stem.trim_end_matches(".wrap").to_owned(),
        None => stem,
    };
    findings.push(if stem == name {
        finding("name", Grade::Good, "the file has the tool's name")
    } else {
        let text = format!("the file is called `{stem}`; people will look for `{name}`");
        finding("name", Grade::Doubtful, text)
    });
    findings.extend(description(&tool.schema.description));
    let silent = undescribed(&tool.schema.parameters);
    findings.push(if silent.is_empty() {
        finding("parameters", Grade::Good, "each has a description")
    } else {
        let text = format!("no description: {}", silent.join(", "));
        finding("parameters", Grade::Doubtful, text)
    });
    findings.extend(Provider::ALL.map(|provider| offered(config, provider, &tool.schema)));
}

/// The length at which Claude Code cuts the description of an MCP server's tool, in characters.
const MCP_DESCRIPTION: usize = 2_048;

/// Returns a finding if a description is doubtful.
fn description(text: &str) -> Option<CheckFinding> {
    let characters = text.chars().count();
    let doubt = if text.trim().is_empty() {
        "the description is empty: a model cannot know when to use the tool".to_owned()
    } else if characters > SAFE_DESCRIPTION {
        let mut doubt = format!(
            "the description has {characters} characters, which are sent with each request; some servers with \
             OpenAI's interface accept {SAFE_DESCRIPTION} (`max_description` in \
             config.toml cuts it for them)"
        );
        if characters > MCP_DESCRIPTION {
            // Writing to a string cannot fail.
            let _ = write!(doubt, "; Claude Code cuts it after {MCP_DESCRIPTION}");
        }
        doubt
    } else {
        return None;
    };
    Some(finding("description", Grade::Doubtful, doubt))
}

/// Returns the differences between a schema and the form that a provider receives.
fn offered(config: &Config, provider: Provider, schema: &ToolSchema) -> CheckFinding {
    match translate(provider, config.offer(provider).bounds, schema) {
        Err(reason) => {
            let text = format!("cannot be offered: {reason}");
            finding(provider.as_str(), Grade::Doubtful, text)
        }
        Ok(translation) if translation.losses.is_empty() => {
            finding(provider.as_str(), Grade::Good, "sent as it is")
        }
        Ok(translation) => {
            let losses: Vec<String> = translation.losses.iter().map(Loss::to_string).collect();
            // The tool still works with this provider.
            finding(provider.as_str(), Grade::Good, losses.join("; "))
        }
    }
}

/// Returns the parameters without a description.
fn undescribed(parameters: &Value) -> Vec<String> {
    let properties = parameters.get("properties").and_then(Value::as_object);
    let silent = |value: &Value| value.get("description").and_then(Value::as_str).is_none();
    properties
        .into_iter()
        .flatten()
        .filter(|(_, value)| silent(value))
        .map(|(name, _)| name.clone())
        .collect()
}

/// Runs the tool with malformed arguments, as a model may write them. The tool should answer with
/// an error in JSON and exit with 0. Another exit code is acceptable.
async fn malformed_call(
    host: &Host,
    build: &Build,
    (name, kind): (&str, ResultKind),
) -> CheckFinding {
    const CHECK: &str = "malformed call";
    let streams = CallStreams {
        stdin: Stdin::Bytes(Bytes::from_static(b"{\"malformed\":")),
        stdout: Sink::Head,
        stderr: Sink::Tail(STDERR_KEPT),
    };
    let cancel = CancellationToken::new();
    let subject = CallTarget::at_path(build);
    let ran = host.run(Via::Check, subject, Vec::new(), streams, cancel, None).await;
    let outcome: Outcome = ran.0;
    if let Some(limit) = outcome.limit {
        let text = format!("exceeded its limit on {}", limit.as_str());
        return finding(CHECK, Grade::Bad, text);
    }
    if let Exit::NotStarted(reason) = &outcome.exit {
        return finding(CHECK, Grade::Bad, format!("could not be started: {reason}"));
    }
    let good = match kind {
        ResultKind::Json => ("answered in JSON", "a JSON answer with `error`"),
        ResultKind::Content => ("answered in content blocks", "content blocks with `isError`"),
    };
    match Envelope::from_outcome(
        name,
        kind,
        &host.limits(subject),
        outcome,
        &SecretValues::default(),
    ) {
        Envelope::Success(_) => finding(CHECK, Grade::Good, good.0),
        Envelope::Failure(failure) => {
            let text = format!("{}; {} would tell the model more", failure.error, good.1);
            finding(CHECK, Grade::Doubtful, text)
        }
    }
}

pub(super) fn finding(
    check: &'static str,
    verdict: Grade,
    text: impl Into<String>,
) -> CheckFinding {
    CheckFinding { check, verdict, text: text.into() }
}

impl CheckFinding {
    /// Returns the line for people.
    pub(super) fn line(&self) -> String {
        format!("{:4}  {:14}  {}\n", self.verdict.mark(), self.check, self.text)
    }

    /// Returns the object for programs.
    pub(super) fn as_json(&self) -> Value {
        let verdict = self.verdict.mark().to_lowercase();
        json!({ "check": self.check, "verdict": verdict, "text": self.text })
    }
}

fn imports_text(imports: &[String]) -> String {
    if imports.is_empty() { "none".to_owned() } else { imports.join(", ") }
}

fn as_text(path: &Path, findings: &[CheckFinding], good: bool) -> String {
    let mut text: String = findings.iter().map(CheckFinding::line).collect();
    let verdict = if good { "is a tool" } else { "is not a tool that ikigai would offer" };
    text.push_str(&format!("{} {verdict}\n", path.display()));
    text
}

fn as_json(path: &Path, findings: &[CheckFinding], good: bool) -> Value {
    json!({
        "path": path.to_string_lossy(),
        "good": good,
        "findings": findings.iter().map(CheckFinding::as_json).collect::<Vec<_>>(),
    })
}
