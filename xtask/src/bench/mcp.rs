//! The figures of MCP servers. Over stdin and stdout: our server, an echo by the protocol's
//! library, and plain servers in Python and for Node.js. Also our server over HTTP, with servers as
//! its tools, and with tools that must be signed.

mod http;
mod servers;
mod signed;

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use super::BenchLayout;
use super::processes::{host, peak_memory, voluntary_switches};
use super::samples::{Figures, Samples, in_turn};
use crate::place;
use crate::run::note;

/// The calls in flight of a busy client.
const IN_FLIGHT: u64 = 16;

/// Bytes of the arguments of a large call.
const LARGE: usize = 16 << 20;

/// The file that our server reads in each call. The calls within one process that it is compared
/// with read the same file.
const SMALL_FILE: &str = "d000/f0000.rs";

/// A tool that takes any arguments and runs in a separate process.
const SWALLOW: &str = r#"#!/bin/sh
[ "$1" = --schema ] &&
    exec echo '{"name":"swallow","description":"Takes anything","parameters":{"type":"object","properties":{}}}'
cat > /dev/null; echo 1
"#;

/// The plain server, whose one tool answers with its argument.
const PLAIN: &str = r#"
from mcp.server import MCPServer
server = MCPServer("plain")
@server.tool()
def echo(x: int) -> str:
    return str(x)
server.run("stdio")
"#;

/// The same for Node.js.
const PLAIN_NODE: &str = r#"
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { z } from "zod";
const server = new McpServer({ name: "plain", version: "1" });
server.registerTool("echo", { inputSchema: { x: z.number() } }, ({ x }) => ({
    content: [{ type: "text", text: String(x) }],
}));
await server.connect(new StdioServerTransport());
"#;

/// Adds the figures of the MCP servers.
pub(crate) fn measure(
    layout: &BenchLayout,
    quick: bool,
    figures: &mut Figures,
) -> anyhow::Result<()> {
    let (rounds, calls) = if quick { (5, 200) } else { (20, 1000) };
    let mut servers = vec![
        StdioServer::start(
            "ikigai",
            &mut ours(layout),
            "file_read",
            json!({ "file_path": SMALL_FILE }),
        )?,
        StdioServer::start(
            "rmcp",
            &mut Command::new(layout.at("rmcp-echo")),
            "echo",
            json!({ "x": 1 }),
        )?,
    ];
    let python = layout.mcp_python();
    if python.exists() {
        let mut plain = Command::new(python);
        plain.args(["-I", "-c", PLAIN]);
        servers.push(StdioServer::start("python", &mut plain, "echo", json!({ "x": 1 }))?);
    } else {
        note("the Python package `mcp` is not installed");
    }
    let modules = layout.mcp_node();
    if modules.join("node_modules").exists() {
        let mut plain = Command::new("node");
        // The code finds its modules from the working directory.
        plain.args(["--input-type=module", "--eval", PLAIN_NODE]).current_dir(modules);
        servers.push(StdioServer::start("node", &mut plain, "echo", json!({ "x": 1 }))?);
    } else {
        note("the npm package `@modelcontextprotocol/sdk` is not installed");
    }
    for (figure, in_flight) in [("mcp_busy", IN_FLIGHT), ("mcp_one", 1)] {
        figures.insert(figure.into(), each(&mut servers, rounds, calls, in_flight)?);
    }
    drop(servers);
    if let Some(calls) = figures.get("call_read").and_then(|samples| samples.get("host")).cloned() {
        figures.entry("mcp_one".into()).or_default().insert("host".into(), calls);
    }
    figures.insert("mcp_http".into(), http::each(layout, rounds, calls)?);
    servers::define(layout)?;
    figures.insert("mcp_server".into(), servers::through(layout, rounds, calls)?);
    figures.insert("mcp_start".into(), start(layout, rounds)?);
    figures.insert("mcp_large".into(), large(layout)?);
    if let Some(samples) = signed::each(layout, if quick { 20 } else { 100 })? {
        figures.insert("signed".into(), samples);
    }
    Ok(())
}

/// Measures one call of each server in turn, and counts the wake-ups of its threads. The first
/// round is not kept.
fn each(
    servers: &mut [StdioServer],
    rounds: usize,
    calls: u64,
    in_flight: u64,
) -> anyhow::Result<Samples> {
    let mut samples = Samples::new();
    for round in 0..=rounds {
        for server in &mut *servers {
            let pid = server.child.id();
            let before = voluntary_switches(pid)?;
            let started = Instant::now();
            server.calls(calls, in_flight)?;
            let micros = started.elapsed().as_secs_f64() * 1e6 / calls as f64;
            let switches = voluntary_switches(pid)?.saturating_sub(before) as f64 / calls as f64;
            if round > 0 {
                samples.entry(server.name.to_owned()).or_default().push(micros);
                samples.entry(format!("{} wake-ups", server.name)).or_default().push(switches);
            }
        }
    }
    Ok(samples)
}

/// Measures the time from the start of our server to its first list of tools, without servers as
/// tools and with them.
fn start(layout: &BenchLayout, rounds: usize) -> anyhow::Result<Samples> {
    in_turn(
        rounds,
        &mut [
            ("ikigai", &mut || {
                let mut server = StdioServer::start("ikigai", &mut ours(layout), "", json!({}))?;
                let listed = server.ask("tools/list", &json!({}))?;
                ensure!(listed["result"]["tools"].is_array(), "no tools: {listed}");
                Ok(())
            }),
            ("servers", &mut || servers::start(layout)),
        ],
    )
}

/// Measures the memory that a large call adds to each server, for each byte of its arguments.
fn large(layout: &BenchLayout) -> anyhow::Result<Samples> {
    let mut samples = Samples::new();
    let values = || format!(r#"[{}0]"#, "[1],".repeat(LARGE / 4));
    // The library refuses lines over 16 MiB.
    let quarter = || format!(r#"[{}0]"#, "[1],".repeat(LARGE / 16));
    let text = || format!(r#""{}""#, "x".repeat(LARGE / 4));
    let rmcp = layout.at("rmcp-echo");
    let tools = layout.at("mcp-tools");
    place::directory(&tools)?;
    let swallow = tools.join("swallow");
    fs::write(&swallow, SWALLOW)?;
    fs::set_permissions(&swallow, fs::Permissions::from_mode(0o755))?;
    let mut ours = ours(layout);
    ours.env("IKIGAI_USER_TOOLS", tools);
    let theirs = || StdioServer::start("rmcp", &mut Command::new(&rmcp), "echo", json!({}));
    for (name, server, arguments) in [
        ("ikigai", StdioServer::start("ikigai", &mut ours, "swallow", json!({}))?, values()),
        ("rmcp values", theirs()?, quarter()),
        ("rmcp text", theirs()?, text()),
    ] {
        let mut server = server;
        server.calls(10, 1)?;
        let before = peak_memory(server.child.id())?;
        server.send(&format!(
            r#"{{"jsonrpc":"2.0","id":"large","method":"tools/call","params":{{"name":"{}","arguments":{{"x":{arguments}}}}}}}"#,
            server.tool
        ))?;
        let answer = server.receive()?;
        ensure!(answer["id"] == "large", "{answer}");
        let grown = peak_memory(server.child.id())?.saturating_sub(before);
        samples.insert(name.to_owned(), vec![grown as f64 / arguments.len() as f64]);
    }
    Ok(samples)
}

/// Returns the command of our server, over the tools of the installation.
fn ours(layout: &BenchLayout) -> Command {
    let mut command = host(layout);
    command.current_dir(layout.at("small")).args(["mcp", "serve"]);
    command
}

/// A running server and the ends of its pipes.
struct StdioServer {
    name: &'static str,
    tool: &'static str,
    arguments: Value,
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    next_id: u64,
}

impl StdioServer {
    /// Starts a server, and shakes hands.
    fn start(
        name: &'static str,
        command: &mut Command,
        tool: &'static str,
        arguments: Value,
    ) -> anyhow::Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start the server `{name}`"))?;
        let stdin = child.stdin.take().context("no stdin")?;
        let stdout = BufReader::new(child.stdout.take().context("no stdout")?);
        let mut server = Self { name, tool, arguments, child, stdin, stdout, next_id: 0 };
        let client = json!({ "name": "bench", "version": "1" });
        let params =
            json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
        let answer = server.ask("initialize", &params)?;
        ensure!(answer["result"].is_object(), "`{name}`: {answer}");
        server.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)?;
        Ok(server)
    }

    fn send(&mut self, line: &str) -> anyhow::Result<()> {
        // The line is written at once, as clients do: a line in two pieces wakes the server twice.
        Ok(self.stdin.write_all(format!("{line}\n").as_bytes())?)
    }

    /// Returns the next answer, and skips notifications.
    fn receive(&mut self) -> anyhow::Result<Value> {
        loop {
            let mut line = String::new();
            ensure!(self.stdout.read_line(&mut line)? > 0, "`{}` has ended", self.name);
            let message: Value = serde_json::from_str(&line)?;
            if message.get("id").is_some() {
                return Ok(message);
            }
        }
    }

    fn ask(&mut self, method: &str, params: &Value) -> anyhow::Result<Value> {
        self.next_id += 1;
        let id = self.next_id;
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.send(&request.to_string())?;
        self.receive()
    }

    /// Makes `count` calls, with `in_flight` of them in flight.
    fn calls(&mut self, count: u64, in_flight: u64) -> anyhow::Result<()> {
        let (mut asked, mut answered) = (0, 0);
        while answered < count {
            while asked < count && asked - answered < in_flight {
                self.next_id += 1;
                asked += 1;
                let line = format!(
                    r#"{{"jsonrpc":"2.0","id":{},"method":"tools/call","params":{{"name":"{}","arguments":{}}}}}"#,
                    self.next_id, self.tool, self.arguments
                );
                self.send(&line)?;
            }
            let answer = self.receive()?;
            answered += 1;
            ensure!(answer["result"]["content"].is_array(), "`{}`: {answer}", self.name);
        }
        Ok(())
    }
}

impl Drop for StdioServer {
    fn drop(&mut self) {
        // The server has been measured, so its end does not matter.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
