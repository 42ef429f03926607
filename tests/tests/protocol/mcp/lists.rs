//! The list of tools: its pages, its annotations and its changes.

use std::fs;

use ikigai_tests::component::{Ending, printing};
use ikigai_tests::host::{Host, schema};
use ikigai_tests::mcp::Client;
use serde_json::{Value, json};

use crate::mcp::{legacy, modern, server};

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
        ("own", (false, false)),
    ] {
        assert_eq!(hints(&tool(&mut client, name)), expected, "{name}");
    }
    // An unconfined tool can do what its user can, and its description says so as well.
    host.run(["policy", "grant", "own", "--unconfined"]).expect_code(0);
    let own = tool(&mut modern(&host), "own");
    assert_eq!(hints(&own), (false, true));
    assert!(own["description"].as_str().is_some_and(|it| it.contains("runs unconfined")), "{own}");
    host.run(["policy", "revoke", "own"]).expect_code(0);
    // A denied tool may be granted anything after it was listed.
    let mut command = host.command();
    command.args(["--profile", "strict", "mcp", "serve"]);
    assert_eq!(hints(&tool(&mut Client::start(&mut command), "own")), (false, true));
    // The grant changes, and the client is notified.
    client.wait().0.expect_code(0);
    let mut client = legacy(&host);
    assert_eq!(hints(&tool(&mut client, "grep")), (true, false));
    let policy = "[tools.grep]\nnet = [\"example.com:443\"]\nfs = [\"rw:.\"]\n";
    host.write_policy(policy);
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
fn what_a_client_listens_to_ends_with_its_result() {
    let host = Host::without_system_tools();
    let mut client = modern(&host);
    let wanted = json!({ "notifications": { "toolsListChanged": true } });
    let id = client.ask("subscriptions/listen", wanted);
    client.notification("notifications/subscriptions/acknowledged");
    let (ran, left) = client.wait();
    ran.expect_code(0);
    let [ended] = &left[..] else { panic!("one message: {left:?}") };
    assert_eq!((&ended["id"], &ended["result"]["resultType"]), (&json!(id), &json!("complete")));
    // An older revision has no such request.
    let mut client = legacy(&host);
    let refused = client.request("subscriptions/listen", json!({ "notifications": {} }));
    assert_eq!(refused["error"]["code"], -32601, "{refused}");
    client.wait().0.expect_code(0);
}

#[test]
fn the_listeners_of_a_connection_are_bounded() {
    const LISTENERS: usize = 16;
    let host = Host::without_system_tools();
    let mut client = modern(&host);
    let wanted = json!({ "notifications": { "toolsListChanged": true } });
    let ids: Vec<u64> = (0..LISTENERS)
        .map(|_| {
            let id = client.ask("subscriptions/listen", wanted.clone());
            client.notification("notifications/subscriptions/acknowledged");
            id
        })
        .collect();
    let refused = client.request("subscriptions/listen", wanted.clone());
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    let message = refused["error"]["message"].as_str().expect("a text");
    assert!(message.contains("listeners"), "{message}");
    // The other subscriptions continue, and the one that ends makes room.
    client.notify("notifications/cancelled", json!({ "requestId": ids[0] }));
    client.result("tools/list", json!({}));
    host.script("fresh", "echo 1");
    for _ in 1..LISTENERS {
        client.notification("notifications/tools/list_changed");
    }
    client.ask("subscriptions/listen", wanted);
    client.notification("notifications/subscriptions/acknowledged");
    client.wait().0.expect_code(0);
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
fn a_tool_that_policy_denies_by_name_is_not_listed_and_a_call_of_it_is_refused() {
    let host = Host::new();
    let policy = host.write_policy("");
    let mut client = legacy(&host);
    assert_eq!(tool(&mut client, "grep")["name"], "grep");
    fs::write(&policy, "[tools.grep]\ndeny = true\n").expect("written");
    client.notification("notifications/tools/list_changed");
    assert_eq!(tool(&mut client, "grep"), Value::Null);
    assert_eq!(tool(&mut client, "glob")["name"], "glob");
    let arguments = json!({ "pattern": "x" });
    let called = client.result("tools/call", json!({ "name": "grep", "arguments": arguments }));
    assert_eq!(called["isError"], true, "{called}");
    assert!(called.to_string().contains("policy.toml:2 denies this tool"), "{called}");
}

#[test]
fn only_the_tools_that_were_named_are_offered() {
    let host = Host::new();
    let mut command = server(&host);
    command.args(["--tools", "grep, glob"]);
    let mut client = Client::start(&mut command);
    let tools = client.result("tools/list", json!({}));
    let names: Vec<_> =
        tools["tools"].as_array().expect("a list").iter().map(|it| &it["name"]).collect();
    assert_eq!(names, ["glob", "grep"]);
    let refused =
        client.request("tools/call", json!({ "name": "bash", "arguments": { "command": "id" } }));
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    let why = refused["error"]["message"].as_str().expect("a text");
    assert!(why.contains("`--tools` of the server leaves it out"), "{refused}");
}

#[test]
fn a_name_that_no_tool_has_is_an_error_at_the_start() {
    let host = Host::new();
    let ran = host.run(["mcp", "serve", "--tools", "grep,bahs"]).expect_code(2);
    let error = "there is no tool `bahs` to offer; did you mean `bash`?";
    assert!(ran.stderr().contains(error), "{ran}");
}

#[test]
fn the_description_of_bash_says_that_it_is_a_sandbox_and_what_it_lacks() {
    let host = Host::new();
    let mut client = Client::start(&mut server(&host));
    let tools = client.result("tools/list", json!({}));
    let tools = tools["tools"].as_array().expect("a list");
    let bash = tools.iter().find(|tool| tool["name"] == "bash").expect("listed");
    let description = bash["description"].as_str().expect("a text");
    // Some clients initially show the model only the first line.
    let first = "Execute a shell command and return output, in a sandbox without a network";
    assert_eq!(description.lines().next(), Some(first), "{description}");
    for part in ["A command is ended after 2m", "in a sandbox", "no network", "home directory"] {
        assert!(description.contains(part), "{part}: {description}");
    }
    assert_eq!(bash["_meta"]["anthropic/maxResultSizeChars"], 30_000, "{bash}");
}

/// Installs a tool with this schema that answers with this text.
fn answering(host: &Host, schema: &Value, answer: &str) {
    let name = schema["name"].as_str().expect("a name");
    let body = format!(
        "#!/bin/sh\n[ \"$1\" = --schema ] && exec printf %s '{schema}'\nprintf %s '{answer}'\n"
    );
    host.program(name, body);
}

#[test]
fn keywords_that_clients_refuse_at_the_root_are_not_listed_and_still_hold() {
    let host = Host::without_system_tools();
    for keyword in ["anyOf", "oneOf", "allOf"] {
        let mut schema = json!({
            "name": keyword.to_ascii_lowercase(), "description": "",
            "parameters": {
                "type": "object",
                "properties": { "a": { "type": "string" }, "b": { "type": "string" } },
            },
            "returns": { "type": "object", "properties": { "n": { "type": "integer" } } },
        });
        schema["parameters"][keyword] = match keyword {
            "allOf" => {
                json!([{ "required": ["a"] }, { "properties": { "a": { "minLength": 1 } } }])
            }
            _ => json!([{ "required": ["a"] }, { "required": ["b"] }]),
        };
        answering(&host, &schema, r#"{"n":1}"#);
    }
    let mut client = modern(&host);
    for keyword in ["anyOf", "oneOf", "allOf"] {
        let name = keyword.to_ascii_lowercase();
        let listed = tool(&mut client, &name);
        assert_eq!(listed["inputSchema"]["properties"]["a"]["type"], "string", "{listed}");
        assert_eq!(listed["inputSchema"].get(keyword), None, "{listed}");
        assert_eq!(listed["outputSchema"]["properties"]["n"]["type"], "integer", "{listed}");
        assert_eq!(client.call(&name, &json!({}))["isError"], true, "{keyword}");
        let result = client.call(&name, &json!({ "a": "x" }));
        assert_eq!(result["structuredContent"], json!({ "n": 1 }), "{result}");
        assert_eq!(result["content"][0]["text"], r#"{"n":1}"#, "{result}");
    }
}

#[test]
fn a_result_that_is_no_object_is_not_described_as_one() {
    let host = Host::without_system_tools();
    for (name, returns, answer) in [
        ("number", json!({ "type": "integer" }), "7"),
        ("several", json!({ "type": ["object", "null"] }), r#"{"n":1}"#),
        ("either", json!({ "anyOf": [{ "type": "object" }, { "type": "string" }] }), r#"{"n":1}"#),
    ] {
        let schema = json!({
            "name": name, "description": "", "returns": returns,
            "parameters": { "type": "object", "properties": {} },
        });
        answering(&host, &schema, answer);
    }
    for mut client in [modern(&host), legacy(&host)] {
        for (name, answer) in [("number", "7"), ("several", r#"{"n":1}"#), ("either", r#"{"n":1}"#)]
        {
            let listed = tool(&mut client, name);
            assert_eq!((&listed["name"], listed.get("outputSchema")), (&json!(name), None));
            let result = client.call(name, &json!({}));
            assert_eq!(result["content"][0]["text"], answer, "{result}");
            assert_eq!(
                (&result["isError"], result.get("structuredContent")),
                (&json!(false), None)
            );
        }
        client.wait().0.expect_code(0);
    }
}
