//! The figure of our server over HTTP, with one connection that is kept.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, Stdio};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use super::super::BenchLayout;
use super::super::sampling::{Samples, in_turn, micros};
use super::{SMALL_FILE, ours};

/// The revision in which a request needs no session.
const REVISION: &str = "2026-07-28";

/// Measures one call after another over one connection.
pub(super) fn each(layout: &BenchLayout, rounds: usize, calls: u32) -> anyhow::Result<Samples> {
    let server = HttpServerProcess::start(layout)?;
    let mut client = BenchClient::connect(&server.address)?;
    let mut calls_each = || (0..calls).try_for_each(|_| client.call());
    in_turn(rounds, &mut [("ikigai", &mut || micros(calls, &mut calls_each))])
}

/// A running server.
struct HttpServerProcess {
    child: Child,
    address: String,
    /// Held, so that the server can write its log.
    _stderr: BufReader<ChildStderr>,
}

impl HttpServerProcess {
    /// Starts a server that asks for no token, and waits until it listens.
    fn start(layout: &BenchLayout) -> anyhow::Result<Self> {
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

impl Drop for HttpServerProcess {
    fn drop(&mut self) {
        // It has been measured; its end does not matter.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client with one connection.
struct BenchClient {
    stream: BufReader<TcpStream>,
    id: u64,
}

impl BenchClient {
    fn connect(address: &str) -> anyhow::Result<Self> {
        let stream = BufReader::new(TcpStream::connect(address)?);
        stream.get_ref().set_nodelay(true)?;
        Ok(Self { stream, id: 0 })
    }

    /// Makes a call, and reads its answer to the end.
    fn call(&mut self) -> anyhow::Result<()> {
        self.id += 1;
        let asked = json!({
            "jsonrpc": "2.0", "id": self.id, "method": "tools/call", "params": {
                "name": "file_read",
                "arguments": { "file_path": SMALL_FILE },
                "_meta": {
                    "io.modelcontextprotocol/protocolVersion": REVISION,
                    "io.modelcontextprotocol/clientCapabilities": {},
                },
            },
        });
        let (status, body) = self.exchange(&asked)?;
        ensure!(status.contains(" 200 "), "{status}");
        let text = String::from_utf8(body)?;
        // An event has the answer on its own line.
        let data = text.lines().rev().find_map(|line| line.strip_prefix("data: "));
        let answer: Value = serde_json::from_str(data.unwrap_or(&text))?;
        ensure!(answer["result"]["content"].is_array(), "{answer}");
        Ok(())
    }

    /// Sends a message, and returns the status and the body of the answer.
    fn exchange(&mut self, message: &Value) -> anyhow::Result<(String, Vec<u8>)> {
        let body = message.to_string();
        let head = format!(
            "POST /mcp HTTP/1.1\r\nhost: localhost\r\n\
             accept: application/json, text/event-stream\r\ncontent-type: application/json\r\n\
             mcp-protocol-version: {REVISION}\r\nmcp-method: tools/call\r\n\
             mcp-name: file_read\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        self.stream.get_mut().write_all((head + &body).as_bytes())?;
        let status = self.line()?;
        let (mut length, mut is_chunked) = (0, false);
        loop {
            let line = self.line()?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(": ").context("a header is malformed")?;
            match name {
                "content-length" => length = value.parse()?,
                "transfer-encoding" => is_chunked = value == "chunked",
                _ => {}
            }
        }
        let body = if is_chunked { self.chunks()? } else { self.bytes(length)? };
        Ok((status, body))
    }

    fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        ensure!(self.stream.read_line(&mut line)? > 0, "the server has closed the connection");
        Ok(line.trim_end().to_owned())
    }

    fn bytes(&mut self, length: usize) -> anyhow::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn chunks(&mut self) -> anyhow::Result<Vec<u8>> {
        let mut all = Vec::new();
        loop {
            let length = usize::from_str_radix(&self.line()?, 16)?;
            all.extend(self.bytes(length)?);
            self.line()?;
            if length == 0 {
                return Ok(all);
            }
        }
    }
}
