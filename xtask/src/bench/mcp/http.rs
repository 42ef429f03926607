//! The figure of our server over HTTP, with one connection that is kept.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, Stdio};
use std::time::Instant;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use super::super::Layout;
use super::super::samples::Samples;
use super::{SMALL_FILE, ours};

/// The revision in which a request stands alone.
const REVISION: &str = "2026-07-28";

/// Measures one call after another over one connection. The first round is not kept.
pub(super) fn each(layout: &Layout, rounds: usize, calls: u64) -> anyhow::Result<Samples> {
    let server = Server::start(layout)?;
    let mut stream = BufReader::new(TcpStream::connect(&server.address)?);
    stream.get_ref().set_nodelay(true)?;
    let mut samples = Vec::new();
    for round in 0..=rounds {
        let started = Instant::now();
        for _ in 0..calls {
            call(&mut stream)?;
        }
        let micros = started.elapsed().as_secs_f64() * 1e6 / calls as f64;
        if round > 0 {
            samples.push(micros);
        }
    }
    Ok([("ikigai".to_owned(), samples)].into())
}

/// A running server.
struct Server {
    child: Child,
    address: String,
    /// Held, so that the server can write its log.
    _stderr: BufReader<ChildStderr>,
}

impl Server {
    /// Starts a server that asks for no token, and waits until it listens.
    fn start(layout: &Layout) -> anyhow::Result<Self> {
        let mut command = ours(layout);
        command.args(["--http", "127.0.0.1:0", "--no-auth"]).stderr(Stdio::piped());
        let mut child = command.spawn().context("cannot start the server over HTTP")?;
        let mut stderr = BufReader::new(child.stderr.take().context("no stderr")?);
        let mut line = String::new();
        stderr.read_line(&mut line)?;
        let address = line.trim().strip_prefix("listening at http://");
        let address = address.and_then(|it| it.strip_suffix("/mcp"));
        let address = address.with_context(|| format!("it says `{line}`"))?.to_owned();
        Ok(Self { child, address, _stderr: stderr })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has been measured; its end does not matter.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Makes a call, and reads its answer to the end.
fn call(stream: &mut BufReader<TcpStream>) -> anyhow::Result<()> {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": REVISION,
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let arguments = json!({ "file_path": SMALL_FILE });
    let params = json!({ "name": "file_read", "arguments": arguments, "_meta": meta });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let body = body.to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\naccept: application/json, text/event-stream\r\n\
         content-type: application/json\r\ncontent-length: {}\r\nmcp-protocol-version: {REVISION}\r\n\
         mcp-method: tools/call\r\nmcp-name: file_read\r\n\r\n",
        body.len()
    );
    stream.get_mut().write_all((head + &body).as_bytes())?;
    let (mut line, mut length) = (String::new(), None);
    stream.read_line(&mut line)?;
    ensure!(line.starts_with("HTTP/1.1 200 "), "{line}");
    while line != "\r\n" {
        line.clear();
        ensure!(stream.read_line(&mut line)? > 0, "the server has closed the connection");
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = Some(value.trim().parse()?);
        }
    }
    let mut answer = vec![0; length.context("an answer of unknown length")?];
    stream.read_exact(&mut answer)?;
    let answer: Value = serde_json::from_slice(&answer)?;
    ensure!(answer["result"]["content"].is_array(), "{answer}");
    Ok(())
}
