//! The figures of our server over HTTP, with one connection that stays open: in the newest
//! revision, and in a session of the previous revision.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, Stdio};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use super::super::BenchLayout;
use super::super::samples::{Samples, TimedSubject, in_turn};
use super::{SMALL_FILE, ours};

/// The revision without sessions.
const REVISION: &str = "2026-07-28";

/// The newest revision that has sessions.
const WITH_SESSIONS: &str = "2025-11-25";

/// Measures one call after another over one connection of each revision, in turn.
pub(super) fn each(layout: &BenchLayout, rounds: usize, calls: u64) -> anyhow::Result<Samples> {
    let server = HttpServerProcess::start(layout)?;
    let mut alone = BenchClient::connect(&server.address)?;
    let mut session = BenchClient::connect(&server.address)?;
    session.begin()?;
    let mut call_alone = || (0..calls).try_for_each(|_| alone.call());
    let mut call_in_session = || (0..calls).try_for_each(|_| session.call());
    let subjects: &mut [TimedSubject<'_>] =
        &mut [("ikigai", &mut call_alone), ("session", &mut call_in_session)];
    let mut samples = in_turn(rounds, subjects)?;
    samples.values_mut().flatten().for_each(|micros| *micros /= calls as f64);
    Ok(samples)
}

/// A running server.
struct HttpServerProcess {
    child: Child,
    address: String,
    /// Kept open, so that the server can write its log.
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
        // The server has been measured, so its end does not matter.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client with one connection.
struct BenchClient {
    stream: BufReader<TcpStream>,
    /// The headers that only this client's requests have.
    headers: String,
    has_session: bool,
    id: u64,
}

/// An answer.
struct HttpReply {
    status: String,
    session: Option<String>,
    body: Vec<u8>,
}

impl BenchClient {
    fn connect(address: &str) -> anyhow::Result<Self> {
        let stream = BufReader::new(TcpStream::connect(address)?);
        stream.get_ref().set_nodelay(true)?;
        let headers = format!(
            "mcp-protocol-version: {REVISION}\r\nmcp-method: tools/call\r\nmcp-name: file_read\r\n"
        );
        Ok(Self { stream, headers, has_session: false, id: 0 })
    }

    /// Begins a session, to which the following calls belong.
    fn begin(&mut self) -> anyhow::Result<()> {
        let params = json!({
            "protocolVersion": WITH_SESSIONS, "capabilities": {},
            "clientInfo": { "name": "bench", "version": "1" },
        });
        self.headers.clear();
        let asked = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        let session = self.exchange(&asked)?.session.context("no session")?;
        self.headers =
            format!("mcp-session-id: {session}\r\nmcp-protocol-version: {WITH_SESSIONS}\r\n");
        self.has_session = true;
        let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        let status = self.exchange(&ready)?.status;
        ensure!(status.contains(" 202 "), "{status}");
        Ok(())
    }

    /// Makes a call, and reads its answer to the end.
    fn call(&mut self) -> anyhow::Result<()> {
        self.id += 1;
        let mut params = json!({ "name": "file_read", "arguments": { "file_path": SMALL_FILE } });
        if !self.has_session {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": REVISION,
                "io.modelcontextprotocol/clientCapabilities": {},
            });
        }
        let asked = json!({
            "jsonrpc": "2.0", "id": self.id, "method": "tools/call", "params": params,
        });
        let HttpReply { status, body, .. } = self.exchange(&asked)?;
        ensure!(status.contains(" 200 "), "{status}");
        let text = String::from_utf8(body)?;
        // An event has the answer on a separate line.
        let data = text.lines().rev().find_map(|line| line.strip_prefix("data: "));
        let answer: Value = serde_json::from_str(data.unwrap_or(&text))?;
        ensure!(answer["result"]["content"].is_array(), "{answer}");
        Ok(())
    }

    fn exchange(&mut self, message: &Value) -> anyhow::Result<HttpReply> {
        let (body, headers) = (message.to_string(), &self.headers);
        let head = format!(
            "POST /mcp HTTP/1.1\r\nhost: localhost\r\n\
             accept: application/json, text/event-stream\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n{headers}\r\n",
            body.len()
        );
        self.stream.get_mut().write_all((head + &body).as_bytes())?;
        let status = self.line()?;
        let (mut length, mut is_chunked, mut session) = (0, false, None);
        loop {
            let line = self.line()?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(": ").context("a header is malformed")?;
            match name {
                "content-length" => length = value.parse()?,
                "transfer-encoding" => is_chunked = value == "chunked",
                "mcp-session-id" => session = Some(value.to_owned()),
                _ => {}
            }
        }
        let body = if is_chunked { self.chunks()? } else { self.bytes(length)? };
        Ok(HttpReply { status, session, body })
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
