//! Other authors' programs that check a server: a Node.js client for the command line, and a
//! fuzzer.
//!
//! If a program is not installed because npm, Python or the network was missing, its test reports
//! that it tests nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ikigai_tests::host::{Host, Ran};
use ikigai_tests::mcp::Client;
use ikigai_tests::{left_out, paths};
use serde_json::{Value, json};

use crate::mcp::{modern, python, server_in_words, text};

/// Returns the program of the inspector.
fn inspector() -> Option<PathBuf> {
    let environment = paths::mcp_node();
    if !environment.join(".installed").exists() {
        let package = "the npm package `@modelcontextprotocol/inspector`";
        return left_out("the inspector of MCP", package);
    }
    Some(environment.join("node_modules/.bin/mcp-inspector"))
}

#[test]
fn the_inspector_lists_and_calls_a_tool_of_an_installation() {
    let Some(inspector) = inspector() else { return };
    let host = Host::new();
    host.write("workspace/note.txt", "a needle\n", 0o644);
    let inspect = |args: &[&str]| {
        let mut inspector = Command::new(&inspector);
        // The inspector passes on only HOME and PATH. So the server finds its tools as an installed
        // one does, relative to itself.
        inspector.arg("--cli").arg(host.command().get_program());
        inspector.arg("--workspace").arg(host.workspace()).args(["mcp", "serve"]).args(args);
        inspector.env_clear().env("HOME", host.home()).current_dir(host.workspace());
        inspector.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        Ran::from_command(&mut inspector, b"").expect_code(0).json()
    };
    let listed = inspect(&["--method", "tools/list"]);
    let names = listed["tools"].as_array().expect("a list").iter().map(|tool| &tool["name"]);
    let all = ["bash", "file_edit", "file_read", "file_write", "glob", "grep"];
    assert!(names.eq(all.iter()), "{listed}");
    let call = ["--method", "tools/call", "--tool-name", "grep", "--tool-arg"];
    let found = inspect(&[&call[..], &["pattern=needle"]].concat());
    assert_eq!(text(&found), "./note.txt:1: a needle\ncount: 1");
    // The inspector does not check argument names, so the error comes from our own check.
    let wrong = inspect(&[&call[..], &["needle=pattern"]].concat());
    assert_eq!(wrong["isError"], true, "{wrong}");
    host.assert_nothing_left();
}

#[test]
fn a_fuzzer_finds_no_crash_and_leaves_a_server_that_answers() {
    let Some(python) = python::python() else { return };
    let host = Host::new();
    host.write("workspace/note.txt", "a needle\n", 0o644);
    // The lines of the fuzzer are recorded, in one file for each server that it starts.
    let (records, report) = (host.scratch().join("records"), host.scratch().join("report"));
    fs::create_dir(&records).expect("a directory");
    let recorder = host.scratch().join("recorder.sh");
    let script =
        format!("tee '{}'/$$ | exec {}\n", records.display(), server_in_words(&host).join(" "));
    fs::write(&recorder, script).expect("written");

    let mut fuzzer = Command::new(python.with_file_name("mcp-fuzzer"));
    fuzzer.args(["--mode", "all", "--protocol", "stdio", "--endpoint"]);
    fuzzer.arg(format!("sh {}", recorder.display()));
    fuzzer.args(["--seed", "7", "--runs", "3", "--security-audit", "--output-dir"]).arg(&report);
    fuzzer.arg("--fs-root").arg(host.scratch().join("fuzzed"));
    fuzzer.env_clear().env("HOME", host.home()).current_dir(host.workspace());
    fuzzer.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    let ran = Ran::from_command(&mut fuzzer, b"").expect_code(0);

    let summary = fs::read(report.join("run_summary.json")).expect("a summary");
    let summary: Value = serde_json::from_slice(&summary).expect("JSON");
    assert_eq!(summary["status"], "completed", "{summary}\n{ran}");
    assert_eq!(summary["tools"]["total_runs"], 18, "{summary}\n{ran}");
    for (name, tool) in summary["tools"]["by_name"].as_object().expect("an object") {
        let outcomes = &tool["outcomes"];
        let bad = ["crashed", "anomaly", "exceptions"].map(|outcome| &outcomes[outcome]);
        assert_eq!(bad, [&json!(0); 3], "`{name}`: {summary}\n{ran}");
    }
    // Each finding is an answer to a request that only looks like an attack, as `; ls` to a shell
    // does. If the audit had found a real problem, such as a poisoned description, it would be in
    // another category.
    let findings = summary["findings"]["by_category"].as_object().expect("an object");
    let categories: Vec<_> = findings.keys().collect();
    assert_eq!(categories, ["accepted_malformed"], "{summary}\n{ran}");
    host.assert_nothing_left();

    replay(&host, &records);
    host.assert_nothing_left();
}

/// Sends the fuzzer's lines to a server, and asks it for its tools after each conversation.
fn replay(host: &Host, records: &Path) {
    let mut conversations = 0;
    for record in fs::read_dir(records).expect("a directory") {
        let record = fs::read(record.expect("an entry").path()).expect("a record");
        let mut client: Client = modern(host);
        let mut lines = 0;
        for line in record.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            client.send_line(line);
            lines += 1;
        }
        assert!(lines > 100, "only {lines} lines");
        client.send(&json!({ "jsonrpc": "2.0", "id": "last", "method": "tools/list" }));
        let listed = client.wait_for(|message| message["id"] == "last");
        assert!(listed["result"]["tools"].is_array(), "{listed}");
        client.wait().0.expect_code(0);
        conversations += 1;
    }
    assert_eq!(conversations, 1);
}
