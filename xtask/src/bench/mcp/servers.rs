//! The figures of servers that are tools: a call through `mcp serve`, above the same server's own
//! answer, and the start of `mcp serve` where many are defined.

use std::fs;
use std::process::{Command, Stdio};

use anyhow::ensure;
use serde_json::json;

use super::super::BenchLayout;
use super::super::sampling::Samples;
use super::{StdioServer, each, host};
use crate::place;

/// The number of servers that are defined.
const SERVERS: usize = 20;

/// Defines the servers, each an echo by the protocol's library, and approves their tools.
pub(super) fn define(layout: &BenchLayout) -> anyhow::Result<()> {
    // The servers of an earlier run are there already, and cannot be added again.
    let servers = layout.at("servers");
    if servers.exists() {
        fs::remove_dir_all(&servers)?;
    }
    for folder in ["servers", "servers/tools", "servers/config", "servers/state"] {
        place::directory(&layout.at(folder))?;
    }
    for number in 0..SERVERS {
        let mut add = with_servers(layout, &["mcp", "add", &name(number), "--yes", "--"]);
        let added = add.arg(layout.at("rmcp-echo")).stdin(Stdio::null()).output()?;
        let why = String::from_utf8_lossy(&added.stderr);
        // It also succeeds if no server waits for approval.
        let is_offered = why.contains(&format!("{}__echo", name(number)));
        ensure!(added.status.success() && is_offered, "a server cannot be added: {why}");
    }
    Ok(())
}

/// Measures one call after another: through ours, and of the server by itself.
pub(super) fn through(layout: &BenchLayout, rounds: usize, calls: u32) -> anyhow::Result<Samples> {
    let arguments = || json!({ "x": 1 });
    let mut servers = [
        StdioServer::start("ikigai", &mut serve(layout), "s00__echo", arguments())?,
        StdioServer::start(
            "server",
            &mut Command::new(layout.at("rmcp-echo")),
            "echo",
            arguments(),
        )?,
    ];
    each(&mut servers, rounds, calls, 1)
}

/// Starts `mcp serve`, and asks for its tools, among which are those of all servers.
pub(super) fn start(layout: &BenchLayout) -> anyhow::Result<()> {
    let mut server = StdioServer::start("ikigai", &mut serve(layout), "", json!({}))?;
    let listed = server.ask("tools/list", &json!({}))?;
    let tools = listed["result"]["tools"].as_array().map_or(0, Vec::len);
    ensure!(tools >= SERVERS, "tools are missing: {listed}");
    Ok(())
}

fn name(number: usize) -> String {
    format!("s{number:02}")
}

/// Returns the command of our server with these servers as tools.
fn serve(layout: &BenchLayout) -> Command {
    with_servers(layout, &["mcp", "serve"])
}

/// Returns a command of the host with these servers as tools.
fn with_servers(layout: &BenchLayout, args: &[&str]) -> Command {
    let mut command = host(layout);
    command.current_dir(layout.at("small")).args(args);
    command.env("IKIGAI_USER_TOOLS", layout.at("servers/tools"));
    command.env("XDG_CONFIG_HOME", layout.at("servers/config"));
    command.env("XDG_STATE_HOME", layout.at("servers/state"));
    command
}
