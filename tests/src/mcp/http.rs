//! An MCP client over HTTP that writes and reads bytes, and does not use the protocol's library.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::MODERN;
use crate::host::{Ran, Running};
use crate::wait::TIMEOUT;

/// A server over HTTP, and what its clients need.
pub struct Server {
    /// Set until the end of the server.
    running: Option<Running>,
    scheme: String,
    address: String,
    token_file: Option<PathBuf>,
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The headers, each on a line, their names in small letters.
    pub headers: String,
    /// The message of the body, or null if the body is empty.
    pub body: Value,
}

impl Server {
    /// Starts `command`, and waits until it listens.
    pub fn start(command: &mut Command) -> Self {
        let mut running = Running::start(command);
        let url = running.line_of_stderr("listening at ");
        let (scheme, address) = url.trim_end_matches("/mcp").split_once("://").expect("a URL");
        let (scheme, address) = (scheme.to_owned(), address.to_owned());
        Self { running: Some(running), scheme, address, token_file: None }
    }

    /// Starts `command`, and waits until it has printed the path of its token.
    pub fn with_token(command: &mut Command) -> Self {
        let mut server = Self::start(command);
        let file = server.running().line_of_stderr("clients need the token in ");
        server.token_file = Some(file.into());
        server
    }

    /// Returns the URL of the server.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}://{}/mcp", self.scheme, self.address)
    }

    /// Returns the address and the port of the server.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the running server.
    pub fn running(&mut self) -> &mut Running {
        self.running.as_mut().expect("it runs")
    }

    /// Sends the server a signal, and waits for its end.
    pub fn end(mut self, signal: Signal) -> Ran {
        let running = self.running.take().expect("it runs");
        running.signal(signal);
        running.wait()
    }

    /// Returns the file with the token.
    #[must_use]
    pub fn token_file(&self) -> PathBuf {
        self.token_file.clone().expect("a server with a token")
    }

    /// Returns the headers of a request in the newest revision.
    fn modern_headers(&self, method: &str, params: &Value) -> String {
        let name = params["name"].as_str().or(params["uri"].as_str());
        let name = name.map(|name| format!("mcp-name: {name}\r\n")).unwrap_or_default();
        format!("mcp-protocol-version: {MODERN}\r\nmcp-method: {method}\r\n{name}")
    }

    /// Sends a request in the newest revision, and does not wait for its answer.
    pub fn ask(&self, method: &str, params: Value) -> TcpStream {
        self.send(&self.text(method, params))
    }

    /// Returns the text of a request in the newest revision.
    #[must_use]
    pub fn text(&self, method: &str, mut params: Value) -> String {
        let headers = self.modern_headers(method, &params);
        let meta = &mut params["_meta"];
        meta["io.modelcontextprotocol/protocolVersion"] = MODERN.into();
        meta["io.modelcontextprotocol/clientInfo"] = json!({ "name": "test", "version": "1" });
        meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        self.text_of(&headers, &message.to_string())
    }

    /// Sends a request in the newest revision.
    pub fn request(&self, method: &str, params: Value) -> Answer {
        Answer::read(self.ask(method, params))
    }

    /// Sends a message with `headers` in addition to the ones that every message has.
    pub fn post(&self, headers: &str, message: &str) -> Answer {
        self.answer_to(&self.text_of(headers, message))
    }

    fn text_of(&self, headers: &str, message: &str) -> String {
        let token = self.token_file.as_ref().map(|file| {
            let token = std::fs::read_to_string(file).expect("a token");
            format!("authorization: Bearer {}\r\n", token.trim_end())
        });
        let (address, length) = (&self.address, message.len());
        let token = token.unwrap_or_default();
        format!(
            "POST /mcp HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{token}\
             accept: application/json, text/event-stream\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n{headers}\r\n{message}"
        )
    }

    /// Sends the text of a request.
    pub fn answer_to(&self, request: &str) -> Answer {
        Answer::read(self.send(request))
    }

    fn send(&self, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        stream.set_read_timeout(Some(TIMEOUT)).expect("set");
        stream.write_all(request.as_bytes()).expect("the server reads");
        stream
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Nothing else ends the server of a finished test.
        if let Some(running) = self.running.take() {
            running.signal(Signal::KILL);
            running.wait();
        }
    }
}

impl Answer {
    /// Reads an answer up to its end, when the server closes the connection.
    pub fn read(mut stream: TcpStream) -> Self {
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer");
        Self::from_text(&text)
    }

    /// Parses the text of an answer.
    #[must_use]
    pub fn from_text(text: &str) -> Self {
        let (headers, body) = text.split_once("\r\n\r\n").expect("headers");
        let status = headers.split(' ').nth(1).and_then(|it| it.parse().ok()).expect("a status");
        // A stream of events has one message at its end. The text around it is the lengths of
        // chunks.
        let event = body.lines().rev().find_map(|line| line.strip_prefix("data: {"));
        let body = match event {
            Some(rest) => serde_json::from_str(&format!("{{{rest}")).expect("JSON"),
            None => serde_json::from_str(body).unwrap_or_default(),
        };
        Self { status, headers: headers.to_owned(), body }
    }

    /// Returns the value of a header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    /// Returns the result of a request.
    #[track_caller]
    #[must_use]
    pub fn result(&self) -> &Value {
        assert_eq!(self.status, 200, "{self:?}");
        self.body.get("result").unwrap_or_else(|| panic!("{self:?}"))
    }
}
