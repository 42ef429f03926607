//! A server over HTTP, and requests to it as text.

use std::net::SocketAddr;
use std::sync::Arc;

use ikigai_mcp::{HttpSettings, Principal, serve_http};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::gate::{Gate, server};

/// The newest revision that has sessions.
const LEGACY: &str = "2025-11-25";

/// A running server.
pub(crate) struct Served {
    address: SocketAddr,
    cancel: CancellationToken,
    ended: JoinHandle<()>,
}

impl Served {
    pub(crate) async fn start(gate: &Arc<Gate>, settings: HttpSettings) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let cancel = CancellationToken::new();
        let (gate, stop) = (Arc::clone(gate), cancel.clone());
        let ended = tokio::spawn(async move {
            let offers = move |_: &Principal| Arc::clone(&gate);
            serve_http(listener, offers, server(), settings, stop).await.expect("served");
        });
        Self { address, cancel, ended }
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("a connection")
    }

    /// Sends a text on a new connection, and returns the answer as [`answer`] does.
    pub(crate) async fn send_text(&self, text: &str) -> (u16, String, Value) {
        let mut stream = self.connect().await;
        stream.write_all(text.as_bytes()).await.expect("sent");
        answer(stream).await
    }

    /// Begins a session in an older revision. Returns the headers for its requests, or the status
    /// of the refusal.
    pub(crate) async fn begin(&self, token: &str) -> Result<String, u16> {
        let params = json!({
            "protocolVersion": LEGACY, "capabilities": {},
            "clientInfo": { "name": "c", "version": "1" },
        });
        let asked = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params });
        let (status, head, _) = self.send_text(&request(token, "", &asked.to_string())).await;
        if status != 200 {
            return Err(status);
        }
        let id = head.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
        let id = id.unwrap_or_else(|| panic!("{head}"));
        Ok(format!("mcp-session-id: {id}\r\nmcp-protocol-version: {LEGACY}\r\n"))
    }

    pub(crate) async fn end(self) {
        self.cancel.cancel();
        self.ended.await.expect("ended");
    }
}

/// Returns the text of a request after which the connection is closed.
pub(crate) fn request(token: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         authorization: Bearer {token}\r\naccept: application/json, text/event-stream\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    )
}

/// Returns the status of an answer, its headers and its body. The body is JSON or empty.
pub(crate) async fn answer(mut stream: TcpStream) -> (u16, String, Value) {
    let mut text = Vec::new();
    stream.read_to_end(&mut text).await.expect("an answer");
    let text = String::from_utf8(text).expect("UTF-8");
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|it| it.parse().ok()).expect("a status");
    (status, head.to_owned(), serde_json::from_str(body).unwrap_or_default())
}

/// The headers of a call in the newest revision.
pub(crate) const CALL: &str =
    "mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: tool\r\n";

/// Returns a call in the newest revision.
pub(crate) fn call(arguments: &str) -> String {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"tool","arguments":{arguments},"_meta":{meta}}}}}"#
    )
}
