//! Assets as resources.

use ikigai_tests::host::Host;
use serde_json::{Value, json};

use crate::mcp::{legacy, modern};

/// The size of the largest asset that can be read as a resource, in bytes.
const LARGEST: usize = 4 << 20;

/// The number of resources that one client may subscribe to.
const SUBSCRIPTIONS: usize = 1000;

fn uris(listed: &Value) -> Vec<&str> {
    let all = listed["resources"].as_array().expect("a list").iter();
    all.map(|resource| resource["uri"].as_str().expect("a URI")).collect()
}

#[test]
fn assets_are_listed_and_read() {
    let host = Host::new();
    let mut client = modern(&host);
    assert_eq!(uris(&client.result("resources/list", json!({}))), [""; 0]);
    host.run_with(["asset", "put", "blocks/note.md"], "a text\n".as_bytes()).expect_code(0);
    let listed = client.result("resources/list", json!({}));
    assert_eq!(uris(&listed), ["ikigai:///blocks/note.md"]);
    assert_eq!(listed["resources"][0]["size"], 7, "{listed}");
    let read = client.result("resources/read", json!({ "uri": "ikigai:///blocks/note.md" }));
    assert_eq!(read["contents"][0]["text"], "a text\n", "{read}");
    let templates = client.result("resources/templates/list", json!({}));
    assert_eq!(templates["resourceTemplates"][0]["uriTemplate"], "ikigai:///{+path}");
    // Each revision has a different code for a missing resource.
    for uri in ["ikigai:///none", "file:///etc/passwd", "ikigai:///../x", "nonsense"] {
        let missing = client.request("resources/read", json!({ "uri": uri }));
        assert_eq!(missing["error"]["code"], -32602, "{uri}: {missing}");
        let mut older = legacy(&host);
        let missing = older.request("resources/read", json!({ "uri": uri }));
        assert_eq!(missing["error"]["code"], -32002, "{uri}: {missing}");
        let subscribed = older.request("resources/subscribe", json!({ "uri": uri }));
        // A resource that does not exist yet may still appear.
        let expected = if uri == "ikigai:///none" { json!(null) } else { json!(-32002) };
        assert_eq!(subscribed["error"]["code"], expected, "{uri}: {subscribed}");
    }
}

#[test]
fn a_subscription_that_is_refused_is_recorded() {
    let host = Host::new();
    let mut client = legacy(&host);
    let wrong = ["ikigai:///../x", "nonsense"];
    for uri in wrong {
        let refused = client.request("resources/subscribe", json!({ "uri": uri }));
        assert_eq!(refused["error"]["code"], -32002, "{uri}: {refused}");
    }
    client.wait().0.expect_code(0);
    let audit = host.run(["audit", "--json"]).expect_code(0).stdout();
    let parts = [r#""tool":"mcp_assets""#, r#""outcome":"PERMISSION_DENIED""#];
    let is_refusal = |line: &&str| parts.iter().all(|part| line.contains(part));
    assert_eq!(audit.lines().filter(is_refusal).count(), wrong.len(), "{audit}");
}

#[test]
fn a_change_of_an_asset_is_told_to_those_who_subscribed() {
    let host = Host::new();
    let uri = "ikigai:///note.md";
    let write = |path: &str, text: &str| {
        host.run_with(["asset", "put", path], text.as_bytes()).expect_code(0);
    };
    write("note.md", "one");
    let mut older = legacy(&host);
    older.result("resources/subscribe", json!({ "uri": uri }));
    older.result("resources/list", json!({}));
    let mut newer = modern(&host);
    let wanted = json!({ "resourcesListChanged": true, "resourceSubscriptions": [uri] });
    newer.ask("subscriptions/listen", json!({ "notifications": wanted }));
    newer.notification("notifications/subscriptions/acknowledged");
    for text in ["two", "three"] {
        write("note.md", text);
        for client in [&mut older, &mut newer] {
            let told = client.notification("notifications/resources/updated");
            assert_eq!(told["params"]["uri"], uri, "{told}");
        }
    }
    write("another.md", "x");
    newer.notification("notifications/resources/list_changed");
    older.notification("notifications/resources/list_changed");
}

#[test]
fn a_resource_that_is_no_longer_subscribed_to_is_not_told_of() {
    let host = Host::new();
    let write = |path: &str, text: &str| {
        host.run_with(["asset", "put", path], text.as_bytes()).expect_code(0);
    };
    let mut client = legacy(&host);
    for uri in ["ikigai:///left.md", "ikigai:///kept.md"] {
        assert_eq!(client.result("resources/subscribe", json!({ "uri": uri })), json!({}));
    }
    write("left.md", "one");
    let told = client.notification("notifications/resources/updated");
    assert_eq!(told["params"]["uri"], "ikigai:///left.md", "{told}");
    for uri in ["ikigai:///left.md", "ikigai:///never.md"] {
        assert_eq!(client.result("resources/unsubscribe", json!({ "uri": uri })), json!({}));
    }
    write("left.md", "two");
    // Earlier changes of other resources would be announced before the second of these.
    for text in ["one", "two"] {
        write("kept.md", text);
        let told = client.wait_for(|it| it["method"] == "notifications/resources/updated");
        assert_eq!(told["params"]["uri"], "ikigai:///kept.md", "{told}");
    }
    let (ran, left) = client.wait();
    ran.expect_code(0);
    let updated = |it: &&Value| it["method"] == "notifications/resources/updated";
    assert_eq!(left.iter().find(updated), None);
}

#[test]
fn an_asset_that_is_too_large_for_a_message_is_refused_with_a_way_to_read_it() {
    let host = Host::new();
    let put = |path: &str, size: usize| {
        let put = ["--budget", "2000000", "asset", "put", path];
        host.run_with(put, "x".repeat(size).as_bytes()).expect_code(0);
    };
    put("largest.md", LARGEST);
    put("larger.md", LARGEST + 1);
    for mut client in [modern(&host), legacy(&host)] {
        let read = client.result("resources/read", json!({ "uri": "ikigai:///largest.md" }));
        assert_eq!(read["contents"][0]["text"].as_str().map(str::len), Some(LARGEST));
        let refused = client.request("resources/read", json!({ "uri": "ikigai:///larger.md" }));
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
        let message = refused["error"]["message"].as_str().expect("a text");
        assert!(message.contains("file_read"), "{message}");
        // The asset is still listed, with its size.
        let listed = client.result("resources/list", json!({}));
        assert_eq!(listed["resources"][0]["size"], LARGEST + 1, "{listed}");
    }
}

#[test]
fn the_subscriptions_of_a_client_are_bounded() {
    let host = Host::new();
    let mut client = legacy(&host);
    let uri = |number: usize| json!({ "uri": format!("ikigai:///n{number}") });
    for number in 0..SUBSCRIPTIONS {
        assert_eq!(client.result("resources/subscribe", uri(number)), json!({}));
    }
    let refused = client.request("resources/subscribe", uri(SUBSCRIPTIONS));
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    let message = refused["error"]["message"].as_str().expect("a text");
    assert!(message.contains("1000"), "{message}");
    // A second subscription to the same resource does not count, and an end makes room.
    client.result("resources/subscribe", uri(0));
    client.result("resources/unsubscribe", uri(0));
    client.result("resources/subscribe", uri(SUBSCRIPTIONS));
    client.wait().0.expect_code(0);
}

#[test]
fn assets_that_policy_keeps_from_clients_are_not_read() {
    let host = Host::new();
    host.run_with(["asset", "put", "note.md"], b"secret").expect_code(0);
    host.write_policy("[tools.mcp_assets]\nassets = \"none\"\n");
    let mut client = modern(&host);
    for (method, params) in
        [("resources/list", json!({})), ("resources/read", json!({ "uri": "ikigai:///note.md" }))]
    {
        let refused = client.request(method, params);
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
        let message = refused["error"]["message"].as_str().expect("a text");
        assert!(message.contains("mcp_assets"), "{message}");
    }
    client.wait().0.expect_code(0);
    let mut older = legacy(&host);
    let refused = older.request("resources/subscribe", json!({ "uri": "ikigai:///note.md" }));
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    older.wait().0.expect_code(0);
    let audit = host.run(["audit", "--json"]).expect_code(0).stdout();
    let of_client = |line: &&str| {
        line.contains(r#""tool":"mcp_assets""#) && line.contains(r#""client":"test 1""#)
    };
    assert_eq!(audit.lines().filter(of_client).count(), 3, "{audit}");
}
