//! `ikigai mcp list`: the servers that have a definition, one line each.

use std::process::ExitCode;

use clap::Args;
use ikigai_host::exec::mcp::ServerTarget;
use ikigai_host::host::Host;
use ikigai_host::registry::{ApprovalState, KnownServer, ListedTool, ScanDepth, ServerState};
use serde_json::{Value, json};

use super::approve::{is_unconfined, offered};
use super::session;
use crate::commands::tool::list::{plain_table, print_warnings};
use crate::error::CliError;
use crate::mcp::description;
use crate::options::SharedOptions;
use crate::output::{eprint, print, print_json};

#[derive(Debug, Args)]
pub(in crate::commands) struct Arguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(
    options: &SharedOptions,
    arguments: Arguments,
) -> Result<ExitCode, CliError> {
    let host = options.host()?;
    let snapshot = host.registry().scan(ScanDepth::Remembered).await;
    print_warnings(&snapshot);
    if arguments.json {
        let servers: Vec<Value> =
            snapshot.servers().iter().map(|server| as_json(&host, server)).collect();
        print_json(&json!({ "servers": servers }))?;
        return Ok(ExitCode::SUCCESS);
    }
    if snapshot.servers().is_empty() {
        eprint("no MCP servers are defined\nhint: `ikigai mcp add --help` shows how to add one\n");
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = plain_table();
    table.set_header(["NAME", "STATE", "SERVER"]);
    for server in snapshot.servers() {
        let rights = if is_unconfined(&host, server) { "; unconfined" } else { "" };
        let state = state(&host, server) + rights;
        table.add_row([server.name.clone(), state, target(server)]);
    }
    print(&format!("{table}\n"))?;
    let waits = |server: &&KnownServer| server.withheld().next().is_some();
    for server in snapshot.servers().iter().filter(waits) {
        let name = &server.name;
        eprint(&format!(
            "`ikigai mcp show {name}` shows what is withheld; `ikigai mcp approve {name}` asks \
             about it at a terminal\n"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the servers and their tools, as last listed, for a conversation. Starts no server.
pub(in crate::commands) fn in_conversation(host: &Host) -> String {
    let snapshot = host.registry().snapshot();
    let servers: Vec<String> =
        snapshot.servers().iter().map(|server| described(host, server)).collect();
    match servers.is_empty() {
        true => {
            "No MCP servers are defined. `ikigai mcp add --help` shows how to add one.".to_owned()
        }
        false => servers.join("\n"),
    }
}

/// Returns a server, and a line for each tool that its definition chooses.
fn described(host: &Host, server: &KnownServer) -> String {
    let mut text = format!("{}: {}\n  {}\n", server.name, state(host, server), target(server));
    if let ServerState::Listed { tools, .. } = &server.state {
        for tool in tools.iter().filter(|tool| tool.standing != ApprovalState::NotChosen) {
            text.push_str(&format!("  {}", description::in_short(tool)));
        }
    }
    if server.withheld().next().is_some() {
        let name = &server.name;
        text.push_str(&format!("  `ikigai mcp approve {name}` offers those that are withheld\n"));
    }
    text
}

/// Returns the state of a server in a few words, with the state of its login.
fn state(host: &Host, server: &KnownServer) -> String {
    let login =
        session::login_state(host, server).map(|state| format!("; {}", session::text(&state)));
    let state = match &server.state {
        ServerState::NotAsked => "not asked yet".to_owned(),
        ServerState::Unusable(reason) => format!("not used: {reason}"),
        ServerState::Listed { tools, .. } => match server.withheld().count() {
            0 => format!("{} tools", offered(tools)),
            withheld => format!("{} tools, {withheld} withheld", offered(tools)),
        },
    };
    state + &login.unwrap_or_default()
}

/// Returns the command or the address of a server.
pub(super) fn target(server: &KnownServer) -> String {
    match server.definition.as_ref().map(|definition| &definition.server.target) {
        None => server.path.display().to_string(),
        Some(ServerTarget::Remote { url, .. }) => url.clone(),
        Some(ServerTarget::Process { program, args }) => {
            let args = args.iter().map(|arg| arg.to_string_lossy().into_owned());
            let words = std::iter::once(program.display().to_string()).chain(args);
            words.collect::<Vec<_>>().join(" ")
        }
    }
}

/// Returns a server as JSON, with its tools.
pub(super) fn as_json(host: &Host, server: &KnownServer) -> Value {
    let mut value = json!({
        "name": server.name,
        "path": server.path.to_string_lossy(),
        "server": target(server),
        "unconfined": is_unconfined(host, server),
    });
    if let Some(state) = session::login_state(host, server) {
        value["login"] = session::as_json(&state);
    }
    match &server.state {
        ServerState::NotAsked => value["state"] = "not_asked".into(),
        ServerState::Unusable(reason) => {
            value["state"] = "unusable".into();
            value["reason"] = reason.as_str().into();
        }
        ServerState::Listed { tools, skipped } => {
            value["state"] = "listed".into();
            value["tools"] = tools.iter().map(tool_as_json).collect();
            let skipped = skipped.iter().map(|(name, why)| json!({ "name": name, "reason": why }));
            value["skipped"] = skipped.collect();
        }
    }
    value
}

fn tool_as_json(tool: &ListedTool) -> Value {
    let standing = match &tool.standing {
        ApprovalState::Approved => "approved",
        ApprovalState::New => "new",
        ApprovalState::Changed => "changed",
        ApprovalState::NotChosen => "not_chosen",
        ApprovalState::Forbidden(_) => "forbidden",
    };
    json!({
        "name": tool.description.name,
        "offered_as": tool.name,
        "standing": standing,
        "digest": tool.digest,
        "description": tool.description,
    })
}
