//! `ikigai mcp serve`, mostly on stdin and stdout: its answers in every revision of the protocol,
//! and its behaviour with clients that are careless, hostile or gone.

mod coding_agents;
mod commands;
mod conformance;
mod consent;
mod content;
mod garbage;
mod http;
mod install;
mod judges;
mod lists;
mod load;
mod python;
mod resources;
mod session;

use std::fs;
use std::io::Write as _;

use ikigai_tests::component::{Ending, printing};
use ikigai_tests::host::{Host, schema};
use ikigai_tests::mcp::{Client, LEGACY, MODERN};
use rustix::process::Signal;
use serde_json::{Value, json};

/// Returns the command of a server.
fn server(host: &Host) -> std::process::Command {
    let mut command = host.command();
    command.args(["mcp", "serve"]);
    command
}

/// Returns the command of a server with its environment, for clients that pass on no environment.
fn server_in_words(host: &Host) -> Vec<String> {
    let command = host.command();
    let mut words = vec!["/usr/bin/env".to_owned()];
    for (name, value) in command.get_envs() {
        let (name, value) = (name.display(), value.expect("a value").display());
        words.push(format!("{name}={value}"));
    }
    words.push(command.get_program().display().to_string());
    words.extend(["--workspace".to_owned(), host.workspace().display().to_string()]);
    words.extend(["mcp", "serve"].map(str::to_owned));
    words
}

/// Returns a client that uses the newest revision.
fn modern(host: &Host) -> Client {
    Client::start(&mut server(host))
}

/// Returns a client that shook hands in the newest revision that has a handshake.
fn legacy(host: &Host) -> Client {
    Client::legacy(&mut server(host), LEGACY[3]).0
}

/// Returns the text of the result of a call.
#[track_caller]
fn text(result: &Value) -> &str {
    assert_eq!(result["content"][0]["type"], "text", "{result}");
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}"))
}

#[test]
fn a_client_of_any_revision_finds_and_calls_a_tool() {
    let host = Host::new();
    host.write("workspace/note.txt", "a line\n", 0o644);
    let arguments = json!({ "file_path": "note.txt" });
    let check = |client: &mut Client| {
        let tools = client.result("tools/list", json!({}));
        let names = tools["tools"].as_array().expect("a list").iter().map(|tool| &tool["name"]);
        let all = ["bash", "file_edit", "file_read", "file_write", "glob", "grep"];
        assert!(names.eq(all.iter()), "{tools}");
        let result = client.call("file_read", &arguments);
        assert_eq!(text(&result), "a line\n");
        assert_eq!(result["isError"], false);
    };
    for revision in LEGACY {
        let (mut client, answer) = Client::legacy(&mut server(&host), revision);
        assert_eq!(answer["result"]["protocolVersion"], revision, "{answer}");
        assert_eq!(answer["result"]["serverInfo"]["name"], "ikigai");
        check(&mut client);
        assert_eq!(client.result("ping", json!({})), json!({}));
        let (ran, left) = client.wait();
        ran.expect_code(0);
        assert_eq!(left, Vec::<Value>::new());
    }
    let mut client = modern(&host);
    let found = client.result("server/discover", json!({}));
    assert!(
        found["supportedVersions"].as_array().expect("a list").contains(&json!(MODERN)),
        "{found}"
    );
    check(&mut client);
    let listed = client.result("tools/list", json!({}));
    assert_eq!((&listed["ttlMs"], &listed["cacheScope"]), (&json!(60_000), &json!("private")));
    assert_eq!(client.request("ping", json!({}))["error"]["code"], -32601);
    client.wait().0.expect_code(0);
    host.assert_nothing_left();
}

#[test]
fn a_revision_is_agreed_on_or_refused_with_those_that_there_are() {
    let host = Host::without_system_tools();
    // A handshake in an unknown revision is answered with a known one.
    let (client, answer) = Client::legacy(&mut server(&host), "2019-01-01");
    assert_eq!(answer["result"]["protocolVersion"], LEGACY[3], "{answer}");
    client.wait().0.expect_code(0);
    let mut client = Client::start(&mut server(&host));
    let meta = |version: &str| {
        json!({ "_meta": {
            "io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientCapabilities": {},
        } })
    };
    let mut ask = |id: u64, params: Value| {
        client
            .send(&json!({ "jsonrpc": "2.0", "id": id, "method": "tools/list", "params": params }));
        client.answer(id)
    };
    let refused = ask(1, meta("2036-01-01"));
    assert_eq!(refused["error"]["code"], -32022, "{refused}");
    let supported = refused["error"]["data"]["supported"].as_array().expect("a list");
    assert!(supported.contains(&json!(MODERN)), "{refused}");
    let refused = ask(2, json!({}));
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    assert!(refused["error"]["message"].as_str().expect("a text").contains("protocolVersion"));
    assert!(ask(3, meta(MODERN))["result"].is_object());
}

#[test]
fn arguments_reach_the_tool_and_its_answer_the_client_byte_for_byte() {
    let host = Host::without_system_tools();
    host.script("echo", "cat");
    let mut client = modern(&host);
    let arguments = r#"{ "b":1.10000000000000000000001, "a" : [1e400,{"arguments":"ü\u00fc"}] }"#;
    client.send_line(format!(
        r#"{{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{{"arguments":{arguments},"name":"echo","_meta":{{"io.modelcontextprotocol/protocolVersion":"{MODERN}","io.modelcontextprotocol/clientCapabilities":{{}}}}}}}}"#
    ));
    let answer = client.wait_for(|message| message["id"] == "x");
    assert_eq!(text(&answer["result"]), arguments);
}

#[test]
fn failures_are_results_that_the_model_reads() {
    let host = Host::new();
    host.script("broken", "echo 'out of luck' >&2; exit 3");
    host.script("babbling", "echo no JSON");
    let noise = "head -c 10240 /dev/zero | tr '\\0' '#' >&2";
    host.script("noisy", &format!("printf BEGIN >&2; {noise}; printf END >&2; exit 3"));
    host.write("user-tools/spinning.wasm", printing(schema("spinning"), Ending::Well), 0o644);
    let mut client = modern(&host);
    let mut failure = |tool: &str, arguments: Value| {
        let result = client.call(tool, &arguments);
        assert_eq!(result["isError"], true, "{result}");
        let code = result["_meta"]["ikigai/error_code"].clone();
        (text(&result).to_owned(), code)
    };
    let (text, code) = failure("broken", json!({}));
    assert!(text.contains("out of luck") && text.contains('3'), "{text}");
    assert_eq!(code, "TOOL_CRASHED");
    assert_eq!(failure("babbling", json!({})).1, "INVALID_OUTPUT");
    // The end of the tool's stderr is shown.
    let (text, _) = failure("noisy", json!({}));
    assert!(text.ends_with("#END") && !text.contains("BEGIN"), "{text}");
    assert_eq!(text.matches('#').count(), (4 << 10) - "END".len());
    // If a tool's answer is an error, it is an error for the client as well.
    let (text, code) = failure("file_read", json!({ "file_path": "missing" }));
    assert!(text.contains("FILE_NOT_FOUND"), "{text}");
    assert_eq!(code, Value::Null);
    let (text, _) = failure("grep", json!({ "path": 7 }));
    assert!(text.contains("`/path`") && text.contains("pattern"), "{text}");
    // An unknown tool, and arguments that are not an object, are errors of the request.
    let error = client.request("tools/call", json!({ "name": "gerp", "arguments": {} }));
    assert_eq!(error["error"]["code"], -32602, "{error}");
    assert!(error["error"]["message"].as_str().expect("a text").contains("`grep`"), "{error}");
    let error = client.request("tools/call", json!({ "name": "grep", "arguments": [] }));
    assert_eq!(error["error"]["code"], -32602, "{error}");
    let error = client.request("tools/call", json!({ "arguments": {} }));
    assert_eq!(error["error"]["code"], -32602, "{error}");
}

#[test]
fn a_limit_and_a_denial_are_named() {
    let host = Host::without_system_tools();
    host.script("endless", "sleep 1000");
    let mut command = host.command();
    command.args(["--timeout", "300ms", "mcp", "serve"]);
    let mut client = Client::start(&mut command);
    let result = client.call("endless", &json!({}));
    assert_eq!(result["_meta"]["ikigai/error_code"], "TOOL_TIMEOUT", "{result}");
    assert_eq!(result["_meta"]["ikigai/limit"], "wall_clock", "{result}");
    client.wait().0.expect_code(0);
    let mut command = host.command();
    command.args(["--profile", "strict", "mcp", "serve"]);
    let mut client = Client::start(&mut command);
    let result = client.call("endless", &json!({}));
    assert_eq!(result["_meta"]["ikigai/error_code"], "PERMISSION_DENIED", "{result}");
    // The message tells the user what to do.
    assert!(text(&result).contains("ikigai policy grant endless"), "{result}");
    client.wait().0.expect_code(0);
    host.assert_nothing_left();
}

#[test]
fn a_command_that_is_ended_leaves_what_it_printed() {
    let host = Host::new();
    let mut command = host.command();
    command.args(["--backend", "native", "--timeout", "1s", "mcp", "serve"]);
    let mut client = Client::start(&mut command);
    let result = client.call("bash", &json!({ "command": "echo 'a \"b\"'; sleep 1000" }));
    assert_eq!(result["isError"], true, "{result}");
    let expected = "Tool 'bash' timed out after 1s\n\nIts output until then:\na \"b\"";
    assert_eq!(text(&result), expected);
    client.wait().0.expect_code(0);
    host.assert_nothing_left();
}

#[test]
fn a_client_learns_of_background_processes_that_were_ended() {
    let host = Host::new();
    let mut command = host.command();
    command.args(["--backend", "native", "mcp", "serve"]);
    let mut client = Client::start(&mut command);
    let result = client.call("bash", &json!({ "command": "(sleep 1000 &); echo started" }));
    assert_eq!(text(&result), "started\nexit_code: 0");
    let said = &result["content"][1]["text"];
    assert_eq!(said, "1 background process was ended: nothing outlives the call");
    let result = client.call("bash", &json!({ "command": "true & wait; echo done" }));
    assert!(result["content"].get(1).is_none(), "{result}");
    client.wait().0.expect_code(0);
}

#[test]
fn a_refusal_within_a_call_names_the_command_that_allows_it() {
    let host = Host::new();
    let mut client = modern(&host);
    let result = client.call("grep", &json!({ "pattern": "root", "path": "/etc/passwd" }));
    assert_eq!(result["isError"], true, "{result}");
    let said = result["content"][1]["text"].as_str().expect("a text");
    assert!(said.contains("Tell the user") && said.contains("ikigai policy grant grep"), "{said}");
}

#[test]
fn a_client_learns_what_was_renamed_after_its_call() {
    let host = Host::new();
    let mut command = host.command();
    command.args(["--backend", "native", "mcp", "serve"]);
    let mut client = Client::start(&mut command);
    let result = client.call("bash", &json!({ "command": "echo made >.envrc; echo done" }));
    assert!(text(&result).contains("done"), "{result}");
    let renamed = result["content"][1]["text"].as_str().expect("a text");
    assert!(renamed.contains(".envrc.withheld"), "{result}");
    client.wait().0.expect_code(0);
}

#[test]
fn a_cancelled_call_ends_and_is_not_answered() {
    let host = Host::without_system_tools();
    let began = host.workspace().join("began");
    let body = format!("(setsid sleep 1000 &)\ntouch '{}'; sleep 1000", began.display());
    host.script("endless", &body);
    host.script("quick", "echo 1");
    for mut client in [modern(&host), legacy(&host)] {
        let id = client.ask_call("endless", &json!({}));
        client.running().wait_for(&began);
        client.notify("notifications/cancelled", json!({ "requestId": id, "reason": "enough" }));
        let scratch = host.scratch().to_owned();
        client.running().wait_until("nothing of it runs", || {
            ikigai_tests::leftovers::list(&scratch).iter().all(|left| !left.contains("sleep"))
        });
        // The call's id cannot be used again, because a late answer could be taken for another
        // request's.
        client.send(&json!({ "jsonrpc": "2.0", "id": id, "method": "ping" }));
        assert_eq!(client.any()["error"]["code"], -32600);
        assert_eq!(text(&client.call("quick", &json!({}))), "1");
        // Cancelling a call that has ended, or never existed, has no effect.
        client.notify("notifications/cancelled", json!({ "requestId": id }));
        client.notify("notifications/cancelled", json!({ "requestId": 9999 }));
        let ended = client.last_id();
        client.notify("notifications/cancelled", json!({ "requestId": ended }));
        assert_eq!(text(&client.call("quick", &json!({}))), "1");
        let (ran, left) = client.wait();
        ran.expect_code(0);
        assert_eq!(left, Vec::<Value>::new(), "the cancelled call was answered");
        fs::remove_file(&began).expect("it began");
    }
    host.assert_nothing_left();
}

#[test]
fn a_client_that_asks_for_progress_is_told_that_a_call_goes_on() {
    let host = Host::without_system_tools();
    let go = host.workspace().join("go");
    host.script("slow", &format!("while ! [ -e '{}' ]; do sleep 0.01; done; echo 1", go.display()));
    let told = |client: &mut Client| {
        let told = client.notification("notifications/progress");
        assert_eq!(told["params"]["progressToken"], "p", "{told}");
        told["params"]["progress"].as_f64().expect("a number of seconds")
    };
    for mut client in [modern(&host), legacy(&host)] {
        let call = json!({ "name": "slow", "arguments": {}, "_meta": { "progressToken": "p" } });
        let silent = client.ask_call("slow", &json!({}));
        let id = client.ask("tools/call", call);
        assert!(told(&mut client) >= 1.0);
        assert!(told(&mut client) >= 6.0, "again after five seconds");
        fs::write(&go, "").expect("written");
        for id in [id, silent] {
            assert_eq!(text(&client.answer(id)["result"]), "1");
        }
        let (ran, left) = client.wait();
        ran.expect_code(0);
        let is_asked_for = |it: &Value| it["params"]["progressToken"] == "p";
        assert!(left.iter().all(is_asked_for), "{left:?}");
        fs::remove_file(&go).expect("removed");
    }
}

#[test]
fn the_end_of_a_client_is_the_end_of_its_calls() {
    let host = Host::without_system_tools();
    let began = host.workspace().join("began");
    host.script(
        "endless",
        &format!("(setsid sleep 1000 &)\ntouch '{}'; sleep 1000", began.display()),
    );
    // The client closes stdin.
    let mut client = modern(&host);
    client.ask_call("endless", &json!({}));
    client.running().wait_for(&began);
    client.close();
    client.wait().0.expect_code(0);
    host.assert_nothing_left();
    fs::remove_file(&began).expect("it began");
    // The client no longer reads stdout, while stdin stays open.
    let mut running = ikigai_tests::host::Running::start(&mut server(&host));
    let (mut stdin, stdout) = running.take_pipes();
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({ "name": "endless", "arguments": {}, "_meta": meta });
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    writeln!(stdin, "{call}").expect("it reads");
    running.wait_for(&began);
    drop(stdout);
    running.wait().expect_code(0);
    drop(stdin);
    host.assert_nothing_left();
    fs::remove_file(&began).expect("it began");
    // A signal ends the calls at once.
    for signal in [Signal::TERM, Signal::INT] {
        let mut client = modern(&host);
        client.ask_call("endless", &json!({}));
        client.running().wait_for(&began);
        client.signal(signal);
        client.wait().0.expect_code(130);
        host.assert_nothing_left();
        fs::remove_file(&began).expect("it began");
    }
    // If the server is killed, nothing is left.
    let mut client = modern(&host);
    client.ask_call("endless", &json!({}));
    client.running().wait_for(&began);
    client.signal(Signal::KILL);
    assert_eq!(client.wait().0.code(), None);
    host.assert_nothing_left();
}

#[test]
fn a_call_is_recorded_with_its_client() {
    let host = Host::new();
    let mut client = modern(&host);
    client.call("glob", &json!({ "pattern": "*" }));
    client.call("glob", &json!({ "pattern": 1 }));
    client.request("tools/call", json!({ "name": "none", "arguments": {} }));
    client.wait().0.expect_code(0);
    let records = host.run(["audit", "--json"]).expect_code(0).stdout();
    let records: Vec<Value> =
        records.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let seen: Vec<_> = records.iter().map(|it| (&it["tool"], &it["outcome"])).collect();
    let (glob, none) = (json!("glob"), json!("none"));
    let outcomes = ["ok", "INVALID_PARAMS", "TOOL_NOT_FOUND"].map(Value::from);
    assert_eq!(seen, [(&glob, &outcomes[0]), (&glob, &outcomes[1]), (&none, &outcomes[2])]);
    for record in &records {
        assert_eq!(
            (&record["via"], &record["client"]),
            (&json!("mcp"), &json!("test 1")),
            "{record}"
        );
    }
}
