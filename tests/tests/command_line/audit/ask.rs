//! `ikigai audit`: the choice and the display of calls.

use std::fs::OpenOptions;
use std::io::Write as _;

use ikigai_tests::host::Host;
use serde_json::{Value, json};

use super::{audit, script};

/// Returns a host with a log of five calls in two files, and a damaged line.
fn five() -> Host {
    let host = script("echo 1");
    let record = |time: &str, tool: &str, outcome: &str| {
        let record = json!({
            "time": time, "id": "00000000-0000-7000-8000-000000000000", "via": "call",
            "tool": tool, "workspace": "/w", "outcome": outcome, "total_us": 1500,
            "of_the_future": {"unknown": true},
        });
        format!("{record}\n")
    };
    let old = record("2026-01-01T00:00:00.000Z", "a", "ok")
        + &record("2026-01-02T00:00:00.000Z", "b", "TOOL_TIMEOUT");
    let new = record("2026-01-03T00:00:00.000Z", "a", "TOOL_CRASHED")
        + "damage\n"
        + &record("2026-01-04T00:00:00.000Z", "a", "ok")
        + &everything("2026-01-05T00:00:00.000Z");
    host.write("state/ikigai/audit.jsonl.1", old, 0o600);
    host.write("state/ikigai/audit.jsonl", new, 0o600);
    host
}

/// Returns a record with every field.
fn everything(time: &str) -> String {
    let hold = |state: &str, reason: &str| json!({ "state": state, "reason": reason });
    let record = json!({
        "time": time, "id": "00000000-0000-7000-8000-000000000005", "via": "run", "tool": "c",
        "origin": "user", "path": "/tools/c", "digest": "0".repeat(64), "backend": "native",
        "backend_reason": "it has no component",
        "grant": {
            "dirs": ["rw:/w", "ro:/data"], "net": ["db.internal:5432"], "env": ["DB", "PATH"],
            "sandbox": "prefer", "sources": ["/policy.toml:12"],
        },
        "level": {
            "fs": {"state": "enforced"}, "net": {"state": "enforced"},
            "processes": {"state": "enforced"}, "memory": hold("partial", "no cgroup"),
            "kill_tree": {"state": "enforced"}, "privileges": hold("none", "no seccomp"),
        },
        "workspace": "/w",
        "arguments": { "bytes": 8, "sha256": "1".repeat(64), "text": "{\"a\": 1}" },
        "outcome": "TOOL_TIMEOUT", "error": "Tool 'c' timed out after 2s", "exit_code": 137,
        "limit": "wall_clock", "cancelled": false, "denied": ["net 10.0.0.1:80"],
        "duration_us": 2_000_000, "total_us": 2_150_000, "fuel": 1000, "peak_memory": 1_048_576,
        "stdout_bytes": 2048, "stderr_bytes": 0, "of_the_future": {"unknown": true},
    });
    format!("{record}\n")
}

#[test]
fn calls_are_chosen_by_tool_outcome_and_time() {
    let host = five();
    for (args, days) in [
        (&[][..], &[1, 2, 3, 4, 5][..]),
        (&["--tool", "a"], &[1, 3, 4]),
        (&["--tool", "a", "--tool", "c"], &[1, 3, 4, 5]),
        (&["--tool", "none"], &[]),
        (&["--outcome", "ok"], &[1, 4]),
        (&["--outcome", "failed"], &[2, 3, 5]),
        (&["--outcome", "TOOL_TIMEOUT"], &[2, 5]),
        (&["--outcome", "tool-crashed"], &[3]),
        (&["--since", "2026-01-03T00:00:00Z"], &[3, 4, 5]),
        (&["--until", "2026-01-03T00:00:00Z"], &[1, 2]),
        (&["--since", "2026-01-02T01:00:00+01:00", "--until", "2026-01-04T00:00:00Z"], &[2, 3]),
        (&["--since", "10m"], &[]),
        (&["--until", "10m"], &[1, 2, 3, 4, 5]),
        (&["--tail", "2"], &[4, 5]),
        (&["--tail", "4"], &[2, 3, 4, 5]),
        (&["--tail", "2", "--tool", "a"], &[3, 4]),
        (&["--refused"], &[5]),
        (&["--failed"], &[2, 3, 5]),
        (&["--failed", "--tool", "a"], &[3]),
        (&["--outcome", "failed", "--refused"], &[5]),
        (&["--tail", "0"], &[]),
        (&["--tail", "100", "--outcome", "failed"], &[2, 3, 5]),
    ] {
        let ran = audit(&host, &[&["--json"], args].concat()).expect_code(0);
        let day = |line: &str| -> i32 {
            let record: Value = serde_json::from_str(line).expect("JSON");
            assert_eq!(record["of_the_future"]["unknown"], true, "as it was written");
            record["time"].as_str().expect("text")[8..10].parse().expect("a number")
        };
        let found: Vec<i32> = ran.stdout().lines().map(day).collect();
        assert_eq!(found, days, "{args:?}\n{ran}");
        let is_none = days.is_empty() && args != ["--tail", "0"];
        assert_eq!(is_none, ran.stderr().contains("no such calls"), "{args:?}\n{ran}");
    }
    let ran = audit(&host, &["--json"]);
    assert!(ran.stderr().contains("1 line of the audit log is damaged"), "{ran}");
}

#[test]
fn a_wrong_query_is_reported() {
    let host = five();
    for (args, said) in [
        (["--outcome", "bad"], "TOOL_NOT_FOUND"),
        (["--since", "soon"], "10m"),
        (["--tail", "-1"], "-1"),
    ] {
        let ran = audit(&host, &args).expect_code(2);
        assert!(ran.stderr().contains(said) && ran.stdout().is_empty(), "{ran}");
    }
    let ran = audit(&script("echo 1"), &[]).expect_code(0);
    assert!(ran.stderr().contains("no such calls") && ran.stdout().is_empty(), "{ran}");
}

#[test]
fn many_calls_are_a_table_and_one_is_a_text() {
    let host = five();
    let utc = |args: &[&str]| {
        let mut command = host.command();
        command.env("TZ", "UTC").arg("audit").args(args);
        ikigai_tests::host::Ran::from_command(&mut command, b"").expect_code(0).stdout()
    };
    insta::assert_snapshot!("table", utc(&[]));
    insta::assert_snapshot!("story", utc(&["--tail", "1"]));
    let long = utc(&["--long", "--tool", "a"]);
    assert_eq!(long.matches("\n outcome").count(), 3, "{long}");
    // Times are shown in the local zone, with its offset.
    let mut command = host.command();
    command.env("TZ", "XYZ-2").args(["audit", "--tail", "2", "--long"]);
    let there = ikigai_tests::host::Ran::from_command(&mut command, b"").expect_code(0).stdout();
    assert!(there.contains("2026-01-05 02:00:00.000+02:00"), "{there}");
    let mut command = host.command();
    command.env("TZ", "XYZ-2").args(["audit", "--tail", "2"]);
    let there = ikigai_tests::host::Ran::from_command(&mut command, b"").expect_code(0).stdout();
    assert!(there.contains(" 2026-01-05 02:00:00  c"), "{there}");
}

#[test]
fn a_call_that_went_well_is_listed_with_what_it_was_refused() {
    let host = Host::new().with_shared_cache();
    let secret = host.write("outside/secret", "x", 0o644);
    let outside = host.scratch().join("outside");
    let calls = [
        ("file_read", json!({ "file_path": secret }).to_string()),
        ("grep", json!({ "pattern": "x", "path": outside }).to_string()),
    ];
    for backend in ["wasm", "native"] {
        for (tool, arguments) in &calls {
            host.run(["--backend", backend, "tool", "call", tool, arguments]);
        }
        host.run(["--backend", backend, "tool", "call", "glob", r#"{"pattern":"*"}"#])
            .expect_code(0);
    }
    let ran = audit(&host, &["--refused", "--json"]).expect_code(0);
    let lines = ran.stdout();
    let records = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let found: Vec<(Value, Value)> =
        records.map(|it| (it["tool"].clone(), it["outcome"].clone())).collect();
    let expected = ["file_read", "grep", "file_read", "grep"].map(|it| (json!(it), json!("ok")));
    assert_eq!(found, expected, "{ran}");
    let table = audit(&host, &[]).expect_code(0).stdout();
    for (path, count) in [(secret, 2), (outside, 2)] {
        let refused = format!("  read {}\n", path.canonicalize().expect("there").display());
        assert_eq!(table.matches(&refused).count(), count, "{refused}\n{table}");
    }
}

#[test]
fn what_failed_is_listed_with_the_error_of_the_answer() {
    let host = Host::new().with_shared_cache();
    host.script("exits", "echo '{\"output\":\"\",\"exit_code\":1}'");
    host.script("works", "echo '{\"output\":\"\",\"exit_code\":0}'");
    host.script("crashes", "exit 3");
    host.run(["tool", "call", "file_read", r#"{"file_path":"absent"}"#]).expect_code(0);
    for (tool, code) in [("exits", 0), ("works", 0), ("crashes", 1)] {
        host.run(["tool", "call", tool, "{}"]).expect_code(code);
    }
    let path = host.user_tools().join("works");
    host.run(["tool", "check", path.to_str().expect("UTF-8")]);
    let ran = audit(&host, &["--failed", "--via", "call", "--json"]).expect_code(0);
    let lines = ran.stdout();
    let records = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let found: Vec<(Value, Value, Value)> = records
        .map(|it| (it["tool"].clone(), it["outcome"].clone(), it["answer"].clone()))
        .collect();
    let not_found = json!({ "error_code": "FILE_NOT_FOUND" });
    let expected = [
        (json!("file_read"), json!("ok"), not_found),
        (json!("exits"), json!("ok"), json!({ "exit_code": 1 })),
        (json!("crashes"), json!("TOOL_CRASHED"), json!(null)),
    ];
    assert_eq!(found, expected, "{ran}");
    let ran = audit(&host, &[]).expect_code(0);
    let table = ran.stdout();
    let row = |tool: &str| {
        let named = |row: &&str| row.contains(&format!("  {tool} "));
        table.lines().find(named).unwrap_or_else(|| panic!("{tool}: {ran}"))
    };
    for (tool, word) in
        [("file_read", "  FILE_NOT_FOUND  "), ("exits", "  exit 1 "), ("crashes", "  exit 3 ")]
    {
        assert!(row(tool).contains(word), "{ran}");
    }
    assert!(!row("works").contains("exit"), "{ran}");
    // `tool check` names its tool by a path.
    assert!(
        table.contains("  …/works ") && !table.contains(path.to_str().expect("UTF-8")),
        "{ran}"
    );
    assert!(ran.stderr().contains("arguments of these calls were not recorded"), "{ran}");
    let id = row("exits").split_whitespace().next().expect("an id");
    let told = audit(&host, &["--id", id]).expect_code(0).stdout();
    assert!(
        told.contains("exits, a user tool") && told.matches("\n outcome").count() == 1,
        "{told}"
    );
    assert!(told.contains("its answer reports: exit 1"), "{told}");
}

#[test]
fn one_call_is_told_from_end_to_end() {
    let host = Host::new();
    host.write("workspace/file", "text", 0o644);
    let call = ["--audit-arguments", "tool", "call", "file_read", r#"{"file_path":"file"}"#];
    host.run(call).expect_code(0);
    let told = audit(&host, &["--tail", "1"]).expect_code(0).stdout();
    for part in [
        "file_read, a built-in tool",
        "took ",
        "(`tool call`)",
        "ok",
        "wasm, WASI 0.2: ",
        "sha256 ",
        r#"{"file_path":"file"}"#,
        "ro:/",
        "network",
        "none",
        "enforced",
        "fuel",
    ] {
        assert!(told.contains(part), "{part}:\n{told}");
    }
}

#[test]
fn a_record_cannot_control_the_terminal() {
    let host = script("echo 1");
    host.run(["tool", "call", "evil\u{1b}]0;title\u{7}\u{202e}name"]).expect_code(1);
    for args in [&[][..], &["--tail", "1"]] {
        let ran = audit(&host, args).expect_code(0);
        let bad = |character: char| {
            (character.is_control() && character != '\n') || character == '\u{202e}'
        };
        assert!(!ran.stdout().contains(bad) && ran.stdout().contains("\\u{1b}"), "{ran}");
    }
}

#[test]
fn a_file_of_old_is_read_where_the_log_itself_is_gone() {
    let host = five();
    std::fs::remove_file(host.audit_log()).expect("removed");
    assert_eq!(audit(&host, &["--json"]).expect_code(0).stdout().lines().count(), 2);
    let mut log = OpenOptions::new();
    let mut log = log.append(true).open(host.state().join("audit.jsonl.1")).expect("opened");
    log.write_all(b"{\"torn").expect("written");
    let ran = audit(&host, &["--json"]).expect_code(0);
    assert!(ran.stderr().contains("1 line of the audit log is damaged"), "{ran}");
}
