//! An MCP client that writes and reads lines, and does not use the protocol's library.

pub mod http;
pub mod peer;
pub mod suite;

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{ChildStdin, Command};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::host::{Ran, Running};
use crate::wait::TIMEOUT;

/// The newest revision of the protocol, in which each request names it.
pub const MODERN: &str = "2026-07-28";

/// The revisions that open with a handshake.
pub const LEGACY: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// A client, and the server that it started.
pub struct Client {
    running: Running,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    /// Messages that came before the message that was waited for.
    early: VecDeque<Value>,
    revision: &'static str,
    capabilities: Value,
    next_id: u64,
}

impl Client {
    /// Starts a server, and sends nothing yet.
    pub fn start(command: &mut Command) -> Self {
        let mut running = Running::start(command);
        let (stdin, stdout) = running.take_pipes();
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                let Ok(line) = line else { return };
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let early = VecDeque::new();
        let (revision, capabilities) = (MODERN, json!({}));
        Self { running, stdin: Some(stdin), lines, early, revision, capabilities, next_id: 0 }
    }

    /// Returns this client with the capability to ask its user.
    #[must_use]
    pub fn asking(mut self) -> Self {
        self.capabilities = json!({ "elicitation": {} });
        self
    }

    /// Starts a server and shakes hands in an older revision. Returns its answer as well.
    pub fn legacy(command: &mut Command, revision: &'static str) -> (Self, Value) {
        Self::start(command).shake_hands(revision)
    }

    /// Starts a server and shakes hands in an older revision, with the capability to ask.
    pub fn legacy_asking(command: &mut Command, revision: &'static str) -> Self {
        Self::start(command).asking().shake_hands(revision).0
    }

    fn shake_hands(self, revision: &'static str) -> (Self, Value) {
        let mut client = Self { revision, ..self };
        let params = json!({
            "protocolVersion": revision,
            "capabilities": client.capabilities,
            "clientInfo": { "name": "test", "version": "1" },
        });
        let answer = client.request("initialize", params);
        client.notify("notifications/initialized", json!({}));
        (client, answer)
    }

    /// Returns the running server.
    pub fn running(&mut self) -> &mut Running {
        &mut self.running
    }

    /// Sends a line unchanged.
    pub fn send_line(&mut self, line: impl AsRef<[u8]>) {
        let stdin = self.stdin.as_mut().expect("stdin is open");
        stdin
            .write_all(line.as_ref())
            .and_then(|()| stdin.write_all(b"\n"))
            .expect("the server reads");
    }

    /// Sends a message.
    pub fn send(&mut self, message: &Value) {
        self.send_line(message.to_string());
    }

    /// Sends a notification.
    pub fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    /// Sends a request, and returns its id.
    pub fn ask(&mut self, method: &str, mut params: Value) -> u64 {
        self.next_id += 1;
        if self.revision == MODERN {
            let meta = &mut params["_meta"];
            meta["io.modelcontextprotocol/protocolVersion"] = MODERN.into();
            meta["io.modelcontextprotocol/clientInfo"] = json!({ "name": "test", "version": "1" });
            meta["io.modelcontextprotocol/clientCapabilities"] = self.capabilities.clone();
        }
        let id = self.next_id;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// Returns the id of the last request.
    #[must_use]
    pub fn last_id(&self) -> u64 {
        self.next_id
    }

    /// Asks for a call of a tool, and returns the id of the request.
    pub fn ask_call(&mut self, tool: &str, arguments: &Value) -> u64 {
        self.ask("tools/call", json!({ "name": tool, "arguments": arguments }))
    }

    /// Sends a request and returns its answer, with its `result` or its `error`.
    pub fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params);
        self.answer(id)
    }

    /// Sends a request and returns its result.
    #[track_caller]
    pub fn result(&mut self, method: &str, params: Value) -> Value {
        let mut answer = self.request(method, params);
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].take()
    }

    /// Calls a tool and returns the result of the call.
    #[track_caller]
    pub fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        self.result("tools/call", json!({ "name": tool, "arguments": arguments }))
    }

    /// Returns the answer to a request; messages that come before it are kept.
    #[track_caller]
    pub fn answer(&mut self, id: u64) -> Value {
        self.wait_for(|message| message.get("method").is_none() && message["id"] == id)
    }

    /// Returns the next notification of this method; messages that come before it are kept.
    #[track_caller]
    pub fn notification(&mut self, method: &str) -> Value {
        self.wait_for(|message| message["method"] == method && message.get("id").is_none())
    }

    /// Returns the next message that was not returned before.
    #[track_caller]
    pub fn any(&mut self) -> Value {
        self.wait_for(|_| true)
    }

    /// Returns the first message for which `is_it` returns true, and keeps messages that come
    /// before it.
    #[track_caller]
    pub fn wait_for(&mut self, is_it: impl Fn(&Value) -> bool) -> Value {
        if let Some(index) = self.early.iter().position(&is_it) {
            return self.early.remove(index).expect("found");
        }
        loop {
            let line = self.line();
            let message: Value = serde_json::from_str(&line).unwrap_or_else(|error| {
                panic!("stdout has a line that is no JSON ({error}): {line}")
            });
            if is_it(&message) {
                return message;
            }
            self.early.push_back(message);
        }
    }

    /// Returns the next line unchanged. Fails if messages were kept.
    #[track_caller]
    pub fn any_line(&mut self) -> String {
        assert!(self.early.is_empty(), "messages were kept: {:?}", self.early);
        self.line()
    }

    #[track_caller]
    fn line(&self) -> String {
        match self.lines.recv_timeout(TIMEOUT) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => panic!("no such message came: {:?}", self.early),
            Err(RecvTimeoutError::Disconnected) => {
                panic!("the server closed its stdout: {:?}", self.early)
            }
        }
    }

    /// Closes the server's stdin.
    pub fn close(&mut self) {
        self.stdin = None;
    }

    /// Sends the server a signal.
    pub fn signal(&self, signal: Signal) {
        self.running.signal(signal);
    }

    /// Waits for the end of the server, and returns the messages that were not returned before.
    #[track_caller]
    pub fn wait(mut self) -> (Ran, Vec<Value>) {
        self.stdin = None;
        let mut left: Vec<Value> = self.early.into();
        for line in self.lines {
            left.push(serde_json::from_str(&line).expect("JSON"));
        }
        (self.running.wait(), left)
    }
}
