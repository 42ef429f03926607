//! Discovery in tool directories. Each file becomes a tool, or a line with the reason why it did
//! not. No file makes the host hang or hides another tool.

mod compiling;
mod embedded;

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;

use ikigai_tests::component::{self, Ending, printing};
use ikigai_tests::host::{Host, Ran, schema};
use ikigai_tests::mode::permit;
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use rustix::process::geteuid;
use serde_json::{Value, json};

/// Returns the names of the tools that `tool list` shows.
fn names(ran: &Ran) -> Vec<String> {
    let listed = ran.json();
    let tools = listed["tools"].as_array().unwrap_or_else(|| panic!("no tools\n{ran}"));
    tools.iter().map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
}

/// Runs `tool list --all --json`, which succeeds for any contents of the directories.
#[track_caller]
fn list(host: &Host) -> Ran {
    list_with(host, &[])
}

/// Does the same while the files `hanging` do not answer. On a busy machine others may be late as
/// well, and each list asks them again.
#[track_caller]
fn list_with(host: &Host, hanging: &[&str]) -> Ran {
    for _ in 0..30 {
        let ran = host.run(["tool", "list", "--all", "--json"]).expect_code(0);
        let listed = ran.json();
        let skipped = listed["skipped"].as_array().expect("skipped");
        let is_late = |it: &Value| {
            let file = Path::new(it["path"].as_str().expect("a path"));
            it["reason"] == "timeout" && !hanging.iter().any(|hangs| file.ends_with(hangs))
        };
        if !skipped.iter().any(is_late) {
            return ran;
        }
    }
    panic!("in 30 attempts not every tool answered within its second");
}

/// Returns the reason why the file of this name was skipped, or an empty text if it was not.
fn reason(listed: &Value, file: &str) -> String {
    let skipped = listed["skipped"].as_array().expect("skipped");
    let named = |it: &&Value| Path::new(it["path"].as_str().expect("a path")).ends_with(file);
    skipped.iter().find(named).map_or_else(String::new, |it| it["reason"].to_string())
}

/// Returns the tool's entry in a list.
fn entry<'a>(listed: &'a Value, name: &str) -> &'a Value {
    let tools = listed["tools"].as_array().expect("tools");
    tools
        .iter()
        .find(|tool| tool["name"] == name)
        .unwrap_or_else(|| panic!("no `{name}`: {listed}"))
}

/// Returns a schema of `name` with these parameters.
fn with_parameters(name: &str, parameters: Value) -> String {
    json!({"name": name, "description": "d", "parameters": parameters}).to_string()
}

fn fifo(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::from(0o777), 0).expect("a FIFO");
}

#[test]
fn a_directory_that_is_not_there_is_an_empty_one() {
    let host = Host::without_system_tools();
    fs::remove_dir(host.system_tools()).expect("removed");
    fs::remove_dir(host.user_tools()).expect("removed");
    let ran = list(&host);
    assert_eq!(names(&ran), [""; 0], "{ran}");
    let ran =
        host.run(["tool", "list", "--json", "--user-tools", "/nowhere", "--system-tools", "/no"]);
    assert_eq!((ran.code(), names(&ran).len()), (Some(0), 0), "{ran}");
    for named in ["`/nowhere` does not exist", "`/no` does not exist"] {
        assert!(ran.stderr().contains(named), "{ran}");
    }
    // Without a home directory, there are neither user tools nor a cache.
    let bare = host.command().env_clear().args(["tool", "list", "--json"]).output().expect("runs");
    assert!(bare.status.success(), "{bare:?}");
}

#[test]
fn a_directory_that_cannot_be_read_is_a_warning() {
    let host = Host::without_system_tools();
    host.script("hidden_tool", "echo '{}'");
    host.write("system-tools/seen", shell_tool("seen"), 0o755);
    let host = host.as_nobody();
    permit(host.user_tools(), 0o000);
    let ran = list(&host);
    assert_eq!(names(&ran), ["seen"], "{ran}");
    let warning = format!("the tool directory `{}` cannot be read", host.user_tools().display());
    assert!(ran.stderr().contains(&warning), "{ran}");
    permit(host.user_tools(), 0o755);
    assert_eq!(names(&list(&host)), ["hidden_tool", "seen"]);
}

/// Returns the source of a tool, for directories that `Host::script` does not write to.
fn shell_tool(name: &str) -> String {
    format!("#!/bin/sh\nprintf %s '{}'\n", schema(name))
}

#[test]
fn a_file_where_a_directory_should_be_is_a_warning() {
    let host = Host::without_system_tools();
    let file = host.write("file", "", 0o755);
    let ran = host.run(
        ["tool", "list", "--json", "--user-tools"]
            .map(Into::into)
            .into_iter()
            .chain([file.into_os_string()]),
    );
    assert_eq!((ran.code(), names(&ran).len()), (Some(0), 0), "{ran}");
    assert!(ran.stderr().contains("cannot be read"), "{ran}");
}

#[test]
fn what_is_no_file_is_no_tool() {
    let host = Host::without_system_tools();
    host.script("good", "echo '{}'");
    let dir = host.user_tools();
    fs::create_dir(dir.join("directory")).expect("made");
    fs::create_dir(dir.join("directory.wasm")).expect("made");
    fifo(&dir.join("fifo"));
    fifo(&dir.join("fifo.wasm"));
    let _socket = UnixListener::bind(dir.join("socket.wasm")).expect("bound");
    if geteuid().is_root() {
        // /dev/zero never ends, so it cannot be read to its end.
        for name in ["zero", "zero.wasm"] {
            let (path, mode) = (dir.join(name), Mode::from(0o777));
            mknodat(CWD, &path, FileType::CharacterDevice, mode, makedev(1, 5)).expect("made");
        }
    }
    symlink("/dev/zero", dir.join("link.wasm")).expect("linked");
    symlink("nowhere", dir.join("dangling.wasm")).expect("linked");
    symlink("loop.wasm", dir.join("loop.wasm")).expect("linked");
    let ran = list(&host);
    assert_eq!(names(&ran), ["good"], "{ran}");
    host.assert_nothing_left();
}

#[test]
fn a_link_to_a_file_is_that_file_and_hidden_files_are_skipped() {
    let host = Host::without_system_tools();
    let elsewhere = host.write("elsewhere/linked", shell_tool("linked"), 0o755);
    symlink(elsewhere, host.user_tools().join("linked")).expect("linked");
    let log = host.write("log", "", 0o644);
    let logs = format!("#!/bin/sh\necho ran >>'{}'\n", log.display());
    for name in [".hidden", ".tool.swp"] {
        host.program(name, &logs);
    }
    host.program(".hidden.wasm", printing(schema("hidden"), Ending::Well));
    // A README, a library and a configuration are neither executable nor `.wasm`.
    host.write("user-tools/README.md", "# Tools\n", 0o644);
    let ran = list(&host);
    assert_eq!(names(&ran), ["linked"], "{ran}");
    assert_eq!(ran.json()["skipped"], json!([]), "{ran}");
    assert_eq!(fs::read_to_string(log).expect("a log"), "");
}

#[test]
fn a_file_that_is_no_program_is_skipped_with_the_reason() {
    let host = Host::without_system_tools();
    let module = component::core_library();
    let whole = printing(schema("whole"), Ending::Well);
    host.program("text", "no interpreter line\n");
    host.program("empty", "");
    host.program("gone", "#!/nowhere/at/all\n");
    host.program("elf", b"\x7fELF damaged");
    host.program("module.wasm", module);
    host.program("library.wasm", component::library());
    host.program("truncated.wasm", &whole[..whole.len() / 2]);
    host.program("magic.wasm", b"\0asm");
    host.program("garbage.wasm", [0xa5; 4096]);
    host.program("empty.wasm", "");
    host.program("importing.wasm", component::importing("example:gone/thing@1.2.3", "{}"));
    host.program("newer.wasm", component::of_a_draft());
    host.program("streaming.wasm", component::streaming());
    let built_in = "(core func (canon error-context.drop))";
    host.program("waiting.wasm", component::printing_with("{}", Ending::Well, built_in));
    host.program("newer-name.wasm", component::importing("wasi:cli/nothing@0.3.0", "{}"));
    host.program("whole.wasm", whole);
    let ran = list(&host);
    assert_eq!(names(&ran), ["whole"], "{ran}");
    for (file, expected) in [
        ("newer.wasm", "imports `wasi:cli/stdin@0.3.0-rc-2026-02-09`"),
        ("streaming.wasm", "`lines`"),
        (
            "waiting.wasm",
            "uses `error-context.drop`, a part of the component model's async feature",
        ),
        ("newer-name.wasm", "wasi:cli/nothing@0.3.0"),
        ("text", "#!/bin/sh"),
        ("empty", "is empty"),
        ("gone", "/nowhere/at/all"),
        ("elf", "architecture"),
        ("module.wasm", "core WebAssembly module"),
        ("library.wasm", "is a library, not a command"),
        ("truncated.wasm", "does not compile"),
        ("magic.wasm", "does not compile"),
        ("garbage.wasm", "does not compile"),
        ("empty.wasm", "does not compile"),
        ("importing.wasm", "example:gone/thing@1.2.3"),
    ] {
        let reason = reason(&ran.json(), file);
        assert!(reason.contains(expected), "`{file}`: {reason}\n{ran}");
    }
    // `-v` prints a line for each.
    let told = host.run(["-v", "tool", "list"]).expect_code(0).stderr();
    assert_eq!(told.matches("Debug: tool '").count(), 15, "{told}");
    // A call by name explains what to do.
    let call = host.run(["tool", "call", "module"]);
    assert!(call.stderr().contains("hint: `") && call.stderr().contains("tool check"), "{call}");
}

#[test]
fn an_invalid_schema_is_refused_with_the_reason() {
    let host = Host::without_system_tools();
    let cases: &[(&str, String, &str)] = &[
        ("array", "[]".into(), "an array, not an object"),
        ("words", "usage: words".into(), "not valid JSON"),
        ("two", schema("two") + "{}", "not valid JSON"),
        ("none", String::new(), "schema is empty"),
        ("huge", schema("huge") + &" ".repeat(2 << 20), "over 1048576 bytes"),
        ("deep", format!("{{\"name\":{}", "[".repeat(500_000)), "not valid JSON"),
        ("digit", schema("7zip"), "`7zip` does not match"),
        ("space", schema("a b"), "`a b` does not match"),
        ("long", schema(&"x".repeat(65)), "does not match"),
        ("reserved", schema("slash-command"), "reserved"),
        (
            "mistyped",
            with_parameters(
                "mistyped",
                json!({"type": "object", "properties": {"p": {"type": "text"}}}),
            ),
            "parameters.properties.p",
        ),
        ("unset", r#"{"name":"unset","description":"d"}"#.into(), "`parameters` must be an object"),
        (
            "pattern",
            with_parameters(
                "pattern",
                json!({"type": "object", "properties": {"p": {"type": "string", "pattern": "("}}}),
            ),
            "does not compile as JSON Schema",
        ),
        ("latin1", String::new(), "not valid JSON"),
    ];
    for (name, text, _) in cases {
        let bytes = if *name == "latin1" {
            b"{\"name\":\"\xe9\"}".to_vec()
        } else {
            text.clone().into_bytes()
        };
        // Both executors give the same reason. The answer is in a file, because no shell could
        // quote it.
        let answer = host.write(format!("user-tools/answers/{name}"), &bytes, 0o644);
        host.program(name, format!("#!/bin/sh\nexec cat '{}'\n", answer.display()));
        host.program(&format!("{name}_c.wasm"), printing(&bytes, Ending::Well));
    }
    host.script("good", "echo '{}'");
    let ran = list(&host);
    assert_eq!(names(&ran), ["good"], "{ran}");
    for (name, _, expected) in cases {
        for file in [(*name).to_owned(), format!("{name}_c.wasm")] {
            let reason = reason(&ran.json(), &file);
            assert!(reason.contains(expected), "`{file}`: {reason}");
        }
    }
    host.assert_nothing_left();
}

#[test]
fn schemas_of_every_draft_make_tools_and_reach_every_provider() {
    let host = Host::without_system_tools();
    let properties = [
        ("anything", json!({})),
        ("always", json!(true)),
        ("tuple", json!({"type": "array", "items": [{"type": "string"}, {"type": "number"}]})),
        ("bound", json!({"type": "number", "minimum": 0, "exclusiveMinimum": true})),
    ];
    for (name, property) in &properties {
        let text = with_parameters(name, json!({"type": "object", "properties": {"p": property}}));
        host.program(name, format!("#!/bin/sh\nexec echo '{text}'\n"));
    }
    let ran = list(&host);
    assert_eq!(names(&ran), ["always", "anything", "bound", "tuple"], "{ran}");
    for provider in ["openai", "openai-chat", "anthropic", "google"] {
        let ran = host.run(["tool", "schema", "--provider", provider]).expect_code(0);
        for (name, _) in &properties {
            assert!(ran.stdout().contains(&format!("\"name\": \"{name}\"")), "{provider}: {ran}");
        }
    }
}

#[test]
fn a_schema_that_hangs_floods_or_crashes_costs_nobody_else() {
    let host = Host::without_system_tools();
    host.script("good", "echo '{}'");
    // The tool's child outlives it and keeps its pipes open.
    host.program("hangs", "#!/bin/sh\nsetsid sleep 1000 &\nsleep 1000\n");
    host.program("floods", "#!/bin/sh\nexec yes\n");
    host.program("floods_stderr", "#!/bin/sh\nexec yes >&2\n");
    host.program("waits", "#!/bin/sh\ncat >/dev/null; exit 9\n");
    let says = "#!/bin/sh\necho one >&2; echo no such module >&2; exit 7\n";
    host.program("says", says);
    host.program("dies", "#!/bin/sh\nkill -SEGV $$\n");
    for (name, ending) in [
        ("hangs_c", Ending::Spin),
        ("floods_c", Ending::Flood),
        ("fails_c", Ending::Badly),
        ("traps_c", Ending::Trap),
        ("grows_c", Ending::GrowTable),
    ] {
        host.program(&format!("{name}.wasm"), printing(schema(name), ending));
    }
    let ran = list_with(&host, &["hangs", "floods_stderr", "hangs_c.wasm"]);
    assert_eq!(names(&ran), ["good"], "{ran}");
    for (file, expected) in [
        ("hangs", "timeout"),
        ("floods", "over 1048576 bytes"),
        ("floods_stderr", "timeout"),
        // A tool that reads stdin finds it closed and continues.
        ("waits", "exited with 9"),
        ("dies", "exited with 139"),
        ("says", "exited with 7: one / no such module"),
        ("hangs_c.wasm", "timeout"),
        ("floods_c.wasm", "over 1048576 bytes"),
        ("fails_c.wasm", "exited with 1"),
        ("traps_c.wasm", "trapped"),
        ("grows_c.wasm", "limit on memory"),
    ] {
        let reason = reason(&ran.json(), file);
        assert!(reason.contains(expected), "`{file}`: {reason}\n{ran}");
    }
    host.assert_nothing_left();
}

/// Returns whether a process runs `sleep` with this argument.
fn sleeps(time: &str) -> bool {
    let line = format!("sleep\0{time}\0");
    let processes = fs::read_dir("/proc").expect("listed").flatten();
    let mut lines = processes.filter_map(|it| fs::read(it.path().join("cmdline")).ok());
    lines.any(|it| it.ends_with(line.as_bytes()))
}

#[test]
fn a_native_tool_that_starts_slowly_is_asked_once_more() {
    let found = (0..30).any(|attempt| {
        let host = Host::without_system_tools();
        let time = format!("987.{}{attempt:02}", std::process::id());
        let answer = format!("echo '{}'", schema("slow"));
        let waits = format!("[ -e \"${{0%/*}}/warm\" ] || exec sleep {time}");
        host.program("slow", format!("#!/bin/sh\n{waits}\n{answer}\n"));
        let mut listing = host.start(["tool", "list", "--all", "--json"]);
        listing.wait_until("the tool sleeps", || sleeps(&time));
        fs::write(host.user_tools().join("warm"), "").expect("written");
        let ran = listing.wait().expect_code(0);
        host.assert_nothing_left();
        names(&ran) == ["slow"]
    });
    // On a busy machine, the second answer may be late as well.
    assert!(found, "in 30 attempts, no second answer was in time");
}

#[test]
fn a_schema_may_be_written_in_short_and_refer_to_itself_alone() {
    let host = Host::without_system_tools();
    let short = with_parameters(
        "short-form",
        json!({"path": {"type": "string", "required": true}, "n": {"type": "integer"}}),
    );
    let inner = json!({"type": "object", "properties": {"p": {"$ref": "#/$defs/p"}}, "$defs": {"p": {"type": "string"}}});
    host.program("short.wasm", printing(short, Ending::Well));
    host.program("inner.wasm", printing(with_parameters("inner", inner), Ending::Well));
    // The host opens neither an existing file nor an address with a listener that a reference
    // points to.
    let file = host.write("schema.json", r#"{"type":"string"}"#, 0o644);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
    listener.set_nonblocking(true).expect("set");
    let address = listener.local_addr().expect("an address");
    for (name, to) in [
        ("from_file", format!("file://{}", file.display())),
        ("remote", format!("http://{address}/s.json")),
    ] {
        let parameters = json!({"type": "object", "properties": {"p": {"$ref": to}}});
        host.program(
            &format!("{name}.wasm"),
            printing(with_parameters(name, parameters), Ending::Well),
        );
    }
    let ran = list(&host);
    assert_eq!(names(&ran), ["inner", "short_form"], "{ran}");
    for file in ["from_file.wasm", "remote.wasm"] {
        assert!(reason(&ran.json(), file).contains("does not compile as JSON Schema"), "{ran}");
    }
    let touched = listener.accept().expect_err("nobody connects");
    assert_eq!(touched.kind(), std::io::ErrorKind::WouldBlock);
    let shown = host.run(["tool", "show", "short_form", "--json"]).expect_code(0).json();
    let expected = json!({"type": "object", "properties": {"path": {"type": "string"}, "n": {"type": "integer"}}, "required": ["path"]});
    assert_eq!(shown["schema"]["parameters"], expected);
}

#[test]
fn a_user_tool_takes_the_place_of_a_system_tool_and_gets_nothing_from_it() {
    let host = Host::without_system_tools();
    host.write("system-tools/file-write.wasm", printing(schema("file_write"), Ending::Well), 0o644);
    host.write("user-tools/mine.wasm", printing(schema("file-write"), Ending::Badly), 0o644);
    // A failing tool does not replace another tool.
    assert_eq!(entry(&list(&host).json(), "file_write")["source"], "system");
    host.write("user-tools/mine.wasm", printing(schema("file-write"), Ending::Well), 0o644);
    let ran = list(&host);
    assert_eq!(names(&ran), ["file_write"], "{ran}");
    assert_eq!(entry(&ran.json(), "file_write")["source"], "user", "{ran}");
    assert!(
        reason(&ran.json(), "file-write.wasm")
            .contains("user-tools/mine.wasm` with the same name replaces it"),
        "{ran}"
    );
    let shown = host.run(["tool", "show", "file_write", "--json"]).expect_code(0).json();
    let grant = &shown["grant"];
    assert_eq!(
        (&grant["unconfined"], &grant["dirs"], &grant["net"], &grant["env"]),
        (&json!(false), &json!([]), &json!([]), &json!([])),
        "{shown}"
    );
}

#[test]
fn a_name_is_taken_once_in_a_directory() {
    let host = Host::without_system_tools();
    host.program("a.wasm", printing(schema("same"), Ending::Well));
    host.program("b", shell_tool("same"));
    let ran = list(&host);
    assert_eq!(names(&ran), ["same"], "{ran}");
    assert_eq!(entry(&ran.json(), "same")["backend"], "wasm", "{ran}");
    assert!(reason(&ran.json(), "b").contains("has the same name `same`"), "{ran}");
    assert!(ran.stderr().contains("warning: "), "{ran}");
}

#[test]
fn a_file_of_any_size_costs_no_memory() {
    let host = Host::without_system_tools();
    host.script("good", "echo '{}'");
    let sparse = |name: &str, length: u64| {
        let path = host.program(name, "");
        fs::OpenOptions::new()
            .write(true)
            .open(path)
            .and_then(|it| it.set_len(length))
            .expect("grown");
    };
    sparse("vast.wasm", 1 << 40);
    sparse("large.wasm", (256 << 20) + 1);
    sparse("large", 500 << 20);
    // The limit is in kilobytes. It is smaller than the file and large enough for the host.
    let mut shell = host.shell("ulimit -d 300000 && exec \"$0\" tool list --all --json");
    let ran = Ran::from_command(&mut shell, b"").expect_code(0);
    assert_eq!(names(&ran), ["good"], "{ran}");
    for (file, expected) in [
        ("vast.wasm", "larger than a component may be, 256 MiB"),
        ("large.wasm", "larger than a component may be, 256 MiB"),
        ("large", "is not an executable for this system"),
    ] {
        assert!(reason(&ran.json(), file).contains(expected), "{file}\n{ran}");
    }
}

#[test]
fn a_schema_is_asked_for_with_nothing_granted() {
    let host =
        Host::without_system_tools().env("SECRET_OF_THE_USER", "s").env("ANTHROPIC_API_KEY", "k");
    let seen = "$(env | cut -d= -f1 | sort | tr '\\n' ' '), stdin of $(wc -c) bytes, $* $#";
    let schema = schema("asked").replace("The tool asked", "SEEN");
    let schema = schema.replace('"', "\\\"").replace("SEEN", seen);
    host.program("asked", format!("#!/bin/sh\nprintf %s \"{schema}\"\n"));
    let ran = host.run_with(["tool", "list", "--json"], b"text for nobody").expect_code(0);
    // The shell sets these variables itself.
    let own = ["OLDPWD", "PWD", "SHLVL", "_"];
    let described = entry(&ran.json(), "asked")["description"].as_str().expect("text").to_owned();
    let (names, rest) = described.split_once(", ").expect("both");
    let names: Vec<&str> = names.split_whitespace().filter(|name| !own.contains(name)).collect();
    assert_eq!(
        (names, rest),
        (vec!["HOME", "LANG", "PATH"], "stdin of 0 bytes, --schema 1"),
        "{ran}"
    );
}

#[test]
fn one_program_under_two_names_is_two_tools() {
    let host = Host::without_system_tools();
    let text = "#!/bin/sh\nprintf '{\"name\":\"%s\",\"description\":\"d\",\
                \"parameters\":{}}' \"${0##*/}\"\n";
    host.write("many", text, 0o755);
    for name in ["aa", "bb"] {
        std::os::unix::fs::symlink(host.scratch().join("many"), host.user_tools().join(name))
            .expect("linked");
    }
    // The first list asks the tool. The second reads the remembered answer.
    for _ in 0..2 {
        assert_eq!(names(&list(&host)), ["aa", "bb"]);
    }
}

#[test]
fn a_tool_that_was_slow_once_is_not_hidden_behind_another() {
    let host = Host::without_system_tools();
    let system = schema("hello");
    let answer = |who: &str| {
        format!("#!/bin/sh\n[ \"$1\" = --schema ] && echo '{system}' || echo '\"{who}\"'\n")
    };
    host.write("system-tools/hello", answer("system"), 0o755);
    let slow = host.write("user-tools/parts/slow", "", 0o644);
    let text = answer("user").replace("\n[", &format!("\n[ -e {} ] && sleep 3\n[", slow.display()));
    host.program("hello", text);
    let call = || host.run(["tool", "call", "hello", "{}"]).expect_code(0).json()["result"].clone();
    assert_eq!(call(), "system", "the user's own does not answer in time");
    fs::remove_file(slow).expect("removed");
    // On a busy machine the tool may be late again.
    assert!((0..10).any(|_| call() == "user"), "the user's own takes its place");
}
