//! A server that sends the messages that its test chooses.

use ikigai_mcp::{ClientIdentity, ConnectError, Era, RemoteConnection, connect_streams};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, duplex};
use tokio::task::JoinHandle;

pub(crate) type Connecting = JoinHandle<Result<RemoteConnection, ConnectError>>;

/// The server's ends of two streams.
pub(crate) struct Peer {
    input: Lines<BufReader<DuplexStream>>,
    output: DuplexStream,
}

impl Peer {
    /// Returns a server and a client that is connecting to it.
    pub(crate) fn new(era: Option<Era>) -> (Self, Connecting) {
        let (client_output, input) = duplex(64 << 10);
        let (output, client_input) = duplex(64 << 10);
        let client = ClientIdentity {
            name: "test".to_owned(),
            title: "Test".to_owned(),
            version: "1".to_owned(),
        };
        let connecting = tokio::spawn(connect_streams(client, client_input, client_output, era));
        (Self { input: BufReader::new(input).lines(), output }, connecting)
    }

    /// Returns a server of an era that has introduced itself, and its client.
    pub(crate) async fn connected(era: Era) -> (Self, RemoteConnection) {
        let (mut peer, connecting) = Self::new(Some(era));
        match era {
            Era::Modern => peer.introduce().await,
            Era::Legacy => peer.initialize().await,
        }
        (peer, connecting.await.expect("no panic").expect("connected"))
    }

    /// Answers `server/discover`.
    pub(crate) async fn introduce(&mut self) {
        let asked = self.asked("server/discover").await;
        self.answer(&asked, discovered(&["2026-07-28"])).await;
    }

    /// Answers `initialize`.
    pub(crate) async fn initialize(&mut self) {
        let asked = self.asked("initialize").await;
        assert_eq!(asked["params"]["protocolVersion"], "2025-11-25", "{asked}");
        assert_eq!(asked["params"]["capabilities"], capabilities(), "{asked}");
        self.answer(&asked, initialized("2025-11-25")).await;
        self.asked("notifications/initialized").await;
    }

    /// Returns the client's next message, or `None` at the end of its stream.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        let line = self.input.next_line().await.expect("readable")?;
        Some(serde_json::from_str(&line).expect("JSON"))
    }

    /// Returns the client's next line.
    pub(crate) async fn line(&mut self) -> String {
        self.input.next_line().await.expect("readable").expect("a line")
    }

    /// Returns the client's next message, which must have this method.
    pub(crate) async fn asked(&mut self, method: &str) -> Value {
        let message = self.next().await.expect("a message");
        assert_eq!(message["method"], method, "{message}");
        message
    }

    pub(crate) async fn say(&mut self, message: &Value) {
        self.raw(&format!("{message}\n")).await;
    }

    pub(crate) async fn raw(&mut self, text: &str) {
        self.output.write_all(text.as_bytes()).await.expect("the client reads");
    }

    /// Writes a text. Returns false if the client no longer reads.
    pub(crate) async fn flood(&mut self, text: &str) -> bool {
        self.output.write_all(text.as_bytes()).await.is_ok()
    }

    pub(crate) async fn answer(&mut self, asked: &Value, result: Value) {
        self.say(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result })).await;
    }

    pub(crate) async fn refuse(&mut self, asked: &Value, code: i32, message: &str) {
        let error = json!({ "code": code, "message": message });
        self.say(&json!({ "jsonrpc": "2.0", "id": asked["id"], "error": error })).await;
    }
}

/// The capabilities of the client: only forms.
pub(crate) fn capabilities() -> Value {
    json!({ "elicitation": { "form": {} } })
}

/// The result of `server/discover`.
pub(crate) fn discovered(versions: &[&str]) -> Value {
    json!({
        "resultType": "complete",
        "supportedVersions": versions,
        "capabilities": { "tools": {} },
        "instructions": "x".repeat(100_000),
        "ttlMs": 0,
        "cacheScope": "private",
    })
}

/// The result of `initialize`.
pub(crate) fn initialized(version: &str) -> Value {
    json!({
        "protocolVersion": version,
        "capabilities": { "tools": { "listChanged": true } },
        "serverInfo": { "name": "peer", "version": "1" },
    })
}
