//! Lists of tools: their pages, and the tools that are left out.

use ikigai_mcp::{Era, RemoteCallError, RemoteTools};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::peer::Peer;

/// Asks a server for its tools.
async fn listing() -> (Peer, JoinHandle<Result<RemoteTools, RemoteCallError>>) {
    let (peer, connection) = Peer::connected(Era::Modern).await;
    (peer, tokio::spawn(async move { connection.tools().await }))
}

/// Returns the list of a server with one page.
async fn listed(tools: &Value) -> RemoteTools {
    let (mut peer, listing) = listing().await;
    let asked = peer.asked("tools/list").await;
    peer.answer(&asked, json!({ "tools": tools })).await;
    listing.await.expect("no panic").expect("a list")
}

fn tool(name: &str) -> Value {
    json!({ "name": name, "inputSchema": { "type": "object" } })
}

fn names(listed: &RemoteTools) -> Vec<&str> {
    listed.tools.iter().map(|tool| &*tool.name).collect()
}

#[tokio::test]
async fn all_parts_of_a_tool_are_taken() {
    let schema = json!({ "$ref": "#/$defs/a", "$defs": { "a": {} }, "type": "object" });
    let whole = json!({
        "name": "whole",
        "title": "Whole",
        "description": "Does\nall.",
        "inputSchema": schema,
        "outputSchema": { "anyOf": [] },
        "annotations": { "readOnlyHint": true },
        "icons": [{ "src": "https://example.org" }],
        "_meta": {},
    });
    let listed = listed(&json!([whole, tool("least")])).await;
    assert_eq!((&listed.skipped, &listed.cut), (&Vec::new(), &None));
    let [whole, least] = &listed.tools[..] else { panic!("{listed:?}") };
    assert_eq!(whole.title.as_deref(), Some("Whole"));
    assert_eq!(whole.description, "Does\nall.");
    assert_eq!(Value::Object(whole.input.clone()), schema);
    assert_eq!(whole.output.clone().map(Value::Object), Some(json!({ "anyOf": [] })));
    assert_eq!(whole.annotations.clone().map(Value::Object), Some(json!({ "readOnlyHint": true })));
    assert_eq!((&*least.name, &*least.description, &least.output), ("least", "", &None));
}

#[tokio::test]
async fn a_tool_that_makes_no_sense_is_left_out_and_the_others_stay() {
    let mut foreign = tool("foreign");
    foreign["inputSchema"]["properties"] = json!({ "a": { "$ref": "https://example.org/a" } });
    let mut root = tool("root");
    root["outputSchema"] = json!({ "$ref": "file:///etc/passwd" });
    let mut property = tool("property");
    property["inputSchema"]["properties"] = json!({ "$ref": { "type": "string" } });
    let mut large = tool("large");
    large["inputSchema"]["description"] = json!("x".repeat(1 << 20));
    let untyped = json!({ "name": "untyped", "inputSchema": {} });
    let bare = json!({ "name": "bare" });
    let wrong = json!({ "name": "wrong", "description": 7, "inputSchema": { "type": "object" } });
    let long = "n".repeat(257);
    let tools = json!([
        tool("first"),
        foreign,
        root,
        property,
        large,
        untyped,
        bare,
        wrong,
        tool("first"),
        tool("a\u{200b}b"),
        tool("a\u{202e}b"),
        tool("a\nb"),
        tool(""),
        tool(&long),
        7,
        null,
        tool("last"),
    ]);
    let listed = listed(&tools).await;
    assert_eq!(names(&listed), ["first", "property", "last"]);
    let expected = [
        ("foreign", "`https://example.org/a`, which is not part of it"),
        ("root", "`file:///etc/passwd`"),
        ("large", "more than 1048576 bytes"),
        ("untyped", "not of `type: \"object\"`"),
        ("bare", "missing field `inputSchema`"),
        ("wrong", "invalid type"),
        ("first", "has the same name"),
        ("a\u{fffd}b", "do not show"),
        ("a\u{fffd}b", "do not show"),
        ("a\u{fffd}b", "do not show"),
        ("", "1 to 256 bytes"),
        (&long[..100], "1 to 256 bytes"),
        ("", "malformed"),
        ("", "malformed"),
    ];
    assert_eq!(listed.skipped.len(), expected.len(), "{:?}", listed.skipped);
    for ((name, reason), (of, part)) in listed.skipped.iter().zip(expected) {
        assert!(name == of && reason.contains(part), "{name}: {reason}, not {of}: {part}");
    }
}

#[tokio::test]
async fn all_pages_are_asked_for() {
    let (mut peer, listing) = listing().await;
    for page in 0..5 {
        let asked = peer.asked("tools/list").await;
        let cursor = (page > 0).then(|| format!("page {page}"));
        assert_eq!(asked["params"]["cursor"].as_str(), cursor.as_deref(), "{asked}");
        let tools: Vec<Value> =
            (0..100).map(|tool| self::tool(&format!("tool-{page}-{tool}"))).collect();
        let mut result = json!({ "tools": tools });
        if page < 4 {
            result["nextCursor"] = json!(format!("page {}", page + 1));
        }
        peer.answer(&asked, result).await;
    }
    let listed = listing.await.expect("no panic").expect("a list");
    assert_eq!((listed.tools.len(), listed.cut), (500, None));
}

#[tokio::test]
async fn a_list_without_an_end_is_cut() {
    for (count, same, expected) in [
        (0, true, "leads back"),
        (0, false, "more than 200 pages"),
        (300, false, "more than 2000 tools"),
    ] {
        let (mut peer, listing) = listing().await;
        let mut page = 0;
        // The connection ends with the list.
        while let Some(asked) = peer.next().await {
            page += 1;
            assert!(page <= 200, "{expected}");
            let tools: Vec<Value> =
                (0..count).map(|tool| self::tool(&format!("tool-{page}-{tool}"))).collect();
            let cursor = if same { "same".to_owned() } else { page.to_string() };
            peer.answer(&asked, json!({ "tools": tools, "nextCursor": cursor })).await;
        }
        let listed = listing.await.expect("no panic").expect("a list");
        let cut = listed.cut.expect("cut");
        assert!(cut.contains(expected), "{cut}");
        assert!(listed.tools.len() <= 2000);
    }
}

#[tokio::test]
async fn a_list_that_is_none_is_an_error() {
    for result in [json!({}), json!({ "tools": {} }), json!([]), json!({ "tools": null })] {
        let (mut peer, listing) = listing().await;
        let asked = peer.asked("tools/list").await;
        peer.answer(&asked, result).await;
        let error = listing.await.expect("no panic").expect_err("no list");
        assert!(matches!(error, RemoteCallError::Malformed(_)), "{error}");
    }
    let (mut peer, listing) = listing().await;
    let asked = peer.asked("tools/list").await;
    peer.refuse(&asked, -32601, "no tools here").await;
    let refused = RemoteCallError::Refused { code: -32601, message: "no tools here".to_owned() };
    assert_eq!(listing.await.expect("no panic"), Err(refused));
}
