//! `ikigai policy record`: the recordings that it refuses, the cases in which it proposes nothing,
//! and the entries that it writes. The recordings of whole tools are in `writing_tools`.

use std::cell::RefCell;
use std::fs::{self, File};
use std::os::unix::fs::{OpenOptionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use ikigai_tests::host::{Host, Ran, Running};
use ikigai_tests::paths;
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{USER, host};
use crate::servers::{Server, ok};

/// Waits until the tool has opened the FIFO for reading, and opens the other end. The tool
/// continues once the result is dropped.
fn hold(recording: &mut Running, fifo: &Path) -> File {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).expect("a flag");
    let opened = RefCell::new(None);
    recording.wait_until("the tool reads", || {
        let file = File::options().write(true).custom_flags(flags).open(fifo).ok();
        opened.replace(file);
        opened.borrow().is_some()
    });
    opened.into_inner().expect("opened")
}

/// A host with a tool that waits until the test writes to a FIFO in the workspace.
fn waiting() -> (Host, PathBuf) {
    let host = Host::without_system_tools();
    host.script("tool", "cat fifo >/dev/null; echo '{}'");
    let fifo = host.workspace().join("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::from(0o666), 0).expect("made");
    host.run(["policy", "grant", "tool", "--replace", "--read", "."]).expect_code(0);
    (host, fifo)
}

fn start(host: &Host, args: &[&str]) -> Running {
    host.start([&["policy", "record", "tool"], args].concat())
}

#[test]
fn mistakes_are_told_before_anything_runs() {
    let host = host();
    let empty = host.write("empty", "\n", 0o644);
    let empty = format!("@{}", empty.display());
    for (args, said) in [
        (&["part"][..], "required"),
        (&["part", "--"], "required"),
        (&["part", "--", "{"], "call 1"),
        (&["part", "--", "{}", "[1]"], "call 2"),
        (&["part", "--", "@/nowhere"], "cannot read the arguments"),
        (&["part", "--", &empty], "no JSON object"),
        (&["part", "--net", "--", "{}"], "--permissive"),
        (&["prat", "--", "{}"], "did you mean `part`?"),
        (&["./prat", "--", "{}"], "prat"),
    ] {
        let ran = host.run([&["policy", "record"], args].concat()).expect_code(2);
        assert!(ran.stderr().contains(said) && ran.stdout().is_empty(), "{said}\n{ran}");
    }
    assert!(!host.audit_log().exists(), "nothing was called");
    assert!(!host.scratch().join(USER).exists());
}

#[test]
fn a_tool_that_runs_unconfined_is_not_recorded() {
    let host = host();
    host.run(["policy", "grant", "tool", "--unconfined"]).expect_code(0);
    for flags in [&[][..], &["--permissive"]] {
        let ran = host.run([&["policy", "record", "tool"], flags, &["--", "{}"]].concat());
        assert!(ran.expect_code(2).stderr().contains("may run without the sandbox"));
    }
    assert!(!host.audit_log().exists(), "nothing was called");
}

#[test]
fn a_tool_that_needs_nothing_gets_nothing() {
    let host = host();
    let ran = host.run(["policy", "record", "part", "--yes", "--", "{}", "{}"]).expect_code(0);
    assert!(ran.stderr().contains("call 2 of 2: ok"), "{ran}");
    assert!(ran.stderr().contains("needs no other grant"), "{ran}");
    assert!(ran.stdout().contains("part: 2 calls, 0 failed"), "{ran}");
    assert!(!host.scratch().join(USER).exists());
    let json = host.run(["policy", "record", "part", "--json", "--", "{}"]).expect_code(0).json();
    assert_eq!((&json["written"], &json["interrupted"]), (&false.into(), &false.into()));
    assert_eq!(json["calls"][0]["tool_success"], true, "{json:#}");
}

#[test]
fn the_log_has_no_access_as_refused_that_a_recording_let_through() {
    let host = Host::new();
    let file = host.write("data/file", "text", 0o644).display().to_string();
    let record = |tool: &str, input: Value| {
        let args = ["policy", "record", tool, "--permissive", "--json", "--", &input.to_string()];
        host.run(args).expect_code(0).json()["reached"].to_string()
    };
    let refused = || host.run(["audit", "--refused", "--json"]).expect_code(0).stdout();
    assert!(record("file_read", json!({ "file_path": file })).contains(&file));
    assert_eq!(refused(), "");
    // A component does not learn whether a directory beyond its grant exists.
    let directory = host.scratch().join("data").display().to_string();
    record("grep", json!({ "pattern": "text", "path": directory }));
    assert!(refused().contains(&directory), "{}", refused());
}

#[test]
fn of_a_tool_that_never_succeeded_nothing_is_said() {
    let host = Host::without_system_tools();
    host.script("tool", "exit 7");
    host.run(["policy", "grant", "tool", "--replace", "--read", "."]).expect_code(0);
    let record = |flags: &[&str]| {
        let words = [&["policy", "record", "tool"], flags, &["--", "{}", "{}"]].concat();
        host.run(words).expect_code(1)
    };
    let ran = record(&[]);
    assert!(ran.stderr().contains("no call of `tool` succeeded"), "{ran}");
    assert!(!ran.stderr().contains("needs no other grant"), "{ran}");
    let json = record(&["--json"]).json();
    assert_eq!(json["difference"], json!([]), "{json:#}");
}

#[test]
fn limits_are_proposed_where_they_are_asked_for_and_nobody_is_taken_for_a_yes() {
    let host = host();
    let record = ["policy", "record", "part", "--limits", "--", "{}"];
    let ran = host.run(record).expect_code(0);
    assert!(ran.stderr().contains("--yes writes this"), "{ran}");
    assert!(ran.stderr().contains("+limits = {"), "{ran}");
    assert!(!host.scratch().join(USER).exists(), "without an answer nothing is written");
    host.run(["policy", "record", "part", "--limits", "--yes", "--", "{}"]).expect_code(0);
    let shown = host.run(["policy", "show", "part", "--json"]).expect_code(0).json();
    assert!(shown["tools"][0]["limits"]["wall_clock_ms"].as_u64() < Some(30_000), "{shown:#}");
    host.run(["tool", "call", "part"]).expect_code(0);
}

#[test]
fn a_tool_that_may_not_run_is_granted_to_run_and_its_contents_are_bound() {
    let host = Host::without_system_tools();
    host.script("tool", "echo '{}'");
    let strict = |args: &[&str]| host.run([&["--profile", "strict"], args].concat());
    let ran = strict(&["policy", "record", "tool", "--yes", "--", "{}"]).expect_code(0);
    assert!(ran.stderr().contains("PERMISSION_DENIED"), "{ran}");
    assert!(ran.stdout().contains("run at all"), "{ran}");
    strict(&["tool", "call", "tool"]).expect_code(0);
    host.script("tool", "echo '{\"other\": 1}'");
    strict(&["tool", "call", "tool"]).expect_code(1);
}

#[test]
fn a_file_that_is_not_installed_is_recorded_and_not_granted() {
    let host = host();
    let bytes = fs::read(host.user_tools().join("part.wasm")).expect("the tool");
    // A file with the contents of the installed tool is treated as the installed tool.
    host.write("workspace/copy.wasm", &bytes, 0o755);
    let args = |path| ["policy", "record", path, "--limits", "--yes", "--json", "--", "{}"];
    let same = host.run(args("./copy.wasm")).expect_code(0).json();
    assert_eq!((&same["installed"], &same["written"]), (&true.into(), &true.into()), "{same:#}");
    host.run(["policy", "revoke", "part"]).expect_code(0);
    fs::remove_file(host.user_tools().join("part.wasm")).expect("removed");
    let ran = host.run(["policy", "record", "./copy.wasm", "--limits", "--yes", "--", "{}"]);
    let ran = ran.expect_code(0);
    assert!(ran.stderr().contains("ikigai tool install ./copy.wasm"), "{ran}");
    assert!(ran.stderr().contains("ikigai policy grant part --limit"), "{ran}");
    let text = fs::read_to_string(host.scratch().join(USER)).unwrap_or_default();
    assert!(!text.contains("part"), "{text}");
}

#[test]
fn a_file_that_changes_between_two_calls_ends_the_recording() {
    let (host, fifo) = waiting();
    let before = fs::read_to_string(host.scratch().join(USER)).expect("read");
    let mut recording = start(&host, &["--limits", "--yes", "--", "{}", "{}"]);
    let held = hold(&mut recording, &fifo);
    host.script("tool", "cat fifo >/dev/null; echo '{\"other\": 1}'");
    drop(held);
    let ran = recording.wait().expect_code(1);
    assert!(ran.stderr().contains("changed while it was recorded"), "{ran}");
    assert_eq!(fs::read_to_string(host.scratch().join(USER)).expect("read"), before);
    host.assert_nothing_left();
}

#[test]
fn an_interrupted_recording_proposes_nothing_unless_it_may_be_partial() {
    for (partial, code) in [(false, 130), (true, 0)] {
        let (host, fifo) = waiting();
        let flags: &[&str] = if partial { &["--partial"] } else { &[] };
        let args = [flags, &["--limits", "--yes", "--", "{}", "{}"]].concat();
        let mut recording = start(&host, &args);
        drop(hold(&mut recording, &fifo));
        recording.wait_for_stderr("call 1 of 2: ok");
        let held = hold(&mut recording, &fifo);
        recording.signal(Signal::INT);
        let ran = recording.wait().expect_code(code);
        drop(held);
        let text = fs::read_to_string(host.scratch().join(USER)).expect("read");
        assert_eq!(text.contains("limits"), partial, "{text}\n{ran}");
        assert!(ran.stderr().contains("interrupted"), "{ran}");
        host.assert_nothing_left();
    }
}

#[test]
fn without_a_home_nobody_knows_what_to_hide() {
    let host = host().env("HOME", "relative");
    for tool in ["part", "tool"] {
        let args = ["policy", "record", tool, "--permissive", "--", "{}"];
        let ran = host.run(args).expect_code(2);
        assert!(ran.stderr().contains("your home is not known"), "{ran}");
        assert!(ran.stdout().is_empty(), "{ran}");
    }
}

/// A host below a directory that native tools see. In `/tmp` a tool would see its own directory.
fn shown_host() -> Host {
    Host::within(&paths::shown_scratch()).with_no_system_tools()
}

#[test]
fn a_native_tool_is_shown_the_machine_without_its_secrets() {
    let host = shown_host();
    let shown = [host.write("data/list", "x", 0o644), host.write("home/notes", "x", 0o644)];
    let kept = ["home/.ssh/key", "away/credentials", "home/.env", "home/.config/ikigai/x"];
    let kept = kept.map(|path| host.write(path, "x", 0o644));
    // A directory of secrets may be a link to another directory.
    symlink(host.scratch().join("away"), host.scratch().join("home/.aws")).expect("linked");
    let linked = host.scratch().join("home/.aws/credentials");
    let [shown_names, kept_names] = [&shown[..], &[&kept[..], &[linked]].concat()]
        .map(|paths| paths.iter().map(|path| format!("'{}' ", path.display())).collect::<String>());
    let made = host.scratch().join("data/made");
    let tool = host.script(
        "tool",
        &format!(
            "cat {shown_names} >/dev/null || exit 1; for name in {kept_names}; do \
             [ -z \"$(cat \"$name\" 2>/dev/null)\" ] || exit 2; done; \
             echo x >'{0}' || exit 3; [ \"$(cat '{0}')\" = x ] || exit 4; echo '{{}}'",
            made.display()
        ),
    );
    let leaked = Ran::from_command(Command::new("sh").arg(&tool), b"").expect_code(2);
    assert!(leaked.stdout().is_empty(), "{leaked}");
    let words = ["policy", "record", "tool", "--permissive", "--json", "--", "{}"];
    let recorded = host.run(words).expect_code(0).json();
    assert_eq!(recorded["calls"][0]["tool_success"], true, "{recorded:#}");
    assert!(!made.exists());
    let data = made.parent().expect("a directory").display();
    let notes = shown[1].display();
    let command = format!("ikigai policy grant tool --write {data} --read {notes} --replace");
    assert_eq!(recorded["proposal"]["command"], command, "{recorded:#}");
    let left = recorded["left_out"]["paths"].to_string();
    assert!(left.contains(".ssh/key") && left.contains("away/credentials"), "{recorded:#}");
    host.assert_nothing_left();
}

#[test]
fn a_component_is_not_shown_secrets_behind_a_link() {
    let host = Host::new();
    host.write("home/.ssh/key", "secret", 0o600);
    host.write("data/list", "text", 0o644);
    symlink(host.home().join(".ssh"), host.scratch().join("data/link")).expect("linked");
    let record = |file: &str| {
        let input = json!({ "file_path": host.scratch().join(file) }).to_string();
        let args = ["policy", "record", "file_read", "--permissive", "--json", "--", &input];
        host.run(args).expect_code(0).json()
    };
    let list = host.scratch().join("data/list").display().to_string();
    assert!(record("data/list")["reached"].to_string().contains(&list));
    let kept = record("data/link/key");
    assert_eq!(kept["calls"][0]["tool_error_code"], "PERMISSION_DENIED", "{kept:#}");
    assert!(kept["left_out"]["paths"].to_string().contains(".ssh/key"), "{kept:#}");
}

#[test]
fn what_is_granted_among_secrets_is_shown_and_what_every_call_has_is_not_proposed() {
    let host = shown_host();
    let known = host.write("home/.ssh/known_hosts", "x", 0o644);
    host.write("home/.ssh/key", "x", 0o644);
    let cache = host.scratch().join("home/.cache/tool");
    host.script(
        "tool",
        &format!(
            "set -e; cat '{0}' >/dev/null; [ \"$(ls -A '{1}')\" = known_hosts ]; \
             for dir in /tmp /var/tmp; do echo x >$dir/own; done; \
             mkdir -p '{2}'; echo x >'{2}/x'; cat '{2}/x' >/dev/null; rm '{2}/x'; cd .; echo '{{}}'",
            known.display(),
            known.parent().expect("a directory").display(),
            cache.display()
        ),
    );
    let known = known.to_str().expect("UTF-8");
    host.run(["policy", "grant", "tool", "--replace", "--read", known]).expect_code(0);
    let words = ["policy", "record", "tool", "--permissive", "--json", "--", "{}"];
    let recorded = host.run(words).expect_code(0).json();
    assert_eq!(recorded["calls"][0]["tool_success"], true, "{recorded:#}");
    assert_eq!(recorded["difference"], serde_json::json!([]), "{recorded:#}");
    assert!(!cache.exists());
    host.assert_nothing_left();
}

/// Requests a page from the relay, and fails unless it arrives.
const FETCH: &str = r#"bash -c 'proxy=${HTTP_PROXY#http://}
exec 3<>"/dev/tcp/${proxy%:*}/${proxy#*:}"
printf "GET http://PEER/ HTTP/1.1\r\n\r\n" >&3
read -r _ status _ <&3
[ "$status" = 200 ] && printf "{}"'"#;

#[test]
fn a_peer_of_a_native_tool_is_recorded_as_it_was_asked_for_and_reached_with_net_alone() {
    let host = Host::without_system_tools();
    let server = Server::http("127.0.0.1", |stream, path| ok(stream, path));
    let (name, address) = (format!("localhost:{}", server.port()), server.target());
    host.script("tool", &FETCH.replace("PEER", &name));
    let call = || host.run(["tool", "call", "tool"]);
    let record = |flags: &[&str]| {
        let words = [&["policy", "record", "tool", "--json"][..], flags, &["--", "{}"]].concat();
        host.run(words).expect_code(0).json()
    };
    let asked = json!({ "kind": "peer", "host": "localhost", "port": server.port() });
    let has = |list: &Value, one: &Value| list.as_array().is_some_and(|list| list.contains(one));
    // A recording can connect to public addresses, and to other addresses if they are granted. This
    // grant names the address, but the tool uses a host name.
    host.run(["policy", "grant", "tool", "--net", &address]).expect_code(0);
    assert_eq!(call().json()["tool_success"], false);
    assert_eq!(server.connections(), 0);

    let refused = record(&["--permissive"]);
    assert_eq!(refused["calls"][0]["tool_success"], false, "{refused:#}");
    assert_eq!(server.connections(), 0, "{refused:#}");
    assert!(has(&refused["reached"], &asked), "{refused:#}");
    assert!(!has(&refused["used"], &asked), "{refused:#}");

    let recorded = record(&["--permissive", "--net"]);
    assert_eq!(recorded["calls"][0]["tool_success"], true, "{recorded:#}");
    assert_eq!(server.connections(), 1, "{recorded:#}");
    assert!(has(&recorded["reached"], &asked) && has(&recorded["used"], &asked), "{recorded:#}");
    let net = &recorded["proposal"]["net"];
    assert!(has(net, &json!(address)) && has(net, &json!(name)), "{recorded:#}");

    let line = recorded["proposal"]["command"].as_str().expect("a command");
    host.run(line.split(' ').skip(1)).expect_code(0);
    let ran = call().expect_code(0);
    assert_eq!(server.connections(), 1, "{ran}");
    // Nothing is left to propose, and the granted peer is used.
    let again = record(&[]);
    assert!(has(&again["used"], &asked) && again["proposal"]["net"].is_null(), "{again:#}");
    assert_eq!(server.connections(), 1, "{again:#}");
    host.assert_nothing_left();
}

#[test]
fn nothing_is_recorded_on_a_machine_without_the_sandbox() {
    let host = Host::without_system_tools();
    host.script("tool", "echo '{}'");
    let permissive = ["policy", "record", "tool", "--permissive", "--", "{}"];
    let granted = ["policy", "record", "tool", "--", "{}"];
    for args in [&permissive[..], &granted] {
        let Some(ran) = host.run_without_namespaces(args) else {
            return ikigai_tests::impossible_here("no user namespace to forbid namespaces in");
        };
        let ran = ran.expect_code(2);
        assert!(ran.stderr().contains("does not support the sandbox"), "{ran}");
        assert!(ran.stderr().contains("`ikigai doctor` shows all of it"), "{ran}");
        assert!(ran.stdout().is_empty(), "{ran}");
        assert!(!host.audit_log().exists(), "nothing was called");
        // With a grant, the second round tries to record without `--permissive`.
        host.run(["policy", "grant", "tool", "--replace", "--read", "."]).expect_code(0);
    }
    // On a machine with the sandbox, both are recorded.
    for args in [&permissive[..], &granted] {
        host.run(args).expect_code(0);
    }
}
