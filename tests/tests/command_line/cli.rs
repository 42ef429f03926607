//! The command line: its output, its exit codes, and its answers to mistakes.

mod completion;
mod mistaken;
mod reference;

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use ikigai_protocol::is_deceptive;
use ikigai_tests::component::{Ending, printing};
use ikigai_tests::host::{Host, Ran, schema};
use serde_json::Value;

/// A host with the script `tool` and the component `part`.
fn two_tools() -> Host {
    let host = Host::without_system_tools();
    host.script("tool", "echo '{\"a\":[1]}'");
    host.program("part.wasm", printing(schema("part"), Ending::Well));
    host
}

/// Replaces the parts of an output that differ between runs.
fn stable(host: &Host, text: &str) -> String {
    let text = text.replace(&host.scratch().display().to_string(), "SCRATCH");
    let is_digest =
        |word: &str| word.len() == 64 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let lines = text.lines().map(|line| {
        let words = line.split(['"', ' ']).filter(|word| is_digest(word));
        let line = words.fold(line.to_owned(), |line, word| line.replace(word, "DIGEST"));
        line.trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_limit_that_is_too_low_is_named_in_place_of_what_fails_by_it() {
    let host = two_tools();
    let limited = |limit: &str, args: &[&str]| {
        let mut shell = host.shell(&format!("ulimit {limit}; exec \"$0\" \"$@\""));
        Ran::from_command(shell.args(args), b"text")
    };
    for most in ["6", "16", "255"] {
        for args in [&["tool", "list"][..], &["asset", "list"]] {
            let ran = limited(&format!("-n {most}"), args).expect_code(1);
            let said = format!("ikigai may open only {most} files, and needs 256");
            assert!(ran.stderr().contains(&said), "{ran}");
        }
    }
    limited("-n 256", &["tool", "call", "tool"]).expect_code(0);
    // The blocks have 1,024 bytes in bash, and 512 in other shells.
    let ran = limited("-f 8", &["asset", "put", "a", "-"]).expect_code(1);
    assert!(ran.stderr().contains("may write no file of more than"), "{ran}");
    assert!(!ran.stderr().contains("disk I/O error"), "{ran}");
}

#[test]
fn help_says_what_there_is() {
    let host = Host::without_system_tools();
    for (command, flag) in [
        ("", "-h"),
        ("", "--help"),
        ("tool", "-h"),
        ("tool call", "-h"),
        ("tool call", "--help"),
        ("tool run", "-h"),
        ("tool check", "-h"),
        ("asset list", "--help"),
        ("audit", "-h"),
        ("mcp serve", "-h"),
        ("mcp install", "--help"),
        ("doctor", "-h"),
        ("config show", "--help"),
    ] {
        let args = command.split_whitespace().chain([flag]);
        let mut asked = host.command();
        // The help shows the values of variables that are set.
        asked.env_remove("IKIGAI_SYSTEM_TOOLS").env_remove("IKIGAI_USER_TOOLS").args(args);
        let ran = Ran::from_command(&mut asked, b"").expect_code(0);
        assert_eq!(ran.stderr(), "");
        let what = if flag == "-h" { "help" } else { "long help" };
        let name = format!("{what} {command}").trim_end().replace(' ', "_");
        insta::assert_snapshot!(name, stable(&host, &ran.stdout()));
    }
}

#[test]
fn what_is_listed_and_shown_has_a_form_for_programs() {
    let host = two_tools();
    host.program("broken", "#!/bin/sh\nexit 1\n");
    for (name, args) in [
        ("list", &["list"][..]),
        ("list_all", &["list", "--all"]),
        ("list_json", &["list", "--all", "--json"]),
        ("show", &["show", "part"]),
        ("show_json", &["show", "part", "--json"]),
        ("schema", &["schema", "part"]),
    ] {
        let ran = host.run([&["tool"], args].concat()).expect_code(0);
        insta::assert_snapshot!(name, stable(&host, &ran.stdout()));
        if args.contains(&"--json") {
            assert!(ran.json().is_object(), "{ran}");
        }
    }
    let ran = host.run(["tool", "show", "part", "--imports"]).expect_code(0);
    assert!(ran.stdout().contains("imports      wasi:io/error@"), "{ran}");
}

#[test]
fn a_check_prints_every_check_and_whether_it_is_a_tool() {
    let host = two_tools();
    host.program("trapping.wasm", printing(schema("trapping"), Ending::Trap));
    host.program("hanging", "#!/bin/sh\nsleep 1000\n");
    host.write("user-tools/plain", "text", 0o644);
    let importing = ikigai_tests::component::importing("example:gone/thing@1.0.0", "{}");
    host.program("importing.wasm", importing);
    for (file, code, expected) in [
        ("tool", 0, "answered in JSON"),
        ("part.wasm", 0, "valid, of a tool called `part`"),
        ("trapping.wasm", 1, "trapped"),
        ("hanging", 1, "timeout"),
        ("plain", 1, "chmod +x '"),
        ("importing.wasm", 1, "example:gone/thing@1.0.0"),
        ("absent", 1, "No such file"),
    ] {
        let path = host.user_tools().join(file);
        let check = [
            OsStr::new("--timeout"),
            "2s".as_ref(),
            "tool".as_ref(),
            "check".as_ref(),
            path.as_ref(),
        ];
        let ran = host.run(check).expect_code(code);
        assert!(ran.stdout().contains(expected), "{ran}");
        let ran = host.run(check.into_iter().chain([OsStr::new("--json")])).expect_code(code);
        assert_eq!(ran.json()["good"], code == 0, "{ran}");
        let findings = ran.json()["findings"].as_array().expect("findings").clone();
        assert!(
            findings.iter().all(|it| it["check"].is_string() && it["text"].is_string()),
            "{ran}"
        );
        host.assert_nothing_left();
    }
}

#[test]
fn a_run_passes_on_everything_as_it_is() {
    let host = Host::without_system_tools();
    host.script("args", "printf '<%s>' \"$@\"");
    let args = ["-v", "--timeout", "1", "--help", "", "a b", "--", "-", "ü\n", "--json"];
    let ran = host.run([&["tool", "run", "args"], &args[..]].concat()).expect_code(0);
    let expected: String = args.iter().map(|arg| format!("<{arg}>")).collect();
    assert_eq!(ran.stdout(), expected, "{ran}");

    let guest = host.guest("greedy");
    let guest = guest.to_str().expect("UTF-8");
    let ran = host.run([&["tool", "run", guest, "echo_args"], &args[..]].concat()).expect_code(0);
    assert_eq!(ran.stdout(), format!("{args:?}"), "{ran}");

    // Bytes that are neither JSON nor text pass through in both directions.
    host.script("copy", "cat; echo problem >&2");
    let bytes: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    let output = {
        let mut command = host.command();
        let mut child = command
            .args(["tool", "run", "copy"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("runs");
        let mut stdin = child.stdin.take().expect("a pipe");
        let given = bytes.clone();
        let feeder = std::thread::spawn(move || std::io::Write::write_all(&mut stdin, &given));
        let output = child.wait_with_output().expect("ends");
        feeder.join().expect("no panic").expect("written");
        output
    };
    assert!(output.stdout == bytes && output.stderr == b"problem\n", "{:?}", output.status);
    host.assert_nothing_left();
}

#[test]
fn a_run_exits_as_the_tool_did() {
    let host = Host::without_system_tools();
    host.script("seven", "exit 7");
    host.script("killed", "kill -TERM $$");
    host.script("slow", "sleep 1000");
    host.run(["tool", "list"]).expect_code(0);
    let unstartable = host.program("unstartable", "#!/nowhere\n");
    let trapping = host.program("trapping.wasm", printing("", Ending::Trap));
    let failing = host.program("failing.wasm", printing("", Ending::Badly));
    let path = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    for (tool, code, said) in [
        ("seven", 7, ""),
        ("killed", 143, ""),
        ("slow", 124, "error: `slow` exceeded its limit on wall_clock\n"),
        (&path(&unstartable), 126, "could not be started"),
        (&path(&trapping), 134, "trapped"),
        (&path(&failing), 1, ""),
        ("absent", 2, "tool `absent` not found"),
        ("./absent", 2, "No such file"),
    ] {
        let ran = host.run(["--timeout", "1s", "tool", "run", tool]).expect_code(code);
        assert_eq!(ran.stdout(), "", "{ran}");
        assert!(
            ran.stderr().contains(said) && (!said.is_empty() || !ran.stderr().contains("error")),
            "{ran}"
        );
    }
    host.assert_nothing_left();
}

#[test]
fn an_envelope_may_be_indented_for_people() {
    let host = two_tools();
    let compact = host.run(["tool", "call", "tool"]).expect_code(0);
    let pretty = host.run(["tool", "call", "tool", "--pretty"]).expect_code(0);
    assert_eq!(compact.stdout().lines().count(), 1);
    assert_eq!(compact.json(), pretty.json());
    let expected =
        "{\n  \"tool_success\": true,\n  \"result\": {\n    \"a\": [\n      1\n    ]\n  }\n}\n";
    assert_eq!(pretty.stdout(), expected);
}

#[test]
fn a_stdout_that_nobody_reads_is_no_reason_to_complain() {
    let host = two_tools();
    host.script("endless", "while echo more 2>/dev/null; do :; done");
    host.run(["tool", "list"]).expect_code(0);
    for args in [
        &["tool", "list"][..],
        &["tool", "list", "--json"],
        &["tool", "show", "part"],
        &["tool", "schema"],
        &["tool", "call", "tool"],
        &["tool", "run", "endless"],
        &["completions", "bash"],
        &["--help"],
    ] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = host.command();
        let output = command.args(args).stdin(Stdio::null()).stdout(writer).output().expect("runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        // The tool writes to the closed pipe directly, and SIGPIPE kills it.
        let expected = |code| code <= 1 || (args.contains(&"run") && code == 128 + 13);
        assert!(output.status.code().is_some_and(expected), "{args:?}: {output:?}");
        assert_eq!(stderr, "", "{args:?}");
    }
    host.assert_nothing_left();
}

#[test]
fn a_tool_reads_a_socket_or_a_file_by_a_pipe() {
    let host = Host::without_system_tools();
    host.script("tool", "cat; test -p /proc/self/fd/0 || echo no pipe");
    let (socket, mut peer) = UnixStream::pair().expect("a pair");
    peer.write_all(b"sent\n").expect("sent");
    peer.shutdown(Shutdown::Write).expect("closed");
    let file = fs::File::open(host.write("input", "sent\n", 0o600)).expect("a file");
    for stdin in [OwnedFd::from(socket), OwnedFd::from(file)] {
        let mut command = host.command();
        let output = command.args(["tool", "run", "tool"]).stdin(stdin).output().expect("runs");
        assert!(output.status.success(), "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "sent\n", "{output:?}");
    }
}

/// If a parent ignores the ends of its children, the programs that it starts inherit that.
#[test]
fn a_parent_that_reaps_nobody_keeps_no_native_tool_from_its_end() {
    let host = two_tools();
    let mut shell = host.shell("trap '' CHLD; exec \"$0\" \"$@\"");
    let ran = Ran::from_command(shell.args(["tool", "call", "tool"]), b"").expect_code(0);
    assert_eq!(ran.stderr(), "", "{ran}");
    host.assert_nothing_left();
}

#[test]
fn a_stdout_that_is_full_is_an_error() {
    let host = two_tools();
    let of_a_run = "error: the output of `tool` could not be written: No space left on device";
    for (args, error) in [
        (&["tool", "call", "tool"][..], "error: No space left on device"),
        (&["tool", "list"], "error: No space left on device"),
        (&["tool", "run", "tool"], of_a_run),
        (&["--help"], "error: No space left on device"),
        (&["tool", "--help"], "error: No space left on device"),
        (&["--version"], "error: No space left on device"),
    ] {
        let full = OpenOptions::new().write(true).open("/dev/full").expect("opened");
        let mut command = host.command();
        let output = command.args(args).stdin(Stdio::null()).stdout(full).output().expect("runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains(error), "{stderr}");
    }
}

#[test]
fn a_mistake_on_the_command_line_is_reported_with_a_remedy() {
    let host = two_tools();
    let file = host.write("file", "", 0o644);
    let file = file.to_str().expect("UTF-8");
    for (args, said) in [
        (&["--timeout", "5", "tool", "list"][..], "write it as 500ms, 30s or 2m"),
        (&["--timeout", "0s", "tool", "list"], "more than zero"),
        (&["--timeout", "1000years", "tool", "list"], "at most 7days"),
        (&["--memory", "much", "tool", "list"], "write it as 64KiB or 512MiB"),
        (&["--memory", "0", "tool", "list"], "more than zero"),
        (&["--memory", "64", "tool", "list"], "has no unit; write it as 64MiB"),
        (&["--memory", "63KiB", "tool", "list"], "is too little for any tool to start"),
        (&["--max-output", "-1", "tool", "list"], "'-1'"),
        (&["--fuel", "1.5", "tool", "list"], "--fuel"),
        (&["--backend", "both", "tool", "list"], "auto, wasm, native"),
        (&["--workspace", "/nowhere", "tool", "list"], "the workspace `/nowhere` cannot be used"),
        (&["--workspace", file, "tool", "list"], "is not a directory"),
        (&["tool", "lst"], "list"),
        (&["tool", "list", "--jsn"], "--json"),
        (&["tool", "call"], "<NAME>"),
        (&["nonsense"], "--help"),
        (&["mcp", "add", "x", "-y"], "`ikigai mcp add x -- PROGRAM ARGUMENT…`"),
    ] {
        let ran = host.run(args).expect_code(2);
        assert!(ran.stderr().contains(said) && ran.stdout().is_empty(), "{args:?}\n{ran}");
    }
    let ran = Host::without_system_tools().run(["tool", "list"]).expect_code(0);
    let said = "no tools found\nhint: for the built-in tools, reinstall ikigai ";
    assert!(ran.stderr().contains(said), "{ran}");
    let ran = two_tools().env("IKIGAI_LOG", "ikigai=loud").run(["tool", "list"]).expect_code(0);
    assert!(ran.stderr().contains("IKIGAI_LOG"), "{ran}");
    // The working directory was removed while the shell was in it.
    let gone = host.scratch().join("gone");
    fs::create_dir(&gone).expect("made");
    let mut command = Command::new("sh");
    command.args(["-c", "cd \"$1\" && rmdir \"$1\" && exec \"$2\" tool list", "sh"]);
    command.arg(&gone).arg(ikigai_tests::paths::host());
    let ran = Ran::from_command(&mut command, b"").expect_code(2);
    assert!(ran.stderr().contains("hint: specify another with --workspace"), "{ran}");
}

#[test]
fn a_path_is_relative_to_the_directory_it_was_given_in() {
    let host = two_tools();
    host.write("workspace/here/tool", "#!/bin/sh\necho \"$1\"", 0o755);
    let elsewhere = host.scratch().to_str().expect("UTF-8").to_owned();
    let ran = host.run(["--workspace", &elsewhere, "tool", "run", "here/tool", "said"]);
    assert_eq!(ran.expect_code(0).stdout(), "said\n");
    // A directory of tools is resolved in the same way.
    let flags = ["--workspace", &elsewhere, "--user-tools", "../user-tools"];
    let names = |listed: &Value| listed["tools"].as_array().map(Vec::len);
    let there = host.run([&flags[..], &["tool", "list", "--json"]].concat()).expect_code(0).json();
    assert_eq!(names(&there), names(&host.run(["tool", "list", "--json"]).json()));
    let tool = there["tools"][0]["name"].as_str().expect("a name").to_owned();
    host.run([&flags[..], &["tool", "call", &tool, "{}"]].concat()).expect_code(0);
}

#[test]
fn a_stderr_that_nobody_reads_does_not_hold_a_run_past_its_limit() {
    let host = two_tools();
    host.script("floods", "while :; do echo flood >&2; done");
    let mut command = host.command();
    command.args(["--timeout", "1s", "tool", "run", "floods"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("started");
    // The pipe stays open and full until the end.
    let stderr = child.stderr.take();
    assert_eq!(child.wait().expect("ended").code(), Some(124));
    drop(stderr);
    host.assert_nothing_left();
}

#[test]
fn nothing_that_a_terminal_obeys_is_written_into_a_pipe() {
    // A pipe often leads to a terminal: `| less -R`, `| head`, a log.
    let evil = "\u{1b}]0;title\u{7}\u{9b}2J\u{202e}";
    let host = Host::without_system_tools();
    let escaped: String = evil.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
    let schema = schema("x").replace("The tool x", &escaped);
    host.program("x", format!("#!/bin/sh\nprintf '%s' '{schema}'\n"));
    let broken = host.program(&format!("broken{evil}"), "#!/bin/sh\necho '{evil}' >&2; exit 3\n");
    let workspace = host.scratch().join(format!("work{evil}"));
    std::fs::create_dir(&workspace).expect("a directory of the test");
    let workspace = workspace.to_str().expect("UTF-8");
    let broken = broken.to_str().expect("UTF-8");
    let mut shown = String::new();
    for args in [
        &["tool", "call", "x"][..],
        &["tool", "call", evil],
        &["tool", "list", "--all", "--verbose"],
        &["tool", "show", "x"],
        &["tool", "show", evil],
        &["tool", "check", broken],
        &["policy", "show"],
        &["policy", "show", "x"],
        &["policy", "grant", "x", "--read", workspace, "--yes"],
        &["policy", "test", "x", "--read", broken],
        &["config", "show"],
        &["asset", "put", evil, broken],
        &["asset", "list"],
        &["asset", "usage"],
        &["doctor"],
        &["audit"],
        &["audit", "--tail", "1"],
    ] {
        let ran = host.run([&["--workspace", workspace], args].concat());
        let is_obeyed = |c: &char| is_deceptive(*c) && !matches!(c, '\n' | '\t');
        // Output that programs read is not sanitized.
        let (stdout, stderr) = (ran.stdout(), ran.stderr());
        let stdout = if args.starts_with(&["tool", "call"]) { String::new() } else { stdout };
        let obeyed: String = format!("{stdout}{stderr}").chars().filter(is_obeyed).collect();
        assert_eq!(obeyed, "", "{args:?}\n{ran}");
        shown.push_str(&stdout);
    }
    assert!(shown.contains("␛]0;title␇\u{fffd}2J\u{fffd}"), "{shown}");
    // JSON contains the unchanged text, as escapes.
    let listed = host.run(["tool", "list", "--json"]).expect_code(0).json();
    assert_eq!(listed["tools"][0]["description"], evil, "{listed}");
}
