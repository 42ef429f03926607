//! Servers that attack through their messages. The attack on memory is in a separate test program.

use ikigai_mcp::{Era, Unattended};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::peer::Peer;

#[tokio::test]
async fn a_line_of_more_than_16_mib_ends_the_connection() {
    let (mut peer, connection) = Peer::connected(Era::Modern).await;
    let piece = "x".repeat(1 << 20);
    let mut written = 0;
    while peer.flood(&piece).await {
        written += 1;
        assert!(written <= 18, "the client reads a line without an end");
    }
    assert_eq!(&*connection.closed().await, "the server sent a line of more than 16777216 bytes");
}

#[tokio::test]
async fn noise_is_ignored_until_it_is_too_much() {
    let (mut peer, connection) = Peer::connected(Era::Modern).await;
    let line = format!("{}\n", "noise ".repeat(10_000));
    let mut written = 0;
    while peer.flood(&line).await {
        written += line.len();
        assert!(written <= 2 << 20, "the client reads all noise");
    }
    assert_eq!(
        &*connection.closed().await,
        "the server sent more than 1048576 bytes that are not messages"
    );
}

#[tokio::test]
async fn a_server_that_asks_without_reading_ends_the_connection() {
    let (mut peer, connection) = Peer::connected(Era::Modern).await;
    let ping = format!("{}\n", json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" })).repeat(100);
    let mut written = 0;
    while peer.flood(&ping).await {
        written += ping.len();
        assert!(written <= 8 << 20, "the client answers for ever");
    }
    assert_eq!(&*connection.closed().await, "the server asks without reading the answers");
}

#[tokio::test]
async fn notifications_and_answers_that_nobody_waits_for_disturb_no_call() {
    let (mut peer, connection) = Peer::connected(Era::Legacy).await;
    let calling = tokio::spawn(async move {
        connection.call("tool", "{}".into(), &CancellationToken::new(), &Unattended).await
    });
    let asked = peer.asked("tools/call").await;
    let token = &asked["params"]["_meta"]["progressToken"];
    for (method, params) in [
        ("notifications/progress", json!({ "progressToken": token, "progress": 1 })),
        ("notifications/progress", json!({ "progressToken": [], "progress": "x" })),
        ("notifications/message", json!({ "level": "info", "data": "x".repeat(1000) })),
        ("notifications/tools/list_changed", json!({})),
        ("notifications/cancelled", json!({ "requestId": asked["id"] })),
        ("notifications/subscriptions/acknowledged", json!({ "notifications": {} })),
        ("notifications/none", json!([1])),
    ] {
        let line = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        peer.raw(&format!("{line}\n").repeat(2000)).await;
    }
    let answer = json!({ "jsonrpc": "2.0", "id": "nobody", "result": { "content": [] } });
    peer.raw(&format!("{answer}\n").repeat(2000)).await;
    peer.answer(&asked, json!({ "content": [] })).await;
    assert_eq!(calling.await.expect("no panic").expect("a result"), r#"{"content":[]}"#);
}
