//! A server under more calls than it accepts, and with a client that does not read. Everything runs
//! on one thread and in memory. So if the server does nothing more, it is waiting.

#[path = "support/gate.rs"]
mod gate;

use std::sync::Arc;

use ikigai_mcp::serve_streams;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, duplex};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use gate::{Gate, server};

/// The most calls of a connection that run at once, and the most that wait.
const RUNNING: usize = 64;
const WAITING: usize = 1024;

/// A server and the ends of its streams.
struct Served {
    input: DuplexStream,
    output: Lines<BufReader<DuplexStream>>,
    ended: JoinHandle<()>,
}

fn serve(gate: &Arc<Gate>) -> Served {
    let (input, server_input) = duplex(64 << 10);
    let (server_output, output) = duplex(64 << 10);
    let gate = Arc::clone(gate);
    let ended = tokio::spawn(async move {
        let cancel = CancellationToken::new();
        serve_streams(gate, server(), server_input, server_output, cancel).await.expect("served");
    });
    Served { input, output: BufReader::new(output).lines(), ended }
}

fn call(id: usize) -> String {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({ "name": "tool", "arguments": {}, "_meta": meta });
    format!("{}\n", json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }))
}

/// Waits until no more calls begin.
async fn quiet(gate: &Gate) {
    let mut last = usize::MAX;
    while last != gate.begun() {
        last = gate.begun();
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
    }
}

async fn next(output: &mut Lines<BufReader<DuplexStream>>) -> Value {
    let line = output.next_line().await.expect("readable").expect("an answer");
    serde_json::from_str(&line).expect("JSON")
}

#[tokio::test]
async fn calls_beyond_those_that_wait_are_told_that_the_server_is_busy() {
    const BEYOND: usize = 10;
    let gate = Gate::new(0, "done".to_owned());
    let Served { mut input, mut output, ended } = serve(&gate);
    for id in 0..RUNNING + WAITING + BEYOND {
        input.write_all(call(id).as_bytes()).await.expect("it reads");
    }
    let mut busy = Vec::new();
    for _ in 0..BEYOND {
        let answer = next(&mut output).await;
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        busy.push(answer["id"].as_u64().expect("an id"));
    }
    assert_eq!(gate.begun(), RUNNING);
    // The server handles a cancellation, which makes room for another call.
    let cancel = json!({
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": { "requestId": 0 },
    });
    input.write_all(format!("{cancel}\n").as_bytes()).await.expect("it reads");
    quiet(&gate).await;
    assert_eq!(gate.begun(), RUNNING + 1);
    let last = 1_000_000;
    input.write_all(call(last).as_bytes()).await.expect("it reads");
    gate.permits.add_permits(RUNNING + WAITING + 1);
    let mut answered = Vec::new();
    while answered.len() < RUNNING + WAITING {
        let answer = next(&mut output).await;
        assert_eq!(answer["result"]["content"][0]["text"], "done", "{answer}");
        answered.push(answer["id"].as_u64().expect("an id"));
    }
    assert!(answered.contains(&(last as u64)) && !answered.contains(&0));
    assert!(busy.iter().all(|id| !answered.contains(id)));
    drop(input);
    ended.await.expect("ended");
}

#[tokio::test]
async fn a_client_that_does_not_read_is_not_read_from_and_loses_nothing() {
    const CALLS: usize = 5000;
    const ANSWER: usize = 100_000;
    const BACKLOG: usize = 64 << 20;
    let gate = Gate::new(CALLS, "x".repeat(ANSWER));
    let Served { mut input, mut output, ended } = serve(&gate);
    let asking = tokio::spawn(async move {
        for id in 0..CALLS {
            input.write_all(call(id).as_bytes()).await.expect("it reads at last");
        }
    });
    quiet(&gate).await;
    assert!(!asking.is_finished());
    // The calls that were accepted before the backlog was full, and one pipe full of messages.
    let most = BACKLOG / ANSWER + RUNNING + WAITING;
    assert!(gate.begun() <= most, "{} calls began, of {most}", gate.begun());
    let mut seen = vec![false; CALLS];
    for _ in 0..CALLS {
        let answer = next(&mut output).await;
        assert_eq!(answer["result"]["content"][0]["text"].as_str().map(str::len), Some(ANSWER));
        let id = answer["id"].as_u64().expect("an id") as usize;
        assert!(!std::mem::replace(&mut seen[id], true), "{id} was answered twice");
    }
    asking.await.expect("asked");
    ended.await.expect("ended");
}

#[tokio::test]
async fn a_call_that_ends_after_the_last_question_is_answered() {
    let gate = Gate::new(0, "done".to_owned());
    let Served { mut input, mut output, ended } = serve(&gate);
    input.write_all(call(1).as_bytes()).await.expect("it reads");
    drop(input);
    quiet(&gate).await;
    gate.permits.add_permits(1);
    assert_eq!(next(&mut output).await["result"]["content"][0]["text"], "done");
    ended.await.expect("ended");
}

#[tokio::test]
async fn a_client_that_is_gone_ends_its_calls() {
    let gate = Gate::new(0, String::new());
    let Served { mut input, output, ended } = serve(&gate);
    input.write_all(call(1).as_bytes()).await.expect("it reads");
    quiet(&gate).await;
    assert_eq!(gate.begun(), 1);
    drop(output);
    // The server notices the end of the output at the next answer.
    input.write_all(b"garbage\ngarbage\n").await.expect("it reads");
    ended.await.expect("ended");
    drop(input);
}
