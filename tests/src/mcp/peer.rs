//! The server of `mcp/testing`, which behaves as its file says.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{ChildStdin, Command};

use serde_json::Value;

use crate::host::{Host, Running};
use crate::paths;

/// Writes the peer's file, and returns its path. The file may be changed later.
pub fn define(host: &Host, definition: &Value) -> PathBuf {
    host.write("peer/peer.json", definition.to_string(), 0o644)
}

/// Returns the program of the peer.
#[must_use]
pub fn program() -> String {
    paths::programs().join("mcp-peer").display().to_string()
}

/// A peer over HTTP, which ends when this value is dropped.
pub struct HttpPeer {
    /// The URL of its endpoint.
    pub url: String,
    stdin: Option<ChildStdin>,
    running: Option<Running>,
}

impl HttpPeer {
    /// Starts a peer, and waits for its URL.
    pub fn start(host: &Host, definition: &Value) -> Self {
        let file = define(host, definition);
        let mut running = Running::start(Command::new(program()).arg("--http").arg(file));
        let (stdin, stdout) = running.take_pipes();
        let mut url = String::new();
        BufReader::new(stdout).read_line(&mut url).expect("the address of the peer");
        Self { url: url.trim().to_owned(), stdin: Some(stdin), running: Some(running) }
    }
}

impl Drop for HttpPeer {
    fn drop(&mut self) {
        // The peer ends with its stdin.
        drop(self.stdin.take());
        if let Some(running) = self.running.take() {
            running.wait();
        }
    }
}
