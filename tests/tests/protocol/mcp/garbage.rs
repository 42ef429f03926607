//! Lines that are not messages, and messages that make no sense.

use ikigai_tests::host::Host;
use ikigai_tests::mcp::Client;
use serde_json::{Value, json};

use crate::mcp::{modern, server};

#[test]
fn a_line_that_is_no_message_is_answered_and_the_next_is_served() {
    let host = Host::without_system_tools();
    host.script("quick", "echo 1");
    let mut client = modern(&host);
    let long = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":"{}"}}"#,
        "x".repeat(25 << 20)
    );
    for (line, code) in [
        ("garbage", -32700),
        ("{\"jsonrpc\":", -32700),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, -32600),
        ("[]", -32600),
        ("null", -32600),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, -32600),
        (&long, -32600),
    ] {
        client.send_line(line);
        let answer = client.any();
        let line = &line[..line.len().min(60)];
        assert_eq!(answer["error"]["code"], code, "{line}: {answer}");
        assert_eq!(answer.get("id"), None, "{line}: {answer}");
        assert_eq!(client.call("quick", &json!({}))["content"][0]["text"], "1", "after {line}");
    }
    client.send_line(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}");
    assert_eq!(client.any()["error"]["code"], -32700);
    let unknown = client.request("tools/destroy", json!({}));
    assert_eq!(unknown["error"]["code"], -32601, "{unknown}");
    client.wait().0.expect_code(0);
}

#[test]
fn a_call_whose_arguments_are_no_object_is_refused_and_recorded() {
    let host = Host::without_system_tools();
    host.script("quick", "echo 1");
    let mut client = modern(&host);
    let wrong = [json!([1]), json!("x"), json!(7), json!(false)];
    for arguments in &wrong {
        let call = json!({ "name": "quick", "arguments": arguments });
        let refused = client.request("tools/call", call);
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
        let message = refused["error"]["message"].as_str().expect("a message");
        assert!(message.contains("not a JSON object"), "{refused}");
    }
    client.wait().0.expect_code(0);
    let audit = host.run(["audit", "--json"]).expect_code(0).stdout();
    let parts = [r#""via":"mcp""#, r#""tool":"quick""#, r#""outcome":"INVALID_PARAMS""#];
    let is_refusal = |line: &&str| parts.iter().all(|part| line.contains(part));
    assert_eq!(audit.lines().filter(is_refusal).count(), wrong.len(), "{audit}");
}

#[test]
fn a_client_that_sends_nothing_but_garbage_is_answered_sixteen_times() {
    let host = Host::without_system_tools();
    let mut client = modern(&host);
    for _ in 0..1000 {
        client.send_line("garbage");
    }
    assert_eq!(client.request("tools/list", json!({}))["result"]["tools"], json!([]));
    let (ran, left) = client.wait();
    assert_eq!(left.len(), 16);
    let ran = ran.expect_code(0);
    assert!(ran.stderr().contains("1000 lines"), "{ran}");
}

#[test]
fn an_id_in_flight_is_not_taken_twice() {
    let host = Host::without_system_tools();
    let go = host.workspace().join("go");
    host.script("slow", &format!("while ! [ -e '{}' ]; do sleep 0.01; done; echo 1", go.display()));
    let mut client = modern(&host);
    let id = client.ask_call("slow", &json!({}));
    client.send(&json!({ "jsonrpc": "2.0", "id": id, "method": "tools/list" }));
    let refused = client.any();
    assert_eq!((&refused["error"]["code"], refused.get("id")), (&json!(-32600), None), "{refused}");
    std::fs::write(&go, "").expect("written");
    assert_eq!(client.answer(id)["result"]["content"][0]["text"], "1");
}

#[test]
fn a_malformed_line_does_not_answer_for_another_request() {
    let host = Host::without_system_tools();
    let go = host.workspace().join("go");
    host.script("slow", &format!("while ! [ -e '{}' ]; do sleep 0.01; done; echo 1", go.display()));
    let mut client = modern(&host);
    let id = client.ask_call("slow", &json!({}));
    client.send(&json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": 7 }));
    assert_eq!(client.any().get("id"), None);
    // A malformed answer does not count as a question.
    client.send(&json!({ "jsonrpc": "1.0", "id": "x", "result": {} }));
    assert_eq!(client.any().get("id"), None);
    std::fs::write(&go, "").expect("written");
    assert_eq!(client.answer(id)["result"]["content"][0]["text"], "1");
}

#[test]
fn a_method_that_is_not_offered_is_unknown_however_it_is_written() {
    let host = Host::without_system_tools();
    let about = json!({
        "ref": { "type": "ref/prompt", "name": "x" },
        "argument": { "name": "a", "value": "b" },
    });
    for mut client in [modern(&host), crate::mcp::legacy(&host)] {
        for (method, params) in [
            ("completion/complete", about.clone()),
            ("completion/complete", json!({ "ref": 7 })),
            ("completion/complete", json!({})),
            ("prompts/list", json!({})),
            ("prompts/get", json!({ "name": "x" })),
            ("prompts/get", json!({ "name": 7 })),
        ] {
            let refused = client.request(method, params.clone());
            assert_eq!(refused["error"]["code"], -32601, "{method} {params}: {refused}");
        }
        // This method is offered, so the error is about its parameters.
        let refused = client.request("tools/call", json!({ "name": 7 }));
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
        client.wait().0.expect_code(0);
    }
}

#[test]
fn a_client_that_does_not_read_stderr_is_answered() {
    let host = Host::without_system_tools();
    let mut client = modern(&host);
    // Each request is the client's fault and is logged. This client reads stderr only at the end.
    let method = format!("nope/{}", "x".repeat(1000));
    for _ in 0..2000 {
        assert_eq!(client.request(&method, json!({}))["error"]["code"], -32601);
    }
    client.wait().0.expect_code(0);
}

#[test]
fn what_comes_before_the_first_request_does_not_end_the_server() {
    let host = Host::without_system_tools();
    let mut client = Client::start(&mut server(&host));
    client.notify("notifications/initialized", json!({}));
    client.notify("notifications/cancelled", json!({ "requestId": 1 }));
    client.send(&json!({ "jsonrpc": "2.0", "id": 7, "result": {} }));
    client.send_line("");
    assert_eq!(client.result("tools/list", json!({}))["tools"], json!([]));
    // Answers to questions that were never asked have no effect later either.
    client.send(&json!({ "jsonrpc": "2.0", "id": 7, "result": {} }));
    client.send(&json!({ "jsonrpc": "2.0", "id": 7, "error": { "code": 1, "message": "x" } }));
    assert_eq!(client.result("tools/list", json!({}))["tools"], json!([]));
    client.wait().0.expect_code(0);
}

#[test]
fn a_client_that_looks_before_it_shakes_hands_is_served() {
    // Claude Code does this: it first probes for the newest revision, and then shakes hands in an
    // older one.
    let host = Host::without_system_tools();
    let mut client = Client::start(&mut server(&host));
    client.result("server/discover", json!({}));
    let handshake = json!({
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": { "name": "c", "version": "1" },
    });
    client
        .send(&json!({ "jsonrpc": "2.0", "id": "h", "method": "initialize", "params": handshake }));
    let answer = client.wait_for(|message| message["id"] == "h");
    assert_eq!(answer["result"]["protocolVersion"], "2025-06-18", "{answer}");
    client.send(&json!({ "jsonrpc": "2.0", "id": "l", "method": "tools/list" }));
    let listed = client.wait_for(|message| message["id"] == "l");
    assert_eq!(listed["result"]["tools"], json!([]));
    assert_eq!(listed["result"].get("ttlMs"), None, "the older revisions have no such member");
    assert_eq!(listed["result"].get("resultType"), None::<&Value>, "{listed}");
}

#[test]
fn a_client_that_sends_nothing_or_half_a_line_leaves_nothing() {
    let host = Host::without_system_tools();
    for line in ["", "{\"jsonrpc\":"] {
        let ran = host.run_with(["mcp", "serve"], line.as_bytes()).expect_code(0);
        assert_eq!(ran.stdout().contains("-32700"), !line.is_empty(), "{ran}");
    }
    host.assert_nothing_left();
}
