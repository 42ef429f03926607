//! The ways in which a server opens a connection, or fails to.

use ikigai_mcp::{ConnectError, Era};
use serde_json::json;

use crate::peer::{Connecting, Peer, discovered, initialized};

async fn refused(connecting: Connecting) -> ConnectError {
    connecting.await.expect("no panic").expect_err("no connection")
}

#[tokio::test]
async fn a_server_of_the_newer_era_is_asked_once_and_told_all_in_each_request() {
    let (mut peer, connecting) = Peer::new(None);
    peer.introduce().await;
    let connection = connecting.await.expect("no panic").expect("connected");
    assert_eq!(connection.era(), Era::Modern);
    let listing = tokio::spawn(async move { connection.tools().await });
    let asked = peer.asked("tools/list").await;
    let meta = &asked["params"]["_meta"];
    assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28", "{asked}");
    assert_eq!(
        meta["io.modelcontextprotocol/clientCapabilities"],
        crate::peer::capabilities(),
        "{asked}"
    );
    assert_eq!(meta["io.modelcontextprotocol/clientInfo"]["name"], "test", "{asked}");
    peer.answer(&asked, json!({ "resultType": "complete", "tools": [] })).await;
    assert_eq!(listing.await.expect("no panic").expect("a list").tools, []);
}

#[tokio::test]
async fn a_server_that_does_not_know_the_newer_era_is_asked_for_the_older_one() {
    for code in [-32601, -32600, -32602, -32022, -32000] {
        let (mut peer, connecting) = Peer::new(None);
        let asked = peer.asked("server/discover").await;
        peer.refuse(&asked, code, "initialize first").await;
        peer.initialize().await;
        let connection = connecting.await.expect("no panic").expect("connected");
        assert_eq!(connection.era(), Era::Legacy, "{code}");
    }
    // A server that refuses the revision, but claims to support it, is asked once more.
    let (mut peer, connecting) = Peer::new(None);
    for _ in 0..2 {
        let asked = peer.asked("server/discover").await;
        let data = json!({ "supported": ["2026-07-28"], "requested": "2026-07-28" });
        let error = json!({ "code": -32022, "message": "no", "data": data });
        peer.say(&json!({ "jsonrpc": "2.0", "id": asked["id"], "error": error })).await;
    }
    peer.initialize().await;
    assert_eq!(connecting.await.expect("no panic").expect("connected").era(), Era::Legacy);
    // Some servers do not say what they refuse, some answer everything, and some know both methods.
    for answer in [
        json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32700, "message": "?" } }),
        json!({ "jsonrpc": "2.0", "error": { "code": -32600, "message": "?" } }),
        json!({ "jsonrpc": "2.0", "id": 0, "result": {} }),
        json!({ "jsonrpc": "2.0", "id": "0", "result": discovered(&["2025-11-25"]) }),
    ] {
        let (mut peer, connecting) = Peer::new(None);
        peer.asked("server/discover").await;
        peer.say(&answer).await;
        peer.initialize().await;
        let connection = connecting.await.expect("no panic").expect("connected");
        assert_eq!(connection.era(), Era::Legacy, "{answer}");
    }
}

#[tokio::test]
async fn a_server_that_refuses_the_newest_revision_and_has_it_is_asked_again() {
    let (mut peer, connecting) = Peer::new(Some(Era::Modern));
    let asked = peer.asked("server/discover").await;
    let data = json!({ "supported": ["2025-11-25", "2026-07-28"], "requested": "?" });
    let error = json!({ "code": -32022, "message": "no", "data": data });
    peer.say(&json!({ "jsonrpc": "2.0", "id": asked["id"], "error": error })).await;
    peer.introduce().await;
    assert_eq!(connecting.await.expect("no panic").expect("connected").era(), Era::Modern);
}

#[tokio::test]
async fn a_server_that_is_known_to_be_older_is_asked_for_nothing_newer() {
    let (_peer, connection) = Peer::connected(Era::Legacy).await;
    assert_eq!(connection.era(), Era::Legacy);
}

#[tokio::test]
async fn a_server_that_was_older_and_knows_only_the_newest_revision_now_is_asked_for_it() {
    let (mut peer, connecting) = Peer::new(Some(Era::Legacy));
    let refuse = async |peer: &mut Peer| {
        let asked = peer.asked("initialize").await;
        let data = json!({ "supported": ["2026-07-28"], "requested": "2025-11-25" });
        let error = json!({ "code": -32022, "message": "no", "data": data });
        peer.say(&json!({ "jsonrpc": "2.0", "id": asked["id"], "error": error })).await;
    };
    refuse(&mut peer).await;
    peer.introduce().await;
    assert_eq!(connecting.await.expect("no panic").expect("connected").era(), Era::Modern);
    // A server that breaks this promise is not asked a third time.
    let (mut peer, connecting) = Peer::new(Some(Era::Legacy));
    refuse(&mut peer).await;
    let asked = peer.asked("server/discover").await;
    peer.refuse(&asked, -32601, "no").await;
    let message = "no".to_owned();
    assert_eq!(refused(connecting).await, ConnectError::Refused { code: -32601, message });
}

#[tokio::test]
async fn a_server_may_print_and_ask_before_it_introduces_itself() {
    let (mut peer, connecting) = Peer::new(Some(Era::Legacy));
    peer.raw("Listening on stdio…\n\n[1, 2]\n{\"level\":\"info\"}\n").await;
    let asked = peer.asked("initialize").await;
    for method in ["ping", "roots/list", "sampling/createMessage"] {
        peer.say(&json!({ "jsonrpc": "2.0", "id": method, "method": method })).await;
    }
    for (id, code) in [("ping", None), ("roots/list", Some(-32601))] {
        let answer = peer.next().await.expect("an answer");
        assert_eq!((&answer["id"], answer["error"]["code"].as_i64()), (&json!(id), code));
    }
    let answer = peer.next().await.expect("an answer");
    assert_eq!(answer["error"]["code"], -32601, "{answer}");
    peer.answer(&asked, initialized("2025-06-18")).await;
    peer.asked("notifications/initialized").await;
    assert!(connecting.await.expect("no panic").is_ok());
}

#[tokio::test]
async fn a_server_that_dies_or_refuses_in_the_handshake_is_an_error_with_its_reason() {
    for era in [None, Some(Era::Legacy)] {
        let (peer, connecting) = Peer::new(era);
        drop(peer);
        assert!(matches!(refused(connecting).await, ConnectError::Closed(_)), "{era:?}");
    }
    let (mut peer, connecting) = Peer::new(None);
    let asked = peer.asked("server/discover").await;
    peer.refuse(&asked, -32601, "no").await;
    let asked = peer.asked("initialize").await;
    peer.refuse(&asked, -32001, "not\u{1b}[31m today").await;
    let message = "not\u{fffd}[31m today".to_owned();
    assert_eq!(refused(connecting).await, ConnectError::Refused { code: -32001, message });
}

#[tokio::test]
async fn a_server_of_an_unknown_revision_is_refused() {
    let (mut peer, connecting) = Peer::new(Some(Era::Legacy));
    let asked = peer.asked("initialize").await;
    peer.answer(&asked, initialized("2019-01-01")).await;
    assert_eq!(refused(connecting).await, ConnectError::Revision("2019-01-01".to_owned()));
    let (mut peer, connecting) = Peer::new(Some(Era::Legacy));
    let asked = peer.asked("initialize").await;
    peer.answer(&asked, json!({ "capabilities": {} })).await;
    assert!(matches!(refused(connecting).await, ConnectError::Protocol(_)));
}

#[tokio::test]
async fn the_streams_are_closed_with_the_connection_and_with_its_failure() {
    let (mut peer, connection) = Peer::connected(Era::Modern).await;
    connection.close().await;
    assert_eq!(peer.next().await, None);
    let (mut peer, connection) = Peer::connected(Era::Modern).await;
    drop(connection);
    assert_eq!(peer.next().await, None);
    // The client gives up the handshake.
    let (mut peer, connecting) = Peer::new(None);
    peer.asked("server/discover").await;
    connecting.abort();
    assert_eq!(peer.next().await, None);
}
