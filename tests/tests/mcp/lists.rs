//! The list of tools: its pages, its annotations and its changes.

use std::fs;

use ikigai_tests::component::{Ending, printing};
use ikigai_tests::host::{Host, schema};
use ikigai_tests::mcp::Client;
use serde_json::{Value, json};

use crate::{legacy, modern, server};

fn tool(client: &mut Client, name: &str) -> Value {
    let mut tools = client.result("tools/list", json!({}));
    let tools = tools["tools"].as_array_mut().expect("a list");
    tools.iter_mut().find(|tool| tool["name"] == name).map(Value::take).unwrap_or_default()
}

#[test]
fn annotations_are_those_of_the_grant() {
    let host = Host::new();
    host.script("own", "echo 1");
    let hints = |tool: &Value| {
        let hint = |name: &str| tool["annotations"][name].as_bool().expect("a hint");
        (hint("readOnlyHint"), hint("openWorldHint"))
    };
    let mut client = modern(&host);
    for (name, expected) in [
        ("grep", (true, false)),
        ("file_read", (true, false)),
        ("file_write", (false, false)),
        // Without a sandbox it can do what its user can.
        ("own", (false, true)),
    ] {
        assert_eq!(hints(&tool(&mut client, name)), expected, "{name}");
    }
    // A tool that is denied may be granted anything after it was listed.
    let mut command = host.command();
    command.args(["--profile", "strict", "mcp", "serve"]);
    assert_eq!(hints(&tool(&mut Client::start(&mut command), "own")), (false, true));
    // The grant changes, and the client is told.
    client.wait().0.expect_code(0);
    let mut client = legacy(&host);
    assert_eq!(hints(&tool(&mut client, "grep")), (true, false));
    let policy = "[tools.grep]\nnet = [\"example.com:443\"]\nfs = [\"rw:.\"]\n";
    host.write("home/.config/ikigai/policy.toml", policy, 0o600);
    client.notification("notifications/tools/list_changed");
    assert_eq!(hints(&tool(&mut client, "grep")), (false, true));
}

#[test]
fn a_tool_that_is_installed_is_announced_and_listed() {
    let host = Host::without_system_tools();
    for mut client in [legacy(&host), {
        let mut client = modern(&host);
        client
            .ask("subscriptions/listen", json!({ "notifications": { "toolsListChanged": true } }));
        client.notification("notifications/subscriptions/acknowledged");
        client
    }] {
        assert_eq!(tool(&mut client, "fresh"), Value::Null);
        let file = host.script("fresh", "echo 1");
        client.notification("notifications/tools/list_changed");
        assert_eq!(tool(&mut client, "fresh")["name"], "fresh");
        assert_eq!(client.call("fresh", &json!({}))["content"][0]["text"], "1");
        fs::remove_file(file).expect("removed");
        client.notification("notifications/tools/list_changed");
        client.wait().0.expect_code(0);
    }
}

#[test]
fn the_first_list_has_the_components_that_are_compiled_for_it() {
    let host = Host::without_system_tools();
    let component = printing(schema("fresh"), Ending::Well);
    host.write("user-tools/fresh.wasm", component, 0o644);
    assert_eq!(tool(&mut modern(&host), "fresh")["name"], "fresh");
}

#[test]
fn a_tool_that_was_just_installed_can_be_called_before_it_is_listed() {
    let host = Host::without_system_tools();
    let mut client = modern(&host);
    client.result("tools/list", json!({}));
    host.script("fresh", "echo 1");
    assert_eq!(client.call("fresh", &json!({}))["content"][0]["text"], "1");
}

#[test]
fn a_long_list_has_pages_and_a_stale_cursor_is_refused() {
    let host = Host::without_system_tools();
    for number in 0..260 {
        host.script(&format!("tool_{number:03}"), "echo 1");
    }
    let mut client = modern(&host);
    let first = client.result("tools/list", json!({}));
    let cursor = first["nextCursor"].as_str().expect("a second page").to_owned();
    let second = client.result("tools/list", json!({ "cursor": cursor }));
    let names = |page: &Value| -> Vec<String> {
        let tools = page["tools"].as_array().expect("a list").iter();
        tools.map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
    };
    let all = [names(&first), names(&second)].concat();
    assert_eq!(all, (0..260).map(|number| format!("tool_{number:03}")).collect::<Vec<_>>());
    assert_eq!(second.get("nextCursor"), None);
    host.script("tool_another", "echo 1");
    for cursor in [&*cursor, "nonsense", ""] {
        let refused = client.request("tools/list", json!({ "cursor": cursor }));
        assert_eq!(refused["error"]["code"], -32602, "{cursor}: {refused}");
    }
}

#[test]
fn only_the_tools_that_were_named_are_offered() {
    let host = Host::new();
    let mut command = server(&host);
    command.args(["--tools", "grep,glob"]);
    let mut client = Client::start(&mut command);
    let tools = client.result("tools/list", json!({}));
    let names: Vec<_> =
        tools["tools"].as_array().expect("a list").iter().map(|it| &it["name"]).collect();
    assert_eq!(names, ["glob", "grep"]);
    let refused =
        client.request("tools/call", json!({ "name": "bash", "arguments": { "command": "id" } }));
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
}

#[test]
fn keywords_that_clients_refuse_at_the_root_are_not_listed_and_still_hold() {
    let host = Host::without_system_tools();
    let schema = json!({
        "name": "either", "description": "Takes one of two",
        "parameters": {
            "type": "object",
            "properties": { "a": { "type": "string" }, "b": { "type": "string" } },
            "anyOf": [{ "required": ["a"] }, { "required": ["b"] }],
        },
        "returns": { "type": "object", "properties": { "n": { "type": "integer" } } },
    });
    host.program(
        "either",
        format!(
            "#!/bin/sh\n[ \"$1\" = --schema ] && exec printf %s '{schema}'\nprintf '{{\"n\":1}}'\n"
        ),
    );
    let mut client = modern(&host);
    let listed = tool(&mut client, "either");
    assert_eq!(listed["inputSchema"].get("anyOf"), None, "{listed}");
    assert_eq!(listed["outputSchema"], schema["returns"], "{listed}");
    assert_eq!(client.call("either", &json!({}))["isError"], true);
    let result = client.call("either", &json!({ "a": "x" }));
    assert_eq!(result["structuredContent"], json!({ "n": 1 }), "{result}");
    assert_eq!(result["content"][0]["text"], r#"{"n":1}"#, "{result}");
}
