//! `ikigai policy test`: the decision on one access of a tool, and the rule that decides it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueHint};
use ikigai_protocol::Access;
use serde_json::json;
use strum::VariantArray as _;

use crate::choice;
use crate::commands::tool::call::named_tool;
use crate::commands::tool::list::print_warnings;
use crate::complete;
use crate::decision;
use crate::error::{self, CliError};
use crate::options::Options;
use crate::output::{print, print_json};
use ikigai_host::paths;
use ikigai_host::policy::{AssetAccess, Backend, Decision, Net, PeerHost};

pub(super) const EXAMPLES: &str = "Examples:\n  \
    ikigai policy test grep --read src/main.rs\n  \
    ikigai policy test file_write --write /etc/hosts\n  \
    ikigai policy test customer_db --connect db.internal:5432 --env CUSTOMER_DB";

#[derive(Debug, Args)]
pub(in crate::commands) struct Arguments {
    /// The tool
    #[arg(add = complete::tools())]
    tool: String,
    /// Read this file or directory
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    read: Vec<PathBuf>,
    /// Write this file or directory
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    write: Vec<PathBuf>,
    /// Connect to this host or address
    #[arg(long, value_name = "HOST:PORT")]
    connect: Vec<String>,
    /// See this variable
    #[arg(long, value_name = "NAME")]
    env: Vec<String>,
    /// Do this with the host's assets
    #[arg(long, value_name = "ACCESS",
          value_parser = choice::of(AssetAccess::VARIANTS, assets_help))]
    assets: Vec<AssetAccess>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn assets_help(access: AssetAccess) -> Option<&'static str> {
    match access {
        // No access is nothing to ask about.
        AssetAccess::None => None,
        AssetAccess::Read => Some("Read and list them"),
        AssetAccess::Write => Some("Write and edit them"),
    }
}

/// The decision on one access.
struct Answer {
    question: String,
    is_allowed: bool,
    by: String,
}

pub(super) async fn run(options: &Options, arguments: Arguments) -> Result<ExitCode, CliError> {
    let host = options.host()?;
    let snapshot = host.look_up(&arguments.tool).await;
    print_warnings(&snapshot);
    // Exit code 1 says that an access is denied.
    let tool = named_tool(&snapshot, &arguments.tool).map_err(CliError::into_usage)?;
    let answers = match host.decide(tool.into()) {
        Err(denial) => {
            vec![Answer { question: "call".to_owned(), is_allowed: false, by: denial.to_string() }]
        }
        Ok(decision) => {
            let workspace = host.authority().workspace();
            answers(&arguments, tool.build.backend(), &decision, workspace)?
        }
    };
    let is_allowed = answers.iter().all(|answer| answer.is_allowed);
    if arguments.json {
        let answers = answers.iter().map(|answer| {
            json!({
                "question": answer.question,
                "allowed": answer.is_allowed,
                "decided_by": answer.by,
            })
        });
        let value = json!({
            "tool": tool.name(),
            "allowed": is_allowed,
            "answers": answers.collect::<Vec<_>>(),
        });
        print_json(&value)?;
    } else {
        let line = |answer: &Answer| {
            let verdict = if answer.is_allowed { "allowed" } else { "denied" };
            format!("{verdict}: {} {} ({})\n", tool.name(), answer.question, answer.by)
        };
        print(&answers.iter().map(line).collect::<String>())?;
    }
    Ok(ExitCode::from(if is_allowed { 0 } else { error::FAILED }))
}

fn answers(
    arguments: &Arguments,
    backend: Backend,
    decision: &Decision,
    workspace: &Path,
) -> Result<Vec<Answer>, CliError> {
    let by = |capability: &str| decision::sources(decision, &[capability]);
    let free = decision.is_unconfined(backend);
    let free_by = || format!("unconfined, by {}", by("sandbox"));
    let mut answers = Vec::new();
    let paths = [("read", Access::ReadOnly, &arguments.read)];
    let paths = paths.into_iter().chain([("write", Access::ReadWrite, &arguments.write)]);
    for (verb, access, paths) in paths {
        for path in paths {
            let (is_allowed, why) = match may_reach(path, access, decision, workspace)? {
                _ if free => (true, free_by()),
                (is_allowed, None) => (is_allowed, by("fs")),
                (is_allowed, Some(dir)) => (is_allowed, format!("`{dir}`, by {}", by("fs"))),
            };
            let question = format!("{verb} {}", path.display());
            answers.push(Answer { question, is_allowed, by: why });
        }
    }
    for peer in &arguments.connect {
        let is_allowed = may_connect(peer, backend, decision)?;
        let (is_allowed, why) = match (free, is_allowed && is_name(peer)) {
            (true, _) => (true, free_by()),
            // The addresses of a name are resolved when a tool connects.
            (_, true) if backend == Backend::Wasm => {
                (is_allowed, format!("its public addresses, by {}", by("net")))
            }
            _ => (is_allowed, by("net")),
        };
        answers.push(Answer { question: format!("connect {peer}"), is_allowed, by: why });
    }
    for name in &arguments.env {
        let granted = decision.variables.iter().find(|variable| variable.name == *name);
        let seen = decision.grant.env.iter().any(|(own, _)| own == name.as_str());
        let why = match granted {
            Some(variable) if !variable.is_set => format!("{}; it is not set", by("env")),
            _ => by("env"),
        };
        let is_allowed = seen || granted.is_some();
        answers.push(Answer { question: format!("env {name}"), is_allowed, by: why });
    }
    for needed in &arguments.assets {
        // An unconfined tool has no access to assets either, unless it is granted.
        answers.push(Answer {
            question: format!("{} assets", needed.as_str()),
            is_allowed: decision.grant.assets >= *needed,
            by: by("assets"),
        });
    }
    if decision.needs_consent(backend) {
        let by = format!("once somebody agrees, by {}", by("approve"));
        answers.push(Answer { question: "call".to_owned(), is_allowed: true, by });
    }
    if answers.is_empty() {
        let question = "call".to_owned();
        answers.push(Answer { question, is_allowed: true, by: by("sandbox") });
    }
    Ok(answers)
}

/// Returns whether a path lies in a directory with this access, and the directory in which it
/// lies.
fn may_reach(
    path: &Path,
    access: Access,
    decision: &Decision,
    workspace: &Path,
) -> Result<(bool, Option<String>), CliError> {
    // As a tool would resolve it.
    let path = workspace.join(path);
    let resolved = paths::canonical(&path).ok_or_else(|| {
        CliError::usage(anyhow::Error::msg(format!("`{}` cannot be resolved", path.display())))
    })?;
    let dir = decision.grant.dirs.iter().find(|dir| resolved.starts_with(&dir.path));
    let shown = dir.map(|dir| format!("{}:{}", dir.access.as_str(), dir.path.display()));
    Ok((dir.is_some_and(|dir| dir.access >= access), shown))
}

/// Returns true if the peer is the name of a host, and not an address.
fn is_name(peer: &str) -> bool {
    Net::parse([peer]).is_ok_and(|net| {
        net.peers.first().is_some_and(|peer| matches!(peer.host, PeerHost::Name(_)))
    })
}

fn may_connect(text: &str, backend: Backend, decision: &Decision) -> Result<bool, CliError> {
    let net = &decision.grant.net;
    if backend == Backend::Native {
        return Ok(net.any);
    }
    let wrong = |what: String| CliError::usage(anyhow::Error::msg(format!("--connect: {what}")));
    let asked = Net::parse([text]).map_err(wrong)?;
    let Some(peer) = asked.peers.first() else {
        return Ok(net.any);
    };
    let Some(port) = peer.port else {
        return Err(wrong(format!("`{text}` names no port")));
    };
    Ok(match &peer.host {
        PeerHost::Name(name) => net.allows_name(name, Some(port)),
        PeerHost::Range(range) => net.allows_address((range.addr(), port).into()),
    })
}
