//! Servers that a user lets run without a sandbox, and the rules that keep them in it.

use std::fs;

use ikigai_tests::host::{Host, Ran, USER_POLICY};
use ikigai_tests::mode::permit;
use serde_json::{Value, json};

use crate::servers::{call, define, doing, text};

const CEILING: &str = "ceiling.toml";

/// Adds the peer with these flags, without a directory.
fn add(host: &Host, before: &[&str], flags: &[&str]) -> Ran {
    let file = define(host, &doing(&["read", "env"])).display().to_string();
    let program = program(host);
    let add = ["mcp", "add", "peer", "--yes"];
    host.run([before, &add, flags, &["--", &program, &file]].concat())
}

/// Returns a copy of the peer's program, without the hard links that the build directory contains.
fn program(host: &Host) -> String {
    let program = host.scratch().join("peer/program");
    if !program.exists() {
        fs::copy(crate::servers::program(), &program).expect("copied");
    }
    program.display().to_string()
}

/// Returns the text of the answer if the peer could read a file in the home directory.
fn read(host: &Host, before: &[&str]) -> Option<String> {
    let file = host.write("home/notes", "of the home", 0o644);
    let arguments = json!({ "path": file }).to_string();
    let ran = host.run([before, &["tool", "call", "peer__read", &arguments]].concat());
    let envelope = ran.json();
    let is_answer = envelope["result"].is_object() && envelope["result"]["isError"] != true;
    is_answer.then(|| text(&envelope).to_owned())
}

#[test]
fn a_server_runs_unconfined_once_its_user_says_so() {
    let host = Host::without_system_tools().env("SECRET_TOKEN", "s3cret");
    let ran = add(&host, &[], &["--unconfined"]).expect_code(0);
    let warning = "warning: `peer` runs unconfined then: it can read, change and delete all";
    assert!(ran.stderr().contains(warning), "{ran}");
    let policy = fs::read_to_string(host.scratch().join(USER_POLICY)).expect("a policy");
    assert!(policy.contains("[servers.peer]") && policy.contains("sandbox = \"off\""), "{policy}");

    assert_eq!(read(&host, &[]).as_deref(), Some("of the home"));
    let env = call(&host, "env", &json!({}));
    assert!(text(&env).contains("SECRET_TOKEN=s3cret"), "{env}");
    let records = host.run(["audit", "--json"]).expect_code(0).stdout();
    let record: Value =
        serde_json::from_str(records.lines().last().expect("a record")).expect("JSON");
    assert_eq!(record["grant"]["sandbox"], "off", "{record:#}");
    assert_eq!(record["grant"]["env"], json!(["*"]), "{record:#}");
    let shown = host.run(["audit"]).stdout();
    assert!(shown.contains("unconfined"), "{shown}");
    let listed = host.run(["tool", "list"]).stdout();
    assert!(listed.contains("unconfined"), "{listed}");
    let listed = host.run(["mcp", "list"]).stdout();
    assert!(listed.contains("2 tools; unconfined"), "{listed}");
    let listed = host.run(["mcp", "list", "--json"]).json();
    assert_eq!(listed["servers"][0]["unconfined"], true, "{listed}");

    // The same command without the flag revokes it.
    add(&host, &[], &[]).expect_code(0);
    let policy = fs::read_to_string(host.scratch().join(USER_POLICY)).expect("a policy");
    assert!(!policy.contains("sandbox"), "{policy}");
    assert_eq!(read(&host, &[]), None);
    host.assert_nothing_left();
}

#[test]
fn only_a_server_in_the_sandbox_is_said_to_run_in_one() {
    let host = Host::without_system_tools();
    for (flags, is_sandboxed) in [(&["--unconfined"][..], false), (&[], true)] {
        add(&host, &[], flags).expect_code(0);
        // Without this file the peer does not start.
        fs::remove_file(host.scratch().join("peer/peer.json")).expect("removed");
        let ran = host.run(["mcp", "approve", "peer"]).expect_code(1);
        assert_eq!(ran.stderr().contains("it runs in a sandbox"), is_sandboxed, "{ran}");
        assert!(ran.stderr().contains("`ikigai mcp approve peer` asks it again"), "{ran}");
    }
    host.assert_nothing_left();
}

#[test]
fn strict_and_a_bound_keep_a_server_in_the_sandbox() {
    let host = Host::without_system_tools();
    let ceiling = host.write(CEILING, "[tools.\"*\"]\nnet = []\n", 0o600).display().to_string();
    let bounds = [["--profile", "strict"], ["--ceiling", &ceiling]];
    for bound in bounds {
        let ran = add(&host, &bound, &["--unconfined"]).expect_code(1);
        assert!(ran.stderr().contains("`peer` may not run unconfined"), "{ran}");
        assert!(!host.scratch().join(USER_POLICY).exists(), "{ran}");
    }
    add(&host, &[], &["--unconfined"]).expect_code(0);
    for bound in bounds {
        assert_eq!(read(&host, &bound), None, "{bound:?}");
    }
    assert!(read(&host, &[]).is_some());
    host.assert_nothing_left();
}

#[test]
fn another_program_and_one_that_a_tool_could_replace_do_not_run_unconfined() {
    let host = Host::without_system_tools();
    let file = define(&host, &doing(&["read"])).display().to_string();
    let copy = host.workspace().join("peer");
    fs::copy(crate::servers::program(), &copy).expect("copied");
    let copy = copy.display().to_string();
    let add = ["mcp", "add", "peer", "--yes", "--unconfined", "--", &copy, &file];
    let ran = host.run(add).expect_code(1);
    assert!(ran.stderr().contains("of the workspace, where other tools may write"), "{ran}");

    let program = program(&host);
    let add = ["mcp", "add", "peer", "--yes", "--unconfined", "--", &program, &file];
    host.run(add).expect_code(0);
    assert!(read(&host, &[]).is_some());
    fs::remove_file(&program).expect("removed");
    fs::write(&program, "#!/bin/sh\n").expect("written");
    permit(&program, 0o755);
    let ran = host.run(["mcp", "show", "peer"]).expect_code(1);
    assert!(ran.stdout().contains("is not the file that was granted"), "{ran}");
    let url = ["mcp", "add", "far", "https://mcp.example.com/mcp", "--unconfined"];
    let ran = host.run(url).expect_code(2);
    assert!(ran.stderr().contains("cannot be used with"), "{ran}");
}

/// A server over HTTP runs elsewhere: without a sandbox it could connect to every host.
#[test]
fn the_word_opens_no_host_to_a_server_over_http() {
    let host = Host::without_system_tools();
    host.program("far.mcp.toml", "url = \"https://mcp.example.com/mcp\"\n");
    let digest = ikigai_host::Digest::from_bytes(b"url = \"https://mcp.example.com/mcp\"\n");
    let entry = format!("[servers.far]\nsandbox = \"off\"\nsha256 = [\"{digest}\"]\nnet = []\n");
    host.write_policy(entry);
    let listed = host.run(["mcp", "list", "--json"]).json();
    assert_eq!(listed["servers"][0]["unconfined"], false, "{listed}");
}
