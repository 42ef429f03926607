//! Servers that ask questions and report progress while a call runs. Both arrive at the client of
//! `ikigai mcp serve`.

use std::fs;

use ikigai_host::Digest;
use ikigai_tests::host::Host;
use ikigai_tests::mcp::{Client, LEGACY};
use serde_json::{Value, json};

use crate::servers::{add, call, doing, program};

/// A host with a peer whose only tool asks a question.
fn asking(speaks: &str) -> Host {
    let host = Host::without_system_tools();
    let mut definition = doing(&["elicit"]);
    definition["speaks"] = speaks.into();
    add(&host, &definition).expect_code(0);
    host
}

/// Starts a server for a client that can ask its user.
fn client(host: &Host) -> Client {
    Client::legacy_asking(host.command().args(["mcp", "serve"]), LEGACY[3])
}

/// Returns the answer that a server got to its form.
fn answered(result: &Value) -> Value {
    let text = result["content"][0]["text"].as_str();
    let text = text.unwrap_or_else(|| panic!("no text: {result}"));
    serde_json::from_str(text).expect("the peer answers with JSON")
}

#[test]
fn a_form_of_a_server_is_filled_at_the_client() {
    for speaks in ["legacy", "modern"] {
        let host = asking(speaks);
        let mut client = client(&host);
        for answer in [
            json!({ "action": "accept", "content": { "colour": "green" } }),
            json!({ "action": "decline" }),
            json!({ "action": "cancel" }),
        ] {
            let id = client.ask_call("peer__elicit", &json!({}));
            let form = client.wait_for(|it| it["method"] == "elicitation/create");
            // The person sees which server asks.
            assert_eq!(form["params"]["message"], "The server `peer` asks: Which colour?");
            let schema = &form["params"]["requestedSchema"];
            assert_eq!(schema["properties"]["colour"]["type"], "string", "{form}");
            assert_eq!(schema["required"], json!(["colour"]), "{form}");
            client.send(&json!({ "jsonrpc": "2.0", "id": form["id"], "result": answer }));
            let response = client.answer(id);
            assert_eq!(answered(&response["result"]), answer, "{speaks}");
        }
        client.wait().0.expect_code(0);
        host.assert_nothing_left();
    }
}

#[test]
fn a_form_is_declined_where_nobody_can_fill_it() {
    let declined = json!({ "action": "decline" });
    for speaks in ["legacy", "modern"] {
        let host = asking(speaks);
        let envelope = call(&host, "elicit", &json!({}));
        assert_eq!(answered(&envelope["result"]), declined, "{speaks}");
        // The first client cannot ask. The second uses the revision in which nothing can be asked
        // during a call.
        let mut unable = Client::legacy(host.command().args(["mcp", "serve"]), LEGACY[3]).0;
        assert_eq!(answered(&unable.call("peer__elicit", &json!({}))), declined, "{speaks}");
        unable.wait().0.expect_code(0);
        let mut newest = Client::start(host.command().args(["mcp", "serve"])).asking();
        assert_eq!(answered(&newest.call("peer__elicit", &json!({}))), declined, "{speaks}");
        newest.wait().0.expect_code(0);
    }
}

#[test]
fn a_form_is_taken_back_with_its_call() {
    for speaks in ["legacy", "modern"] {
        let host = asking(speaks);
        let mut client = client(&host);
        let id = client.ask_call("peer__elicit", &json!({}));
        let form = client.wait_for(|it| it["method"] == "elicitation/create");
        client.notify("notifications/cancelled", json!({ "requestId": id }));
        let taken_back = client.notification("notifications/cancelled");
        assert_eq!(taken_back["params"]["requestId"], form["id"], "{speaks}");
        // A late answer has no effect, and the server can be called again.
        let late = json!({ "action": "accept", "content": { "colour": "red" } });
        client.send(&json!({ "jsonrpc": "2.0", "id": form["id"], "result": late }));
        let id = client.ask_call("peer__elicit", &json!({}));
        let form = client.wait_for(|it| it["method"] == "elicitation/create");
        let answer = json!({ "action": "decline" });
        client.send(&json!({ "jsonrpc": "2.0", "id": form["id"], "result": answer }));
        assert_eq!(answered(&client.answer(id)["result"]), answer, "{speaks}");
        client.wait().0.expect_code(0);
        host.assert_nothing_left();
    }
}

#[test]
fn the_progress_of_a_server_reaches_the_client() {
    let host = Host::without_system_tools();
    add(&host, &doing(&["slow", "progress"])).expect_code(0);
    for mut client in [
        Client::start(host.command().args(["mcp", "serve"])),
        Client::legacy(host.command().args(["mcp", "serve"]), LEGACY[3]).0,
    ] {
        let id = client.ask(
            "tools/call",
            json!({
                "name": "peer__slow",
                "arguments": {},
                "_meta": { "progressToken": "p" },
            }),
        );
        let mut last = 0.0;
        for _ in 0..2 {
            // The host's own reports, in seconds, have no message.
            let report = client.wait_for(|it| it["params"]["message"].is_string());
            let params = &report["params"];
            assert_eq!(params["progressToken"], "p", "{report}");
            let progress = params["progress"].as_f64().expect("a number");
            assert!(progress > last, "{report}");
            assert_eq!(params["message"], format!("step {progress}"), "{report}");
            last = progress;
        }
        client.notify("notifications/cancelled", json!({ "requestId": id }));
        // A client that did not ask for progress gets none.
        client.call("peer__progress", &json!({}));
        let of_another = |it: &Value| {
            it["method"] == "notifications/progress" && it["params"]["progressToken"] != "p"
        };
        let (ran, left) = client.wait();
        ran.expect_code(0);
        assert!(!left.iter().any(of_another), "{left:?}");
    }
}

#[test]
fn a_call_waits_for_consent_where_the_entry_of_its_server_says_so() {
    let host = Host::without_system_tools();
    add(&host, &doing(&["echo"])).expect_code(0);
    let policy = host.home().join(".config/ikigai/policy.toml");
    let granted = fs::read_to_string(&policy).expect("the policy");
    let head = "[servers.peer]\n";
    assert!(granted.contains(head), "{granted}");
    let asking = granted.replace(head, &format!("{head}approve = \"always\"\n"));
    fs::write(&policy, asking).expect("written");
    let digest = |bytes: std::io::Result<Vec<u8>>| Digest::from_bytes(&bytes.expect("read"));
    let definition = digest(fs::read(host.user_tools().join("peer.mcp.toml")));
    let contents = format!("sha256 {definition}, {}", digest(fs::read(program())));
    let mut client = client(&host);
    for (action, expected) in [("decline", json!("PERMISSION_DENIED")), ("accept", Value::Null)] {
        let id = client.ask_call("peer__echo", &json!({ "word": "roof" }));
        let form = client.wait_for(|it| it["method"] == "elicitation/create");
        let message = form["params"]["message"].as_str().expect("a text");
        for part in ["`peer__echo`", r#"{"word":"roof"}"#, &contents, "policy.toml:"] {
            assert!(message.contains(part), "{part}: {message}");
        }
        let answer = json!({ "action": action, "content": {} });
        client.send(&json!({ "jsonrpc": "2.0", "id": form["id"], "result": answer }));
        let result = client.answer(id)["result"].take();
        assert_eq!(result["_meta"]["ikigai/error_code"], expected, "{action}: {result}");
        assert_eq!(result["isError"], action == "decline", "{action}: {result}");
    }
    client.wait().0.expect_code(0);
    // Without a person who can be asked, nothing runs.
    assert_eq!(call(&host, "echo", &json!({}))["error_code"], "PERMISSION_DENIED");
}
