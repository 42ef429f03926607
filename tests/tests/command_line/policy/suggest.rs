//! `ikigai policy suggest`: grants from the audit log, which contains text that tools wrote.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use ikigai_host::Digest;
use ikigai_tests::host::{Host, Ran};
use ikigai_tests::mode::permit;
use serde_json::{Value, json};

use super::{USER, host};

/// Returns the digest of a user's tool.
fn digest(host: &Host, file: &str) -> String {
    Digest::from_bytes(&fs::read(host.user_tools().join(file)).expect("the tool")).to_string()
}

/// Returns a record of a call, with these additional fields.
fn record(host: &Host, tool: &str, file: &str, fields: Value) -> Value {
    let mut record = json!({
        "time": "2026-01-31T12:00:00.000Z",
        "id": "0",
        "via": "call",
        "tool": tool,
        "origin": "user",
        "path": host.user_tools().join(file),
        "digest": digest(host, file),
        "backend": if file.ends_with("wasm") { "wasm" } else { "native" },
        "backend_reason": "it is the only build",
        "grant": { "dirs": [], "net": [], "env": [] },
        "workspace": host.workspace(),
        "outcome": "ok",
        "exit_code": 0,
        "total_us": 1,
    });
    let own = record.as_object_mut().expect("an object");
    own.extend(fields.as_object().expect("an object").clone());
    record
}

fn write_log(host: &Host, records: &[Value]) {
    let lines: String = records.iter().map(|record| format!("{record}\n")).collect();
    host.write("state/ikigai/audit.jsonl", lines, 0o600);
    let state = host.scratch().join("state/ikigai");
    permit(state, 0o700);
}

fn path(access: &str, path: impl AsRef<Path>) -> Value {
    json!({ "kind": "path", "access": access, "path": path.as_ref() })
}

/// Returns the words of the command in a proposal.
#[track_caller]
fn command(page: &Value) -> Vec<String> {
    let line = page["tools"][0]["proposal"]["command"].as_str();
    let line = line.unwrap_or_else(|| panic!("{page:#}"));
    line.strip_prefix("ikigai ").expect("a command").split(' ').map(str::to_owned).collect()
}

#[track_caller]
fn page(host: &Host, args: &[&str]) -> Value {
    host.run([&["policy", "suggest", "--json"], args].concat()).expect_code(0).json()
}

#[test]
fn what_was_refused_is_granted_by_the_command_and_by_nothing_else() {
    let host = host();
    let data = host.write("data/1", "", 0o644);
    host.write("workspace/docs/a", "", 0o644);
    let reached = json!({ "reached": [
        path("ro", &data),
        path("ro", host.workspace().join("docs/a")),
        { "kind": "peer", "host": "API.example.com", "port": 443 },
    ] });
    let older = json!({ "denied": ["net 1.1.1.1:80", "assets read blocks/a.md"] });
    write_log(
        &host,
        &[
            record(&host, "part", "part.wasm", reached.clone()),
            record(&host, "part", "part.wasm", reached),
            record(&host, "part", "part.wasm", older),
        ],
    );
    let before = host.files();
    let found = page(&host, &["part"]);
    assert_eq!(host.files(), before, "a suggestion writes nothing");
    assert_eq!(found["tools"][0]["calls"], 3, "{found:#}");
    let refused = found["tools"][0]["refused"].as_array().expect("a list");
    let counted = |what: &str| {
        let one = refused.iter().find(|it| it["what"].as_str().is_some_and(|it| it.contains(what)));
        one.unwrap_or_else(|| panic!("{what}: {found:#}"))["calls"].as_u64()
    };
    assert_eq!((counted("data/1"), counted("1.1.1.1:80")), (Some(2), Some(1)), "{found:#}");

    let asked = ["policy", "test", "part"];
    let questions = [
        "--read",
        data.to_str().expect("UTF-8"),
        "--read",
        "docs/a",
        "--connect",
        "api.example.com:443",
        "--connect",
        "1.1.1.1:80",
        "--assets",
        "read",
    ];
    for question in questions.chunks(2) {
        host.run([&asked, question].concat()).expect_code(1);
    }
    host.run(command(&found)).expect_code(0);
    for question in questions.chunks(2) {
        host.run([&asked, question].concat()).expect_code(0);
    }
    for more in [["--write", "docs/a"], ["--read", "."], ["--connect", "example.com:443"]] {
        host.run([&asked[..], &more].concat()).expect_code(1);
    }
    // Accesses that are granted now are not proposed again.
    let again = page(&host, &["part"]);
    assert!(again["tools"][0]["proposal"].is_null(), "{again:#}");
    let text = host.run(["policy", "suggest", "part"]).expect_code(0);
    assert!(text.stdout().contains("nothing to change"), "{text}");
}

#[test]
fn what_the_file_says_stays_in_the_command() {
    let host = host();
    for dir in ["workspace/docs", "workspace/other"] {
        fs::create_dir_all(host.scratch().join(dir)).expect("made");
    }
    host.run(["policy", "grant", "part", "--read", "docs", "--net", "a.example:1"]).expect_code(0);
    let other = host.workspace().join("other");
    let reached = json!({ "reached": [
        path("ro", &other),
        { "kind": "peer", "host": "b.example", "port": 2 },
    ] });
    write_log(&host, &[record(&host, "part", "part.wasm", reached)]);
    let found = page(&host, &["part"]);
    // The proposed command adds to the grant.
    let expected = "policy grant part --read other --net b.example:2";
    assert_eq!(command(&found).join(" "), expected);
    let difference = found["tools"][0]["difference"].to_string();
    assert!(difference.contains("-fs = [") && difference.contains("+fs = ["), "{difference}");
    host.run(command(&found)).expect_code(0);
    let text = fs::read_to_string(host.scratch().join(USER)).expect("read");
    assert!(text.contains("fs = [\"ro:docs\", \"ro:other\"]"), "{text}");
    assert!(text.contains("net = [\"a.example:1\", \"b.example:2\"]"), "{text}");
}

#[test]
fn files_of_a_toolchain_are_granted_with_all_of_it() {
    let host = host();
    let bun = host.write("home/.bun/bin/bun", "#!/bin/sh\n", 0o755);
    let bun = bun.canonicalize().expect("a path");
    let other = host.write("data/1", "", 0o644).canonicalize().expect("a path");
    let reached = |paths: &[&Path]| {
        let paths: Vec<Value> = paths.iter().map(|it| path("ro", it)).collect();
        write_log(&host, &[record(&host, "tool", "tool", json!({ "reached": paths }))]);
    };
    reached(&[&bun, &other]);
    let both = command(&page(&host, &["tool"])).join(" ");
    assert!(both.starts_with("policy grant tool --read ") && !both.contains(".bun"), "{both}");
    assert!(both.ends_with("/data/1 --toolchain bun"), "{both}");
    reached(&[&bun]);
    let found = page(&host, &["tool"]);
    assert_eq!(command(&found).join(" "), "policy grant tool --toolchain bun");
    assert_eq!(found["tools"][0]["proposal"]["toolchains"], json!(["bun"]), "{found:#}");
    let difference = found["tools"][0]["difference"].to_string();
    host.run(command(&found)).expect_code(0);
    // It is what the suggestion showed.
    let text = fs::read_to_string(host.scratch().join(USER)).expect("read");
    let dir = format!("ro:{}", host.home().join(".bun/bin").display());
    assert!(text.contains(&dir) && difference.contains(&dir), "{difference}\n{text}");
    assert_eq!(page(&host, &["tool"])["tools"][0]["proposal"], Value::Null);
}

#[test]
fn records_of_other_contents_and_other_times_do_not_count() {
    let host = host();
    let reached = json!({ "reached": [path("ro", "/etc/hosts")] });
    let other = json!({ "reached": [path("ro", "/etc/hosts")], "digest": "0".repeat(64) });
    write_log(
        &host,
        &[
            record(&host, "part", "part.wasm", other),
            record(&host, "gone", "part.wasm", reached.clone()),
        ],
    );
    let ran = host.run(["policy", "suggest"]).expect_code(0);
    assert!(ran.stdout().is_empty() && ran.stderr().contains("no refusal"), "{ran}");
    let earlier = json!({ "digest": "0".repeat(64) });
    let old = record(&host, "part", "part.wasm", earlier);
    write_log(&host, &[old.clone(), old, record(&host, "part", "part.wasm", reached.clone())]);
    let ran = host.run(["policy", "suggest"]).expect_code(0);
    let left_out = "2 calls of an earlier version of the file are left out\n";
    assert!(ran.stdout().contains(left_out), "{ran}");
    write_log(&host, &[record(&host, "part", "part.wasm", reached)]);
    let all = page(&host, &["--since", "2026-01-31"]);
    assert_eq!(all["tools"].as_array().map(Vec::len), Some(1), "{all:#}");
    assert_eq!(page(&host, &["--tool", "part"]), page(&host, &["part"]));
    let none = page(&host, &["--since", "2026-02-02"]);
    assert_eq!(none["tools"], json!([]), "{none:#}");
}

#[test]
fn a_log_that_tools_wrote_into_deceives_nobody() {
    let host = host();
    let escapes = "/data/\u{1b}[2J\u{202e}txt";
    let hostile = json!({ "reached": [
        path("ro", escapes),
        path("ro", "/data/a\nrw:/"),
        path("rw", "/"),
        path("ro", "/etc/shadow"),
        path("ro", host.home().join(".ssh/id_ed25519")),
        path("rw", host.user_tools().join("other")),
        path("ro", "relative"),
        { "kind": "peer", "host": "*", "port": 443 },
        { "kind": "peer", "host": "0.0.0.0/0", "port": 443 },
        { "kind": "peer", "host": "a\"]\nenv = [\"KEY", "port": 443 },
    ], "denied": ["net *:443", "net \u{1b}]0;x\u{7}:1", "assets own everything"] });
    let many = (0..160).map(|call| {
        let paths = (0..64).map(|n| path("ro", format!("/usr/share/none/{call}/{n}/x")));
        json!({ "reached": paths.collect::<Vec<_>>(), "reached_count": 10_000 })
    });
    let mut records = vec![record(&host, "part", "part.wasm", hostile)];
    records.extend(many.map(|fields| record(&host, "part", "part.wasm", fields)));
    write_log(&host, &records);
    let log = host.audit_log();
    let text = fs::read_to_string(&log).expect("read");
    fs::write(&log, format!("no record\n{{\"time\":1}}\n{text}{{\"torn")).expect("written");

    let found = page(&host, &["part"]);
    assert_eq!(found["damaged_lines"], 3, "{}", found["damaged_lines"]);
    assert!(found["tools"][0]["proposal"].is_null(), "{:#}", found["tools"][0]["proposal"]);
    let left = found["tools"][0]["left_out"].to_string();
    for said in ["it may contain secrets", "ikigai's own", "no policy can name it", "many programs"]
    {
        assert!(left.contains(said), "{said}: {left}");
    }
    let ran = host.run(["policy", "suggest", "part"]).expect_code(0);
    let shown = ran.stdout();
    assert!(shown.lines().count() < 200, "{} lines", shown.lines().count());
    assert!(!shown.contains(['\u{1b}', '\u{202e}', '\u{7}']), "{shown}");
    assert!(shown.contains("\\u{202e}"), "{shown}");
    assert!(shown.contains("not every access was recorded"), "{shown}");
    // The text appears within a line, and does not begin one.
    assert!(!shown.lines().any(|line| line.trim_start().starts_with("env =")), "{shown}");
    assert!(!host.scratch().join(USER).exists());
}

#[test]
fn what_no_call_used_is_proposed_to_be_taken_away() {
    let host = host().env("KEY", "value");
    for dir in ["docs", "out"] {
        fs::create_dir_all(host.workspace().join(dir)).expect("made");
    }
    let grant = ["policy", "grant", "part", "--read", "docs", "--write", "out", "--env", "KEY"];
    host.run([&grant[..], &["--net", "a.example:1", "--net", "b.example:2"]].concat())
        .expect_code(0);
    let none = page(&host, &["--unused", "2026-01-01"]);
    assert_eq!(none["tools"], json!([]), "without records nothing is proposed: {none:#}");

    let unwatched = record(&host, "part", "part.wasm", json!({}));
    write_log(&host, std::slice::from_ref(&unwatched));
    let unknown = page(&host, &["part", "--unused", "2026-01-01"]);
    assert!(unknown["tools"][0]["proposal"].is_null(), "{unknown:#}");
    assert!(
        unknown["tools"][0]["notes"].to_string().contains("ikigai does not know what it used"),
        "{unknown:#}"
    );

    let used = json!({ "used": [
        { "kind": "dir", "path": host.workspace().join("docs") },
        { "kind": "peer", "host": "b.example", "port": 2 },
    ] });
    write_log(&host, &[unwatched, record(&host, "part", "part.wasm", used)]);
    let found = page(&host, &["part", "--unused", "2026-01-01"]);
    let notes = found["tools"][0]["notes"].to_string();
    assert!(notes.contains("1 of 2 calls") && notes.contains("variables stay"), "{notes}");
    let narrower = "policy grant part --read docs --net b.example:2 --replace";
    assert_eq!(command(&found).join(" "), narrower);
    host.run(command(&found)).expect_code(0);
    let text = fs::read_to_string(host.scratch().join(USER)).expect("read");
    assert!(text.contains("env = [\"KEY\"]") && !text.contains("out"), "{text}");
}

#[test]
fn mistakes_are_told() {
    let host = host();
    let fails = |args: &[&str], code: i32, said: &str| {
        let ran: Ran = host.run([&["policy", "suggest"], args].concat()).expect_code(code);
        assert!(ran.stderr().contains(said) && ran.stdout().is_empty(), "{said}\n{ran}");
    };
    fails(&["prat"], 2, "did you mean `part`?");
    fails(&["part", "--tool", "part"], 2, "cannot be used with");
    fails(&["--since", "soon"], 2, "write it as");
    fails(&["--since", "1d", "--unused", "1d"], 2, "cannot be used with");
    fails(&[], 0, "no refusal");
    fails(&["tool"], 0, "only in calls at a terminal");
    write_log(&host, &[]);
    let log = host.audit_log();
    fs::remove_file(&log).expect("removed");
    symlink("/etc/passwd", &log).expect("linked");
    fails(&["part"], 1, "cannot read the audit log");
}
