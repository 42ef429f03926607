//! The figures of MCP servers: ours over stdin and stdout and over HTTP, and a plain one for Node.js.

mod http;

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use super::BenchLayout;
use super::processes::host;
use super::samples::Figures;
use super::sampling::{Samples, Subject, in_turn, micros};
use crate::run::note;

/// The calls in flight of a busy client.
const IN_FLIGHT: u32 = 16;

/// The file that our server reads in each call, as the calls within one process do that it is
/// compared with.
const SMALL_FILE: &str = "d000/f0000.rs";

/// The plain server, whose one tool answers with its argument.
const PLAIN: &str = r#"
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { z } from "zod";
const server = new McpServer({ name: "plain", version: "1" });
server.registerTool("echo", { inputSchema: { x: z.number() } }, ({ x }) => ({
    content: [{ type: "text", text: String(x) }],
}));
await server.connect(new StdioServerTransport());
"#;

/// Adds the figures of MCP servers.
pub(crate) fn measure(
    layout: &BenchLayout,
    quick: bool,
    figures: &mut Figures,
) -> anyhow::Result<()> {
    let (rounds, calls) = if quick { (5, 200) } else { (20, 1000) };
    let file = json!({ "file_path": SMALL_FILE });
    let mut servers = vec![StdioServer::start("ikigai", &mut ours(layout), "file_read", file)?];
    let modules = layout.mcp_node();
    if modules.join("node_modules").exists() {
        let mut plain = Command::new("node");
        // The code finds its modules from the working directory.
        plain.args(["--input-type=module", "--eval", PLAIN]).current_dir(modules);
        servers.push(StdioServer::start("node", &mut plain, "echo", json!({ "x": 1 }))?);
    } else {
        note("the npm package `@modelcontextprotocol/sdk` is not installed");
    }
    figures.insert("mcp_busy".into(), each(&mut servers, rounds, calls, IN_FLIGHT)?);
    let mut one = each(&mut servers[..1], rounds, calls, 1)?;
    drop(servers);
    let mut over_http = http::each(layout, rounds, calls)?;
    let of_ours = one.get("ikigai").cloned();
    over_http.extend(of_ours.map(|samples| ("stdio".to_owned(), samples)));
    figures.insert("mcp_http".into(), over_http);
    let in_process = figures.get("call_read").and_then(|samples| samples.get("host")).cloned();
    one.extend(in_process.map(|samples| ("host".to_owned(), samples)));
    figures.insert("mcp_one".into(), one);
    Ok(())
}

/// Measures one call of each server in turn.
fn each(
    servers: &mut [StdioServer],
    rounds: usize,
    calls: u32,
    in_flight: u32,
) -> anyhow::Result<Samples> {
    let mut samplers: Vec<_> = servers
        .iter_mut()
        .map(|server| (server.name, move || micros(calls, || server.calls(calls, in_flight))))
        .collect();
    let mut subjects: Vec<Subject<'_>> = Vec::new();
    for (name, sample) in &mut samplers {
        subjects.push((*name, sample));
    }
    in_turn(rounds, &mut subjects)
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
        // At once, as clients do: a line in two pieces wakes the server twice.
        Ok(self.stdin.write_all(format!("{line}\n").as_bytes())?)
    }

    /// Returns the next answer; notifications are passed over.
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

    /// Makes `count` calls, of which so many are in flight.
    fn calls(&mut self, count: u32, in_flight: u32) -> anyhow::Result<()> {
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
        // It has been measured; its end does not matter.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
