//! `ikigai policy suggest`: from the audit log, proposes grants for refused accesses, or narrower
//! grants without unused ones. Writes nothing.

mod gather;
mod servers;
mod text;
mod unused;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use jiff::Timestamp;
use serde_json::{Value, json};

use self::gather::{Gathered, gather};
use self::servers::{ServerRefusals, untold};
use super::grant::contents_key;
use super::least::look::ToolSurroundings;
use super::least::proposal::{CurrentGrant, ObservedAccess, Proposed};
use crate::commands::audit::filter::parse_time;
use crate::commands::audit::{refused, warn_damaged};
use crate::commands::tool::list::print_warnings;
use crate::commands::tool::named::named_tool;
use crate::complete;
use crate::error::CliError;
use crate::options::SharedOptions;
use crate::output::{eprint, print, print_json};
use ikigai_host::audit::LogReader;
use ikigai_host::host::{CallTarget, Host, request};
use ikigai_host::policy::{Backend, EntryLists, Net, NewKey, WrittenPath};
use ikigai_host::registry::{ScanDepth, Snapshot, Tool};
use ikigai_host::toolchain::{self, ToolchainInstallation, ToolchainOffer};
use ikigai_protocol::written_out;

pub(super) const EXAMPLES: &str = "Examples:\n  \
    ikigai policy suggest\n  \
    ikigai policy suggest customer_db --since 7days\n  \
    ikigai policy suggest customer_db --unused 30days\n\n\
    --unused proposes a narrower grant instead, without the directories and hosts that no recorded \
    call used. It keeps all variables, because ikigai cannot see which of them a tool reads.";

/// The most other workspaces that are listed.
const MOST_ELSEWHERE: usize = 8;

#[derive(Debug, Args)]
pub(in crate::commands) struct Arguments {
    /// The tool or MCP server [default: all]
    #[arg(add = complete::tools())]
    tool: Option<String>,
    /// The same as TOOL; `ikigai audit` has the same option
    #[arg(long = "tool", value_name = "TOOL", conflicts_with = "tool", add = complete::tools())]
    tool_flag: Option<String>,
    /// Only calls from this time on: 2026-01-31, or 7days for a week ago
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    since: Option<Timestamp>,
    /// Propose to remove the access that no call has used since this time
    #[arg(long, value_name = "TIME", value_parser = parse_time, conflicts_with = "since")]
    unused: Option<Timestamp>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(
    options: &SharedOptions,
    mut arguments: Arguments,
) -> Result<ExitCode, CliError> {
    arguments.tool = arguments.tool.or(arguments.tool_flag.take());
    let dir = options.paths().state.ok_or_else(|| {
        let text = "no directory is known for the audit log";
        CliError::usage(anyhow::Error::msg(text)).hint("set HOME or XDG_STATE_HOME")
    })?;
    let host = options.host()?;
    let snapshot = match &arguments.tool {
        Some(name) => host.look_up(name).await,
        None => host.registry().scan(ScanDepth::Failed).await,
    };
    print_warnings(&snapshot);
    let server = arguments.tool.as_deref().and_then(|name| meant(&snapshot, name));
    if let Some(server) = server.filter(|_| arguments.unused.is_some()) {
        let text = format!("`--unused` narrows the grants of tools, and `{server}` is a server");
        return Err(CliError::usage(anyhow::Error::msg(text)));
    }
    let tools: Vec<&Tool> = match &arguments.tool {
        Some(_) if server.is_some() => Vec::new(),
        Some(name) => vec![named_tool(&snapshot, name).map_err(CliError::into_usage)?],
        None => snapshot.tools().filter(|it| it.build.backend() != Backend::Mcp).collect(),
    };
    let mut servers = match (&arguments.tool, arguments.unused) {
        (Some(_), _) if server.is_none() => Vec::new(),
        (_, Some(_)) => Vec::new(),
        _ => ServerRefusals::from_snapshot(&snapshot, server),
    };
    let since = arguments.unused.or(arguments.since);
    let workspace = host.authority().workspace();
    let (gathered, damaged) = read(&dir, workspace, (&tools, &mut servers), since)?;
    servers.retain(|server| !server.is_empty());
    warn_damaged(damaged);
    let mut page = Vec::new();
    let mut told = String::new();
    for (tool, gathered) in tools.iter().copied().zip(&gathered) {
        let one = match arguments.unused {
            Some(_) => unused::suggest(&host, tool, gathered),
            None => of_refusals(&host, tool, gathered),
        };
        let Some(suggestion) = one else { continue };
        let difference = difference(&host, tool, &suggestion)?;
        if arguments.json {
            page.push(suggestion.as_json(tool, gathered, &difference));
        } else {
            told.push_str(&text::render(tool, gathered, &suggestion, &difference));
        }
    }
    servers.iter().for_each(|server| told.push_str(&server.text(&host)));
    if arguments.json {
        let value = json!({
            "since": since.map(|time| time.to_string()),
            "unused": arguments.unused.is_some(),
            "damaged_lines": damaged,
            "tools": page,
            "servers": servers.iter().map(|server| server.as_json(&host)).collect::<Vec<_>>(),
        });
        print_json(&value)?;
    } else if told.is_empty() {
        let what = if arguments.unused.is_some() { "no use" } else { "no refusal" };
        let of = arguments.tool.map(|name| format!(" of `{name}`")).unwrap_or_default();
        eprint(&format!("{what}{of} is recorded in `{}`\n", dir.display()));
        if let ([tool], None) = (&tools[..], arguments.unused)
            && is_native(tool)
        {
            eprint(
                "ikigai sees the files that a native tool was refused only in calls at a \
                 terminal\n",
            );
        }
        let named = snapshot.servers().iter().find(|known| Some(known.name.as_str()) == server);
        if let Some(text) = named.and_then(|known| untold(&host, known)) {
            eprint(&text);
        }
    } else {
        print(&told)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns whether a build of the tool is an executable.
fn is_native(tool: &Tool) -> bool {
    let mut builds = std::iter::once(&tool.build).chain(&tool.other);
    builds.any(|build| build.backend() == Backend::Native)
}

/// Returns the error for a tool of a server, whose grant is that of the server.
pub(super) fn of_a_server(name: &str) -> CliError {
    let text = format!("`{name}` is a tool of an MCP server, and only the server has a grant");
    CliError::usage(anyhow::Error::msg(text))
        .hint("`ikigai mcp approve` grants what a server may touch")
}

/// Returns the server with this name, or the server whose tool has this name.
fn meant<'a>(snapshot: &'a Snapshot, name: &str) -> Option<&'a str> {
    if let Some(tool) = snapshot.get(name) {
        return tool.build.of_a_server().map(|(server, _)| server.name.as_str());
    }
    snapshot.servers().iter().map(|server| server.name.as_str()).find(|server| *server == name)
}

/// Reads the log, and returns the records of each tool, with the number of damaged lines. Adds the
/// records of server calls to each server.
fn read(
    dir: &Path,
    workspace: &Path,
    (tools, servers): (&[&Tool], &mut [ServerRefusals<'_>]),
    since: Option<Timestamp>,
) -> Result<(Vec<Gathered>, u64), CliError> {
    let mut reader = LogReader::open(dir).map_err(|error| refused(error, dir))?;
    let mut gathered: Vec<Gathered> = tools.iter().map(|_| Gathered::default()).collect();
    let mut damaged = 0;
    while let Some(batch) = reader.read_back() {
        let batch = batch.map_err(|error| refused(error, dir))?;
        damaged += batch.damaged;
        for line in &batch.lines {
            let is_in_time = since.is_none_or(|since| line.record.time >= since);
            let at = tools.iter().position(|tool| tool.name() == line.record.tool);
            if let Some(at) = at.filter(|_| is_in_time) {
                gather(&mut gathered[at], tools[at], workspace, &line.record);
            }
            if is_in_time {
                servers.iter_mut().for_each(|server| server.add(&line.record));
            }
        }
    }
    damaged += u64::from(reader.is_torn());
    Ok((gathered, damaged))
}

/// A proposal for one tool.
struct Suggestion {
    /// The change, without what the toolchains have.
    proposed: Proposed,
    toolchains: Option<FittingToolchains>,
    /// True if an entry is needed so that the tool may be called at all.
    to_run: bool,
    /// Sentences about the basis of the proposal.
    notes: Vec<String>,
}

/// The toolchains in which something lies that a tool was refused.
struct FittingToolchains {
    found: Vec<ToolchainInstallation>,
    /// The lists of the entry with them and with the rest.
    lists: EntryLists,
}

impl Suggestion {
    fn changes(&self) -> bool {
        self.to_run || !self.proposed.is_empty() || self.toolchains.is_some()
    }

    /// Returns the names of the toolchains.
    fn toolchains(&self) -> impl Iterator<Item = &'static str> {
        let found = self.toolchains.iter().flat_map(|it| &it.found);
        found.map(|found| found.toolchain.name)
    }

    /// Returns the command that makes the change, on one line; nothing where no flag can.
    fn command(&self, tool: &str) -> Option<String> {
        let flags: String = self.toolchains().map(|name| format!(" --toolchain {name}")).collect();
        Some(self.proposed.command(tool)? + &flags)
    }

    /// Returns the keys for the user's file.
    fn keys(&self, host: &Host, tool: &Tool) -> Vec<NewKey> {
        let Some(FittingToolchains { lists, .. }) = &self.toolchains else {
            return self.proposed.keys(host, tool);
        };
        let contents = [tool.build.digest];
        let request = request(CallTarget::from(tool), &contents);
        let unchanged = EntryLists::unchanged(host.authority(), &request);
        contents_key(host, tool).into_iter().chain(lists.keys(&unchanged)).collect()
    }

    fn proposal_as_json(&self, tool: &str) -> Value {
        let mut value = self.proposed.as_json(tool);
        value["toolchains"] = self.toolchains().collect();
        value["command"] = json!(self.command(tool));
        value
    }

    fn as_json(&self, tool: &Tool, gathered: &Gathered, difference: &[String]) -> Value {
        json!({
            "tool": tool.name(),
            "digest": tool.build.digest.to_string(),
            "backend": tool.build.backend().as_str(),
            "calls": gathered.calls,
            "calls_of_other_contents": gathered.of_other_contents,
            "refused": gathered.refused_as_json(),
            "proposal": self.changes().then(|| self.proposal_as_json(tool.name())),
            "left_out": self.proposed.left_as_json(),
            "difference": difference,
            "notes": self.notes,
        })
    }
}

/// Returns the proposal for the refused accesses of a tool; `None` without refusals.
fn of_refusals(host: &Host, tool: &Tool, gathered: &Gathered) -> Option<Suggestion> {
    if gathered.refused.is_empty() {
        return None;
    }
    let decided = host.decide(tool.into());
    if let Some(denial) = decided.as_ref().err().filter(|denial| denial.is_by_deny) {
        // A policy file says that the tool must not run, so no proposal may undo it.
        let (proposed, notes) = (Proposed::default(), vec![denial.to_string()]);
        return Some(Suggestion { proposed, toolchains: None, to_run: false, notes });
    }
    let standing = CurrentGrant::for_tool(host, tool);
    let around = ToolSurroundings::for_build(host, &tool.build);
    let propose = |reach: &ObservedAccess| Proposed::new(reach, &standing, &around);
    let (proposed, toolchains) = match with_toolchains(host, tool, &gathered.reach, &propose) {
        Some((rest, toolchains)) => (rest, Some(toolchains)),
        None => (propose(&gathered.reach), None),
    };
    let to_run = gathered.reach.run && decided.is_err();
    let notes = gathered.elsewhere.iter().take(MOST_ELSEWHERE);
    let notes = notes.map(|workspace| {
        format!(
            "what lies in the workspace `{}` is proposed only there, with `--workspace`",
            written_out(workspace)
        )
    });
    Some(Suggestion { proposed, toolchains, to_run, notes: notes.collect() })
}

/// Returns the toolchains in which something lies that was reached, as the question after a failed
/// run offers them, and the proposal for the rest. Nothing if none fits, or if the rest contradicts
/// them.
fn with_toolchains(
    host: &Host,
    tool: &Tool,
    reach: &ObservedAccess,
    propose: &dyn Fn(&ObservedAccess) -> Proposed,
) -> Option<(Proposed, FittingToolchains)> {
    if tool.build.backend() != Backend::Native {
        return None;
    }
    let authority = host.authority();
    let contents = [tool.build.digest];
    let request = request(CallTarget::from(tool), &contents);
    let paths: Vec<PathBuf> = reach.paths.iter().map(|(_, path)| path.clone()).collect();
    let ToolchainOffer { found, .. } =
        ToolchainOffer::find(&paths, &BTreeSet::new(), authority, &request)?;
    let mut rest = reach.clone();
    rest.paths.retain(|(access, path)| !found.iter().any(|it| it.grants(*access, path)));
    let proposed = propose(&rest);
    let mut lists = EntryLists::in_force(authority, &request);
    toolchain::add(&found, &mut lists, authority.workspace()).ok()?;
    for entry in proposed.fs.iter().flatten() {
        let (access, written, path) = (entry.access, entry.written.clone(), entry.path.clone());
        lists.add_dir(WrittenPath { access, written, path }).ok()?;
    }
    lists.add_net(&Net::parse(proposed.net.iter().flatten().map(String::as_str)).ok()?);
    lists.assets = lists.assets.max(proposed.assets.unwrap_or_default());
    Some((proposed, FittingToolchains { found, lists }))
}

/// Returns the lines of the user's file that the proposal would change.
fn difference(host: &Host, tool: &Tool, suggestion: &Suggestion) -> Result<Vec<String>, CliError> {
    if !suggestion.changes() {
        return Ok(Vec::new());
    }
    let keys = suggestion.keys(host, tool);
    Ok(host.authority().propose_grant(tool.name(), &keys)?.difference())
}
