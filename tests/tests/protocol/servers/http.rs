//! Servers over HTTP as tools: their address, their token, and the places they may redirect to.

use std::os::unix::fs::symlink;

use ikigai_tests::host::{Host, Ran};
use ikigai_tests::mcp::Client;
use ikigai_tests::mcp::peer::HttpPeer;
use serde_json::json;

use crate::servers::{doing, offered, text};

#[test]
fn a_server_over_http_is_used_in_each_of_its_forms() {
    for form in [
        json!({}),
        json!({ "http": { "sse": true } }),
        json!({ "speaks": "legacy", "http": { "sessions": true } }),
        json!({ "speaks": "modern" }),
        json!({ "http": { "redirect": "same" } }),
    ] {
        let host = Host::without_system_tools();
        let mut definition = doing(&["echo"]);
        for (key, value) in form.as_object().expect("an object") {
            definition[key] = value.clone();
        }
        let peer = HttpPeer::start(&host, &definition);
        host.run(["mcp", "add", "peer", &peer.url, "--yes"]).expect_code(0);
        assert_eq!(offered(&host), ["peer__echo"], "{form}");
        let listed = host.run(["tool", "list", "--json"]).json();
        assert_eq!(listed["tools"][0]["sandbox"], "elsewhere", "{listed}");
        let listed = host.run(["tool", "list"]).stdout();
        assert!(listed.contains("elsewhere"), "{listed}");
        let called = host.run(["tool", "call", "peer__echo", r#"{"n":1.10}"#]).json();
        assert_eq!(text(&called), r#"{"n":1.10}"#, "{form}");
    }
}

#[test]
fn a_token_is_sent_to_the_server_and_named_nowhere() {
    let host = Host::without_system_tools().env("PEER_TOKEN", "t0psecret");
    let mut definition = doing(&["echo"]);
    definition["http"] = json!({ "token": "t0psecret" });
    let peer = HttpPeer::start(&host, &definition);
    let refused = host.run(["mcp", "add", "peer", &peer.url, "--yes"]).expect_code(1).stderr();
    assert!(refused.contains("cannot be used"), "{refused}");
    let args = ["mcp", "add", "peer", &peer.url, "--token-env", "PEER_TOKEN", "--yes"];
    host.run(args).expect_code(0);
    let called = host.run(["tool", "call", "peer__echo", "{}"]).json();
    assert_eq!(text(&called), "{}");
    for file in ["state/ikigai/audit.jsonl", "user-tools/peer.mcp.toml"] {
        let text = std::fs::read_to_string(host.scratch().join(file)).expect("read");
        assert!(!text.contains("t0psecret"), "{file}: {text}");
    }
    let mut command = host.command();
    command.env("PEER_TOKEN", "").args(["tool", "call", "peer__echo", "{}"]);
    let unset = Ran::from_command(&mut command, b"");
    assert!(unset.stdout().contains("`PEER_TOKEN`"), "{unset}");
}

#[test]
fn a_command_prints_the_token_and_is_asked_again_when_it_is_refused() {
    let host = Host::without_system_tools();
    let mut definition = doing(&["echo"]);
    definition["http"] = json!({ "token": "t0psecret" });
    let peer = HttpPeer::start(&host, &definition);
    // The first time, the command prints an expired token.
    let seen = host.scratch().join("seen").display().to_string();
    let script = format!(
        "#!/bin/sh\necho \"$1\" >> '{seen}.args'\nif [ -e '{seen}' ]; then echo t0psecret\n\
         else : > '{seen}'; echo 0ldsecret; fi\n"
    );
    let script = host.write("bin/print-token", script, 0o755).display().to_string();
    let command = format!("{script} 'a b'");
    let args = ["mcp", "add", "peer", &peer.url, "--token-command", &command, "--yes"];
    host.run(args).expect_code(0);
    let called = host.run(["tool", "call", "peer__echo", "{}"]).json();
    assert_eq!(text(&called), "{}");
    let asked = std::fs::read_to_string(format!("{seen}.args")).expect("read");
    // The command runs once per process, and once more for the refused token.
    assert_eq!(asked.lines().collect::<Vec<_>>(), ["a b"; 3]);
    let shown = host.run(["mcp", "show", "peer"]).expect_code(0).stdout();
    for text in [
        shown,
        std::fs::read_to_string(host.audit_log()).expect("read"),
        std::fs::read_to_string(host.user_tools().join("peer.mcp.toml")).expect("read"),
    ] {
        assert!(!text.contains("t0psecret") && !text.contains("0ldsecret"), "{text}");
    }
    host.write("bin/print-token", "#!/bin/sh\necho the store is locked >&2\nexit 2\n", 0o755);
    let failed = host.run(["tool", "call", "peer__echo", "{}"]).stdout();
    assert!(failed.contains("the store is locked") && failed.contains("`peer`"), "{failed}");
    host.write("bin/print-token", "#!/bin/sh\necho wr0ng\n", 0o755);
    let refused = host.run(["tool", "call", "peer__echo", "{}"]).stdout();
    assert!(refused.contains("print a valid token") && !refused.contains("wr0ng"), "{refused}");
}

#[test]
fn a_command_that_a_tool_could_change_prints_no_token() {
    let host = Host::without_system_tools();
    let mut definition = doing(&["echo"]);
    definition["http"] = json!({ "token": "t0psecret" });
    let peer = HttpPeer::start(&host, &definition);
    let ran = host.scratch().join("ran");
    let script = format!("#!/bin/sh\n: > '{}'\necho t0psecret\n", ran.display());
    let inside = host.write("workspace/print-token", script, 0o755);
    let outside = host.write("bin/print-token", "#!/bin/sh\necho t0psecret\n", 0o755);
    let link = host.scratch().join("bin/link");
    symlink(&inside, &link).expect("a link");
    let add = |command: &str| {
        host.run(["mcp", "add", "peer", &peer.url, "--token-command", command, "--yes"])
    };
    let [inside, link, safe] = [&inside, &link, &outside].map(|it| it.display().to_string());
    for command in [
        inside.clone(),
        link,
        format!("/bin/sh {inside}"),
        format!("/bin/sh -c 'exec {inside}'"),
        format!("/usr/bin/env {inside}"),
        format!("awk -f {}/key.awk", host.workspace().display()),
        // The file would have variables, code or options of another program in it.
        format!("/bin/sh -c 'env $(cat {inside}) printenv KEY'"),
        format!("/bin/sh -c 'cat {inside} | make -f -'"),
        format!("/bin/cat {inside} {inside}"),
        "/bin/sh -c 'cd && ./workspace/print-token'".to_owned(),
    ] {
        let refused = add(&command).expect_code(1).stderr();
        assert!(refused.contains("a tool could change the command"), "{command}: {refused}");
        assert!(refused.contains("move the program to a directory outside"), "{refused}");
    }
    // The token itself may lie there: a tool that changes it gets no other rights.
    let token = host.write("workspace/token", "t0psecret\n", 0o644).display().to_string();
    for command in [format!("/bin/cat {token}"), safe] {
        add(&command).expect_code(0);
        let called = host.run(["tool", "call", "peer__echo", "{}"]).json();
        assert_eq!(text(&called), "{}", "{command}");
    }
    // The command is checked again when it starts.
    std::fs::remove_file(&outside).expect("removed");
    symlink(&inside, &outside).expect("a link");
    let refused = host.run(["tool", "call", "peer__echo", "{}"]).stdout();
    assert!(refused.contains("a tool could change the command"), "{refused}");
    assert!(!ran.exists());
}

#[test]
fn a_command_for_a_token_is_started_without_a_shell() {
    let host = Host::without_system_tools();
    let url = "https://a.example/mcp";
    for (command, expected) in [
        ("no-such-program x", "there is no program `no-such-program`"),
        ("cat x | head -1", "no shell runs the command"),
        ("cat 'x", "has an unclosed quote"),
        (" ", "is empty"),
    ] {
        let ran = host.run(["mcp", "add", "x", url, "--token-command", command]).expect_code(2);
        assert!(ran.stderr().contains(expected), "{command}: {ran}");
    }
    for flags in [["--oauth", "--token-env=A"], ["--token-command=cat", "--oauth"]] {
        let ran = host.run(["mcp", "add", "x", url].iter().chain(&flags)).expect_code(2);
        assert!(ran.stderr().contains("cannot be used with"), "{ran}");
    }
    let ran = host.run(["mcp", "add", "x", "--oauth", "--", "true"]).expect_code(2);
    assert!(ran.stderr().contains("cannot be used with"), "{ran}");
}

#[test]
fn a_server_leads_nowhere_but_to_itself() {
    let host = Host::without_system_tools();
    let mut definition = doing(&["echo"]);
    definition["http"] = json!({ "redirect": "cross" });
    let peer = HttpPeer::start(&host, &definition);
    let refused = host.run(["mcp", "add", "peer", &peer.url, "--yes"]).expect_code(1).stderr();
    assert!(refused.contains("cannot be used"), "{refused}");
    drop(peer);
    // The address must be granted, as for a component.
    let peer = HttpPeer::start(&host, &doing(&["echo"]));
    let args = ["mcp", "add", "peer", &peer.url, "--net", "mcp.example.com:443", "--yes"];
    let refused = host.run(args).expect_code(1).stderr();
    assert!(refused.contains("is granted"), "{refused}");
}

#[test]
fn clients_are_told_that_a_server_over_http_is_in_the_open_world() {
    let host = Host::without_system_tools();
    let hints = json!({ "readOnlyHint": true, "openWorldHint": false });
    let peer =
        HttpPeer::start(&host, &json!({ "tools": [{ "name": "mild", "annotations": hints }] }));
    host.run(["mcp", "add", "peer", &peer.url, "--yes"]).expect_code(0);
    let mut client = Client::start(host.command().args(["mcp", "serve"]));
    let listed = client.result("tools/list", json!({}));
    let expected = json!({ "readOnlyHint": false, "openWorldHint": true });
    assert_eq!(listed["tools"][0]["annotations"], expected, "{listed}");
    client.wait().0.expect_code(0);
}
