//! Errors of assets: in the tool's own words, within the call, and without a secret.

use std::fs;
use std::time::{Duration, Instant};

use ikigai_assets_testing::Server;
use ikigai_tests::host::Host;
use ikigai_tests::mode::permit;
use serde_json::json;

use crate::assets::rig::{AGENT, call, get, host, put, read, text, with_each_store};

#[test]
fn a_name_of_no_asset_is_an_error() {
    with_each_store(|host| {
        for (uri, said) in [
            ("ikigai://", "empty"),
            ("ikigai:///", "empty"),
            ("ikigai:////a", "empty"),
            ("ikigai:///a//b", "empty"),
            ("ikigai:///a/", "empty"),
            ("ikigai:///a/../b", "`..`"),
            ("ikigai:///./b", "`.`"),
            ("ikigai:///a\u{1b}[2J", "control"),
        ] {
            for (tool, arguments) in [
                ("file_read", json!({ "file_path": uri })),
                ("file_write", json!({ "file_path": uri, "content": "x" })),
                ("file_edit", json!({ "file_path": uri, "old": "x", "new": "y" })),
            ] {
                let result = call(host, &[], tool, &arguments);
                assert_eq!(result["error_code"], "INVALID_ARG", "{tool} {uri}: {result}");
                let text = result["error"].as_str().expect("a text");
                assert!(text.contains(said), "{tool} {uri}: {text}");
            }
            let ran = host.run(["asset", "put", uri, "/dev/null"]).expect_code(2);
            assert!(!ran.stderr().contains('\u{1b}'), "{ran}");
        }
        let long = format!("ikigai:///{}", "a".repeat(1025));
        assert_eq!(read(host, &long)["error_code"], "INVALID_ARG");
        let longest = format!("ikigai:///{}", "a".repeat(1024));
        assert_eq!(read(host, &longest)["error_code"], "FILE_NOT_FOUND");
        assert_eq!(read(host, "ikigai:/a")["error_code"], "INVALID_ARG");
        // Any other path is a file's path.
        assert_eq!(read(host, "ikigai/a")["error_code"], "FILE_NOT_FOUND");
    });
}

#[test]
fn assets_of_every_kind_are_answered_for() {
    with_each_store(|host| {
        put(host, "blocks/empty.md", b"");
        put(host, "blocks/odd.md", b"a\xffb\0\n");
        host.run_with(["asset", "put", "blocks/law.md", "--read-only"], b"law").expect_code(0);
        for backend in ["wasm", "native"] {
            let flags = ["--backend", backend];
            let read = |uri: &str| call(host, &flags, "file_read", &json!({ "path": uri }));
            assert_eq!(read("ikigai:///blocks/empty.md")["output"], "");
            assert_eq!(read("ikigai:///blocks/odd.md")["output"], "a\u{fffd}b\0\n");
            assert_eq!(read("ikigai:///blocks/none.md")["error_code"], "FILE_NOT_FOUND");
            let law = "ikigai:///blocks/law.md";
            for (tool, arguments) in [
                ("file_write", json!({ "path": law, "content": "x" })),
                ("file_edit", json!({ "path": law, "old": "law", "new": "x" })),
            ] {
                let result = call(host, &flags, tool, &arguments);
                assert_eq!(result["error_code"], "READ_ONLY", "{backend} {tool}: {result}");
            }
        }
        assert_eq!(get(host, "law"), "law");
        // A refused write changes nothing, not even the protection.
        let refused = ["asset", "put", "blocks/law.md", "--writable", "--if-version", "9"];
        host.run_with(refused, b"x").expect_code(1);
        host.run(["asset", "rm", "law"]).expect_code(1);
        host.run_with(["asset", "put", "blocks/law.md", "--read-only"], b"law").expect_code(0);
        host.run_with(["asset", "put", "blocks/law.md", "--writable"], b"free").expect_code(0);
        assert_eq!(get(host, "law"), "free");
    });
}

#[test]
fn fifty_megabytes_are_read_in_parts() {
    with_each_store(|host| {
        let line = [&[b'x'; 1023][..], b"\n"].concat();
        put(host, "outputs/large", &line.repeat(50 << 10));
        for backend in ["wasm", "native"] {
            let read = |more: serde_json::Value| {
                let mut arguments = json!({ "file_path": "ikigai:///outputs/large" });
                arguments
                    .as_object_mut()
                    .expect("an object")
                    .extend(more.as_object().expect("an object").clone());
                call(host, &["--backend", backend], "file_read", &arguments)
            };
            let whole = read(json!({}));
            assert_eq!(whole["error_code"], "READ_FAILED", "{backend}");
            let said = whole["error"].as_str().expect("a text");
            assert!(said.contains("use offset and limit"), "{said}");
            let part = read(json!({ "offset": 51_200, "limit": 5 }));
            assert_eq!(part["output"].as_str().map(str::len), Some(1024), "{backend}");
        }
        // The budget applies to assets that could be pinned.
        let ran = host.run_with(["asset", "put", "large"], &line.repeat(50 << 10)).expect_code(1);
        assert!(ran.stderr().contains("Block budget exceeded"), "{ran}");
    });
}

#[test]
fn a_tool_without_a_grant_gets_nothing() {
    let host = host();
    put(&host, "blocks/a.md", b"secret");
    let narrow = "[tools.file_read]\nassets = \"none\"\n[tools.file_write]\nassets = \"read\"\n";
    host.write("workspace/.ikigai/policy.toml", narrow, 0o644);
    for backend in ["wasm", "native"] {
        let flags = ["--backend", backend];
        let uri = "ikigai:///blocks/a.md";
        let result = call(&host, &flags, "file_read", &json!({ "path": uri }));
        assert_eq!(result["error_code"], "PERMISSION_DENIED", "{backend}: {result}");
        let result = call(&host, &flags, "file_write", &json!({ "path": uri, "content": "" }));
        assert_eq!(result["error_code"], "PERMISSION_DENIED", "{backend}: {result}");
    }
    assert_eq!(get(&host, "a"), "secret");
}

#[test]
fn no_tool_writes_to_the_file_of_a_store() {
    let host = host();
    let store = host.workspace().join("store.db");
    let url = format!("sqlite:{}", store.display());
    permit(host.workspace(), 0o755);
    host.run_with(["--store", &url, "asset", "put", "a"], b"text").expect_code(0);
    for (backend, path) in [("wasm", "store.db"), ("native", "store.db"), ("wasm", "store.db-wal")]
    {
        let flags = ["--store", &url, "--backend", backend];
        let arguments = json!({ "file_path": path, "content": "x" });
        let result = call(&host, &flags, "file_write", &arguments);
        assert_eq!(result["error_code"], "PERMISSION_DENIED", "{backend} {path}: {result}");
    }
    let ran = host.run(["--store", &url, "asset", "get", "a"]).expect_code(0);
    assert_eq!(ran.stdout(), "text");
}

#[test]
fn a_store_that_cannot_be_reached_is_an_error_within_the_call() {
    let host = host().env("IKIGAI_STORE", "postgres://ann:s3cret@127.0.0.1:1/assets");
    let started = Instant::now();
    let ran = host.run(["tool", "call", "file_read", r#"{"path":"ikigai:///a"}"#]).expect_code(0);
    let result = &ran.json()["result"];
    assert_eq!(result["error_code"], "OPEN_FAILED", "{ran}");
    assert!(started.elapsed() < Duration::from_secs(30), "{ran}");
    assert_secret_is_absent(&host, &format!("{}{}", ran.stdout(), ran.stderr()), "s3cret");
    let ran = host.run(["asset", "list"]).expect_code(1);
    assert!(!ran.stderr().contains("s3cret"), "{ran}");
    // The rest of the host still works.
    host.write("workspace/file", "text", 0o644);
    assert_eq!(read(&host, "file")["output"], "text");
}

#[test]
fn a_wrong_password_is_never_shown() {
    let Some(server) = Server::start().expect("a server starts") else { return };
    server.create_database("assets").expect("a database");
    let role = "CREATE ROLE guarded LOGIN PASSWORD 'right'";
    server.psql("assets", role).expect("a role");
    let url = server.url_of("guarded:wr0ng", "assets");
    let host = host().env("IKIGAI_STORE", url);
    let arguments = r#"{"path":"ikigai:///a"}"#;
    let ran = host.run(["-v", "tool", "call", "file_read", arguments]).expect_code(0);
    assert_eq!(ran.json()["result"]["error_code"], "OPEN_FAILED", "{ran}");
    for text in [ran.stdout(), ran.stderr()] {
        assert!(!text.contains("wr0ng"), "{text}");
    }
    let ran = host.run(["asset", "usage"]).expect_code(1);
    assert!(!ran.stderr().contains("wr0ng") && ran.stderr().contains("password"), "{ran}");
    let ran = host.run(["--store", "postgres://a:wr0ng@[", "asset", "list"]).expect_code(2);
    assert!(!ran.stderr().contains("wr0ng"), "{ran}");
}

/// Asserts that neither the text nor the audit log contains the secret.
fn assert_secret_is_absent(host: &Host, text: &str, secret: &str) {
    let log = host.audit_log();
    let log = fs::read_to_string(log).expect("the audit log");
    assert!(log.contains("file_read") && !log.contains(secret), "{log}");
    assert!(!text.contains(secret), "{text}");
}

#[test]
fn names_of_agents_and_sums_have_their_bounds() {
    let host = host();
    host.run(["--agent", "a\u{202e}b", "asset", "list"]).expect_code(2);
    let ran = host.run(["--agent", "a\u{1b}[2J", "asset", "list"]).expect_code(2);
    assert!(!ran.stderr().contains('\u{1b}'), "{ran}");
    put(&host, "a", text(60_000).as_bytes());
    for agent in [AGENT, "other"] {
        host.run(["--agent", agent, "asset", "pin", "a"]).expect_code(0);
    }
    // Another agent has pinned the asset as well.
    put(&host, "b", text(30_000).as_bytes());
    host.run(["--agent", "other", "asset", "pin", "b"]).expect_code(0);
    let ran = host.run_with(["asset", "put", "a"], text(80_000).as_bytes()).expect_code(1);
    assert!(ran.stderr().contains("Block budget of `other` exceeded"), "{ran}");
    host.run(["asset", "put", "b", "/dev/null", "--if-version", "9"]).expect_code(1);
    host.run(["asset", "put", "b", "/dev/null", "--if-version", "0"]).expect_code(1);
    host.run(["asset", "put", "b", "/dev/null", "--if-version", "1"]).expect_code(0);
}

#[test]
fn no_tool_learns_where_the_store_is() {
    let url = "postgres://ann:s3cret@127.0.0.1:1/assets";
    let host = host().env("IKIGAI_STORE", url);
    for backend in ["wasm", "native"] {
        let flags = ["--backend", backend];
        let result = call(&host, &flags, "file_read", &json!({ "path": "ikigai:///a" }));
        assert_eq!(result["error_code"], "OPEN_FAILED", "{backend}: {result}");
        let said = result["error"].as_str().expect("a text");
        assert!(!said.contains("127.0.0.1") && !said.contains("postgres"), "{said}");
    }
    // A tool with the user's environment does not learn the secret either.
    host.script("spy", "printf '\"%s\"' \"$(env | grep -c s3cret)\"");
    host.run(["policy", "grant", "spy", "--unconfined"]).expect_code(0);
    assert_eq!(host.run(["tool", "call", "spy", "{}"]).expect_code(0).json()["result"], "0");
    let ran = host.run(["policy", "grant", "spy", "--env", "IKIGAI_STORE"]).expect_code(2);
    assert!(ran.stderr().contains("may hold a password"), "{ran}");
    // The file is not a store. Only the person sees its path, not the model.
    let file = host.write("no.db", "text", 0o600);
    let store = format!("sqlite:{}", file.display());
    let flags = ["--store", store.as_str()];
    let result = call(&host, &flags, "file_read", &json!({ "path": "ikigai:///a" }));
    let said = result["error"].as_str().expect("a text");
    assert!(result["error_code"] == "OPEN_FAILED" && !said.contains("no.db"), "{result}");
    let ran = host.run([&flags[..], &["asset", "list"]].concat()).expect_code(1);
    assert!(ran.stderr().contains("no.db"), "{ran}");
}

#[test]
fn what_is_no_address_keeps_nobody_from_files() {
    let host = host().env("IKIGAI_STORE", "mysql://ann:s3cret@db/x");
    host.write("workspace/file", "text", 0o644);
    assert_eq!(read(&host, "file")["output"], "text");
    let result = read(&host, "ikigai:///a");
    let said = result["error"].as_str().expect("a text");
    assert!(said.contains("the address of the store is malformed"), "{result}");
    let ran = host.run(["asset", "list"]).expect_code(2);
    assert!(ran.stderr().contains("starts with `sqlite:`"), "{ran}");
    assert!(!ran.stderr().contains("s3cret"), "{ran}");
    let doctor = host.run(["doctor", "--json"]).expect_code(0).stdout();
    assert!(doctor.contains("IKIGAI_STORE") && !doctor.contains("s3cret"), "{doctor}");
    // An empty variable counts as unset.
    let host = crate::assets::rig::host().env("IKIGAI_STORE", "").env("IKIGAI_AGENT", "");
    host.run(["asset", "list"]).expect_code(0);
}
