//! The audit log from outside: the record of a call, queries of the log, and calls that succeed
//! although logging fails.

mod ask;
mod follow;
mod installed;
mod log;
mod secrets;

use std::fs;

use ikigai_tests::host::{Host, Ran};
use serde_json::{Value, json};

/// A host with the script `tool`.
fn script(body: &str) -> Host {
    let host = Host::without_system_tools();
    host.script("tool", body);
    host
}

/// Returns the only record of the log.
#[track_caller]
fn only(host: &Host) -> Value {
    let records = host.records();
    assert_eq!(records.len(), 1, "{records:#?}");
    records[0].clone()
}

fn keys(record: &Value) -> Vec<&str> {
    record.as_object().expect("an object").keys().map(String::as_str).collect()
}

fn digest(file: &std::path::Path) -> String {
    ikigai_host::Digest::from_bytes(&fs::read(file).expect("read")).to_string()
}

#[test]
fn everything_is_known_of_a_native_call() {
    let host = script("cat >/dev/null; printf out >&2; echo '{\"a\":1}'");
    let path = host.user_tools().join("tool");
    let arguments = r#"{"secret":"of the arguments"}"#;
    host.run(["tool", "call", "tool", arguments]).expect_code(0);
    let record = only(&host);
    let expected = [
        "time",
        "id",
        "via",
        "tool",
        "origin",
        "path",
        "digest",
        "backend",
        "backend_reason",
        "grant",
        "workspace",
        "arguments",
        "outcome",
        "exit_code",
        "duration_us",
        "total_us",
        "peak_memory",
        "stdout_bytes",
        "stderr_bytes",
    ];
    let optional = ["level", "used"];
    let found: Vec<&str> = keys(&record).into_iter().filter(|it| !optional.contains(it)).collect();
    assert_eq!(found, expected);
    let time = record["time"].as_str().expect("text");
    assert!(time.len() == 24 && time.ends_with('Z') && &time[19..20] == ".", "{time}");
    assert_eq!(record["id"].as_str().expect("text").len(), 36);
    for (name, value) in [
        ("via", json!("call")),
        ("tool", json!("tool")),
        ("origin", json!("user")),
        ("path", json!(path.to_str())),
        ("digest", json!(digest(&path))),
        ("backend", json!("native")),
        ("workspace", json!(host.workspace().canonicalize().expect("there").to_str())),
        ("outcome", json!("ok")),
        ("exit_code", json!(0)),
        ("stdout_bytes", json!(8)),
        ("stderr_bytes", json!(3)),
    ] {
        assert_eq!(record[name], value, "{name}");
    }
    assert!(record["backend_reason"].as_str().is_some_and(|reason| !reason.is_empty()));
    assert_eq!(record["arguments"]["bytes"], arguments.len());
    let sha256 = ikigai_host::Digest::from_bytes(arguments.as_bytes()).to_string();
    assert_eq!(record["arguments"]["sha256"], sha256);
    assert!(!record.to_string().contains("of the arguments"), "only if asked for");
    let us = |name: &str| record[name].as_u64().expect("a number");
    assert!(us("duration_us") > 0 && us("duration_us") <= us("total_us"), "{record}");
    assert!(us("peak_memory") > 0);
    let grant = &record["grant"];
    let dirs = json!([format!("rw:{}", record["workspace"].as_str().expect("text"))]);
    assert_eq!(
        (&grant["dirs"], &grant["net"], &grant["sandbox"]),
        (&dirs, &json!([]), &json!("require"))
    );
    // An unconfined tool sees the user's environment, so the record does not list variables.
    host.run(["policy", "grant", "tool", "--unconfined"]).expect_code(0);
    host.run(["tool", "call", "tool", arguments]).expect_code(0);
    let grant = &host.records()[1]["grant"];
    assert_eq!(
        (&grant["env"], &grant["net"], &grant["sandbox"]),
        (&json!(["*"]), &json!(["*"]), &json!("off"))
    );
}

#[test]
fn everything_is_known_of_a_component() {
    let host = Host::new();
    host.write("workspace/file", "text", 0o644);
    host.run(["tool", "call", "file_read", r#"{"file_path":"file"}"#]).expect_code(0);
    let record = only(&host);
    for (name, value) in
        [("origin", json!("system")), ("backend", json!("wasm")), ("outcome", json!("ok"))]
    {
        assert_eq!(record[name], value, "{name}");
    }
    assert!(record["fuel"].as_u64() > Some(1000) && record["peak_memory"].as_u64() >= Some(65536));
    for boundary in ["fs", "net", "processes", "memory", "kill_tree", "privileges", "places"] {
        assert_eq!(record["level"][boundary]["state"], "enforced", "{boundary}");
    }
    let dirs = json!([format!("ro:{}", record["workspace"].as_str().expect("text"))]);
    assert_eq!((&record["grant"]["dirs"], &record["grant"]["env"]), (&dirs, &json!([])));
    assert_eq!(record["grant"]["net"], json!([]));
    assert_eq!(record["grant"].get("sandbox"), None, "a component has no other way");
}

#[test]
fn every_end_is_recorded_as_in_the_envelope() {
    for (body, flags, code, exit, limit) in [
        ("exit 3", &[][..], "TOOL_CRASHED", json!(3), json!(null)),
        ("kill -SEGV $$", &[], "TOOL_CRASHED", json!(139), json!(null)),
        ("sleep 1000", &["--timeout", "500ms"], "TOOL_TIMEOUT", json!(137), json!("wall_clock")),
        ("exec yes", &["--max-output", "1MiB"], "INVALID_OUTPUT", json!(137), json!("output")),
        ("echo nonsense", &[], "INVALID_OUTPUT", json!(0), json!(null)),
    ] {
        let host = script(body);
        let ran = host.run([flags, &["tool", "call", "tool"]].concat()).expect_code(1);
        let record = only(&host);
        let found = (&record["outcome"], &record["exit_code"], &record["limit"]);
        assert_eq!(found, (&json!(code), &exit, &limit), "{body}");
        assert_eq!(record["error"], ran.json()["error"], "{body}");
    }
}

#[test]
fn a_call_for_which_nothing_ran_is_recorded() {
    let host = script("echo 1");
    host.run(["tool", "call", "absent", r#"{"a":1}"#]).expect_code(1);
    host.run(["tool", "call", "tool", "[]"]).expect_code(1);
    host.run(["tool", "run", "absent"]).expect_code(2);
    let records = host.records();
    let outcomes: Vec<_> = records.iter().map(|it| (&it["via"], &it["outcome"])).collect();
    let expected =
        [("call", "TOOL_NOT_FOUND"), ("call", "INVALID_PARAMS"), ("run", "TOOL_NOT_FOUND")];
    let expected = expected.map(|(via, outcome)| (json!(via), json!(outcome)));
    assert_eq!(outcomes, expected.each_ref().map(|(via, outcome)| (via, outcome)));
    for record in &records {
        assert!(
            record.get("exit_code").is_none() && record.get("duration_us").is_none(),
            "{record}"
        );
        assert!(record["error"].is_string() && record["total_us"].is_u64());
    }
    assert!(records[0].get("digest").is_none() && records[1]["digest"].is_string());
}

#[test]
fn a_run_and_a_check_are_recorded_and_a_question_for_the_schema_is_not() {
    let host = script("exit 7");
    host.run(["tool", "list"]).expect_code(0);
    host.run(["tool", "schema"]).expect_code(0);
    host.run(["tool", "show", "tool"]).expect_code(0);
    assert!(!host.audit_log().exists(), "nothing was called");
    host.run(["tool", "run", "tool", "a", "b"]).expect_code(7);
    let path = host.user_tools().join("tool");
    let path = path.to_str().expect("UTF-8");
    host.run(["tool", "check", path]).expect_code(0);
    let records = host.records();
    let found: Vec<_> =
        records.iter().map(|it| (&it["via"], &it["tool"], &it["exit_code"])).collect();
    assert_eq!(found[0], (&json!("run"), &json!("tool"), &json!(7)));
    assert_eq!(found[1], (&json!("check"), &json!(path), &json!(7)));
    // The arguments of a run are its command line. Its stdin is not recorded.
    assert_eq!(records[0]["arguments"]["bytes"], 3);
}

#[test]
fn a_call_that_is_interrupted_is_recorded_as_cancelled() {
    let host = script("touch started; sleep 1000");
    let mut running = host.start(["tool", "call", "tool"]);
    running.wait_for(&host.workspace().join("started"));
    running.signal(rustix::process::Signal::INT);
    running.wait().expect_code(130);
    let record = only(&host);
    let found = (&record["cancelled"], &record["outcome"], record.get("limit"));
    assert_eq!(found, (&json!(true), &json!("cancelled"), None), "{record}");
}

#[test]
fn the_text_of_arguments_is_recorded_if_it_is_asked_for() {
    let host = script("echo 1");
    let long = format!(r#"{{"text":"{}"}}"#, "ä".repeat(100_000));
    for arguments in [r#"{"a":"b"}"#, &long] {
        let ran =
            host.run_with(["--audit-arguments", "tool", "call", "tool", "-"], arguments.as_bytes());
        ran.expect_code(0);
    }
    let asked = host.env("IKIGAI_AUDIT_ARGUMENTS", "true");
    asked.run(["tool", "call", "tool", r#"{"c":1}"#]).expect_code(0);
    let records = asked.records();
    let text = |index: usize| records[index]["arguments"]["text"].as_str().expect("text");
    assert_eq!((text(0), text(2)), (r#"{"a":"b"}"#, r#"{"c":1}"#));
    let cut = text(1).trim_end_matches('\u{fffd}');
    assert!(long.starts_with(cut) && cut.len() > 65_000 && cut.len() <= 65_536);
    assert_eq!(records[1]["arguments"]["bytes"], long.len());
}

fn audit(host: &Host, args: &[&str]) -> Ran {
    host.run([&["audit"], args].concat())
}
