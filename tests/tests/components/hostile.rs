//! Components that take more than they may, do not end, or end badly. Each call ends with its error
//! code within its limit, and the next call works.

mod compilation;
mod mounts;
mod served;
mod set_id;
mod tables;
mod wasi_0_3;

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use ikigai_tests::component::{Ending, printing};
use ikigai_tests::host::{Host, Ran, Running};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Resource, Rlimit, setrlimit};
use serde_json::{Value, json};

/// The time in which a call with a limit of half a second ends, even on a very busy machine.
/// Without the limit the guest would take at least a minute.
const IN_TIME: Duration = Duration::from_secs(30);

/// The most resident memory of the host's own process, in bytes, with components that use almost
/// none. The program itself takes a hundred megabytes.
const HOST_ALONE: u64 = 256 << 20;

/// Starts the host with a limit on the memory of each of its processes, which protects the machine
/// if the host's own limits fail.
fn within_means(host: &Host, args: &[&str]) -> Running {
    const SPARE: u64 = 3 << 30;
    let mut command = host.command();
    // SAFETY: setrlimit is a system call that takes no lock and allocates nothing.
    unsafe {
        command.pre_exec(|| {
            let limit = Rlimit { current: Some(SPARE), maximum: Some(SPARE) };
            Ok(setrlimit(Resource::Data, limit)?)
        });
    }
    Running::start(command.args(args))
}

/// Returns a host with the guest `greedy`, compiled.
fn greedy() -> Host {
    let host = Host::without_system_tools();
    host.guest("greedy");
    host.run(["tool", "call", "greedy", r#"{"mode":"fine"}"#]).expect_code(0);
    host
}

/// Calls `greedy`, and checks that the call left no file and no process, and that the next call
/// works.
#[track_caller]
fn call(host: &Host, flags: &[&str], mode: &str, path: &str) -> Ran {
    let arguments = format!("{{\"mode\":\"{mode}\",\"path\":\"{path}\"}}");
    call_guest(host, "greedy", flags, &arguments)
}

#[track_caller]
fn call_guest(host: &Host, guest: &str, flags: &[&str], arguments: &str) -> Ran {
    let before = host.files();
    let begun = Instant::now();
    let ran = host.run([flags, &["tool", "call", guest, arguments]].concat());
    assert!(begun.elapsed() < IN_TIME, "took {:?}\n{ran}", begun.elapsed());
    assert_eq!(host.files(), before, "files came or went\n{ran}");
    host.assert_nothing_left();
    let next = host.run(["tool", "call", guest, r#"{"mode":"fine"}"#]).expect_code(0);
    assert_eq!(next.json()["result"], json!({"fine": true}), "{next}");
    ran
}

/// Asserts that the envelope is a failure with these members, and returns it.
#[track_caller]
fn assert_failed(ran: Ran, code: &str, limit: Option<&str>, exit_code: i64) -> Value {
    let envelope = ran.json();
    let limit = limit.map_or(Value::Null, Value::from);
    let found = (&envelope["error_code"], &envelope["limit"], &envelope["exit_code"]);
    assert_eq!(
        found,
        (&json!(code), &limit, &json!(exit_code)),
        "{}",
        &ran.to_string()[..2000.min(ran.to_string().len())]
    );
    assert_eq!(ran.code(), Some(1));
    envelope
}

#[test]
fn every_mode_of_every_guest_is_called_by_a_test() {
    let host = Host::without_system_tools();
    let tests = [
        include_str!("hostile.rs"),
        include_str!("trespass.rs"),
        include_str!("trespass/rig.rs"),
        include_str!("builds.rs"),
        include_str!("cancel.rs"),
        include_str!("../command_line/cli.rs"),
        include_str!("network.rs"),
    ];
    // Many of its modes have the names of others.
    let tests_of_0_3 = [
        include_str!("hostile/wasi_0_3.rs"),
        include_str!("trespass/rig.rs"),
        include_str!("../../../fuzz/src/wasi_0_3.rs"),
    ];
    let guests = ["greedy", "trespass", "replacer", "caller", "walker"].map(|it| (it, &tests[..]));
    for (guest, tests) in guests.into_iter().chain([("async_guest", &tests_of_0_3[..])]) {
        let path = host.guest(guest);
        let asked = host.run([Path::new("tool"), "run".as_ref(), &path, "--schema".as_ref()]);
        let schema = asked.expect_code(0).json();
        let modes =
            schema["parameters"]["properties"]["mode"]["enum"].as_array().expect("modes").clone();
        for mode in modes {
            let called = tests.iter().any(|test| {
                test.contains(&mode.to_string())
                    || test.contains(&format!("\\\"mode\\\":\\\"{}", mode.as_str().expect("text")))
            });
            assert!(called, "no test calls mode {mode} of the guest `{guest}`");
        }
    }
}

#[test]
fn a_guest_that_does_not_end_is_ended() {
    let host = greedy();
    mknodat(CWD, host.workspace().join("fifo"), FileType::Fifo, Mode::from(0o666), 0)
        .expect("made");
    for mode in ["spin", "sleep", "answer_then_hang"] {
        let ran = call(&host, &["--timeout", "500ms"], mode, "");
        let envelope = assert_failed(ran, "TOOL_TIMEOUT", Some("wall_clock"), 134);
        assert_eq!(envelope["error"], "Tool 'greedy' timed out after 0.5s");
        let expected = if mode == "answer_then_hang" { "{\"answered\":true}" } else { "" };
        assert_eq!(envelope["stdout"], expected, "{mode}");
    }
    // The fuel runs out before the time, and the message names it.
    let ran = call(&host, &["--fuel", "1000000"], "spin", "");
    let envelope = assert_failed(ran, "TOOL_TIMEOUT", Some("fuel"), 134);
    assert_eq!(envelope["error"], "Tool 'greedy' used up its fuel of 1000000");
}

#[test]
fn a_guest_that_opens_a_fifo_is_answered_in_time() {
    let host = Host::without_system_tools();
    let guest = host.guest_as("trespass", "_trespass", "file_read");
    mknodat(CWD, host.workspace().join("fifo"), FileType::Fifo, Mode::from(0o666), 0)
        .expect("made");
    host.run(["tool", "list"]).expect_code(0);
    let begun = Instant::now();
    let arguments = r#"{"mode":"paths","path":"fifo"}"#;
    let ran = host.run(["--timeout", "500ms", "tool", "call", "file_read", arguments]);
    assert!(begun.elapsed() < IN_TIME, "{ran}");
    assert_failed(ran, "TOOL_TIMEOUT", Some("wall_clock"), 134);
    assert!(guest.exists());
    host.assert_nothing_left();
}

#[test]
fn a_guest_that_waits_for_stdin_is_ended() {
    let host = greedy();
    let begun = Instant::now();
    // The host's stdin is open, and nothing is ever written to it.
    let running =
        host.start(["--timeout", "500ms", "tool", "run", guest(&host).as_str(), "read_all"]);
    let ran = running.wait().expect_code(124);
    assert!(begun.elapsed() < IN_TIME, "{ran}");
    assert!(ran.stderr().contains("exceeded its limit on wall_clock"), "{ran}");
    host.assert_nothing_left();
}

fn guest(host: &Host) -> String {
    host.user_tools().join("greedy.wasm").to_str().expect("UTF-8").to_owned()
}

#[test]
fn a_guest_that_takes_too_much_is_refused_it() {
    let host = greedy();
    for mode in ["memory", "small_memory"] {
        let ran = call(&host, &["--memory", "64MiB"], mode, "");
        let envelope = assert_failed(ran, "TOOL_CRASHED", Some("memory"), 134);
        assert_eq!(envelope["error"], "Tool 'greedy' ran out of memory: its limit is 64.0 MiB");
    }
    // A limit below the memory that the program declares keeps it from starting.
    let ran = call_fine(&host, &["--memory", "64KiB"]);
    assert_failed(ran, "TOOL_CRASHED", Some("memory"), 134);
    // These ask the host for more than fits into its own memory.
    for (mode, text) in [("random_bomb", "exceeds limit"), ("pollables", "too many handles")] {
        let envelope = assert_failed(call(&host, &[], mode, ""), "TOOL_CRASHED", None, 134);
        assert!(envelope["error"].as_str().expect("text").contains(text), "{envelope}");
    }
    for (mode, text) in [("copy_bomb", "ran out of memory"), ("write_bomb", "permits 1048576")] {
        let limit = (mode == "copy_bomb").then_some("memory");
        let envelope = assert_failed(call(&host, &[], mode, ""), "TOOL_CRASHED", limit, 134);
        assert!(envelope["error"].as_str().expect("text").contains(text), "{envelope}");
    }
    let ran = call(&host, &[], "read_bomb", "");
    assert_eq!(
        ran.json()["error"],
        "Tool 'greedy' returned malformed JSON: stdout is empty",
        "{ran}"
    );
}

#[test]
fn a_guest_that_drops_a_stream_in_use_traps_with_the_reason() {
    let envelope = assert_failed(call(&greedy(), &[], "orphan", ""), "TOOL_CRASHED", None, 134);
    let error = envelope["error"].as_str().expect("text");
    assert!(error.contains("resource has children"), "{envelope}");
}

fn call_fine(host: &Host, flags: &[&str]) -> Ran {
    host.run([flags, &["tool", "call", "greedy", r#"{"mode":"fine"}"#]].concat())
}

#[test]
fn a_table_that_grows_without_end_ends_at_the_limit_on_memory() {
    let host = Host::without_system_tools();
    let path = host.program("grows.wasm", printing("", Ending::GrowTable));
    let ran = host.run([Path::new("tool"), "run".as_ref(), &path]).expect_code(124);
    assert!(ran.stderr().contains("exceeded its limit on memory"), "{ran}");
}

#[test]
fn recursion_without_end_traps_in_the_guest_alone() {
    let envelope = assert_failed(call(&greedy(), &[], "recurse", ""), "TOOL_CRASHED", None, 134);
    let expected = "Tool 'greedy' crashed with exit code 134: call stack exhausted";
    assert_eq!(envelope["error"], expected);
}

#[test]
fn a_flood_is_cut_off_at_the_cap() {
    let host = greedy();
    for (flags, cap) in [(&[][..], 16 << 20), (&["--max-output", "100000B"], 100_000)] {
        let envelope = assert_failed(
            call(&host, flags, "flood_stdout", ""),
            "INVALID_OUTPUT",
            Some("output"),
            134,
        );
        let expected = format!("Tool 'greedy' wrote more than {cap} bytes to stdout");
        assert_eq!(envelope["error"], expected);
        assert_eq!(envelope["stdout"].as_str().map(str::len), Some(65536));
        assert!(envelope["stdout_bytes"].as_u64().expect("a count") > cap);
    }
    let envelope = assert_failed(call(&host, &[], "flood_stderr", ""), "TOOL_CRASHED", None, 1);
    let stderr = envelope["stderr"].as_str().expect("text");
    assert_eq!((stderr.len(), stderr.ends_with("ythe end")), (65536, true));
    assert_eq!(envelope["stderr_bytes"], (20 << 20) + 7);
    assert_eq!(envelope["stdout"], "{\"flooded\":true}");
}

#[test]
fn handles_run_out_for_the_guest_and_not_for_the_host() {
    let host = Host::without_system_tools();
    host.write("workspace/file", "x", 0o644);
    host.guest_as("trespass", "_trespass", "file_read");
    let ran = host.run(["tool", "call", "file_read", r#"{"mode":"handles","path":"file"}"#]);
    let seen = ran.expect_code(0).json()["result"].clone();
    let open: usize = seen["open"].as_str().expect("a count").parse().expect("a number");
    // The two preopens count as well.
    assert!((200..=256).contains(&open), "{seen}");
    assert_eq!(seen["again"], "REACHED", "a handle that is given back can be had again: {seen}");
    assert_ne!(seen["refused"], "", "{seen}");
}

/// Each time a guest begins to read a directory of six thousand long names, wasmtime takes more
/// than a mebibyte of the host's memory.
#[test]
fn directories_that_are_being_read_are_handles_and_no_memory_of_the_host() {
    const FILES: usize = 6000;
    let host = Host::without_system_tools();
    for number in 0..FILES {
        host.write(format!("workspace/wide/{number:0200}"), "", 0o644);
    }
    host.guest_as("trespass", "_trespass", "file_read");
    let arguments = r#"{"mode":"listings","path":"wide"}"#;
    let ran = within_means(&host, &["--memory", "64MiB", "tool", "call", "file_read", arguments]);
    let seen = ran.wait_within(HOST_ALONE).expect_code(0).json()["result"].clone();
    let open: usize = seen["open"].as_str().expect("a count").parse().expect("a number");
    assert!((50..=256).contains(&open), "{seen}");
    assert_eq!(seen["again"], FILES.to_string(), "{seen}");
}

#[test]
fn what_a_guest_never_sends_is_no_memory_of_the_host() {
    let host = Host::without_system_tools();
    host.guest("caller");
    host.run(["tool", "list"]).expect_code(0);
    let call = |memory, mode: &str| {
        let arguments = format!("{{\"mode\":\"{mode}\"}}");
        let args = ["--memory", memory, "tool", "call", "_caller", &arguments];
        within_means(&host, &args).wait_within(HOST_ALONE)
    };
    let ran = call("32MiB", "texts").expect_code(0);
    assert_eq!(ran.json()["result"]["taken"], "0", "{ran}");
    let ran = call("32MiB", "requests").expect_code(1);
    let error = ran.json()["error"].to_string();
    assert!(error.contains("at most 64 requests"), "{ran}");
    // The memory limit applies to the sum of all requests.
    let ran = call("4MiB", "requests").expect_code(1);
    assert_eq!(ran.json()["limit"], "memory", "{ran}");
    host.assert_nothing_left();
}

#[test]
fn what_a_guest_begins_and_drops_is_no_memory_of_the_host() {
    let host = Host::without_system_tools();
    host.guest("caller");
    host.run(["tool", "list"]).expect_code(0);
    let args = ["--memory", "16MiB", "tool", "call", "_caller", r#"{"mode":"drops"}"#];
    let ran = within_means(&host, &args).wait_within(HOST_ALONE / 2).expect_code(0);
    let begun = json!({"lookups": "30000", "requests": "30000", "malformed": "1000"});
    assert_eq!(ran.json()["result"], begun, "{ran}");
    assert!(!ran.stderr().contains("http request error"), "{ran}");
    host.assert_nothing_left();
}

#[test]
fn the_output_of_a_guest_is_judged_as_it_is() {
    let host = greedy();
    for (mode, error) in [
        ("two_values", "Tool 'greedy' returned malformed JSON: trailing characters"),
        ("bad_utf8", "Tool 'greedy' returned malformed JSON: "),
    ] {
        let envelope = assert_failed(call(&host, &[], mode, ""), "INVALID_OUTPUT", None, 0);
        assert!(envelope["error"].as_str().expect("text").starts_with(error), "{envelope}");
    }
    // Bytes that are not UTF-8 are shown as U+FFFD.
    let envelope = call(&host, &[], "bad_utf8", "").json();
    assert_eq!(envelope["stdout"], "{\"text\":\"\u{fffd}\u{fffd}\"}");
    let ran = call(&host, &[], "long_line", "").expect_code(0);
    assert_eq!(ran.json()["result"].as_str().map(str::len), Some(10_000_000));
    // A value is passed on as it was written, however deep it is.
    let ran = call(&host, &[], "deep_json", "").expect_code(0);
    let expected = format!(
        "{{\"tool_success\":true,\"result\":{}{}}}\n",
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    assert!(ran.stdout() == expected, "{}", &ran.stdout()[..100]);
    let silent = Host::without_system_tools();
    let path = silent.program("silent.wasm", printing("", Ending::Well));
    let ran = silent.run([Path::new("tool"), "run".as_ref(), &path]).expect_code(0);
    assert_eq!((ran.stdout(), ran.stderr().lines().count()), (String::new(), 1), "{ran}");
}

#[test]
fn the_end_of_a_guest_is_reported_as_it_was() {
    let host = greedy();
    let envelope = assert_failed(call(&host, &[], "trap", ""), "TOOL_CRASHED", None, 134);
    let trapped =
        "Tool 'greedy' crashed with exit code 134: wasm `unreachable` instruction executed";
    assert_eq!(envelope["error"], trapped);
    let envelope = assert_failed(call(&host, &[], "panic", ""), "TOOL_CRASHED", None, 134);
    assert!(envelope["stderr"].as_str().expect("text").contains("as it was told to"), "{envelope}");
    // A program of Rust reports only success or failure to WASI 0.2: other codes arrive as 1.
    let envelope = assert_failed(call(&host, &[], "exit_7", ""), "TOOL_CRASHED", None, 1);
    assert_eq!(envelope["error"], "Tool 'greedy' crashed with exit code 1");
    assert_eq!(envelope["stdout"], "half an answer");
}

#[test]
fn a_guest_may_leave_all_of_its_arguments_unread() {
    let host = Host::without_system_tools();
    host.program("deaf.wasm", printing(ikigai_tests::host::schema("deaf"), Ending::Well));
    let much = format!("{{\"text\":\"{}\"}}", "x".repeat(50_000_000));
    let ran = host.run_with(["tool", "call", "deaf", "-"], much.as_bytes()).expect_code(0);
    assert_eq!(ran.json()["result"]["name"], "deaf");
}

#[test]
fn a_user_component_sees_nothing_at_all() {
    let host = Host::without_system_tools();
    host.write("workspace/secret", "s", 0o644);
    let envelope = call(&greedy_beside(&host), &[], "open", "secret").expect_code(0).json();
    assert_ne!(envelope["result"]["secret"], "REACHED", "{envelope}");
}

fn greedy_beside(host: &Host) -> Host {
    let other = greedy();
    std::fs::copy(host.workspace().join("secret"), other.workspace().join("secret"))
        .expect("copied");
    other
}
