//! `ikigai policy record`: calls a tool, records the accesses that it used or was refused, and
//! proposes the policy entry that allows the same.

mod arguments;
mod limits;
mod recorder;
mod target;
mod text;

use std::collections::BTreeSet;
use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use clap::Args;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use self::recorder::{PolicyRecorder, RecordedAccesses};
use self::target::RecordedTool;
use super::grant::{GrantEffect, checked, contents};
use super::least::look::ToolSurroundings;
use super::least::proposal::{CurrentGrant, Proposed};
use super::least::touch::ToolAccess;
use super::{carry_out, show};
use crate::commands::cancelled_by_signals;
use crate::complete;
use crate::credentials::{MISSING_CREDENTIALS, tool_error};
use crate::error::{self, CliError};
use crate::options::SharedOptions;
use crate::output::{eprint, print, print_json};
use ikigai_host::exec::envelope::{Envelope, JsonLayout};
use ikigai_host::front_end::Recording;
use ikigai_host::host::Host;
use ikigai_host::policy::{Backend, Proposal};

pub(super) const EXAMPLES: &str = "Examples:\n  \
    ikigai policy record customer_db -- '{\"query\": \"SELECT 1\"}'\n  \
    ikigai policy record formatter --permissive -- @calls.jsonl\n  \
    ikigai policy record ./fetch --permissive --net --limits -- '{}' \
    '{\"url\": \"https://example.com\"}'\n\n\
    Without --permissive, the tool runs within its grant, and may stop when an access is refused. \
    With --permissive, it can read this machine, except for the usual places of secrets and \
    ikigai's own files. ikigai discards what a native tool writes beyond its grant. If a \
    component tries such a write, ikigai refuses it. Grant the proposed access, then record again \
    to see what the component needs next. Use --permissive only with a tool that you trust with \
    everything it can read: with --net, the tool can send what it read to other machines.\n\
    Variables are never inferred: add them with `ikigai policy grant --env`.";

#[derive(Debug, Args)]
pub(in crate::commands) struct Arguments {
    /// The tool by name, or a file by its path (with a slash)
    #[arg(add = complete::tools_and_files())]
    tool: String,
    /// Run the tool even without a grant, let it read beyond its grant, and discard what it writes
    /// beyond its grant
    #[arg(long)]
    permissive: bool,
    /// Let the tool connect to every public host
    #[arg(long, requires = "permissive")]
    net: bool,
    /// Also propose limits: four times what the tool used
    #[arg(long)]
    limits: bool,
    /// If the recording is interrupted, propose what was seen so far
    #[arg(long)]
    partial: bool,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// The arguments of each call: JSON objects, or @FILE with one or more
    #[arg(last = true, required = true, value_name = "JSON | @FILE")]
    calls: Vec<String>,
}

/// One call that was recorded.
struct Recorded {
    envelope: Envelope,
    took_ms: u64,
    /// The number of accesses that its grant lacks, and the number of granted ones that it used.
    touched: (usize, usize),
}

/// A recording that has ended.
struct Recordings {
    target: RecordedTool,
    calls: Vec<Recorded>,
    noted: RecordedAccesses,
    interrupted: bool,
}

impl Recordings {
    /// Returns whether every call failed, so that the tool's needs are unknown.
    fn all_failed(&self) -> bool {
        self.calls.iter().all(|call| call.envelope.failure().is_some())
    }
}

pub(super) async fn run(
    options: &SharedOptions,
    arguments: Arguments,
) -> Result<ExitCode, CliError> {
    let calls = arguments::read(&arguments.calls)?;
    let host = options.host()?;
    let cancel = cancelled_by_signals()?;
    let found = cancel.run_until_cancelled(RecordedTool::find(&host, &arguments.tool)).await;
    let Some(target) = found else { return Ok(ExitCode::from(error::INTERRUPTED)) };
    let target = target?;
    target.check(&host, arguments.permissive).await?;
    let how = Recording { permissive: arguments.permissive, net: arguments.net };
    let count = calls.len();
    let recordings = record(&host, target, calls, how, &cancel).await?;
    let left = count - recordings.calls.len();
    if recordings.interrupted && !arguments.partial {
        eprint(&format!(
            "interrupted after {} calls: nothing is proposed; --partial proposes what was seen\n",
            recordings.calls.len()
        ));
        return Ok(ExitCode::from(error::INTERRUPTED));
    }
    if recordings.interrupted {
        eprint(&format!(
            "interrupted: {left} calls were not made, and the last may be incomplete\n"
        ));
    }
    if recordings.noted.is_unwatched {
        return Err(unwatched(recordings.target.tool.name()));
    }
    propose(&host, &recordings, &arguments).await
}

/// Returns the error for a recording without files. This is treated as on a machine without the
/// sandbox: nothing was observed, so nothing is proposed.
fn unwatched(name: &str) -> CliError {
    let text = format!(
        "`{name}` ran without being watched, so ikigai does not know its files; nothing is proposed"
    );
    CliError::usage(anyhow::Error::msg(text)).hint(
        "only one program can watch the system calls of a tool (seccomp_unotify): record it \
         outside of a container that watches them, with Linux 5.5 or later",
    )
}

/// Makes the calls, one after another.
async fn record(
    host: &Arc<Host>,
    target: RecordedTool,
    calls: Vec<Bytes>,
    how: Recording,
    cancel: &CancellationToken,
) -> Result<Recordings, CliError> {
    let recorder = Arc::new(PolicyRecorder::new(how));
    let count = calls.len();
    let mut recorded = Vec::with_capacity(count);
    for (at, arguments) in calls.into_iter().enumerate() {
        if cancel.is_cancelled() {
            break;
        }
        target.check_unchanged(host).await?;
        recorder.begin();
        let begun = Instant::now();
        let front_end = Arc::clone(&recorder);
        let envelope = target.call(host, arguments, cancel.clone(), front_end).await;
        let took_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        let one = Recorded { envelope, took_ms, touched: recorder.noted().last };
        eprint(&text::progress(at + 1, count, &one));
        recorded.push(one);
    }
    target.check_unchanged(host).await?;
    let mut noted = recorder.noted();
    // The recorder does not note a denial that no grant lifts, and then nothing was recorded.
    if target.path().is_none() && host.decide(target.subject()).is_err() {
        noted.reached.insert(ToolAccess::Run);
    }
    Ok(Recordings { target, calls: recorded, noted, interrupted: cancel.is_cancelled() })
}

/// Shows the proposal, asks, and writes it.
async fn propose(
    host: &Host,
    recordings: &Recordings,
    arguments: &Arguments,
) -> Result<ExitCode, CliError> {
    let Recordings { target, noted, .. } = recordings;
    let tool = &target.tool;
    let backend = tool.build.backend();
    let from_nothing = arguments.permissive && target.begins_with_nothing(host);
    let standing = match target.path() {
        None if !from_nothing => CurrentGrant::for_tool(host, tool),
        _ => CurrentGrant::default(),
    };
    let mut proposed =
        Proposed::new(&noted.reach(), &standing, &ToolSurroundings::for_build(host, &tool.build));
    // A tool that began without grants needs only what it used.
    proposed.replaces = from_nothing;
    if arguments.limits {
        proposed.limits = limits::from_costs(noted.costs, backend);
    }
    let is_needed = from_nothing || !proposed.is_empty();
    let change = change(host, target, &proposed, is_needed)?;
    if !arguments.json {
        print(&text::render(recordings, &proposed))?;
    }
    let written = match &change {
        Some(change) => Some(written(change, arguments).await?),
        None => {
            eprint(&text::without_change(recordings, &proposed));
            None
        }
    };
    if arguments.json {
        print_json(&as_json(recordings, &proposed, change.as_ref(), written))?;
    }
    match (written, change) {
        (Some(ProposalFate::Interrupted), _) => Ok(ExitCode::from(error::INTERRUPTED)),
        (Some(ProposalFate::Refused), _) => Ok(ExitCode::from(error::FAILED)),
        (Some(ProposalFate::Done), Some(change)) => {
            let decided = checked(host, tool, &change)?;
            let effect = GrantEffect::new(tool, &change, &decided);
            effect.warn();
            Ok(effect.conclude())
        }
        (None, None) if proposed.is_empty() && recordings.all_failed() => {
            Ok(ExitCode::from(error::FAILED))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Returns the change of the user's file; `None` for a tool that needs no change or cannot have an
/// entry. Fails if the entry would not be a valid grant.
fn change(
    host: &Host,
    target: &RecordedTool,
    proposed: &Proposed,
    is_needed: bool,
) -> Result<Option<Proposal>, CliError> {
    if target.path().is_some() {
        return Ok(None);
    }
    let tool = &target.tool;
    if !is_needed && host.decide(target.subject()).is_ok() {
        return Ok(None);
    }
    let change = host.authority().propose_grant(tool.name(), &proposed.keys(host, tool))?;
    // If a ceiling or the workspace forbids something, that is reported after the write.
    let _ = checked(host, tool, &change)?;
    Ok(Some(change))
}

/// The outcome of a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProposalFate {
    Done,
    /// The user answered no.
    Refused,
    /// Without a terminal, the proposal was only shown.
    Shown,
    Interrupted,
}

/// Shows a change, asks whether to write it, and writes it. Without a terminal it only shows the
/// change.
async fn written(change: &Proposal, arguments: &Arguments) -> Result<ProposalFate, CliError> {
    if !arguments.yes && !std::io::stdin().is_terminal() {
        show(change);
        eprint("nothing was changed: --yes writes this\n");
        return Ok(ProposalFate::Shown);
    }
    // This needs a new token, since a signal may have ended the recording with the other one.
    let cancel = cancelled_by_signals()?;
    let (change, yes) = (change.clone(), arguments.yes);
    // The question blocks a thread in the kernel until a line arrives.
    let asking = tokio::task::spawn_blocking(move || carry_out(&change, yes));
    match cancel.run_until_cancelled(asking).await {
        None => {
            eprint("\nnothing was changed\n");
            Ok(ProposalFate::Interrupted)
        }
        Some(asked) => match asked.map_err(CliError::failed)?? {
            true => Ok(ProposalFate::Done),
            false => Ok(ProposalFate::Refused),
        },
    }
}

/// Returns the errors in which the tool reported a missing credential.
fn missing_credentials(recordings: &Recordings) -> Vec<String> {
    let errors = recordings.calls.iter().filter_map(|call| tool_error(&call.envelope));
    let is_missing = |code: &str| code == MISSING_CREDENTIALS;
    let mut texts: Vec<String> =
        errors.filter(|(code, _)| is_missing(code)).map(|(_, error)| error).collect();
    texts.dedup();
    texts
}

fn as_json(
    recordings: &Recordings,
    proposed: &Proposed,
    change: Option<&Proposal>,
    written: Option<ProposalFate>,
) -> Value {
    let Recordings { target, calls, noted, interrupted } = recordings;
    let tool = &target.tool;
    let calls = calls.iter().map(|call| {
        let failure = call.envelope.failure();
        let envelope = call.envelope.to_json(JsonLayout::Compact).unwrap_or_default();
        json!({
            "tool_success": failure.is_none(),
            "error_code": failure.map(|(code, _)| code.as_str()),
            "tool_error_code": tool_error(&call.envelope).map(|(code, _)| code),
            "took_ms": call.took_ms,
            "reached": call.touched.0,
            "used": call.touched.1,
            "envelope": text::shortened(&envelope),
        })
    });
    let all = |touches: &BTreeSet<ToolAccess>| {
        touches.iter().map(ToolAccess::as_json).collect::<Vec<_>>()
    };
    json!({
        "tool": tool.name(),
        "installed": target.path().is_none(),
        "backend": tool.build.backend().as_str(),
        "sha256": contents(tool).iter().map(ToString::to_string).collect::<Vec<_>>(),
        "calls": calls.collect::<Vec<_>>(),
        "interrupted": interrupted,
        "reached": all(&noted.reached),
        "used": all(&noted.used),
        "missing_credentials": missing_credentials(recordings),
        "proposal": proposed.as_json(tool.name()),
        "left_out": proposed.left_as_json(),
        "policy": change.map(|change| change.path.to_string_lossy()),
        "difference": change.map(Proposal::difference).unwrap_or_default(),
        "written": written == Some(ProposalFate::Done),
    })
}

/// Returns the costs in words. Components have fuel; native tools do not.
fn costs_in_words(noted: &RecordedAccesses, backend: Backend) -> String {
    let costs = noted.costs;
    let mut parts = vec![format!("{:.1} s", costs.duration.as_secs_f64())];
    if let Some(bytes) = costs.peak_memory {
        parts.push(format!("{} of memory", bytesize::ByteSize(bytes)));
    }
    if let Some(fuel) = costs.fuel.filter(|_| backend == Backend::Wasm) {
        parts.push(format!("{fuel} fuel"));
    }
    parts.join(", ")
}
