//! The official client for Python, in each of its modes.
//!
//! If it is not installed because Python or the network was missing, the test reports that it tests
//! nothing.

use std::path::PathBuf;
use std::process::Command;

use ikigai_tests::host::{Host, Ran};
use ikigai_tests::{left_out, paths};
use serde_json::json;

use crate::mcp::server_in_words;

/// Returns the Python with the client.
pub(crate) fn python() -> Option<PathBuf> {
    let environment = paths::mcp_clients();
    if !environment.join(".installed").exists() {
        return left_out("the official client of MCP", "the Python package `mcp`");
    }
    Some(environment.join("bin").join("python"))
}

#[test]
fn the_official_client_lists_calls_and_reads_in_each_mode() {
    let Some(python) = python() else { return };
    let host = Host::new();
    host.write("workspace/note.txt", "a needle\n", 0o644);
    let returns = json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] });
    let schema = json!({
        "name": "count", "description": "Counts", "returns": returns,
        "parameters": { "type": "object", "properties": {} },
    });
    host.program(
        "count",
        format!(
            "#!/bin/sh\n[ \"$1\" = --schema ] && exec printf %s '{schema}'\nprintf '{{\"n\":1}}'\n"
        ),
    );
    // The call takes longer than the second after which progress is reported.
    host.script("slow", "sleep 1.2; echo '\"done\"'");
    host.run_with(["asset", "put", "note.md"], b"a text").expect_code(0);
    for (mode, revision) in
        [("auto", "2026-07-28"), ("legacy", "2025-11-25"), ("2026-07-28", "2026-07-28")]
    {
        let mut client = Command::new(&python);
        client.arg("-I").arg(paths::repository().join("tests/mcp-clients/client.py")).arg(mode);
        // The client passes on only HOME and PATH.
        client.args(server_in_words(&host)).current_dir(host.workspace());
        let answers = Ran::from_command(&mut client, b"").expect_code(0).json();
        let tools =
            ["bash", "count", "file_edit", "file_read", "file_write", "glob", "grep", "slow"];
        let expected = json!({
            "revision": revision,
            "tools": tools,
            "found": "./note.txt:1: a needle\ncount: 1",
            "wrong": true,
            "structured": { "n": 1 },
            "slow": "\"done\"",
            "progress": true,
            "read": "a text",
        });
        assert_eq!(answers, expected, "{mode}");
    }
    host.assert_nothing_left();
}
