//! The memory that the answers of a hostile server take. A single test, because it measures the
//! memory of its process.

use std::fs;

use bytes::Bytes;
use ikigai_mcp::{ClientIdentity, Era, RemoteConnection, Unattended, connect_streams};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, duplex};
use tokio_util::sync::CancellationToken;

/// The size of an answer in bytes: slightly less than the longest line.
const ANSWER: usize = (16 << 20) - 4096;

/// Returns the peak memory of this process in bytes.
fn peak() -> usize {
    let status = fs::read_to_string("/proc/self/status").expect("procfs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    let kib: usize = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib << 10
}

struct Peer {
    input: Lines<BufReader<DuplexStream>>,
    output: DuplexStream,
}

impl Peer {
    async fn connected() -> (Self, RemoteConnection) {
        let (client_output, input) = duplex(64 << 10);
        let (output, client_input) = duplex(64 << 10);
        let client = ClientIdentity { name: "c".into(), title: "C".into(), version: "1".into() };
        let era = Some(Era::Legacy);
        let connecting = tokio::spawn(connect_streams(client, client_input, client_output, era));
        let mut peer = Self { input: BufReader::new(input).lines(), output };
        let id = peer.asked().await;
        let result = json!({ "protocolVersion": "2025-11-25", "capabilities": {} });
        let answer = json!({ "jsonrpc": "2.0", "id": id, "result": result });
        peer.output.write_all(format!("{answer}\n").as_bytes()).await.expect("read");
        peer.asked().await;
        (peer, connecting.await.expect("no panic").expect("connected"))
    }

    /// Returns the id of the next message.
    async fn asked(&mut self) -> Value {
        let line = self.input.next_line().await.expect("readable").expect("a line");
        let mut message: Value = serde_json::from_str(&line).expect("JSON");
        message["id"].take()
    }

    /// Answers with a member of [`ANSWER`] bytes, which repeats `part`.
    async fn answer(&mut self, id: &Value, before: &str, part: &str, after: &str) {
        let head = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{before}"#);
        self.output.write_all(head.as_bytes()).await.expect("read");
        let piece = part.repeat(1024);
        for _ in 0..ANSWER / piece.len() {
            self.output.write_all(piece.as_bytes()).await.expect("read");
        }
        self.output.write_all(format!("{after}}}\n").as_bytes()).await.expect("read");
    }
}

#[tokio::test]
async fn an_answer_of_small_values_takes_at_most_three_times_its_size() {
    let (mut peer, connection) = Peer::connected().await;
    let before = peak();
    let cancel = CancellationToken::new();
    for (part, last) in [("0,", "0"), ("[],", "{}"), (r#"{"a":[0]},"#, "0"), ("\"\",", "0")] {
        let calling = connection.call("tool", Bytes::from_static(b"{}"), &cancel, &Unattended);
        let answering = async {
            let id = peer.asked().await;
            peer.answer(&id, r#"{"content":["#, part, &format!("{last}]}}")).await;
        };
        let (result, ()) = tokio::join!(calling, answering);
        assert!(result.expect("a result").len() > ANSWER - (1 << 20));
    }
    // The bounds on tools limit the list. The first tool is too large, and so are the rest.
    for part in [r#"{"name":"a"},"#, "0,", "[[[[]]]],"] {
        let listing = connection.tools();
        let answering = async {
            let id = peer.asked().await;
            peer.answer(&id, r#"{"tools":["#, part, "0]}").await;
        };
        let (listed, ()) = tokio::join!(listing, answering);
        let listed = listed.expect("a list");
        assert_eq!((listed.tools.len(), listed.skipped.len()), (0, 2000));
    }
    let grown = peak() - before;
    assert!(grown <= 3 * ANSWER, "the process has grown by {} MiB", grown >> 20);
}
