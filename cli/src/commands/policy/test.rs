//! `ikigai policy test`: the decision on one access of a tool, and the rule that decides it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueHint};
use ikigai_protocol::{Access, written_out};
use serde_json::json;
use strum::VariantArray as _;

use super::least::is_seen_without_grant;
use crate::choice;
use crate::commands::tool::list::print_warnings;
use crate::commands::tool::named::named_tool;
use crate::complete;
use crate::decision;
use crate::error::{self, CliError};
use crate::options::SharedOptions;
use crate::output::{print, print_json};
use ikigai_host::exec::native;
use ikigai_host::host::Host;
use ikigai_host::paths;
use ikigai_host::policy::{
    Approve, AssetAccess, Backend, Decision, Net, PeerHost, Requirement, ScriptVerdict,
};
use ikigai_host::registry::Tool;
use ikigai_supervisor::base_view::BASE_VIEW;

pub(super) const EXAMPLES: &str = "Examples:\n  \
    ikigai policy test grep --read src/main.rs\n  \
    ikigai policy test file_write --write /etc/hosts\n  \
    ikigai policy test customer_db --connect db.internal:5432 --env CUSTOMER_DB\n  \
    ikigai policy test bash --command 'git status && cargo test'";

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
    #[arg(long, alias = "net", value_name = "HOST:PORT")]
    connect: Vec<String>,
    /// See this variable
    #[arg(long, value_name = "NAME")]
    env: Vec<String>,
    /// Use assets in this way
    #[arg(long, value_name = "ACCESS",
          value_parser = choice::parser(AssetAccess::VARIANTS, assets_help))]
    assets: Vec<AssetAccess>,
    /// Run this script with `bash`; exit code 1 if ikigai would refuse it, or ask about it
    #[arg(long, value_name = "SCRIPT")]
    command: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn assets_help(access: AssetAccess) -> Option<&'static str> {
    match access {
        // A question about no access would make no sense.
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
    /// The verdict on a script.
    verdict: Option<ScriptVerdict>,
}

impl Answer {
    fn new(question: String, is_allowed: bool, by: String) -> Self {
        Self { question, is_allowed, by, verdict: None }
    }

    /// Returns the verdict in a word.
    fn verdict(&self) -> &'static str {
        match &self.verdict {
            Some(ScriptVerdict::Unlisted { .. }) if self.is_allowed => "allowed",
            Some(verdict) => verdict.as_str(),
            None if self.is_allowed => "allowed",
            None => "denied",
        }
    }
}

pub(super) async fn run(
    options: &SharedOptions,
    arguments: Arguments,
) -> Result<ExitCode, CliError> {
    let host = options.host()?;
    let snapshot = host.look_up(&arguments.tool).await;
    print_warnings(&snapshot);
    // Exit code 1 means that an access is denied.
    let tool = named_tool(&snapshot, &arguments.tool).map_err(CliError::into_usage)?;
    let answers = match host.decide(tool.into()) {
        Err(denial) => {
            vec![Answer::new("call".to_owned(), false, denial.to_string())]
        }
        Ok(decision) => answers(&arguments, tool, &decision, &host)?,
    };
    let is_allowed = answers.iter().all(|answer| answer.is_allowed);
    if arguments.json {
        let answers = answers.iter().map(|answer| {
            json!({
                "question": answer.question,
                "allowed": answer.is_allowed,
                "decided_by": answer.by,
                "verdict": answer.verdict.as_ref().map(ScriptVerdict::as_str),
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
            format!("{}: {} {} ({})\n", answer.verdict(), tool.name(), answer.question, answer.by)
        };
        print(&answers.iter().map(line).collect::<String>())?;
    }
    Ok(ExitCode::from(if is_allowed { 0 } else { error::FAILED }))
}

fn answers(
    arguments: &Arguments,
    tool: &Tool,
    decision: &Decision,
    host: &Host,
) -> Result<Vec<Answer>, CliError> {
    let backend = tool.build.backend();
    let by = |capability: &str| decision::sources(decision, &[capability]);
    let free = decision.is_unconfined(backend);
    let free_by = || format!("unconfined, by {}", by("sandbox"));
    let sees_base_view = decision::sees_base_view(tool, decision);
    let mut answers = Vec::new();
    let paths = [("read", Access::ReadOnly, &arguments.read)];
    let paths = paths.into_iter().chain([("write", Access::ReadWrite, &arguments.write)]);
    for (verb, access, paths) in paths {
        for path in paths {
            let place = may_reach(path, access, (tool, decision), host)?;
            let (is_allowed, why) = match place {
                _ if free => (true, free_by()),
                Place::Base if sees_base_view => {
                    (true, "the base view, which every native tool sees".to_owned())
                }
                Place::Network if sees_base_view && decision.grant.net.any => {
                    (true, format!("the base view of a tool with every host, by {}", by("net")))
                }
                Place::Installation if sees_base_view => {
                    (true, "the directory of the tool's own file".to_owned())
                }
                Place::Base | Place::Network | Place::Installation | Place::Outside => {
                    (false, by("fs"))
                }
                Place::Hidden => (false, format!("hidden, by {}", by("hide"))),
                Place::Executed { place } => {
                    let place = written_out(&place.to_string_lossy());
                    (false, format!("other programs execute {place}, which `fs` does not name"))
                }
                Place::Secret => (false, "a place of secrets that `fs` does not name".to_owned()),
                Place::In { dir, is_enough, executed: Some(place) } => {
                    let place = written_out(&place.to_string_lossy());
                    let by = by("fs");
                    let why = format!(
                        "`{dir}`, by {by}; other programs execute {place}, which ikigai does not \
                         protect from native tools there"
                    );
                    (is_enough, why)
                }
                Place::In { dir, is_enough, executed: None } => {
                    (is_enough, format!("`{dir}`, by {}", by("fs")))
                }
            };
            let question = format!("{verb} {}", path.display());
            answers.push(Answer::new(question, is_allowed, why));
        }
    }
    for peer in &arguments.connect {
        let is_allowed = may_connect(peer, backend, decision)?;
        let (is_allowed, why) = match (free, is_allowed && is_name(peer)) {
            (true, _) => (true, free_by()),
            // The addresses of a name are resolved when a tool connects.
            (_, true) if backend != Backend::Native || !decision.grant.net.any => {
                (is_allowed, format!("its public addresses, by {}", by("net")))
            }
            _ => (is_allowed, by("net")),
        };
        answers.push(Answer::new(format!("connect {peer}"), is_allowed, why));
    }
    for name in &arguments.env {
        let granted = decision.variables.iter().find(|variable| variable.name == *name);
        let seen = decision.grant.env.iter().any(|(own, _)| own == name.as_str());
        let why = match granted {
            Some(variable) if !variable.is_set => format!("{}; it is not set", by("env")),
            _ => by("env"),
        };
        let is_allowed = seen || granted.is_some();
        answers.push(Answer::new(format!("env {name}"), is_allowed, why));
    }
    for needed in &arguments.assets {
        // An unconfined tool has no access to assets either, unless the policy grants it.
        let question = format!("{} assets", needed.as_str());
        answers.push(Answer::new(question, decision.grant.assets >= *needed, by("assets")));
    }
    for script in &arguments.command {
        answers.push(of_script(script, backend, decision)?);
    }
    if decision.needs_consent(backend) && arguments.command.is_empty() {
        let some = if decision.commands.is_shell() && decision.approve == Approve::Unlisted {
            "once somebody agrees to what no rule lists"
        } else {
            "once somebody agrees"
        };
        answers.push(Answer::new("call".to_owned(), true, format!("{some}, by {}", by("approve"))));
    }
    if answers.is_empty() {
        answers.push(Answer::new("call".to_owned(), true, by("sandbox")));
    }
    Ok(answers)
}

/// Returns the verdict on a script by the rules for commands, and whether it runs without a
/// question.
fn of_script(script: &str, backend: Backend, decision: &Decision) -> Result<Answer, CliError> {
    if !decision.commands.is_shell() {
        return Err(CliError::usage(anyhow::Error::msg("--command: only `bash` runs scripts")));
    }
    let verdict = decision.commands.verdict(script);
    let question = format!("command `{}`", written_out(script));
    let arguments = json!({ "command": script }).to_string();
    let (is_allowed, by) = match decision.requirement(backend, Some(arguments.as_bytes())) {
        Requirement::Denied { reason } => (false, reason),
        Requirement::Consent { by, .. } => (false, format!("somebody is asked, by {by}")),
        Requirement::Nothing => match &verdict {
            ScriptVerdict::Unlisted { reason } => {
                let asks = "with `approve = \"unlisted\"` somebody would be asked";
                (true, format!("it runs; {reason}; {asks}"))
            }
            verdict => (true, verdict.reason()),
        },
    };
    Ok(Answer { question, is_allowed, by, verdict: Some(verdict) })
}

/// The place of a path in a grant.
enum Place {
    /// In no granted directory.
    Outside,
    /// Readable, in the part of the machine that the sandbox shows to native tools.
    Base,
    /// Readable, in the part that it shows only to tools with the machine's network.
    Network,
    /// Readable, in the directory of the native tool's file.
    Installation,
    /// Hidden in a granted directory.
    Hidden,
    /// In a secret place that the grant does not name.
    Secret,
    /// In a place that other programs execute and that the grant does not name.
    Executed { place: PathBuf },
    /// In this directory, written with its access as in a policy file.
    In {
        dir: String,
        /// True if the directory has the access that is asked about.
        is_enough: bool,
        /// The place that other programs execute, if the build may write to it nevertheless.
        executed: Option<PathBuf>,
    },
}

/// Returns the place of a path in the grant.
fn may_reach(
    path: &Path,
    access: Access,
    (tool, decision): (&Tool, &Decision),
    host: &Host,
) -> Result<Place, CliError> {
    let (workspace, backend) = (host.authority().workspace(), tool.build.backend());
    // Resolve the path as a tool would.
    let path = workspace.join(path);
    let resolved = paths::canonical(&path).ok_or_else(|| {
        CliError::usage(anyhow::Error::msg(format!("`{}` cannot be resolved", path.display())))
    })?;
    let grant = &decision.grant;
    if grant.reserved.is_secret(&resolved) {
        return Ok(Place::Secret);
    }
    // A link with a hidden name is hidden too.
    let parent = path.parent().and_then(paths::canonical);
    let named = parent.and_then(|parent| Some(parent.join(path.file_name()?)));
    if grant.hides(&resolved) || named.is_some_and(|named| grant.hides(&named)) {
        return Ok(Place::Hidden);
    }
    // A directory that the user allowed may lie in another with less access.
    let around = grant.dirs.iter().filter(|dir| resolved.starts_with(&dir.path));
    let Some(dir) = around.max_by_key(|dir| dir.access) else {
        let home = host.registry().paths().home.as_deref().and_then(paths::canonical);
        // A link there may lead out of the base view, and the sandbox shows its target.
        let mut of_network = BASE_VIEW.iter().filter(|place| place.of_network);
        let program = paths::canonical(&tool.build.path);
        let is_beside =
            |program: &Path| program.parent().is_some_and(|dir| resolved.starts_with(dir));
        return Ok(match access {
            Access::ReadWrite => Place::Outside,
            _ if is_seen_without_grant(&resolved, workspace, home.as_deref()) => Place::Base,
            _ if of_network.any(|it| it.has(&resolved) || path == Path::new(it.path)) => {
                Place::Network
            }
            _ if backend == Backend::Native && program.is_some_and(|it| is_beside(&it)) => {
                Place::Installation
            }
            Access::ReadOnly => Place::Outside,
        });
    };
    let executed = match access {
        Access::ReadWrite => grant.reserved.executed_place(&resolved),
        Access::ReadOnly => None,
    };
    let is_kept = match backend {
        _ if access == Access::ReadOnly || decision.is_unconfined(backend) => false,
        Backend::Wasm => executed.is_some(),
        // The sandbox protects fewer places, and the targets of their links.
        Backend::Native | Backend::Mcp => {
            native::keeps_place(grant, &resolved, backend == Backend::Native)
                .map_err(|reason| CliError::failed(anyhow::Error::msg(reason)))?
        }
    };
    if is_kept {
        return Ok(Place::Executed { place: executed.unwrap_or(resolved) });
    }
    let shown = format!("{}:{}", dir.access.as_str(), dir.path.display());
    Ok(Place::In { dir: shown, is_enough: dir.access >= access, executed })
}

/// Returns true if the peer is a host name and not an address.
fn is_name(peer: &str) -> bool {
    Net::parse([peer]).is_ok_and(|net| {
        net.peers.first().is_some_and(|peer| !matches!(peer.host, PeerHost::Range(_)))
    })
}

fn may_connect(text: &str, backend: Backend, decision: &Decision) -> Result<bool, CliError> {
    let net = &decision.grant.net;
    if backend == Backend::Native && net.any {
        return Ok(true);
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
        PeerHost::OneLabel(_) => return Err(wrong(format!("`{text}` names many hosts"))),
        PeerHost::Range(range) => net.allows_address((range.addr(), port).into()),
    })
}
