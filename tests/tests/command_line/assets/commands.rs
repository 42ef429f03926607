//! `ikigai asset`, command by command.

use std::fs;

use serde_json::json;

use crate::assets::rig::{AGENT, get, host, put, read, with_each_store};

#[test]
fn what_is_written_is_listed_and_read_and_kept() {
    with_each_store(|host| {
        let ran = host.run(["asset", "list"]).expect_code(0);
        assert!(ran.stdout().is_empty() && ran.stderr().starts_with("no assets"), "{ran}");
        put(host, "blocks/a.md", b"one\n");
        put(host, "ikigai:///blocks/a.md", b"two\n\0\xff");
        let file = host.write("workspace/b.txt", "b", 0o644);
        let file = file.to_str().expect("UTF-8");
        let ran = host.run(["asset", "put", "b", file, "--json"]).expect_code(0).json();
        assert_eq!(
            (&ran["uri"], &ran["version"], &ran["tokens"]),
            (&json!("ikigai:///b"), &json!(1), &json!(1))
        );
        let list = host.run(["asset", "list", "--json"]).expect_code(0).json();
        let paths: Vec<_> = list["documents"].as_array().expect("a list").iter().collect();
        assert_eq!((&paths[0]["path"], &paths[1]["path"]), (&json!("b"), &json!("blocks/a.md")));
        let list = host.run(["asset", "list", "ikigai:///bl"]).expect_code(0).stdout();
        assert!(list.contains("blocks/a.md") && !list.contains("b.txt"), "{list}");

        let whole = host.run(["asset", "get", "a"]).expect_code(0);
        assert_eq!(whole.stdout(), "two\n\0\u{fffd}");
        assert_eq!(host.run(["asset", "get", "a", "--version", "1"]).stdout(), "one\n");
        host.run(["asset", "get", "a", "--version", "7"]).expect_code(1);
        host.run(["asset", "restore", "a", "1"]).expect_code(0);
        let log = host.run(["asset", "log", "a", "--json"]).expect_code(0).json();
        let causes = log["versions"].as_array().expect("a list").iter();
        let causes: Vec<_> = causes.map(|it| it["replaced"]["cause"].clone()).collect();
        assert!(causes.contains(&json!("write")) && causes.contains(&json!("restore")), "{log}");
        assert_eq!(log["versions"][1]["replaced"]["agent"], AGENT);
        let by = |cause: &str| json!({ "cause": cause, "agent": AGENT });
        assert_eq!(log["versions"][0]["author"], by("restore"));
        let other = |args: &[&str]| host.run([&["--agent", "other"], args].concat()).expect_code(0);
        other(&["asset", "restore", "a", "2"]);
        let table = host.run(["asset", "log", "a"]).expect_code(0).stdout();
        let lines: Vec<&str> = table.lines().collect();
        let head: Vec<&str> = lines[1].split_whitespace().collect();
        assert_eq!(head, ["VERSION", "TOKENS", "WRITTEN", "BY", "REPLACED"]);
        // Each line names the author of its version, including the first and the current version.
        let mine = ["write, ", "write, ", "restore, "].map(|cause| format!("{cause}{AGENT}"));
        let authors = mine.into_iter().chain(["restore, other".to_owned()]);
        for (line, by) in lines[2..].iter().rev().zip(authors) {
            assert!(line.contains(&by), "{by}\n{table}");
        }
        other(&["asset", "rm", "a"]);
        let table = host.run(["asset", "log", "blocks/a.md"]).expect_code(0).stdout();
        assert!(table.contains(", removed by other"), "{table}");
        host.run(["asset", "restore", "blocks/a.md", "3"]).expect_code(0);

        host.run(["asset", "rm", "a"]).expect_code(0);
        host.run(["asset", "get", "a"]).expect_code(1);
        host.run(["asset", "restore", "blocks/a.md", "3"]).expect_code(0);
        assert_eq!(get(host, "a"), "one\n");
    });
}

#[test]
fn an_asset_is_found_by_its_text() {
    with_each_store(|host| {
        put(host, "notes/milk.md", b"# Shopping\n\nBuy OATS and milk\n");
        put(host, "notes/other.md", b"nothing here\nand oats\n");
        put(host, "blocks/a.md", b"milk \xff\n");
        let list = |args: &[&str]| host.run([&["asset", "list"], args].concat()).expect_code(0);
        let found = list(&["--search", "oats", "--json"]).json();
        let found = found["documents"].as_array().expect("a list").iter();
        let found: Vec<_> = found.map(|it| (it["path"].clone(), it["match"].clone())).collect();
        let expected = [
            (json!("notes/milk.md"), json!({ "line": 3, "text": "Buy OATS and milk" })),
            (json!("notes/other.md"), json!({ "line": 2, "text": "and oats" })),
        ];
        assert_eq!(found, expected);
        let table = list(&["--search", "MILK", "notes/"]).stdout();
        assert!(table.contains("3: Buy OATS and milk") && !table.contains("blocks"), "{table}");
        let by_path = list(&["--search", "other.md", "--json"]).json();
        assert_eq!(by_path["documents"][0]["match"], json!(null), "{by_path}");
        let nothing = list(&["--search", "zzz"]);
        assert!(nothing.stderr().contains("no asset has this text"), "{nothing}");
    });
}

#[test]
fn what_is_purged_has_no_versions_any_more() {
    with_each_store(|host| {
        for text in ["one", "two"] {
            put(host, "notes/a.md", text.as_bytes());
        }
        put(host, "notes/b.md", b"b");
        let removed = host.run(["asset", "rm", "notes/a.md"]).expect_code(0);
        let said = "its versions stay: `ikigai asset restore notes/a.md 2` brings it back, \
                    `ikigai asset purge notes/a.md` removes them";
        assert!(removed.stderr().contains(said), "{removed}");
        let refused = host.run(["asset", "purge", "notes/a.md"]).expect_code(1);
        let said = "error: nothing was removed: a purge is final, and ikigai needs a terminal to \
            ask you\n\
                    hint: add --yes\n";
        assert!(refused.stderr().contains(said), "{refused}");
        host.run(["asset", "log", "notes/a.md"]).expect_code(0);
        let args = ["asset", "purge", "notes/a.md", "notes/b.md", "--yes", "--json"];
        let purged = host.run(args).expect_code(0).json();
        let of = |path: &str, versions: u64| json!({ "path": path, "versions": versions });
        assert_eq!(purged["purged"], json!([of("notes/a.md", 2), of("notes/b.md", 1)]));
        for path in ["notes/a.md", "notes/b.md"] {
            host.run(["asset", "log", path]).expect_code(1);
            host.run(["asset", "get", path]).expect_code(1);
            host.run(["asset", "purge", path, "--yes"]).expect_code(1);
        }
        host.run_with(["asset", "put", "fixed", "--read-only"], b"text").expect_code(0);
        let refused = host.run(["asset", "purge", "fixed", "--yes"]).expect_code(1);
        assert!(refused.stderr().contains("read-only"), "{refused}");
        assert_eq!(get(host, "fixed"), "text");
    });
}

#[test]
fn pins_keep_their_order_and_say_what_they_did() {
    with_each_store(|host| {
        for path in ["blocks/a.md", "blocks/b.md", "outputs/1"] {
            put(host, path, b"text");
        }
        let said = |args: &[&str]| host.run([&["asset"], args].concat()).expect_code(0).stdout();
        assert_eq!(said(&["pin"]), "No pinned assets.\n");
        assert_eq!(said(&["pin", "b"]), "Pinned: blocks/b.md\n");
        assert_eq!(said(&["pin", "a"]), "Pinned: blocks/a.md\n");
        assert_eq!(said(&["pin", "b"]), "Already pinned: blocks/b.md\n");
        let pins = said(&["pin"]);
        assert!(pins.find("b.md") < pins.find("a.md"), "{pins}");
        assert_eq!(said(&["unpin", "b"]), "Unpinned: blocks/b.md\n");
        assert_eq!(said(&["unpin", "b"]), "Not pinned: blocks/b.md\n");
        let ran = host.run(["asset", "pin", "outputs/1"]).expect_code(1);
        assert!(ran.stderr().contains("cannot be pinned"), "{ran}");
        // Pins belong to an agent.
        let other = host.run(["--agent", "other", "asset", "pin"]).expect_code(0);
        assert_eq!(other.stdout(), "No pinned assets.\n");
        let usage = host.run(["asset", "usage", "--json"]).expect_code(0).json();
        assert_eq!((&usage["pinned_documents"], &usage["agent"]), (&json!(1), &json!(AGENT)));
    });
}

#[test]
fn references_that_lead_nowhere_are_found() {
    let host = host();
    host.write("workspace/src/db.c", "", 0o644);
    put(&host, "blocks/a.md", b"see ikigai:///blocks/b.md, src/db.c\nand src/gone.c\n");
    let readme = host.write("workspace/README.md", "ikigai:///blocks/a.md ikigai:///x\n", 0o644);
    let readme = readme.to_str().expect("UTF-8");
    let ran = host.run(["asset", "check", readme]).expect_code(1);
    let lines: Vec<String> = ran.stdout().lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 3, "{ran}");
    assert!(lines[0].starts_with("ikigai:///blocks/a.md:1: ikigai:///blocks/b.md: "), "{ran}");
    assert!(lines[1].starts_with("ikigai:///blocks/a.md:2: src/gone.c: "), "{ran}");
    assert!(lines[2].contains("README.md:1: ikigai:///x: "), "{ran}");
    host.write("workspace/src/gone.c", "", 0o644);
    put(&host, "blocks/b.md", b"");
    host.run(["asset", "check"]).expect_code(0);
}

#[test]
fn a_damaged_text_is_found_and_an_older_version_is_restored() {
    let host = host();
    for text in ["first", "second"] {
        put(&host, "a", text.as_bytes());
    }
    let store = host.home().join(".local/share/ikigai/store.db");
    let damage = "UPDATE stored_assets SET content = x'7365636f6e65'";
    rusqlite::Connection::open(store).expect("it opens").execute_batch(damage).expect("changed");
    let ran = host.run(["asset", "get", "a"]).expect_code(1);
    assert!(ran.stdout().is_empty(), "{ran}");
    assert!(ran.stderr().contains("version 2 of asset `a` is not what was written"), "{ran}");
    assert!(ran.stderr().contains("hint: `ikigai asset log PATH`"), "{ran}");
    let answer = read(&host, "ikigai:///a");
    assert_eq!(answer["error_code"], "READ_FAILED", "{answer}");
    assert!(answer["error"].to_string().contains("its text is damaged"), "{answer}");
    let ran = host.run(["asset", "check"]).expect_code(1);
    assert_eq!(ran.stdout(), "version 2 of asset `a` is not what was written\n", "{ran}");
    assert!(ran.stderr().contains("hint: `ikigai asset log PATH`"), "{ran}");
    let found = host.run(["asset", "check", "--json"]).expect_code(1).json();
    let damaged = json!([{ "asset": "ikigai:///a", "version": 2 }]);
    assert_eq!(found, json!({ "damaged": damaged, "looked_at": 0, "dangling": [] }));
    host.run(["asset", "log", "a"]).expect_code(0);
    host.run(["asset", "restore", "a", "1"]).expect_code(0);
    assert_eq!(get(&host, "a"), "first");
    let found = host.run(["asset", "check", "--json"]).expect_code(1).json();
    assert_eq!((&found["damaged"], &found["looked_at"]), (&damaged, &json!(1)), "the old version");
}

#[test]
fn a_store_is_opened_by_whoever_needs_it_and_by_nobody_else() {
    let host = host();
    host.write("workspace/file", "text", 0o644);
    assert_eq!(read(&host, "file")["output"], "text");
    let data = host.home().join(".local/share/ikigai");
    assert!(!data.exists(), "a call that needs no asset made a store");
    assert_eq!(read(&host, "ikigai:///none")["error_code"], "FILE_NOT_FOUND");
    assert!(data.join("store.db").exists());
    fs::remove_dir_all(data).expect("removed");
}

#[test]
fn what_is_there_comes_before_what_was() {
    let host = host();
    put(&host, "decisions", b"removed");
    host.run(["asset", "rm", "decisions"]).expect_code(0);
    put(&host, "blocks/decisions.md", b"there");
    let log = host.run(["asset", "log", "decisions", "--json"]).expect_code(0).json();
    assert_eq!(log["path"], "blocks/decisions.md");
    assert_eq!(host.run(["asset", "get", "decisions", "--version", "1"]).stdout(), "there");
    host.run(["asset", "rm", "decisions"]).expect_code(0);
    let log = host.run(["asset", "log", "decisions", "--json"]).expect_code(0).json();
    assert_eq!(log["path"], "decisions", "it was the first to be there");
}

#[test]
fn the_budget_is_what_it_is_set_to() {
    let host = host();
    let ran = host.run_with(["--budget", "2", "asset", "put", "a"], b"123456789").expect_code(1);
    assert!(ran.stderr().contains("0k/2 tokens. This write would use 3 tokens"), "{ran}");
    host.run_with(["--budget", "3", "asset", "put", "a"], b"123456789").expect_code(0);
}
