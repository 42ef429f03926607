//! Core modules that take more than they may. Each is ended by its limit, and the next call works.

use std::time::Instant;

use ikigai_tests::core_module::{import, saying};
use ikigai_tests::host::Host;
use serde_json::{Value, json};

use super::host;

/// Runs `body` under `flags` and returns the envelope of the failure. A call with `{"fine":…}`
/// works before and after.
#[track_caller]
fn failure(flags: &[&str], imports: &str, body: &str) -> Value {
    // The arguments of such a call are longer than `{}`.
    let body =
        format!("(if (i32.gt_u (call $read) (i32.const 2)) (then (call $print) (return))) {body}");
    let host = host(&(imports.to_owned() + &saying("true")), &body);
    assert_fine(&host);
    let begun = Instant::now();
    let ran = host.run([flags, &["tool", "call", "tool", "{}"]].concat()).expect_code(1);
    let took = begun.elapsed();
    assert!(took < IN_TIME, "took {took:?}\n{ran}");
    host.assert_nothing_left();
    assert_fine(&host);
    ran.json()
}

/// The time in which a call with a limit of half a second ends, even on a very busy machine.
const IN_TIME: std::time::Duration = std::time::Duration::from_secs(30);

#[track_caller]
fn assert_fine(host: &Host) {
    let ran = host.run(["tool", "call", "tool", r#"{"fine":1}"#]).expect_code(0);
    assert_eq!(ran.json()["result"], json!(true), "{ran}");
}

#[track_caller]
fn assert_ended(envelope: &Value, code: &str, limit: &str) {
    let found = (&envelope["error_code"], &envelope["limit"], &envelope["exit_code"]);
    assert_eq!(found, (&json!(code), &json!(limit), &json!(134)), "{envelope}");
}

const SPIN: &str = "(loop $again (br $again))";

#[test]
fn a_module_that_does_not_end_is_ended() {
    assert_ended(&failure(&["--timeout", "500ms"], "", SPIN), "TOOL_TIMEOUT", "wall_clock");
    assert_ended(&failure(&["--fuel", "1000000"], "", SPIN), "TOOL_TIMEOUT", "fuel");
}

/// Polls a clock, for the number of nanoseconds that replaces `NANOSECONDS`.
const SLEEP: &str = "
    ;; A subscription: its name, a clock, which of them, the time, the precision, no flags.
    (i64.store (i32.const 16384) (i64.const 7))
    (i32.store (i32.const 16392) (i32.const 0))
    (i32.store (i32.const 16400) (i32.const 1))
    (i64.store (i32.const 16408) (i64.const NANOSECONDS))
    (i64.store (i32.const 16416) (i64.const 0))
    (i32.store (i32.const 16424) (i32.const 0))
    (if (call $poll_oneoff (i32.const 16384) (i32.const 16448) (i32.const 1) (i32.const 16500))
      (then unreachable))
    (if (i32.ne (i32.load (i32.const 16500)) (i32.const 1)) (then unreachable))
    (if (i64.ne (i64.load (i32.const 16448)) (i64.const 7)) (then unreachable))
    (call $print)";

#[test]
fn a_module_that_sleeps_wakes_or_is_ended() {
    let imports = import("poll_oneoff", "i32 i32 i32 i32");
    let asleep = SLEEP.replace("NANOSECONDS", "1000000000000");
    let ended = failure(&["--timeout", "500ms"], &imports, &asleep);
    assert_ended(&ended, "TOOL_TIMEOUT", "wall_clock");
    let host = host(&(imports + &saying("true")), &SLEEP.replace("NANOSECONDS", "50000000"));
    let begun = Instant::now();
    assert_fine(&host);
    assert!(begun.elapsed().as_millis() >= 50);
}

#[test]
fn a_module_that_takes_too_much_memory_is_refused_it() {
    let grow = "(loop $more (br_if $more (i32.ne (i32.const -1) (memory.grow (i32.const 16)))))
                unreachable";
    assert_ended(&failure(&["--memory", "64MiB"], "", grow), "TOOL_CRASHED", "memory");
    // The declared memory exceeds the limit, so the module does not start.
    assert_ended(&failure(&["--memory", "64KiB"], "", "(call $print)"), "TOOL_CRASHED", "memory");
    let table = "(loop $more (br_if $more (i32.ne (i32.const -1)
                   (table.grow $table (ref.null func) (i32.const 1000)))))
                 unreachable";
    let ended = failure(&["--memory", "64MiB"], "(table $table 1 funcref)", table);
    assert_ended(&ended, "TOOL_CRASHED", "memory");
}

#[test]
fn a_module_that_floods_stdout_is_cut_off() {
    let flood = "(loop $again (call $say (i32.const 4096) (i32.const 60000)) (br $again))";
    let envelope = failure(&["--max-output", "100000B"], "", flood);
    assert_ended(&envelope, "INVALID_OUTPUT", "output");
    assert_eq!(envelope["stdout"].as_str().map(str::len), Some(65536), "{}", envelope["error"]);
}

#[test]
fn a_module_that_traps_or_recurses_ends_alone() {
    let envelope = failure(&[], "", "unreachable");
    let expected = "wasm `unreachable` instruction executed";
    assert!(envelope["error"].as_str().expect("text").contains(expected), "{envelope}");
    let envelope = failure(&[], "(func $deeper (call $deeper))", "(call $deeper)");
    let expected = "call stack exhausted";
    assert!(envelope["error"].as_str().expect("text").contains(expected), "{envelope}");
    let outside = "(drop (call $fd_write (i32.const 1) (i32.const -8) (i32.const 1) (i32.const 8)))
                   (i32.store (i32.const 0) (i32.const -16))
                   (i32.store (i32.const 4) (i32.const 1000))
                   (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))
                   unreachable";
    let envelope = failure(&[], "", outside);
    assert_eq!(envelope["error_code"], "TOOL_CRASHED", "{envelope}");
    let error = envelope["error"].as_str().expect("text");
    assert!(error.contains("outside of its memory"), "{envelope}");
    assert_eq!(envelope["stdout"], "", "{envelope}");
}

#[test]
fn a_module_that_keeps_opening_files_runs_out_of_descriptors() {
    let imports = import("path_open", "i32 i32 i32 i32 i32 i64 i64 i32 i32") + &saying("file");
    let host = host(
        &imports,
        "(local $count i32)
         (loop $next
           (if (i32.eqz (call $path_open (i32.const 3) (i32.const 0) (i32.const 20480) (i32.const 4)
               (i32.const 0) (i64.const 2) (i64.const 2) (i32.const 0) (i32.const 16384)))
             (then
               (local.set $count (i32.add (local.get $count) (i32.const 1)))
               (br_if $next (i32.lt_u (local.get $count) (i32.const 100000))))))
         (call $number (local.get $count))",
    );
    host.write("workspace/file", "x", 0o644);
    host.run(["policy", "grant", "tool", "--read", "."]).expect_code(0);
    let ran = host.run(["tool", "call", "tool", "{}"]).expect_code(0);
    let count = ran.json()["result"].as_u64().expect("a count");
    assert!((50..=256).contains(&count), "{ran}");
    host.assert_nothing_left();
}
