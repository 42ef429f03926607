//! The same attacks with WASI 0.3, and those that only its streams, futures and tasks allow.

use std::fs::{self, File};
use std::time::Instant;

use ikigai_tests::host::{Host, Ran};
use serde_json::{Value, json};

use super::{HOST_ALONE, IN_TIME, assert_failed, call_guest, within_means};

const GUEST: &str = "async_guest";

/// A gibibyte, in bytes.
const GIBIBYTE: u64 = 1 << 30;

/// Returns a host with the guest, compiled.
fn async_guest() -> Host {
    let host = Host::without_system_tools();
    host.guest(GUEST);
    host.run(["tool", "call", GUEST, r#"{"mode":"fine"}"#]).expect_code(0);
    host
}

/// Returns the same, with the guest's grant to write in the workspace.
fn with_workspace() -> Host {
    let host = async_guest();
    host.run(["policy", "grant", GUEST, "--write", ".", "--limit", "wall_clock=2m"]).expect_code(0);
    host
}

fn arguments(mode: &str, path: &str) -> String {
    json!({ "mode": mode, "path": path }).to_string()
}

/// Calls the guest with all checks of the suite.
#[track_caller]
fn call(host: &Host, flags: &[&str], mode: &str) -> Ran {
    call_guest(host, GUEST, flags, &arguments(mode, ""))
}

/// Calls the guest while the memory of the host is watched.
#[track_caller]
fn call_within(host: &Host, memory: &str, mode: &str, path: &str) -> Ran {
    let arguments = arguments(mode, path);
    let args = ["--memory", memory, "tool", "call", GUEST, &arguments];
    let ran = within_means(host, &args).wait_within(HOST_ALONE);
    host.assert_nothing_left();
    ran
}

/// Makes a file of this length without contents.
fn sparse(host: &Host, name: &str, length: u64) {
    let file = File::create(host.workspace().join(name)).expect("created");
    file.set_len(length).expect("a length");
}

#[test]
fn a_guest_that_does_not_end_is_ended() {
    let host = async_guest();
    for mode in ["spin", "sleep", "answer_then_hang"] {
        let ran = call(&host, &["--timeout", "500ms"], mode);
        let envelope = assert_failed(ran, "TOOL_TIMEOUT", Some("wall_clock"), 134);
        assert_eq!(envelope["error"], format!("Tool '{GUEST}' timed out after 0.5s"));
        let expected = if mode == "answer_then_hang" { "{\"answered\":true}" } else { "" };
        assert_eq!(envelope["stdout"], expected, "{mode}");
    }
    let ran = call(&host, &["--fuel", "1000000"], "spin");
    let envelope = assert_failed(ran, "TOOL_TIMEOUT", Some("fuel"), 134);
    assert_eq!(envelope["error"], format!("Tool '{GUEST}' used up its fuel of 1000000"));
}

#[test]
fn the_end_of_a_guest_is_reported_as_it_was() {
    let host = async_guest();
    let crashed = format!("Tool '{GUEST}' crashed with exit code");
    for (mode, text) in
        [("trap", "wasm `unreachable` instruction executed"), ("recurse", "call stack exhausted")]
    {
        let envelope = assert_failed(call(&host, &[], mode), "TOOL_CRASHED", None, 134);
        let error = envelope["error"].as_str().expect("text");
        assert!(error.starts_with(&crashed) && error.contains(text), "{mode}: {error}");
    }
    let envelope = assert_failed(call(&host, &[], "panic"), "TOOL_CRASHED", None, 134);
    assert!(envelope["stderr"].as_str().expect("text").contains("as it was told to"), "{envelope}");
    for mode in ["exit", "fail"] {
        let envelope = assert_failed(call(&host, &[], mode), "TOOL_CRASHED", None, 1);
        assert_eq!(envelope["error"], format!("{crashed} 1"), "{mode}");
        assert_eq!(envelope["stdout"], "half an answer", "{mode}");
    }
    // WASI 0.3 lets the host give fewer random bytes than the guest asks for.
    let ran = call(&host, &["--memory", "128MiB"], "random_bomb").expect_code(0);
    assert_eq!(ran.json()["result"], json!({"drawn": 16 << 20}), "{ran}");
    // The waits and streams that it leaves end with it.
    let ran = call(&host, &[], "leave").expect_code(0);
    assert_eq!(ran.json()["result"], json!({"left": true}), "{ran}");
}

#[test]
fn a_flood_is_cut_off_at_the_cap() {
    let host = async_guest();
    for (flags, cap) in [(&[][..], 16 << 20), (&["--max-output", "100000B"], 100_000)] {
        let ran = call(&host, flags, "flood_stdout");
        let envelope = assert_failed(ran, "INVALID_OUTPUT", Some("output"), 134);
        let expected = format!("Tool '{GUEST}' wrote more than {cap} bytes to stdout");
        assert_eq!(envelope["error"], expected);
        assert_eq!(envelope["stdout"].as_str().map(str::len), Some(65536));
    }
    let envelope = assert_failed(call(&host, &[], "flood_stderr"), "TOOL_CRASHED", None, 1);
    let stderr = envelope["stderr"].as_str().expect("text");
    assert_eq!((stderr.len(), stderr.ends_with("ythe end")), (65536, true));
    assert_eq!(envelope["stderr_bytes"], (20 << 20) + 7);
    assert_eq!(envelope["stdout"], "{\"flooded\":true}");
}

/// The host moves the bytes while the guest waits.
#[test]
fn a_file_that_is_poured_into_an_output_ends_at_a_limit() {
    let host = with_workspace();
    sparse(&host, "vast", 1024 * GIBIBYTE);
    let pour =
        |flags: &[&str], mode: &str| call_guest(&host, GUEST, flags, &arguments(mode, "vast"));
    let ran = pour(&["--max-output", "100000B"], "pour_stdout");
    assert_failed(ran, "INVALID_OUTPUT", Some("output"), 134);
    let ran = pour(&["--timeout", "2s"], "pour_stderr");
    assert_failed(ran, "TOOL_TIMEOUT", Some("wall_clock"), 134);
}

#[test]
fn a_large_file_is_no_memory_of_the_host() {
    let host = with_workspace();
    sparse(&host, "large", 10 * GIBIBYTE);
    sparse(&host, "medium", GIBIBYTE);
    let envelope = call_within(&host, "16MiB", "collect", "large");
    assert_failed(envelope, "TOOL_CRASHED", Some("memory"), 134);
    let ran = call_within(&host, "16MiB", "sum", "medium").expect_code(0);
    let expected = json!({ "read": GIBIBYTE.to_string(), "end": "REACHED" });
    assert_eq!(ran.json()["result"], expected, "{ran}");
}

#[test]
fn a_write_without_end_is_ended() {
    let host = with_workspace();
    let begun = Instant::now();
    let arguments = arguments("write_on", "grows");
    let ran = host.run(["--timeout", "500ms", "tool", "call", GUEST, &arguments]);
    assert!(begun.elapsed() < IN_TIME, "{ran}");
    assert_failed(ran, "TOOL_TIMEOUT", Some("wall_clock"), 134);
    host.assert_nothing_left();
    let written = fs::read(host.workspace().join("grows")).expect("read");
    assert!(!written.is_empty() && written.iter().all(|byte| *byte == b'y'));
}

/// The number of entries of the directory `wide`, whose names are long.
const ENTRIES: usize = 6000;

/// Returns a host whose workspace has a small file and a large directory.
fn with_wide_directory() -> Host {
    let host = with_workspace();
    host.write("workspace/file", "some bytes", 0o644);
    for number in 0..ENTRIES {
        host.write(format!("workspace/wide/{number:0200}"), "", 0o644);
    }
    host
}

#[test]
fn streams_that_are_kept_are_handles_and_no_memory_of_the_host() {
    let host = with_wide_directory();
    let ran = call_within(&host, "256MiB", "kept", "file wide").expect_code(0);
    let seen = ran.json()["result"].clone();
    for kind in ["unread", "listed", "unlisted", "unwritten", "unappended"] {
        let count = |round: &str| {
            let seen = seen[format!("{kind} {round}")].as_str().expect("a count").to_owned();
            let (count, code) = seen.split_once(' ').expect("a code");
            assert_eq!(code, "insufficient-memory", "{kind}: {ran}");
            count.parse::<usize>().expect("a number")
        };
        let (first, again) = (count("first"), count("again"));
        assert!((200..256).contains(&first), "{kind}: {ran}");
        assert_eq!(first, again, "{kind} that are given back can be had again: {ran}");
    }
}

#[test]
fn streams_that_are_dropped_are_no_memory_of_the_host() {
    let host = with_wide_directory();
    let ran = call_within(&host, "16MiB", "dropped", "file wide").expect_code(0);
    let seen = ran.json()["result"].clone();
    assert_eq!((&seen["granted"], &seen["end"]), (&json!("30"), &json!("REACHED")), "{seen}");
    assert_eq!(seen["entries"], ENTRIES.to_string(), "{seen}");
    assert_eq!(host.workspace().join("file").metadata().expect("there").len(), 10);
}

#[test]
fn futures_that_are_kept_end_the_guest() {
    let host = with_wide_directory();
    for memory in ["16MiB", "512MiB"] {
        let ran = call_within(&host, memory, "futures", "wide");
        let envelope = assert_failed(ran, "TOOL_CRASHED", None, 134);
        let error = envelope["error"].as_str().expect("text");
        assert!(error.contains("too many handles, tasks, futures and streams"), "{error}");
    }
}

#[test]
fn a_read_that_is_cancelled_loses_no_byte() {
    let host = with_workspace();
    let length = 1_000_003;
    let bytes: Vec<u8> = (0..=250).cycle().take(length).collect();
    host.write("workspace/pattern", &bytes, 0o644);
    let ran = call_within(&host, "16MiB", "cancelled", "pattern").expect_code(0);
    let seen = ran.json()["result"].clone();
    assert_eq!((&seen["wrong"], &seen["end"]), (&json!("none"), &json!("REACHED")), "{seen}");
    assert_eq!(seen["bytes"], length.to_string(), "{seen}");
    // Nothing comes on stdin.
    let guest = host.user_tools().join(format!("{GUEST}.wasm"));
    let guest = guest.to_str().expect("UTF-8");
    let ran = host.start(["tool", "run", guest, "cancelled_stdin"]).wait().expect_code(0);
    assert_eq!(ran.json(), json!({ "waits": "true" }), "{ran}");
    host.assert_nothing_left();
}

#[test]
fn what_a_guest_begins_and_drops_is_no_memory_of_the_host() {
    const DROPPED: u64 = 30_000;
    let host = async_guest();
    // Nothing listens there, and no name server is asked.
    let granted = "localhost:9";
    host.run(["policy", "grant", GUEST, "--net", granted, "--limit", "wall_clock=2m"])
        .expect_code(0);
    let ran = call_within(&host, "16MiB", "drops", granted).expect_code(0);
    let seen = ran.json()["result"].clone();
    let at = |what: &str| seen[what].as_str().unwrap_or_else(|| panic!("no {what}: {seen}"));
    assert_eq!(at("waits"), DROPPED.to_string());
    assert_eq!(at("lookups of 'a.test'"), format!("0 {DROPPED}"));
    // A lookup or a request may end before it is dropped.
    let sum = |text: &str| {
        text.split([' ', ',']).filter_map(|word| word.parse::<u64>().ok()).sum::<u64>()
    };
    assert_eq!(sum(at("lookups of 'localhost'")), DROPPED, "{seen}");
    assert_eq!(at("requests to 'a.test'"), format!("http-request-denied {DROPPED}"));
    assert_eq!(sum(at("requests to 'localhost:9'")), DROPPED, "{seen}");
    assert!(at("requests to 'localhost:9'").contains("waits"), "{seen}");
    assert_eq!(at("malformed"), "http-request-uri-invalid 1000");
    assert!(!ran.stderr().contains("http request error"), "{ran}");
}

#[test]
fn waits_can_be_had_again() {
    let ran = call(&async_guest(), &[], "waits").expect_code(0);
    assert_eq!(ran.json()["result"], json!({ "first": "400", "again": "400" }), "{ran}");
}

#[test]
fn long_texts_are_no_memory_of_the_host() {
    let host = with_workspace();
    let ran = call_within(&host, "32MiB", "texts", "").expect_code(0);
    let long = "name-too-long";
    let expected = json!({
        "resolve-addresses": "invalid-argument", "taken": "0", "open-at": long, "symlink-at": long,
        "rename-at": long, "link-at": long, "stat-at": long,
    });
    assert_eq!(ran.json()["result"], expected, "{ran}");
    let ran = call_within(&host, "256MiB", "long_names", "").expect_code(0);
    let seen = ran.json()["result"].clone();
    let all = seen.as_object().expect("an object");
    assert_eq!(all.len(), 7, "{seen}");
    assert!(all.values().all(|code| code == "invalid-argument"), "{seen}");
    let ran = call_within(&host, "256MiB", "copy_bomb", "").expect_code(1);
    assert_eq!(ran.json()["limit"], "memory", "{ran}");
}

#[test]
fn requests_that_are_never_sent_are_no_memory_of_the_host() {
    let host = async_guest();
    let ran = call_within(&host, "64MiB", "requests", "").expect_code(1);
    let error = ran.json()["error"].to_string();
    assert!(error.contains("at most 64 requests"), "{ran}");
    // The memory limit applies to the sum of all requests.
    let ran = call_within(&host, "4MiB", "requests", "").expect_code(1);
    assert_eq!(ran.json()["limit"], Value::from("memory"), "{ran}");
}
