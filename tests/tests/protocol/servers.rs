//! MCP servers as tools: how they are added and approved, what they may access, and how the host
//! handles misbehaving ones. `mcp/testing` contains the server, which behaves as its file says.

mod asking;
mod changes;
mod embedded;
mod http;
mod login;
mod misbehaving;
mod person;
mod real;
mod sandbox;
mod unconfined;

use std::fs;

use ikigai_tests::host::{Host, Ran};
use ikigai_tests::mcp::Client;
use ikigai_tests::mcp::peer::{define, program};
use serde_json::{Value, json};

/// Adds the peer as `peer`, with the directory of its file, and approves all its tools.
fn add(host: &Host, definition: &Value) -> Ran {
    add_with(host, definition, &[])
}

/// Does the same with these flags.
fn add_with(host: &Host, definition: &Value, flags: &[&str]) -> Ran {
    let file = define(host, definition);
    let dir = file.parent().expect("a directory").display().to_string();
    let file = file.display().to_string();
    let program = program();
    let before = ["mcp", "add", "peer", "--write", &dir, "--yes"];
    host.run(before.iter().chain(flags).chain(&["--", &program, &file]))
}

/// Returns a definition of a peer that writes a journal.
fn recorded(host: &Host, mut definition: Value) -> Value {
    let journal = host.scratch().join("peer/journal");
    definition["journal"] = journal.display().to_string().into();
    definition
}

/// Returns the lines of the journal so far.
fn journal(host: &Host) -> Vec<String> {
    let text = fs::read_to_string(host.scratch().join("peer/journal")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Returns how often the journal contains this line.
fn noted(host: &Host, line: &str) -> usize {
    journal(host).iter().filter(|it| *it == line).count()
}

/// Returns the names of the tools that are offered to a client.
fn names(client: &mut Client) -> Vec<Value> {
    let listed = client.result("tools/list", json!({}));
    let tools = listed["tools"].as_array().expect("a list");
    tools.iter().map(|tool| tool["name"].clone()).collect()
}

/// Returns the definition of a peer with one tool for each of these behaviours, named like them.
fn doing(behaviours: &[&str]) -> Value {
    let tools = behaviours.iter().map(|does| json!({ "name": does, "does": does }));
    json!({ "tools": tools.collect::<Vec<_>>() })
}

/// Calls a tool of the peer, and returns the envelope.
#[track_caller]
fn call(host: &Host, tool: &str, arguments: &Value) -> Value {
    let arguments = arguments.to_string();
    let name = format!("peer__{}", tool.replace('-', "_"));
    host.run(["tool", "call", &name, &arguments]).json()
}

/// Returns the text of an answer.
#[track_caller]
fn text(envelope: &Value) -> &str {
    let text = envelope["result"]["content"][0]["text"].as_str();
    text.unwrap_or_else(|| panic!("no text: {envelope}"))
}

/// Returns the names of the tools that are offered.
fn offered(host: &Host) -> Vec<String> {
    let listed = host.run(["tool", "list", "--json"]).json();
    let tools = listed["tools"].as_array().expect("a list");
    let of_server = tools.iter().filter(|tool| tool["server"] == "peer");
    of_server.map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn a_server_is_added_and_its_tools_are_called_like_any_other() {
    let host = Host::without_system_tools();
    add(&host, &doing(&["echo", "image", "error"])).expect_code(0);
    assert_eq!(offered(&host), ["peer__echo", "peer__error", "peer__image"]);
    // The digits of numbers and the order of members stay as the caller wrote them.
    let ran = host.run(["tool", "call", "peer__echo", r#"{"b":1.10000000000000000001,"a":[]}"#]);
    assert_eq!(text(&ran.json()), r#"{"b":1.10000000000000000001,"a":[]}"#);
    assert_eq!(call(&host, "image", &json!({}))["result"]["content"][1]["mimeType"], "image/png");
    let failed = call(&host, "error", &json!({}));
    assert_eq!(
        (&failed["tool_success"], &failed["result"]["isError"]),
        (&json!(true), &json!(true))
    );
    let record = host.run(["audit", "--json"]).stdout();
    let record = record.lines().next().map(serde_json::from_str::<Value>).expect("a record");
    let record = record.expect("JSON");
    assert_eq!((&record["backend"], &record["server"]), (&json!("mcp"), &json!("peer")));
    assert_eq!(record["grant"]["sandbox"], "require");
    let shown = host.run(["tool", "list"]).stdout();
    assert!(shown.contains("server peer"), "{shown}");
    let shown = host.run(["policy", "show", "peer__echo"]).stdout();
    assert!(shown.contains("peer__echo") && shown.contains("policy.toml:"), "{shown}");
    let listed = host.run(["mcp", "list", "--json"]).json();
    assert_eq!(listed["servers"][0]["state"], "listed", "{listed}");
    let removed = host.run(["mcp", "remove", "peer", "--yes", "--json"]).expect_code(0).json();
    assert_eq!(removed, json!({ "definition": true, "grant": true, "login": false }));
    assert_eq!(offered(&host), [] as [&str; 0]);
    let policy = fs::read_to_string(host.home().join(".config/ikigai/policy.toml"));
    assert_eq!(policy.expect("the policy").trim(), "");
    host.run(["mcp", "remove", "peer", "--yes"]).expect_code(2);
}

#[test]
fn the_entry_of_one_tool_denies_its_calls_and_no_others() {
    let host = Host::without_system_tools();
    add(&host, &doing(&["echo", "env"])).expect_code(0);
    let deny = host.write("ceiling.toml", "[tools.peer__echo]\ndeny = true\n", 0o600);
    let beneath =
        |args: &[&str]| host.run([&["--ceiling", deny.to_str().expect("UTF-8")], args].concat());
    let refused = beneath(&["tool", "call", "peer__echo", "{}"]).expect_code(1).json();
    assert_eq!(refused["error_code"], "PERMISSION_DENIED", "{refused}");
    assert!(refused["error"].to_string().contains("ceiling.toml:2 denies this tool"), "{refused}");
    beneath(&["tool", "call", "peer__env", "{}"]).expect_code(0);
    beneath(&["policy", "test", "peer__echo"]).expect_code(1);
    let offered = beneath(&["tool", "schema", "--provider", "anthropic"]).expect_code(0).stdout();
    assert!(offered.contains("peer__env") && !offered.contains("peer__echo"), "{offered}");
    // Keys that only the whole server can have are an error, not a rule without effect.
    host.write("ceiling.toml", "[tools.peer__echo]\nfs = []\n", 0o600);
    let refused = beneath(&["tool", "call", "peer__echo", "{}"]).expect_code(1).json();
    assert!(refused["error"].to_string().contains("[servers.peer]"), "{refused}");
}

#[test]
fn a_table_of_a_tool_with_the_name_of_a_server_is_reported() {
    let host = Host::without_system_tools();
    add(&host, &doing(&["echo"])).expect_code(0);
    let ceiling = host.write("ceiling.toml", "[tools.peer]\ndeny = true\n", 0o600);
    let ceiling = ceiling.to_str().expect("UTF-8");
    let beneath = |args: &[&str]| host.run([&["--ceiling", ceiling], args].concat());
    let reported = "`[tools.peer]` has no effect, because `peer` is an MCP server";
    let pages: [&[&str]; 2] = [&["policy", "show"], &["doctor"]];
    // The table denies nothing, whatever its author meant.
    beneath(&["tool", "call", "peer__echo", "{}"]).expect_code(0);
    for page in pages {
        let shown = beneath(page).stdout();
        for part in [reported, "ceiling.toml:1: ", "`[servers.peer]`", "`[tools.peer__TOOL]`"] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
    }
    for table in ["servers.peer", "tools.peer__echo"] {
        host.write("ceiling.toml", format!("[{table}]\ndeny = true\n"), 0o600);
        beneath(&["tool", "call", "peer__echo", "{}"]).expect_code(1);
        for page in pages {
            let shown = beneath(page).stdout();
            assert!(!shown.contains("has no effect"), "{table}: {shown}");
        }
    }
    // In the user's file, the name is not reported as that of an unknown tool.
    let policy = host.home().join(".config/ikigai/policy.toml");
    let granted = fs::read_to_string(&policy).expect("the policy");
    fs::write(&policy, format!("{granted}\n[tools.peer]\ndeny = true\n")).expect("written");
    let shown = host.run(["policy", "show"]).expect_code(0).stdout();
    assert!(shown.contains(reported) && !shown.contains("no such tool exists"), "{shown}");
}

#[test]
fn nothing_is_offered_before_a_person_has_seen_it() {
    let host = Host::without_system_tools();
    let file = define(&host, &doing(&["echo"])).display().to_string();
    let dir = host.scratch().join("peer").display().to_string();
    // There is no terminal, and `--yes` is missing.
    let added = host.run(["mcp", "add", "peer", "--read", &dir, "--", &program(), &file]);
    let added = added.expect_code(1).stderr();
    let without_question = "needs a terminal; `ikigai mcp approve peer --yes` approves all of them";
    assert!(added.contains("echo (new)") && added.contains(without_question), "{added}");
    let ran = host.run(["mcp", "approve", "peer", "echo"]).expect_code(1);
    assert!(ran.stderr().contains("`ikigai mcp approve peer echo --yes` approves them"), "{ran}");
    let ran = host.run(["mcp", "show", "peer"]).expect_code(0);
    assert!(ran.stderr().contains("--yes approves all of them"), "{ran}");
    assert_eq!(offered(&host), [] as [&str; 0]);
    let refused = host.run(["tool", "call", "peer__echo", "{}"]).json();
    assert_eq!(refused["error_code"], "TOOL_NOT_FOUND");
    host.run(["mcp", "approve", "peer", "wrong", "--yes"]).expect_code(2);
    let approved = host.run(["mcp", "approve", "peer", "echo", "--yes", "--json"]);
    let approved = approved.expect_code(0).json();
    assert_eq!(approved["granted_again"], false, "{approved}");
    let tools = approved["approved"].as_array().expect("a list");
    let names: Vec<_> = tools.iter().map(|tool| (&tool["name"], &tool["offered_as"])).collect();
    assert_eq!(names, [(&json!("echo"), &json!("peer__echo"))]);
    assert_eq!(tools[0]["digest"].as_str().map(str::len), Some(64), "{approved}");
    let again = host.run(["mcp", "approve", "peer", "--yes", "--json"]).expect_code(0).json();
    assert_eq!(again["approved"], json!([]), "{again}");
    assert_eq!(offered(&host), ["peer__echo"]);
}

#[test]
fn a_definition_without_a_grant_is_not_started() {
    let host = Host::without_system_tools();
    let journal = host.scratch().join("peer/journal");
    let mut definition = doing(&["echo"]);
    definition["journal"] = journal.display().to_string().into();
    let file = define(&host, &definition).display().to_string();
    let text = format!("command = {:?}\nargs = [{file:?}]\n", program());
    host.write("user-tools/peer.mcp.toml", text, 0o644);
    assert_eq!(offered(&host), [] as [&str; 0]);
    let shown = host.run(["mcp", "show", "peer"]).expect_code(1).stdout();
    assert!(shown.contains("was granted nothing") && shown.contains("mcp approve peer"), "{shown}");
    // A file in the workspace does not count as a definition.
    host.write("workspace/.ikigai/tools/other.mcp.toml", "command = \"/bin/true\"\n", 0o644);
    let listed = host.run(["mcp", "list", "--json"]).json();
    assert_eq!(listed["servers"].as_array().map(Vec::len), Some(1), "{listed}");
    assert!(!journal.exists(), "the server was started");
}

#[test]
fn a_definition_or_a_grant_with_a_mistake_is_said_so() {
    let host = Host::without_system_tools();
    for (args, expected) in [
        (&["a b", "--", "true"][..], "not a valid server name"),
        (&["x"], "neither a program nor a URL"),
        (&["x", "https://a.example", "--", "true"], "cannot be used with"),
        (&["x", "--", "no-such-program"], "there is no program `no-such-program`"),
        (&["x", "--env", "IKIGAI_STORE", "--", "true"], "IKIGAI_STORE"),
        (&["x", "--read", "/missing", "--", "true"], "/missing"),
        (&["x", "--token-env", "T", "--", "true"], "cannot be used with"),
        (&["x", "http://a.example/mcp"], "is not https"),
        (&["x", "https://user:secret@a.example/mcp"], "has a password"),
    ] {
        let ran = host.run(["mcp", "add"].iter().chain(args)).expect_code(2);
        assert!(ran.stderr().contains(expected), "{args:?}: {ran}");
    }
    host.write("user-tools/broken.mcp.toml", "comand = \"/bin/true\"\n", 0o644);
    let listed = host.run(["mcp", "list"]).stdout();
    assert!(listed.contains("did you mean `command`?"), "{listed}");
    let doctor = host.run(["doctor"]).stdout();
    assert!(doctor.contains("did you mean `command`?"), "{doctor}");
    assert!(host.user_tools().join("broken.mcp.toml").exists());
    assert!(!host.user_tools().join("x.mcp.toml").exists());
}

#[test]
fn a_program_that_downloads_is_warned_of_and_its_network_explained() {
    let host = Host::without_system_tools();
    // `npx` does this without a network and without a cache.
    let npx = host.write(
        "bin/npx",
        "#!/bin/sh\n[ \"$npm_config_offline\" = true ] || sleep 600\n\
                echo 'npm error ENOTFOUND' >&2\nexit 1\n",
        0o755,
    );
    let npx = npx.display().to_string();
    let ran = host.run(["mcp", "add", "x", "--yes", "--", &npx, "-y", "server@latest"]);
    let ran = ran.expect_code(1).stderr();
    for expected in [
        "is not bound by the digest",
        "`@latest`",
        "ENOTFOUND",
        "--net HOST:PORT",
        "nothing was added",
    ] {
        assert!(ran.contains(expected), "{expected}: {ran}");
    }
    assert!(!host.user_tools().join("x.mcp.toml").exists());
    assert!(!host.home().join(".config/ikigai/policy.toml").exists());
}

#[test]
fn a_definition_chooses_among_the_tools_of_its_server() {
    let host = Host::without_system_tools();
    let added = add_with(&host, &doing(&["echo", "env"]), &["--tools", "echo"]).expect_code(0);
    assert!(!added.stderr().contains("peer__env"), "{added}");
    assert_eq!(offered(&host), ["peer__echo"]);
    let listed = host.run(["mcp", "list", "--json"]).json();
    let tools = listed["servers"][0]["tools"].as_array().expect("a list");
    let standings: Vec<_> = tools.iter().map(|it| (&it["name"], &it["standing"])).collect();
    let expected = [("echo", "approved"), ("env", "not_chosen")].map(|(a, b)| (json!(a), json!(b)));
    assert_eq!(standings, expected.each_ref().map(|(name, standing)| (name, standing)));
    let approved = host.run(["mcp", "approve", "peer", "env", "--yes"]).expect_code(2);
    assert!(approved.stderr().contains("does not choose `env`"), "{approved}");
    assert_eq!(call(&host, "env", &json!({}))["error_code"], "TOOL_NOT_FOUND");
    assert_eq!(text(&call(&host, "echo", &json!({}))), "{}");
}

#[test]
fn a_tool_of_ones_own_keeps_its_name() {
    let host = Host::without_system_tools();
    let own = host.script("peer__echo", "echo '\"my own\"'").display().to_string();
    add(&host, &doing(&["echo", "env"])).expect_code(0);
    assert_eq!(call(&host, "echo", &json!({}))["result"], "my own");
    assert_eq!(offered(&host), ["peer__env"]);
    let warned = host.run(["tool", "list"]).expect_code(0).stderr();
    let expected = "warning: `echo` of the server `peer` is not offered";
    assert!(warned.contains(expected) && warned.contains(&own), "{warned}");
}

#[test]
fn clients_are_told_what_the_grant_allows_and_not_what_the_server_says_of_itself() {
    let host = Host::without_system_tools();
    let file = define(
        &host,
        &json!({ "tools": [
            { "name": "mild", "annotations": { "readOnlyHint": true, "openWorldHint": false } },
            { "name": "wild", "annotations": { "readOnlyHint": false, "openWorldHint": true } },
        ] }),
    );
    let (file, program) = (file.display().to_string(), program());
    let dir = host.scratch().join("peer").display().to_string();
    for (flags, read_only, open_world) in [
        (&["--read", &dir][..], true, false),
        (&["--write", &dir], false, false),
        (&["--read", &dir, "--net", "*"], false, true),
    ] {
        let (before, after) = (["mcp", "add", "peer", "--yes"], ["--", &program, &file]);
        host.run(before.iter().chain(flags).chain(&after)).expect_code(0);
        let mut client = Client::start(host.command().args(["mcp", "serve"]));
        let listed = client.result("tools/list", json!({}));
        for tool in [0, 1].map(|index| &listed["tools"][index]) {
            let hints = &tool["annotations"];
            let expected = json!({ "readOnlyHint": read_only, "openWorldHint": open_world });
            assert_eq!(*hints, expected, "{flags:?}: {tool}");
        }
        client.wait().0.expect_code(0);
    }
}
