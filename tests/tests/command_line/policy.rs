//! `ikigai policy`, and the errors of wrong policy files.

mod files;
mod record;
mod suggest;
mod toolchain;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;

use ikigai_terminal_testing::Terminal;
use ikigai_tests::component::{Ending, printing};
use ikigai_tests::host::{Host, Ran, USER_POLICY as USER, schema};
use serde_json::{Value, json};

const WORKSPACE: &str = "workspace/.ikigai/policy.toml";
const CEILING: &str = "ceiling.toml";

/// Returns a host with a native tool and a component as user tools, and without system tools.
fn host() -> Host {
    let host = Host::without_system_tools();
    host.script("tool", "printf '{\"secret\":\"%s\"}' \"$GRANTED\"");
    host.program("part.wasm", printing(schema("part"), Ending::Well));
    host
}

fn stable(host: &Host, text: &str) -> String {
    text.replace(&host.scratch().display().to_string(), "SCRATCH")
}

/// Runs `ikigai ARGS` with the ceiling that the test wrote.
fn beneath(host: &Host, args: &[&str]) -> Ran {
    let ceiling = host.scratch().join(CEILING);
    host.run([&["--ceiling", ceiling.to_str().expect("UTF-8")], args].concat())
}

#[test]
fn a_mistake_is_told_with_its_place() {
    let digest = "0".repeat(64);
    let cases = [
        "profil = \"strict\"",
        "profile = \"strickt\"",
        "profile = 1",
        "[tool.grep]",
        "tools = 1",
        "[tools.file-read]",
        "[tools.\"a b\"]",
        "[tools.grep]\nfss = []",
        "[tools.grep]\nquota = \"9\"",
        "[tools.grep]\nassets = \"reed\"",
        "[tools.grep]\n[tools.grep]",
        "[tools.grep]\nfs = \"ro:.\"",
        "[tools.grep]\nfs = [1]",
        "[tools.grep]\nfs = [\"src\"]",
        "[tools.grep]\nfs = [\"ro:../x\"]",
        "[tools.grep]\nfs = [\"ro:\"]",
        "[tools.grep]\nfs = [\"rw:.\", \"ro:secrets\"]",
        "[tools.grep]\nnet = [\"db.internal\"]",
        "[tools.grep]\nnet = [\"1.2.3:80\"]",
        "[tools.grep]\nenv = [\"A=B\"]",
        "[tools.grep]\nenv = [\"*\"]",
        "[tools.grep]\nenv = [\"IKIGAI_DIRS\"]",
        "[tools.grep]\nsandbox = true",
        "[tools.grep]\nsandbox = \"requires\"",
        "[tools.grep]\nbackend = \"wasi\"",
        "[tools.grep]\nsha256 = [\"12\"]",
        "[tools.grep]\nlimits = { wall_clok = \"5s\" }",
        "[tools.grep]\nlimits = { wall_clock = 5 }",
        "[tools.grep]\nlimits = { wall_clock = \"5\" }",
        "[tools.grep]\nlimits = { memory = \"lots\" }",
        "[tools.grep]\nlimits = { memory = \"64\" }",
        "[tools.grep]\nlimits = { processes = 0 }",
        "[tools.grep]\nlimits = { fuel = \"5\" }",
        "[tools.grep]\ndeny = \"yes\"",
        "[tools.\"*\"]\nbackend = \"wasm\"",
        &format!("[tools.\"*\"]\nsha256 = [\"{digest}\"]"),
        "# \u{1b}[31m\n\u{feff}x",
        "\ta\t= {{",
        "[tools.grep",
    ];
    let host = host();
    let mut told = String::new();
    for text in cases {
        for file in [USER, WORKSPACE] {
            let path = host.write(file, text, 0o600);
            let ran = host.run(["tool", "list"]).expect_code(2);
            assert!(ran.stdout().is_empty(), "{ran}");
            let stderr = stable(&host, &ran.stderr());
            assert!(!stderr.contains('\u{1b}'), "{ran}");
            if file == USER {
                told.push_str(&stderr.replace(&format!("SCRATCH/{USER}"), "policy.toml"));
                told.push('\n');
            }
            fs::remove_file(path).expect("removed");
        }
        host.write(CEILING, text, 0o600);
        beneath(&host, &["tool", "list"]).expect_code(2);
    }
    insta::assert_snapshot!("mistakes", told);
}

#[test]
fn the_servers_flag_uses_the_words_of_the_policy() {
    // `never` means the opposite elsewhere.
    let host = host();
    let ran = host.run(["mcp", "serve", "--approve", "never"]).expect_code(2);
    assert!(ran.stderr().contains("possible values: none, changes, unlisted, always"), "{ran}");
}

#[test]
fn what_is_no_text_is_refused_with_its_place() {
    let host = host();
    host.write(USER, b"profile = \"strict\"\n# \xff\n", 0o600);
    let ran = host.run(["tool", "list"]).expect_code(2);
    assert!(ran.stderr().contains("policy.toml:2:3: is not UTF-8"), "{ran}");
    host.write(USER, vec![b'#'; (1 << 20) + 1], 0o600);
    let ran = host.run(["tool", "list"]).expect_code(2);
    assert!(ran.stderr().contains("is larger than"), "{ran}");
    host.write(USER, "", 0o600);
    // A workspace's file can come from any author, so its size has a smaller limit.
    host.write(WORKSPACE, vec![b'#'; 64 << 10], 0o600);
    host.run(["tool", "list"]).expect_code(0);
    host.write(WORKSPACE, vec![b'#'; (64 << 10) + 1], 0o600);
    let ran = host.run(["tool", "list"]).expect_code(2);
    assert!(ran.stderr().contains("is larger than 65536 bytes"), "{ran}");
}

#[test]
fn a_grant_lives_until_the_file_changes() {
    let host = host().env("GRANTED", "a value").env("OTHER", "x");
    // In `strict`, a user's tool needs a grant.
    let call = |host: &Host| host.run(["--profile", "strict", "tool", "call", "tool"]);
    let ran = call(&host).expect_code(1);
    let denied = ran.json();
    assert_eq!(denied["error_code"], "PERMISSION_DENIED", "{ran}");
    assert!(denied.get("exit_code").is_none(), "nothing ran\n{ran}");
    let first = command_in(denied["error"].as_str().expect("a text"));
    assert_eq!(denied["allow_with"], "ikigai policy grant tool", "{ran}");
    assert!(ran.stderr().contains("to allow it: ikigai policy grant tool\n"), "{ran}");
    let log = host.run(["audit", "--json"]).expect_code(0).stdout();
    let record: Value = serde_json::from_str(log.lines().last().expect("a record")).expect("JSON");
    assert_eq!(record["reached"], json!([{ "kind": "run" }]), "{record}");
    host.run(first).expect_code(0);
    assert_eq!(call(&host).expect_code(0).json()["result"]["secret"], "");

    let ran = host.run(["policy", "grant", "tool", "--env", "GRANTED", "--limit", "wall_clock=9s"]);
    let ran = ran.expect_code(0);
    assert!(ran.stderr().contains("+env = [\"GRANTED\"]"), "{ran}");
    let mode = |path: &str| fs::metadata(host.scratch().join(path)).expect("there").permissions();
    assert_eq!(mode(USER).mode() & 0o777, 0o600);
    assert_eq!(mode("home/.config/ikigai").mode() & 0o777, 0o700);
    assert_eq!(call(&host).expect_code(0).json()["result"]["secret"], "a value");
    let shown = host.run(["policy", "show", "tool", "--json"]).expect_code(0).json();
    let tool = &shown["tools"][0];
    assert_eq!(tool["limits"]["wall_clock_ms"], 9000, "{shown}");
    assert_eq!(tool["grant"]["variables"][0]["name"], "GRANTED", "{shown}");
    let line = tool["decided_by"]["env"][0].as_str().expect("a line").to_owned();
    assert!(line.contains("policy.toml:"), "{line}");

    // Comments in the file stay. A changed tool needs another grant.
    let text = fs::read_to_string(host.scratch().join(USER)).expect("read");
    host.write(USER, format!("# mine\n{text}"), 0o600);
    host.script("tool", "printf '{\"stolen\":\"%s\"}' \"$GRANTED\"");
    for profile in ["strict", "standard"] {
        let ran = host.run(["--profile", profile, "tool", "call", "tool"]).expect_code(1);
        let error = ran.json()["error"].as_str().expect("a text").to_owned();
        assert_eq!(ran.json()["error_code"], "PERMISSION_DENIED", "{ran}");
        assert!(error.contains("`tool` changed since you granted it at "), "{error}");
        assert_eq!(command_in(&error), ["policy", "grant", "tool"]);
        assert_eq!(ran.json()["allow_with"], "ikigai policy grant tool", "{ran}");
        // The refusal and `policy show` name the same line.
        let shown = host.run(["--profile", profile, "policy", "show", "tool", "--json"]);
        let shown = shown.expect_code(0).stdout();
        for text in [&error, &shown] {
            assert!(text.contains("policy.toml:3") && !text.contains("policy.toml:2"), "{text}");
        }
    }
    let again = call(&host).json()["error"].as_str().map(command_in).expect("a command");
    host.run(again).expect_code(0);
    assert_eq!(call(&host).expect_code(0).json()["result"]["stolen"], "a value");
    let text = fs::read_to_string(host.scratch().join(USER)).expect("read");
    assert!(text.starts_with("# mine\n") && text.contains("wall_clock = \"9s\""), "{text}");
}

#[test]
fn a_revoked_tool_gets_nothing_by_it() {
    let host = host();
    let text = || fs::read_to_string(host.scratch().join(USER)).expect("read");
    let denied = |host: &Host| {
        let ran = host.run(["tool", "call", "tool"]).expect_code(1);
        assert_eq!(ran.json()["error_code"], "PERMISSION_DENIED", "{ran}");
        ran.json()["error"].as_str().expect("a text").to_owned()
    };
    host.write(USER, "# mine\n\n[tools.tool]\napprove = \"changes\"\n", 0o600);
    host.run(["policy", "grant", "tool", "--read", ".", "--limit", "wall_clock=9s"]).expect_code(0);
    // The tool is unchanged in the first round, and changed since the grant in the second.
    for change in ["", "changed"] {
        host.script("tool", &format!("echo 1 {change}"));
        let ran = host.run(["policy", "revoke", "tool", "--json"]).expect_code(0);
        assert_eq!(ran.json()["runs"], false, "{ran}");
        assert_eq!(text(), "# mine\n\n[tools.tool]\napprove = \"changes\"\nsha256 = []\n");
        let error = denied(&host);
        assert!(error.contains("its grant was revoked") && error.contains(":5 "), "{error}");
        assert_eq!(command_in(&error), ["policy", "grant", "tool"]);
        host.run(["policy", "grant", "tool", "--read", "."]).expect_code(0);
    }
    // The file is not a tool now, and could become one again.
    host.program("tool", "#!/bin/false\n");
    host.run(["policy", "revoke", "tool"]).expect_code(0);
    host.script("tool", "echo 1");
    denied(&host);
    // The name of the file may differ from the tool's name.
    let there = |name: &str| host.user_tools().join(name);
    fs::rename(there("tool"), there("tool.sh")).expect("renamed");
    host.run(["policy", "grant", "tool", "--read", "."]).expect_code(0);
    let whole = fs::read(there("tool.sh")).expect("read");
    fs::write(there("tool.sh"), "#!/bin/false\n").expect("written");
    host.run(["policy", "revoke", "tool"]).expect_code(0);
    fs::write(there("tool.sh"), whole).expect("written");
    denied(&host);
    // An entry whose tool is gone is removed as a whole. The same applies to a component's entry.
    fs::remove_file(there("tool.sh")).expect("removed");
    host.run(["policy", "revoke", "tool"]).expect_code(0);
    assert_eq!(text(), "# mine\n");
    host.run(["policy", "grant", "part", "--read", "."]).expect_code(0);
    host.run(["policy", "revoke", "part"]).expect_code(0);
    assert_eq!(text(), "# mine\n");
    let ran = host.run(["policy", "revoke", "tol"]).expect_code(1);
    let told = "nothing to revoke: your policy file has no entry for `tol`";
    assert!(ran.stderr().contains(told), "{ran}");
    // An entry that denies a tool grants it nothing, so it stays.
    host.write(USER, "[tools.part]\ndeny = true\nnet = [\"*\"]\n", 0o600);
    let ran = host.run(["policy", "revoke", "part", "--json"]).expect_code(0);
    assert_eq!(ran.json()["runs"], false, "{ran}");
    assert_eq!(text(), "[tools.part]\ndeny = true\n");
}

#[test]
fn a_denied_tool_is_told_by_the_line_that_denies_it() {
    let host = Host::without_system_tools();
    host.write("system-tools/grep.wasm", printing(schema("grep"), Ending::Well), 0o644);
    let user = host.scratch().join(USER);
    let text = || fs::read_to_string(&user).expect("read");
    let line = format!("{}:2", user.display());
    let denied = format!("`grep` is denied by {line}; remove that line to let it run");
    let by_name = "[tools.grep]\ndeny = true\n";
    host.write(USER, by_name, 0o600);
    host.run(["tool", "call", "grep", "{}"]).expect_code(1);
    for (command, code) in [
        (&["policy", "revoke", "grep"][..], 0),
        (&["policy", "grant", "grep"], 1),
        (&["policy", "grant", "grep", "--read", "."], 1),
        (&["policy", "grant", "grep", "--write", "."], 1),
    ] {
        let ran = host.run(command).expect_code(code);
        assert!(ran.stderr().contains(&denied), "{ran}");
        assert_eq!(text(), by_name, "{command:?}");
    }
    let ran = host.run(["policy", "suggest"]).expect_code(0);
    assert!(ran.stdout().contains(&format!("{line} denies this tool")), "{ran}");
    assert!(!ran.stdout().contains("policy grant"), "{ran}");
    // A ceiling denies it as well.
    host.write(CEILING, by_name, 0o600);
    host.write(USER, "", 0o600);
    let ran = beneath(&host, &["policy", "grant", "grep"]).expect_code(1);
    assert!(ran.stderr().contains(":2 denies this tool"), "{ran}");
    assert!(!ran.stderr().contains("needs no grant"), "{ran}");
}

#[test]
fn an_empty_entry_lets_a_built_in_tool_run_where_every_tool_is_denied() {
    let host = Host::without_system_tools();
    host.write("system-tools/grep.wasm", printing(schema("grep"), Ending::Well), 0o644);
    let user = host.scratch().join(USER);
    let text = || fs::read_to_string(&user).expect("read");
    let every = "[tools.\"*\"]\ndeny = true\n";
    let hint = "an entry lets it run: `ikigai policy grant grep`";
    // The last flag names only what the tool would have.
    for flags in [&[] as &[&str], &["--read", "."]] {
        host.write(USER, every, 0o600);
        let ran = host.run(["tool", "call", "grep", "{}"]).expect_code(1);
        assert!(ran.stdout().contains(hint), "{ran}");
        let ran = host.run(["policy", "suggest", "grep"]).expect_code(0);
        assert!(ran.stdout().contains(hint) && ran.stdout().contains("nothing to change"), "{ran}");
        host.run([&["policy", "grant", "grep"], flags].concat()).expect_code(0);
        assert_eq!(text(), format!("{every}\n[tools.grep]\n"));
        host.run(["tool", "call", "grep", "{}"]).expect_code(0);
        let ran = host.run(["policy", "revoke", "grep", "--json"]).expect_code(0);
        assert_eq!(ran.json()["runs"], false, "{ran}");
        host.run(["policy", "grant", "grep"]).expect_code(0);
        let ran = host.run(["policy", "revoke", "grep"]).expect_code(0);
        assert!(ran.stderr().contains(hint), "{ran}");
        host.run(["tool", "call", "grep", "{}"]).expect_code(1);
    }
}

/// Returns the list `fs` of the entry of a tool.
fn written_dirs(host: &Host) -> String {
    let text = fs::read_to_string(host.scratch().join(USER)).expect("read");
    text.lines().find(|line| line.starts_with("fs = ")).unwrap_or_default().to_owned()
}

#[test]
fn a_grant_adds_to_what_the_tool_has_and_replaces_it_on_request() {
    let host = host();
    fs::create_dir(host.workspace().join("docs")).expect("made");
    let data = host.write("data/list", "", 0o644);
    let data = data.parent().and_then(|dir| dir.to_str()).expect("UTF-8");
    let grant = |flags: &[&str]| {
        host.run([&["policy", "grant", "tool"], flags].concat()).expect_code(0).stderr()
    };
    let is_taken = |told: &str| told.contains("can then no longer");
    // A native tool has the workspace through its profile, and keeps it when more is granted.
    assert!(!is_taken(&grant(&["--limit", "wall_clock=9s"])));
    assert_eq!(written_dirs(&host), "fs = [\"rw:.\"]");
    assert!(!is_taken(&grant(&["--read", data])));
    assert_eq!(written_dirs(&host), format!("fs = [\"rw:.\", \"ro:{data}\"]"));
    // The wider access stays, and the message names it.
    let told = grant(&["--read", "docs"]);
    assert!(told.contains("`tool` still has `rw:.`, which allows more than `ro:docs`"), "{told}");
    assert_eq!(written_dirs(&host), format!("fs = [\"rw:.\", \"ro:{data}\"]"));
    grant(&["--net", "a.example:443"]);
    grant(&["--net", "b.example:443", "--env", "A"]);
    let text = fs::read_to_string(host.scratch().join(USER)).expect("read");
    assert!(text.contains("net = [\"a.example:443\", \"b.example:443\"]"), "{text}");
    assert!(text.contains("wall_clock = \"9s\""), "{text}");
    let told = grant(&["--replace", "--read", "docs", "--net", "c.example:443"]);
    let workspace = host.workspace().canonicalize().expect("a path");
    for lost in
        [format!("write in {}", workspace.display()), "connect to `a.example:443`".to_owned()]
    {
        assert!(told.contains(&format!("can then no longer {lost}\n")), "{lost}: {told}");
    }
    assert_eq!(written_dirs(&host), "fs = [\"ro:docs\"]");
    let text = fs::read_to_string(host.scratch().join(USER)).expect("read");
    assert!(text.contains("net = [\"c.example:443\"]") && text.contains("env = [\"A\"]"), "{text}");
}

#[test]
fn what_bounds_every_tool_in_the_same_file_bounds_what_a_grant_keeps() {
    let host = host();
    fs::create_dir(host.workspace().join("docs")).expect("made");
    let data = host.write("data/list", "", 0o644);
    let data = data.parent().and_then(|dir| dir.to_str()).expect("UTF-8");
    host.write(USER, "[tools.\"*\"]\nnet = []\nfs = [\"ro:docs\"] # a bound\n", 0o600);
    host.run(["policy", "grant", "tool", "--read", data]).expect_code(0);
    let text = fs::read_to_string(host.scratch().join(USER)).expect("read");
    assert!(text.ends_with(&format!("fs = [\"ro:docs\", \"ro:{data}\"]\n")), "{text}");
}

#[test]
fn an_unconfined_tool_keeps_its_environment() {
    let host = host().env("GRANTED", "a value");
    host.run(["policy", "grant", "tool", "--unconfined"]).expect_code(0);
    let ran = host.run(["policy", "grant", "tool", "--env", "OTHER"]).expect_code(2);
    assert!(ran.stderr().contains("sees all of your environment now"), "{ran}");
    let secret =
        || host.run(["tool", "call", "tool"]).expect_code(0).json()["result"]["secret"].clone();
    assert_eq!(secret(), "a value");
    host.run(["policy", "grant", "tool", "--replace", "--env", "OTHER"]).expect_code(0);
    assert_eq!(secret(), "");
}

#[test]
fn parts_of_a_grant_are_taken_back_and_the_rest_is_told() {
    let host = host();
    host.write("workspace/docs/a", "", 0o644);
    let grant =
        ["--read", "docs", "--net", "a.example:443", "--net", "b.example:443", "--env", "A"];
    let limits = ["--limit", "wall_clock=5s", "--limit", "fuel=7"];
    host.run([&["policy", "grant", "part"], &grant[..], &limits[..]].concat()).expect_code(0);
    let revoke = |flags: &[&str]| host.run([&["policy", "revoke", "part"], flags].concat());
    let ran = revoke(&["--net", "a.example:443", "--env", "A", "--limit", "fuel"]).expect_code(0);
    let told = "keeps --read docs --net b.example:443 --limit wall_clock=5s\n";
    assert!(ran.stderr().contains(told), "{ran}");
    revoke(&["--limit", "fuel=7"]).expect_code(2);
    revoke(&["--limit", "wall_clock"]).expect_code(0);
    let text = fs::read_to_string(host.scratch().join(USER)).expect("read");
    assert!(!text.contains("env") && !text.contains("limits"), "{text}");
    // It is still bound to the contents of its file.
    host.run(["policy", "test", "part", "--read", "docs/a"]).expect_code(0);
    host.run(["policy", "test", "part", "--connect", "a.example:443"]).expect_code(1);
    // Each command accepts the other commands' name for the flag as well.
    host.run(["policy", "test", "part", "--net", "b.example:443"]).expect_code(0);
    host.run(["policy", "grant", "part", "--connect", "b.example:443"]).expect_code(0);
    let before = fs::read_to_string(host.scratch().join(USER)).expect("read");
    for flags in
        [["--write", "docs"], ["--net", "a.example:443"], ["--env", "A"], ["--limit", "fuel"]]
    {
        let ran = revoke(&flags).expect_code(1);
        let told = format!("does not have {} {}", flags[0], flags[1]);
        assert!(ran.stderr().contains(&told), "{ran}");
        assert!(ran.stderr().contains("it has --read docs --net b.example:443"), "{ran}");
    }
    assert_eq!(fs::read_to_string(host.scratch().join(USER)).expect("read"), before);
    let ran = revoke(&["--read", "docs", "--json"]).expect_code(0);
    let keeps =
        json!({ "fs": [], "net": ["b.example:443"], "env": [], "assets": null, "limits": {} });
    assert_eq!(ran.json()["keeps"], keeps, "{ran}");
    let ran = revoke(&["--net", "b.example:443"]).expect_code(0);
    let told = "the entry of `part` stays and grants nothing; `ikigai policy revoke part` takes it";
    assert!(ran.stderr().contains(told), "{ran}");
    let ran = host.run(["policy", "revoke", "tool", "--write", "."]).expect_code(1);
    assert!(ran.stderr().contains("your policy file has no entry for `tool`"), "{ran}");
}

#[test]
fn a_revoked_native_tool_gets_what_its_profile_gives_by_the_next_grant() {
    let host = host();
    host.run(["policy", "grant", "tool", "--env", "GRANTED"]).expect_code(0);
    let ran = host.run(["policy", "revoke", "tool"]).expect_code(0);
    assert!(ran.stderr().contains("`ikigai policy grant tool` lets it run again"), "{ran}");
    host.run(["tool", "call", "tool"]).expect_code(1);
    host.run(["policy", "grant", "tool"]).expect_code(0);
    assert_eq!(written_dirs(&host), "fs = [\"rw:.\"]");
    host.run(["tool", "call", "tool"]).expect_code(0);
}

#[test]
fn the_removal_of_an_entry_that_narrows_is_told_with_what_the_tool_gets() {
    let host = Host::without_system_tools();
    host.write("system-tools/grep.wasm", printing(schema("grep"), Ending::Well), 0o644);
    host.write(USER, "[tools.grep]\nfs = []\n", 0o600);
    let ran = host.run(["policy", "revoke", "grep"]).expect_code(0);
    let gains = format!("warning: `grep` can then read {}", host.workspace().display());
    assert!(ran.stderr().contains(&gains), "{gains}\n{ran}");
}

#[test]
fn assets_are_granted_shown_and_recorded() {
    let host = host();
    let may = |what: &str| host.run(["policy", "test", "tool", "--assets", what]).code();
    assert_eq!((may("read"), may("write")), (Some(1), Some(1)));
    let ran = host.run(["policy", "grant", "tool", "--assets", "read"]).expect_code(0);
    assert!(ran.stderr().contains("+assets = \"read\""), "{ran}");
    assert_eq!((may("read"), may("write")), (Some(0), Some(1)));
    let shown = host.run(["policy", "show", "tool", "--json"]).expect_code(0).json();
    assert_eq!(shown["tools"][0]["grant"]["assets"], "read", "{shown}");
    let shown = host.run(["tool", "show", "tool"]).expect_code(0).stdout();
    let row = shown.lines().find(|line| line.contains("assets")).expect("a row").to_owned();
    assert!(row.contains("read") && row.contains("policy.toml:"), "{row}");

    host.run(["tool", "call", "tool"]).expect_code(0);
    let records = host.run(["audit", "--json"]).expect_code(0).stdout();
    let record = records.lines().last().expect("a record");
    assert!(record.contains("\"assets\":\"read\""), "{record}");

    // A change of the file ends the grant. The command in the error grants the same again.
    host.script("tool", "printf '{}'");
    let told = host.run(["tool", "call", "tool"]).expect_code(1).json();
    let told = told["error"].as_str().expect("a text").to_owned();
    assert_eq!(command_in(&told), ["policy", "grant", "tool"]);
    host.run(command_in(&told)).expect_code(0);
    assert_eq!((may("read"), may("write")), (Some(0), Some(1)));
}

/// Returns the arguments of the `ikigai` command that a denial names.
fn command_in(text: &str) -> Vec<String> {
    let command = text.split('`').find_map(|part| part.strip_prefix("ikigai "));
    let command = command.unwrap_or_else(|| panic!("no command: {text}"));
    command.split(' ').map(str::to_owned).collect()
}

#[test]
fn a_grant_that_cannot_be_is_refused_and_writes_nothing() {
    let host = host();
    fs::create_dir(host.workspace().join("docs")).expect("made");
    let home = host.home();
    let home = home.to_str().expect("UTF-8");
    for (args, code, said) in [
        (&["absent"][..], 1, "tool `absent` not found"),
        (&["tol"], 1, "did you mean `tool`?"),
        (&["tool", "--read", "absent"], 2, "`absent` cannot be granted"),
        (&["tool", "--write", home], 1, "can install a tool"),
        (&["tool", "--write", "/"], 1, "can install a tool"),
        (&["tool", "--net", "db.internal:5432", "--sandbox", "off"], 1, "could not be enforced"),
        (&["tool", "--net", "*.com:443"], 2, "stands for too many hosts"),
        (&["part", "--net", "db.internal"], 2, "write HOST:PORT"),
        (&["part", "--net", "https://db.internal"], 2, "is a URL; write its HOST:PORT"),
        (&["part", "--env", "A=B"], 2, "is not a valid variable name"),
        (&["part", "--env", "A\u{1b}[2J"], 2, "`A\u{fffd}[2J` is not a valid variable name"),
        (&["part", "--read", "/proc/self"], 1, "in which the kernel shows every process"),
        (&["part", "--read", ".", "--write", "docs"], 2, "a directory has one access"),
        (&["part", "--limit", "wall=1s"], 2, "unknown limit `wall`"),
        (&["part", "--limit", "wall_clock=1"], 2, "write it as 500ms"),
        (&["part", "--limit", "memory=64"], 2, "`64` has no unit; write it as 64MiB"),
        (&["part", "--limit", "output=64"], 2, "`64` has no unit; write it as 64MiB"),
        (&["part", "--limit", "memory=1KiB"], 2, "`1KiB` is too little for any tool to start"),
    ] {
        let ran = host.run([&["policy", "grant"], args].concat()).expect_code(code);
        assert!(ran.stderr().contains(said), "{said}\n{ran}");
        assert!(!host.scratch().join(USER).exists(), "{ran}");
    }
}

#[test]
fn a_grant_that_a_bound_takes_away_is_not_called_granted() {
    let host = host();
    host.write(CEILING, "[tools.part]\nnet = []\nlimits = { fuel = 5 }\n", 0o600);
    let ask = [
        &["policy", "grant", "part", "--net", "*", "--read", ".", "--env", "LANG"][..],
        &["--limit", "fuel=9", "--limit", "handles=9", "--json"],
    ]
    .concat();
    let ran = beneath(&host, &ask).expect_code(1);
    let lines: Vec<String> = ran
        .stderr()
        .lines()
        .filter(|line| line.starts_with("warning"))
        .map(str::to_owned)
        .collect();
    let path = host.scratch().join(CEILING).display().to_string();
    assert_eq!(
        lines,
        [
            format!("warning: `net *` is not granted: {path}:2 does not allow it"),
            format!("warning: `limits.fuel` is not granted: {path}:3 does not allow it"),
        ],
        "{ran}"
    );
    assert!(!ran.stderr().contains("\ngranted"), "{ran}");
    let taken_away = &ran.json()["taken_away"];
    assert_eq!(taken_away[0], json!({ "what": "net *", "decided_by": [format!("{path}:2")] }));
    // The entry is written anyway, since another workspace or machine may not have such a bound.
    let text = fs::read_to_string(host.scratch().join(USER)).expect("read");
    assert!(text.contains("net = [\"*\"]") && text.contains("fs = [\"ro:.\"]"), "{text}");
    let again = ["policy", "grant", "part", "--read", "."];
    let ran = beneath(&host, &again).expect_code(0);
    assert!(ran.stderr().contains("granted; "), "the bound is about something else\n{ran}");
    host.write(CEILING, "[tools.part]\ndeny = true\n", 0o600);
    let ran = beneath(&host, &again).expect_code(1);
    assert!(ran.stderr().contains(&format!("{path}:2 denies this tool")), "{ran}");
    assert!(!ran.stderr().contains("granted"), "{ran}");
    // The user's own file may deny every tool except the granted ones.
    host.write(USER, "[tools.\"*\"]\ndeny = true\n", 0o600);
    host.run(["policy", "test", "part"]).expect_code(1);
    host.run(["policy", "grant", "part"]).expect_code(0);
    host.run(["policy", "test", "part"]).expect_code(0);
}

#[test]
fn a_tool_is_bound_by_its_path_as_by_its_name() {
    let host = host();
    let tool = host.user_tools().join("tool");
    let part = host.user_tools().join("part.wasm");
    let links = host.scratch().join("links");
    fs::create_dir(&links).expect("made");
    let place = |name: &str| links.join(name);
    symlink(&tool, place("link")).expect("linked");
    fs::hard_link(&tool, place("twin")).expect("linked");
    fs::copy(&tool, place("copy")).expect("copied");
    fs::copy(&part, place("copy.wasm")).expect("copied");
    let definition =
        format!("description = \"d\"\nprogram = \"{}\"\nargs = [\"x\"]\n", tool.display());
    fs::write(place("w.wrap.toml"), definition).expect("written");
    // One byte more makes another program.
    let text = fs::read_to_string(&tool).expect("readable") + "\n";
    host.write("links/other", text, 0o755);
    let run = |path: PathBuf, code: i32| {
        let ran = beneath(&host, &["tool", "run", path.to_str().expect("UTF-8")]);
        assert_eq!(ran.code(), Some(code), "{}\n{ran}", path.display());
        ran
    };
    let same = || {
        let names = ["link", "twin", "copy", "copy.wasm"].map(place);
        names.into_iter().chain([tool.clone(), part.clone()])
    };
    host.write(CEILING, "[tools.unknown]\ndeny = true\n", 0o600);
    same().for_each(|path| drop(run(path, 0)));
    host.write(CEILING, "[tools.tool]\ndeny = true\n[tools.part]\ndeny = true\n", 0o600);
    for path in same() {
        let ran = run(path, 126);
        assert!(ran.stderr().contains("denies this tool"), "{ran}");
    }
    let wrapping = place("w.wrap.toml").display().to_string();
    let ceiling = host.scratch().join(CEILING).display().to_string();
    let ran = host.run_with(["--ceiling", &ceiling, "tool", "run", &wrapping], b"{}");
    assert!(ran.expect_code(126).stderr().contains("denies this tool"));
    run(place("other"), 0);
    // The ceiling binds what the user granted to the contents, and the record names it.
    // A file with a second name in another directory may not run with all rights.
    fs::remove_file(place("twin")).expect("removed");
    host.run(["policy", "grant", "tool", "--unconfined"]).expect_code(0);
    host.write(CEILING, "[tools.tool]\nfs = []\n", 0o600);
    let record = |path: PathBuf| {
        run(path, 0);
        let record = host.run(["audit", "--tail", "1", "--json"]).expect_code(0).json();
        record["grant"].clone()
    };
    for path in ["link", "copy"].map(place).into_iter().chain([tool.clone()]) {
        let grant = record(path);
        assert_eq!(grant["sandbox"], "require", "{grant}");
        assert!(grant["sources"].to_string().contains("ceiling.toml:2"), "{grant}");
    }
}

#[test]
fn a_changed_tool_is_refused_by_its_path_as_by_its_name() {
    let host = host();
    let tool = host.user_tools().join("tool");
    let link = host.scratch().join("link");
    symlink(&tool, &link).expect("linked");
    let run = |path: &Path, code: i32| {
        host.run(["tool", "run", path.to_str().expect("UTF-8")]).expect_code(code)
    };
    host.run(["policy", "grant", "tool", "--read", "."]).expect_code(0);
    run(&tool, 0);
    host.script("tool", "echo 1");
    for path in [&tool, &link] {
        let ran = run(path, 126);
        assert!(ran.stderr().contains("`tool` changed since you granted it at "), "{ran}");
        assert!(ran.stderr().contains("`ikigai policy grant tool`"), "{ran}");
    }
    // A file that is no registered tool runs without a grant.
    let other = fs::read_to_string(&tool).expect("readable") + "\n";
    run(&host.write("other", other, 0o755), 0);
    host.run(["policy", "grant", "tool"]).expect_code(0);
    run(&tool, 0);
}

#[test]
fn grants_at_once_are_all_written() {
    let host = host();
    let grants = [
        ["tool", "--limit", "fuel=1"],
        ["tool", "--limit", "output=2KiB"],
        ["tool", "--limit", "handles=3"],
        ["part", "--limit", "memory=4MiB"],
        ["part", "--read", "."],
        ["part", "--env", "LANG"],
    ];
    let at_once = thread::scope(|scope| {
        let grant = |grant: [&'static str; 3]| {
            let host = &host;
            scope.spawn(move || host.run([&["policy", "grant", "--yes"][..], &grant].concat()))
        };
        let running = grants.map(grant);
        running.map(|run| run.join().expect("no panic"))
    });
    for ran in at_once {
        ran.expect_code(0);
    }
    let text = fs::read_to_string(host.scratch().join(USER)).expect("read");
    let limits = ["fuel = 1", "output = \"2KiB\"", "handles = 3", "memory = \"4MiB\""];
    for part in limits.into_iter().chain(["ro:.", "LANG"]) {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn whoever_waits_for_a_lock_is_told_who_has_it() {
    let host = host();
    host.write(USER, "", 0o600);
    let held = fs::File::open(host.scratch().join("home/.config/ikigai")).expect("opened");
    held.lock().expect("locked");
    let mut waiting = host.command();
    waiting.args(["policy", "grant", "tool", "--yes"]).stderr(Stdio::piped());
    let mut waiting = waiting.stdin(Stdio::null()).spawn().expect("started");
    let lines = BufReader::new(waiting.stderr.take().expect("a pipe")).lines();
    let mut lines = lines.skip_while(|line| line.as_ref().is_ok_and(|it| !it.contains("waiting")));
    let said = lines.next().expect("a line").expect("text");
    let holder = format!("(process {}) has locked `", std::process::id());
    assert!(said.contains("waiting for at most 10s: `") && said.contains(&holder), "{said}");
    drop(held);
    let rest: Vec<String> = lines.map(|line| line.expect("text")).collect();
    assert!(waiting.wait().expect("ended").success(), "{said}\n{rest:?}");
}

#[test]
fn a_question_is_answered_with_the_line_that_decides() {
    let host = host();
    host.run(["policy", "grant", "part", "--read", ".", "--net", "a.example:443", "--env", "A"])
        .expect_code(0);
    host.write("workspace/file", "", 0o644);
    for (question, code) in [
        (["--read", "file"], 0),
        (["--read", "not/there/yet"], 0),
        (["--write", "file"], 1),
        (["--read", "../home"], 1),
        (["--read", "/etc/passwd"], 1),
        (["--connect", "a.example:443"], 0),
        (["--connect", "a.example:80"], 1),
        (["--connect", "127.0.0.1:443"], 1),
        (["--env", "A"], 0),
        (["--env", "HOME"], 1),
    ] {
        let args = [&["policy", "test", "part"], &question[..]].concat();
        let ran = host.run(&args).expect_code(code);
        let verdict = if code == 0 { "allowed: part " } else { "denied: part " };
        assert!(
            ran.stdout().starts_with(verdict) && ran.stdout().contains("policy.toml:"),
            "{ran}"
        );
        let json = host.run([&args[..], &["--json"]].concat()).expect_code(code).json();
        assert_eq!(json["allowed"], Value::from(code == 0));
    }
    host.run(["policy", "test", "tool", "--write", "/etc/passwd"]).expect_code(1);
    // The sandbox shows programs and public files to native tools only, not to components.
    for (path, code) in
        [("/etc/passwd", 0), ("/usr/bin/env", 0), ("/proc/self/status", 0), ("/etc/shadow", 1)]
    {
        let ran = host.run(["policy", "test", "tool", "--read", path]).expect_code(code);
        assert_eq!(ran.stdout().contains("(the base view, "), code == 0, "{ran}");
    }
    // A native tool also sees the files beside its own, and with every host the list of DNS servers.
    let beside = host.user_tools().join("another").display().to_string();
    for (tool, code) in [("tool", 0), ("part", 1)] {
        host.run(["policy", "test", tool, "--read", &beside]).expect_code(code);
    }
    let resolver = ["policy", "test", "tool", "--read", "/etc/resolv.conf"];
    host.run(resolver).expect_code(1);
    host.run(["policy", "grant", "tool", "--net", "*", "--yes"]).expect_code(0);
    host.run(resolver).expect_code(0);
    let page = |tool: &str| host.run(["policy", "show", tool]).expect_code(0).stdout();
    assert!(page("tool").contains("Base view: native tools also read /usr, "));
    assert!(!page("part").contains("Base view"));
    let shown = |tool: &str| host.run(["tool", "show", tool]).expect_code(0).stdout();
    assert!(shown("tool").contains("Base view: native tools also read /usr, "));
    assert!(!shown("part").contains("Base view"));
    // A tool that runs with its user's rights may do anything.
    host.run(["policy", "grant", "tool", "--unconfined"]).expect_code(0);
    host.run(["policy", "test", "tool", "--write", "/etc/passwd"]).expect_code(0);
    host.run(["--profile", "strict", "policy", "test", "tool", "--write", "/etc/passwd"])
        .expect_code(1);
    // A mistyped name is an error of usage, not a denial.
    host.run(["policy", "test", "tol"]).expect_code(2);
}

#[test]
fn a_hidden_file_is_denied_and_the_page_has_what_narrows() {
    let host = host();
    host.run(["policy", "grant", "part", "--write", "."]).expect_code(0);
    host.write("workspace/.env", "", 0o644);
    host.write("workspace/file", "", 0o644);
    symlink("file", host.scratch().join("workspace/key.pem")).expect("linked");
    let hide = "[tools.\"*\"]\nhide = [\".env\", \"*.pem\"]\nask = false\n";
    host.write(CEILING, hide, 0o600);
    for (question, code) in [
        (["--read", ".env"], 1),
        (["--write", ".env"], 1),
        (["--read", ".ENV/below"], 1),
        (["--read", "key.pem"], 1),
        (["--read", "file"], 0),
    ] {
        let args = [&["policy", "test", "part"], &question[..]].concat();
        let ran = beneath(&host, &args).expect_code(code);
        let says = if code == 0 { "allowed: " } else { "(hidden, by " };
        assert!(ran.stdout().contains(says), "{ran}");
        let json = beneath(&host, &[&args[..], &["--json"]].concat()).expect_code(code).json();
        assert_eq!(json["allowed"], Value::from(code == 0), "{json}");
        let by = json["answers"][0]["decided_by"].as_str().expect("a rule");
        assert!(code == 0 || by.contains("ceiling.toml:2"), "{json}");
    }
    let page = beneath(&host, &["policy", "show", "part"]).expect_code(0).stdout();
    for (start, rule) in [
        ("part: does not see .env, *.pem (hide, by ", ":2)"),
        ("part: ikigai does not ask you ", ":3)"),
    ] {
        let is_there = page.lines().any(|line| line.starts_with(start) && line.ends_with(rule));
        assert!(is_there, "{start}: {page}");
    }
    let json = beneath(&host, &["policy", "show", "part", "--json"]).expect_code(0).json();
    let tool = &json["tools"][0];
    assert_eq!(tool["grant"]["hide"], json!([".env", "*.pem"]), "{json}");
    assert_eq!(tool["ask"], false, "{json}");
}

#[test]
fn a_version_of_wasi_that_no_rule_lists_is_refused_with_the_same_sentence_everywhere() {
    for is_known in [true, false] {
        let host = host();
        if is_known {
            let listed = host.run(["tool", "list", "--json"]).expect_code(0).json();
            let wasi = |name: &str| {
                let tools = listed["tools"].as_array().expect("tools").iter();
                tools.filter(|tool| tool["name"] == name).map(|tool| tool["wasi"].clone()).collect()
            };
            let (part, tool): (Vec<Value>, Vec<Value>) = (wasi("part"), wasi("tool"));
            assert_eq!((part, tool), (vec![json!(["0.2"])], vec![json!([])]), "{listed}");
        }
        host.write(CEILING, "[tools.\"*\"]\nwasi = [\"0.1\", \"0.3\"]\n", 0o600);
        let ceiling = host.scratch().join(CEILING);
        let path = host.scratch().join("user-tools/part.wasm");
        let path = path.to_str().expect("UTF-8");
        let sentence = format!("{}:2 allows WASI 0.1 and 0.3 only", ceiling.display());
        // A tool that was not asked for its schema before is not offered, and the hint says why.
        let missing = if is_known { 1 } else { 2 };
        for (args, code) in [
            (&["tool", "show", "part", "--json"][..], if is_known { 0 } else { 1 }),
            (&["tool", "call", "part", "{}"], 1),
            (&["policy", "test", "part"], missing),
            (&["tool", "check", path], 1),
            (&["tool", "run", path], 126),
        ] {
            let ran = beneath(&host, args);
            let text = format!("{}{}", ran.stdout(), ran.stderr());
            assert!(text.contains("it needs WASI 0.2 for `wasi:"), "{is_known} {args:?}: {ran}");
            assert!(text.contains(&sentence), "{is_known} {args:?}: {ran}");
            ran.expect_code(code);
        }
        // A native tool uses no WASI.
        beneath(&host, &["policy", "test", "tool"]).expect_code(0);
    }
}

#[test]
fn a_tool_that_misses_a_credential_gets_the_hint_that_grants_it() {
    let host = host();
    let answer = r#"printf '{"error_code":"MISSING_CREDENTIALS","error":"%s"}' "$GRANTED""#;
    host.script("tool", answer);
    let call = |host: &Host| host.run(["tool", "call", "tool"]).expect_code(0).stderr();
    // An unconfined tool already has its user's environment, so no grant would add to it.
    host.run(["policy", "grant", "tool", "--unconfined"]).expect_code(0);
    assert!(!call(&host).contains("hint:"), "{}", call(&host));
    host.run(["policy", "grant", "tool", "--sandbox", "require"]).expect_code(0);
    let grants = "hint: `ikigai policy grant tool --env VAR` lets it see the variable VAR\n";
    assert!(call(&host).contains(grants), "{}", call(&host));
    host.run(["policy", "grant", "tool", "--env", "GRANTED"]).expect_code(0);
    assert!(call(&host).contains("hint: it may see `GRANTED`, not set here\n"));
    let host = host.env("GRANTED", "a value");
    assert!(call(&host).contains(grants), "{}", call(&host));
}

#[test]
fn one_page_says_what_every_tool_can_touch() {
    let host = host();
    host.run(["policy", "grant", "part", "--read", ".", "--net", "a.example:443", "--env", "A"])
        .expect_code(0);
    host.write(WORKSPACE, "[tools.\"*\"]\nlimits = { wall_clock = \"2s\" }\n", 0o600);
    host.write(CEILING, "[tools.tool]\nfs = [\"ro:.\"]\n", 0o600);
    let ran = beneath(&host, &["policy", "show"]).expect_code(0);
    let lines = stable(&host, &ran.stdout());
    // The widths of the columns depend on the length of the scratch path.
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines: Vec<String> = lines.lines().map(words).collect();
    insta::assert_snapshot!("page", lines.join("\n"));
    let json = beneath(&host, &["policy", "show", "--json"]).expect_code(0).json();
    assert_eq!(json["files"].as_array().map(Vec::len), Some(4), "{json}");
    let named = fs::read_to_string(host.scratch().join(USER)).expect("read");
    host.write(USER, named.replace("[tools.part]", "[tools.parts]"), 0o600);
    let ran = host.run(["policy", "show"]).expect_code(0);
    assert!(ran.stdout().contains("names `parts`, but no such tool exists"), "{ran}");
    assert!(ran.stdout().contains("did you mean `part`?"), "{ran}");
}

#[test]
fn a_narrow_terminal_gets_a_block_for_each_tool() {
    let host = host();
    host.run(["policy", "grant", "part", "--read", ".", "--env", "A"]).expect_code(0);
    let shown = |columns| {
        let mut command = host.command();
        let mut terminal = Terminal::start(command.args(["policy", "show"]), columns, 60);
        assert!(terminal.wait().success(), "{}", terminal.everything());
        terminal.everything()
    };
    // A terminal that does not know its width is treated as one of 80 columns.
    for narrow in [shown(60), shown(0)] {
        let lines: Vec<&str> = narrow.lines().map(str::trim_end).collect();
        assert!(lines.contains(&"part") && lines.contains(&"tool"), "{narrow}");
        let words = |line: &&str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let lines: Vec<String> = lines.iter().map(words).collect();
        for line in ["may read .", "network nothing", "environment A (not set)"] {
            assert!(lines.iter().any(|it| it == line), "{line}: {narrow}");
        }
        assert!(!narrow.contains("MAY READ"), "{narrow}");
    }
    let wide = shown(200);
    assert!(wide.contains("MAY READ") && !wide.contains("may read"), "{wide}");
}

#[test]
fn no_tool_can_write_a_policy() {
    let host = Host::new();
    host.write(USER, "", 0o600);
    let before = host.files();
    let home = host.home();
    let home = home.to_str().expect("UTF-8");
    for backend in ["wasm", "native"] {
        for path in [".config/ikigai/policy.toml", ".config/ikigai/new", ".ikigai/tools/new"] {
            let write = format!("{{\"file_path\":\"{path}\",\"content\":\"profile=\\\"x\\\"\"}}");
            let edit =
                format!("{{\"file_path\":\"{path}\",\"old_string\":\"\",\"new_string\":\"x\"}}");
            for (tool, arguments) in [("file_write", &write), ("file_edit", &edit)] {
                let args =
                    ["--workspace", home, "--backend", backend, "tool", "call", tool, arguments];
                let ran = host.run(args).expect_code(0);
                assert!(ran.json()["result"]["error_code"].is_string(), "{ran}");
            }
        }
    }
    assert_eq!(host.files(), before);
}

#[test]
fn the_page_tells_whose_signatures_count() {
    let host = host();
    let signer = |name: &str| {
        format!(
            "[signers.{name}]\nsigstore = {{ issuer = \"https://issuer.example\", subject = \
             \"https://{name}.example/*\" }}\ntools = [\"part\", \"{name}_*\"]\nuntil = 2027-06-30\n"
        )
    };
    host.write(CEILING, "", 0o600);
    let page = beneath(&host, &["policy", "show"]).expect_code(0).stdout();
    assert!(!page.contains("Signe"), "{page}");
    host.write(USER, format!("require_signed = true\n{}", signer("acme")), 0o600);
    let page = beneath(&host, &["policy", "show"]).expect_code(0).stdout();
    for part in [
        "Signed:    required of your own tools (by ~/.config/ikigai/policy.toml:1)",
        "https://acme.example/* (by https://issuer.example)",
        "part, acme_*",
        "until 2027-06-30",
        "~/.config/ikigai/policy.toml:2",
        "part may not be called: ",
        "policy.toml:1 requires signed tools: ",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    host.write(CEILING, signer("corp"), 0o600);
    let page = beneath(&host, &["policy", "show"]).expect_code(0).stdout();
    let void = "the signer `acme` at ~/.config/ikigai/policy.toml:2 does not count";
    assert!(page.contains(void) && page.contains("ceiling.toml:1"), "{page}");
    let page = beneath(&host, &["policy", "show", "--json"]).expect_code(0).json();
    assert_eq!(page["require_signed"], true);
    let (signer, void) = (&page["signers"][0], &page["void_signers"][0]);
    assert_eq!((&signer["name"], &void["name"]), (&json!("corp"), &json!("acme")), "{page}");
    assert_eq!(signer["sigstore"]["issuer"], "https://issuer.example");
    assert_eq!((&signer["tools"][1], &signer["until"]), (&json!("corp_*"), &json!("2027-06-30")));
}

#[test]
fn a_grant_opens_no_place_that_only_a_bound_lists() {
    let host = Host::new();
    let hook = host.write("workspace/.git/hooks/pre-commit", "good", 0o755);
    host.write("workspace/.git/HEAD", "ref: refs/heads/a\n", 0o644);
    let data = host.write("data/file", "", 0o644).parent().expect("a directory").to_owned();
    let data = data.to_str().expect("UTF-8");
    let bound = format!("[tools.\"*\"]\nfs = [\"rw:.\", \"rw:.git/hooks\", \"ro:{data}\"]\n");
    host.write_policy(&bound);
    host.run(["policy", "grant", "bash", "--read", data, "--yes"]).expect_code(0);
    let command = "cat ../data/file && echo seen; echo evil >.git/hooks/pre-commit";
    let ran = host.run(["tool", "call", "bash", "--command", command]);
    assert!(ran.stdout().contains("seen"), "{ran}");
    assert_eq!(std::fs::read_to_string(hook).expect("read"), "good", "{ran}");
}
