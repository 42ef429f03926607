//! `tool call` from end to end: its arguments, native tools that misbehave, and the exact envelope.

use std::fs;
use std::time::{Duration, Instant};

use ikigai_tests::host::{Host, Ran};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

/// The time in which a call with a limit of half a second ends, even on a very busy machine.
const IN_TIME: Duration = Duration::from_secs(30);

/// A host with the script `tool`.
fn script(body: &str) -> Host {
    let host = Host::without_system_tools();
    host.script("tool", body);
    host
}

/// Calls the script `tool`, and checks that none of its processes is left and that the next call
/// works.
#[track_caller]
fn call(host: &Host, flags: &[&str]) -> Ran {
    host.script("next", "echo 1");
    let before = host.files();
    let begun = Instant::now();
    let ran = host.run([flags, &["tool", "call", "tool", "{}"]].concat());
    assert!(begun.elapsed() < IN_TIME, "took {:?}\n{ran}", begun.elapsed());
    host.assert_nothing_left();
    assert_eq!(host.files(), before, "files came or went\n{ran}");
    host.run(["tool", "call", "next", "{}"]).expect_code(0);
    ran
}

#[test]
fn the_envelope_is_this_to_the_letter() {
    for (body, flags, code, expected) in [
        (
            "echo '{\"b\":1.0, \"a\":[ ]}'",
            &[][..],
            0,
            r#"{"tool_success":true,"result":{"b":1.0,"a":[]}}"#,
        ),
        (
            "echo out; echo err >&2; exit 3",
            &[],
            1,
            r#"{"tool_success":false,"error":"Tool 'tool' crashed with exit code 3","error_code":"TOOL_CRASHED","exit_code":3,"stdout":"out\n","stderr":"err\n"}"#,
        ),
        (
            "kill -SEGV $$",
            &[],
            1,
            r#"{"tool_success":false,"error":"Tool 'tool' crashed with exit code 139","error_code":"TOOL_CRASHED","exit_code":139,"stdout":"","stderr":""}"#,
        ),
        (
            "printf '{\"half\":1}'; sleep 1000",
            &["--timeout", "1s"],
            1,
            r#"{"tool_success":false,"error":"Tool 'tool' timed out after 1s","error_code":"TOOL_TIMEOUT","limit":"wall_clock","exit_code":137,"stdout":"{\"half\":1}","stderr":""}"#,
        ),
        (
            "exit 0",
            &[],
            1,
            r#"{"tool_success":false,"error":"Tool 'tool' returned malformed JSON: stdout is empty","error_code":"INVALID_OUTPUT","exit_code":0,"stdout":"","stderr":""}"#,
        ),
    ] {
        let ran = call(&script(body), flags).expect_code(code);
        assert_eq!(ran.stdout(), format!("{expected}\n"), "{ran}");
    }
    let ran = Host::without_system_tools().run(["tool", "call", "absent"]).expect_code(1);
    let expected =
        r#"{"tool_success":false,"error":"Tool 'absent' not found","error_code":"TOOL_NOT_FOUND"}"#;
    assert_eq!(ran.stdout(), format!("{expected}\n"), "{ran}");
}

#[test]
fn more_than_is_shown_is_counted() {
    let host = script(
        "head -c 100000 /dev/zero | tr '\\0' x; head -c 200000 /dev/zero | tr '\\0' y >&2; printf end >&2; exit 1",
    );
    let envelope = call(&host, &[]).expect_code(1).json();
    let keys: Vec<&String> = envelope.as_object().expect("an object").keys().collect();
    let expected = [
        "tool_success",
        "error",
        "error_code",
        "exit_code",
        "stdout",
        "stdout_bytes",
        "stderr",
        "stderr_bytes",
    ];
    assert_eq!(keys, expected);
    assert_eq!(envelope["stdout"].as_str().map(str::len), Some(65536));
    let stderr = envelope["stderr"].as_str().expect("text");
    assert_eq!((stderr.len(), stderr.ends_with("yend")), (65536, true));
    assert_eq!(
        (&envelope["stdout_bytes"], &envelope["stderr_bytes"]),
        (&json!(100_000), &json!(200_003))
    );
}

#[test]
fn a_native_tool_that_does_not_end_is_ended() {
    for body in [
        "sleep 1000",
        "while :; do :; done",
        "exec >&-; exec 2>&-; sleep 1000",
        "echo '{}'; exec >&-; sleep 1000",
        "trap '' TERM INT HUP PIPE; sleep 1000; sleep 1000",
        "kill -STOP $$",
        // The tool's children keep all of its descriptors open.
        "(setsid sleep 1000 &); setsid sh -c 'sleep 1000; :' & wait",
    ] {
        let ran = call(&script(body), &["--timeout", "700ms"]).expect_code(1);
        let envelope = ran.json();
        let found = (&envelope["error_code"], &envelope["limit"], &envelope["exit_code"]);
        assert_eq!(
            found,
            (&json!("TOOL_TIMEOUT"), &json!("wall_clock"), &json!(137)),
            "{body}\n{ran}"
        );
    }
}

#[test]
fn what_a_native_tool_leaves_behind_ends_with_the_call() {
    for body in [
        "(setsid sleep 1000 </dev/null >/dev/null 2>&1 &); echo 1",
        // The child keeps the pipes open, and ignores all signals that can be ignored.
        "(setsid sh -c 'trap \"\" HUP INT TERM PIPE; sleep 1000; sleep 1000' &); echo 1",
        "nohup sleep 1000 & cd /; (setsid setsid sleep 1000 &) & echo 1",
    ] {
        let ran = call(&script(body), &[]).expect_code(0);
        assert_eq!(ran.json()["result"], 1, "{ran}");
    }
}

#[test]
fn the_output_of_a_native_tool_is_judged_as_it_is() {
    for (body, code, text) in [
        ("echo '{} {}'", "INVALID_OUTPUT", "trailing characters"),
        ("echo nonsense", "INVALID_OUTPUT", "malformed JSON"),
        ("printf '\"\\377\"'", "INVALID_OUTPUT", "malformed JSON"),
        ("echo '{\"a\":1'", "INVALID_OUTPUT", "malformed JSON"),
        ("exec yes", "INVALID_OUTPUT", "wrote more than"),
        ("exec tail /dev/zero", "TOOL_CRASHED", "ran out of memory: its limit is 300.0 MiB"),
    ] {
        let flags = ["--max-output", "1MiB", "--memory", "300MiB"];
        let ran = call(&script(body), &flags).expect_code(1);
        let envelope = ran.json();
        assert_eq!(envelope["error_code"], code, "{body}\n{ran}");
        assert!(envelope["error"].as_str().expect("text").contains(text), "{body}\n{ran}");
    }
    // A flood on stderr is not a failure. Its end is kept in case a failure follows.
    let ran = call(&script("head -c 50000000 /dev/zero >&2; echo 1"), &[]).expect_code(0);
    assert_eq!((ran.json()["result"].clone(), ran.stderr()), (json!(1), String::new()));
}

#[test]
fn a_limit_that_the_policy_can_raise_is_named_with_the_command_that_raises_it() {
    for (limit, flag, body, error, hint) in [
        (
            "wall_clock=700ms",
            ["--timeout", "700ms"],
            "sleep 1000",
            "Tool 'tool' timed out after 0.7s",
            "`ikigai policy grant tool --limit wall_clock=3s500ms` allows longer",
        ),
        (
            "memory=300MiB",
            ["--memory", "300MiB"],
            "exec tail /dev/zero",
            "Tool 'tool' ran out of memory: its limit is 300.0 MiB",
            "`ikigai policy grant tool --limit memory=600MiB` allows more",
        ),
    ] {
        let host = script(body);
        host.run(["policy", "grant", "tool", "--limit", limit]).expect_code(0);
        let ran = call(&host, &[]).expect_code(1);
        assert_eq!(ran.json()["error"], format!("{error}; {hint}"), "{ran}");
        // A policy entry cannot raise a flag's limit.
        let ran = call(&host, &flag).expect_code(1);
        assert_eq!(ran.json()["error"], error, "{ran}");
    }
}

#[test]
fn arguments_that_are_no_object_are_refused_before_anything_runs() {
    let host = Host::without_system_tools();
    let log = host.write("workspace/log", "", 0o644);
    host.script("tool", &format!("echo ran >>'{}'; echo 1", log.display()));
    let deep = "[".repeat(100_000);
    let huge = "x".repeat(50_000_000);
    let cases: &[(&[u8], &str)] = &[
        (b"", "not valid JSON"),
        (b"not json", "not valid JSON"),
        (b"{\"a\":1", "not valid JSON"),
        (b"{} {}", "not valid JSON"),
        (b"{\"a\":\"\xff\"}", "not valid JSON"),
        (b"{\"a\":\"\\ud800\"}", "not valid JSON"),
        (b"[1]", "must be a JSON object, not an array"),
        (b"\"text\"", "not a string"),
        (b"null", "not null"),
        (b"true", "not a boolean"),
        (b"-1", "not a number"),
        (deep.as_bytes(), "not valid JSON"),
        (huge.as_bytes(), "not valid JSON"),
    ];
    for (arguments, expected) in cases {
        let shown = String::from_utf8_lossy(&arguments[..arguments.len().min(40)]);
        // An unpaired surrogate is well-formed JSON but not text. Both answers are right, but a
        // crash is not.
        let ran = host.run_with(["tool", "call", "tool", "-"], arguments);
        if shown.contains("ud800") && ran.code() == Some(0) {
            fs::write(&log, "").expect("written");
            continue;
        }
        let envelope = ran.expect_code(1).json();
        assert_eq!(envelope["error_code"], "INVALID_PARAMS", "{shown}: {envelope}");
        assert!(
            envelope["error"].as_str().expect("text").contains(expected),
            "{shown}: {envelope}"
        );
        assert_eq!(
            envelope.as_object().map(serde_json::Map::len),
            Some(3),
            "nothing ran: {envelope}"
        );
    }
    assert_eq!(fs::read_to_string(&log).expect("read"), "", "the tool ran");
}

#[test]
fn arguments_come_from_the_line_a_file_or_stdin() {
    let host = script("cat");
    let file = host.write("arguments.json", r#"{"from":"file"}"#, 0o644);
    let result = |argument: &str, stdin: &[u8]| {
        let ran = host.run_with(["tool", "call", "tool", argument], stdin).expect_code(0);
        ran.json()["result"].clone()
    };
    assert_eq!(result(r#"{"from":"line"}"#, b""), json!({"from": "line"}));
    assert_eq!(result(&format!("@{}", file.display()), b""), json!({"from": "file"}));
    assert_eq!(result("-", br#"{"from":"stdin"}"#), json!({"from": "stdin"}));
    assert_eq!(host.run(["tool", "call", "tool"]).expect_code(0).json()["result"], json!({}));
    let ran = host.run(["tool", "call", "tool", "@absent.json"]).expect_code(2);
    assert!(ran.stderr().contains("`absent.json`") && ran.stdout().is_empty(), "{ran}");
}

#[test]
fn large_and_deep_arguments_arrive_or_are_refused_by_the_tool() {
    let long = "x".repeat(50_000_000);
    let long = format!("{{\"text\":\"{long}\"}}");
    let host = script("cat");
    let ran = host.run_with(["--max-output", "60MB", "tool", "call", "tool", "-"], long.as_bytes());
    assert_eq!(
        (ran.code(), ran.stdout().len()),
        (Some(0), long.len() + "{'tool_success':true,'result':}\n".len()),
        "{}",
        ran.stderr()
    );
    // A tool that does not read its arguments succeeds.
    let ran =
        script("echo 1").run_with(["tool", "call", "tool", "-"], long.as_bytes()).expect_code(0);
    assert_eq!(ran.json()["result"], 1);

    let host = Host::new();
    let deep = format!("{{\"file_path\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    for backend in ["wasm", "native"] {
        for arguments in [&deep, &long] {
            let flags = ["--backend", backend, "tool", "call", "file_read", "-"];
            let ran = host.run_with(flags, arguments.as_bytes()).expect_code(0);
            assert_eq!(ran.json()["result"]["error_code"], "INVALID_PARAMS", "{ran}");
        }
    }
    host.assert_nothing_left();
}

#[test]
fn a_fifo_in_the_workspace_holds_no_tool_past_its_limit() {
    let host = Host::new();
    mknodat(CWD, host.workspace().join("fifo"), FileType::Fifo, Mode::from(0o666), 0)
        .expect("made");
    host.write("workspace/file", "text", 0o644);
    for backend in ["wasm", "native"] {
        for (tool, arguments) in [
            ("file_read", r#"{"file_path":"fifo"}"#),
            ("file_write", r#"{"file_path":"fifo","content":"x"}"#),
            ("file_edit", r#"{"file_path":"fifo","old_string":"a","new_string":"b"}"#),
            ("grep", r#"{"pattern":"x","path":".","glob":"*"}"#),
        ] {
            let begun = Instant::now();
            let flags = ["--timeout", "2s", "--backend", backend, "tool", "call", tool, arguments];
            let ran = host.run(flags);
            assert!(begun.elapsed() < IN_TIME, "{ran}");
            let envelope = ran.json();
            let refused = envelope["result"]["error_code"].is_string() || tool == "grep";
            let timed_out = envelope["limit"] == "wall_clock";
            assert!(refused || timed_out, "{ran}");
            host.assert_nothing_left();
        }
    }
    let ran = host.run(["tool", "call", "file_read", r#"{"file_path":"file"}"#]).expect_code(0);
    assert_eq!(ran.json()["result"]["output"], "text", "{ran}");
}

#[test]
fn a_standard_tool_reads_nothing_outside_its_workspace() {
    let host = Host::new();
    let secret = host.write("outside/secret", "secret", 0o644);
    std::os::unix::fs::symlink(&secret, host.workspace().join("link")).expect("linked");
    let secret = secret.to_str().expect("UTF-8").to_owned();
    for backend in ["wasm", "native"] {
        for path in [
            "../outside/secret",
            "link",
            "sub/../../outside/secret",
            &secret,
            "/etc/passwd",
            "/proc/self/environ",
            "/proc/self/root/etc/passwd",
            "/dev/fd/0",
            "/dev/stdin",
        ] {
            for (tool, rest) in [
                ("file_read", ""),
                ("file_write", r#","content":"x""#),
                ("file_edit", r#","old_string":"secret","new_string":"x""#),
            ] {
                let arguments = format!("{{\"file_path\":\"{path}\"{rest}}}");
                let ran = host
                    .run(["--backend", backend, "tool", "call", tool, &arguments])
                    .expect_code(0);
                let result = ran.json()["result"].clone();
                assert!(result["error_code"].is_string(), "{path}\n{ran}");
                assert!(path != "link" || result["error_code"] == "PERMISSION_DENIED", "{ran}");
            }
        }
    }
    assert_eq!(fs::read_to_string(secret).expect("read"), "secret");
}

#[test]
fn a_call_with_everything_at_its_limit_names_the_limit() {
    let host = Host::without_system_tools();
    host.guest("greedy");
    host.run(["tool", "list"]).expect_code(0);
    for (flags, mode, limit) in [
        (["--timeout", "300ms"], "spin", "wall_clock"),
        (["--fuel", "10000000"], "spin", "fuel"),
        (["--memory", "32MiB"], "memory", "memory"),
        (["--max-output", "1KiB"], "flood_stdout", "output"),
    ] {
        let arguments = format!("{{\"mode\":\"{mode}\"}}");
        let ran = host.run([&flags[..], &["tool", "call", "greedy", &arguments]].concat());
        assert_eq!(ran.expect_code(1).json()["limit"], limit);
        // The variable has the same effect, and the flag takes precedence over it.
        let variable = format!("IKIGAI_{}", flags[0][2..].to_uppercase().replace('-', "_"));
        let asked = ["tool", "run", "./greedy.wasm", mode];
        let mut command = host.command();
        command.current_dir(host.user_tools()).env(&variable, flags[1]).args(asked);
        let ran = Ran::from_command(&mut command, b"").expect_code(124);
        assert!(ran.stderr().contains(&format!("its limit on {limit}")), "{ran}");
    }
    let described = |value: Value| value.to_string();
    assert!(
        described(host.run(["tool", "call", "greedy", r#"{"mode":"fine"}"#]).json())
            .contains("fine")
    );
}

#[test]
fn a_limit_on_the_size_of_files_ends_no_host() {
    let host = Host::new();
    // The shell counts blocks of 512 or of 1,024 bytes.
    let mut command = host.shell("ulimit -f 8; exec \"$0\" \"$@\"");
    let content = "x".repeat(50_000);
    let arguments = json!({"file_path": "large", "content": content}).to_string();
    command.args(["--backend", "wasm", "tool", "call", "file_write", "-"]);
    let ran = Ran::from_command(&mut command, arguments.as_bytes()).expect_code(0);
    assert_eq!(ran.json()["result"]["error_code"], "WRITE_FAILED", "{ran}");
}
