//! `ikigai mcp serve --http`. The attacks on its library are in `mcp/tests/serve_http.rs`.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use ikigai_tests::host::Host;
use ikigai_tests::mcp::http::Server;
use ikigai_tests::mcp::{LEGACY, MODERN};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::text;

/// Starts a server with the token of its user.
fn start(host: &Host) -> Server {
    let mut command = host.command();
    Server::with_token(command.args(["mcp", "serve", "--http", "127.0.0.1:0"]))
}

#[test]
fn a_client_of_any_revision_finds_and_calls_a_tool() {
    let host = Host::new();
    host.write("workspace/note.txt", "a line\n", 0o644);
    let server = start(&host);
    let call = json!({ "name": "file_read", "arguments": { "file_path": "note.txt" } });
    let tools = server.request("tools/list", json!({}));
    assert_eq!(tools.result()["tools"].as_array().map(Vec::len), Some(6), "{tools:?}");
    let called = server.request("tools/call", call.clone());
    assert_eq!(text(called.result()), r#"{"output":"a line\n"}"#);
    for revision in LEGACY {
        let client = json!({ "name": "old", "version": "1" });
        let params =
            json!({ "protocolVersion": revision, "capabilities": {}, "clientInfo": client });
        let message = |id: u64, method: &str, params: &Value| {
            json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
        };
        let begun = server.post("", &message(1, "initialize", &params));
        assert_eq!(begun.result()["protocolVersion"], revision, "{begun:?}");
        let session = begun.header("mcp-session-id").expect("a session");
        let headers = format!("mcp-session-id: {session}\r\nmcp-protocol-version: {revision}\r\n");
        let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(server.post(&headers, &ready.to_string()).status, 202);
        let called = server.post(&headers, &message(2, "tools/call", &call));
        assert_eq!(text(called.result()), r#"{"output":"a line\n"}"#, "{revision}");
        let unknown = headers.replace(session, "00000000-0000-4000-8000-000000000000");
        assert_eq!(server.post(&unknown, &message(3, "tools/call", &call)).status, 404);
    }
    server.end(Signal::TERM).expect_code(130);
    let audit = host.run(["audit", "--json"]).expect_code(0).stdout();
    let calls = audit.lines().filter(|line| {
        line.contains(r#""tool":"file_read""#) && line.contains(r#""principal":"token""#)
    });
    assert_eq!(calls.count(), 1 + LEGACY.len(), "{audit}");
    assert!(audit.contains(r#""client":"old 1","principal":"token""#), "{audit}");
    host.assert_nothing_left();
}

#[test]
fn the_token_is_made_once_and_for_its_user_alone() {
    let host = Host::without_system_tools();
    let runtime = host.scratch().join("run");
    fs::create_dir(&runtime).expect("a directory");
    fs::set_permissions(&runtime, fs::Permissions::from_mode(0o700)).expect("a mode");
    let host = host.env("XDG_RUNTIME_DIR", &runtime);
    let server = start(&host);
    let file = server.token_file();
    assert_eq!(file, runtime.join("ikigai/mcp.token"));
    assert_eq!(fs::metadata(&file).expect("a file").mode() & 0o7777, 0o600);
    let token = fs::read_to_string(&file).expect("a token");
    assert_eq!(token.len(), 64);
    // A second server of the user has the same, so that the first is still reached.
    let second = start(&host);
    assert_eq!(fs::read_to_string(second.token_file()).expect("a token"), token);
    assert_eq!(server.request("tools/list", json!({})).status, 200);
    fs::write(&file, "another token, which no server has").expect("written");
    let refused = server.request("tools/list", json!({}));
    assert_eq!(refused.status, 401, "{refused:?}");
    let challenge = refused.header("www-authenticate").expect("a challenge");
    assert_eq!(challenge, r#"Bearer realm="ikigai", error="invalid_token""#);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("a mode");
    let ran = host.run(["mcp", "serve", "--http", "127.0.0.1:0"]).expect_code(1);
    assert!(ran.stderr().contains("mcp.token"), "{ran}");
}

#[test]
fn assets_are_read_over_http_when_a_person_has_granted_it() {
    let host = Host::without_system_tools();
    host.run_with(["asset", "put", "note.md"], b"a text").expect_code(0);
    let server = start(&host);
    let read = || server.request("resources/read", json!({ "uri": "ikigai:///note.md" }));
    let refused = read();
    assert_eq!(refused.body["error"]["code"], -32602, "{refused:?}");
    assert!(refused.body["error"]["message"].as_str().is_some_and(|it| it.contains("mcp_assets")));
    let grant = "[tools.mcp_assets]\nassets = \"read\"\n";
    host.write("home/.config/ikigai/policy.toml", grant, 0o600);
    assert_eq!(read().result()["contents"][0]["text"], "a text");
    let audit = host.run(["audit", "--json"]).expect_code(0).stdout();
    let of_principal = |line: &&str| line.contains("mcp_assets") && line.contains("principal");
    assert_eq!(audit.lines().filter(of_principal).count(), 2, "{audit}");
}

#[test]
fn assets_are_written_in_the_name_of_the_principal() {
    let host = Host::new();
    host.write("workspace/long.txt", &"a line\n".repeat(500), 0o644);
    let mut command = host.command();
    let arguments = ["mcp", "serve", "--max-result", "1000", "--http", "127.0.0.1:0"];
    let server = Server::with_token(command.args(arguments));
    let uri = "ikigai:///blocks/note.md";
    let write = json!({ "file_path": uri, "content": "a text" });
    let called = server.request("tools/call", json!({ "name": "file_write", "arguments": write }));
    assert_eq!(called.result()["isError"], false, "{called:?}");
    let read = json!({ "file_path": "long.txt" });
    let called = server.request("tools/call", json!({ "name": "file_read", "arguments": read }));
    let kept = called.result()["content"][1]["uri"].as_str().expect("the whole").to_owned();
    for path in [uri, &kept] {
        let log = host.run(["asset", "log", path, "--json"]).expect_code(0).json();
        assert_eq!(log["versions"][0]["author"]["agent"], "token", "{path}: {log}");
    }
    server.end(Signal::TERM).expect_code(130);
}

#[test]
fn a_client_that_is_gone_leaves_no_process() {
    let host = Host::without_system_tools();
    let begun = host.scratch().join("begun");
    host.script("endless", &format!("echo > '{}'; sleep 1000", begun.display()));
    let mut server = start(&host);
    let stream = server.ask("tools/call", json!({ "name": "endless", "arguments": {} }));
    server.running().wait_for(&begun);
    drop(stream);
    // The record is written when nothing of the call is left.
    let log = host.scratch().join("state/ikigai/audit.jsonl");
    let is_recorded =
        || fs::read_to_string(&log).is_ok_and(|log| log.contains(r#""cancelled":true"#));
    server.running().wait_until("the call is recorded", is_recorded);
    server.end(Signal::INT).expect_code(130);
    host.assert_nothing_left();
}

#[test]
fn the_end_of_the_server_leaves_no_process() {
    let host = Host::without_system_tools();
    let begun = host.scratch().join("begun");
    host.script("endless", &format!("echo > '{}'; sleep 1000", begun.display()));
    let mut server = start(&host);
    let stream = server.ask("tools/call", json!({ "name": "endless", "arguments": {} }));
    server.running().wait_for(&begun);
    server.end(Signal::TERM).expect_code(130);
    drop(stream);
    host.assert_nothing_left();
}

#[test]
fn a_hostile_body_takes_no_more_than_four_times_its_size() {
    const SIZE: usize = 4 << 20;
    let host = Host::without_system_tools();
    host.script("swallow", "cat > /dev/null; echo 1");
    let mut server = start(&host);
    let headers = format!(
        "mcp-protocol-version: {MODERN}\r\nmcp-method: tools/call\r\nmcp-name: swallow\r\n"
    );
    let message = |arguments: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"swallow","arguments":{arguments},"_meta":{{"io.modelcontextprotocol/protocolVersion":"{MODERN}","io.modelcontextprotocol/clientCapabilities":{{}}}}}}}}"#
        )
    };
    assert_eq!(text(server.post(&headers, &message("{}")).result()), "1");
    let before = server.running().peak_memory();
    // As a tree, each of these would take a hundred bytes for one.
    let values = "[1],".repeat((SIZE - 1000) / 4);
    let called = server.post(&headers, &message(&format!(r#"{{"x":[{values}0]}}"#)));
    assert_eq!(text(called.result()), "1");
    let taken = server.running().peak_memory() - before;
    assert!(taken <= 4 * SIZE as u64, "{} MiB", taken >> 20);
}

#[test]
fn what_cannot_be_served_is_refused_with_a_reason() {
    let host = Host::without_system_tools();
    let open = host.write("open.token", "0123456789abcdef0123456789abcdef", 0o644);
    let short = host.write("short.token", "secret", 0o600);
    let good = host.write("good.token", "0123456789abcdef0123456789abcdef\n", 0o600);
    let (open, short, good) = (path(&open), path(&short), path(&good));
    for (flags, reason) in [
        (&["--no-auth"][..], "--http"),
        (&["--http", "0.0.0.0:0"], "--tls-cert"),
        (&["--http", "0.0.0.0:0", "--behind-proxy"], "--token-file"),
        (&["--http", "[::]:0", "--no-auth"], "--tls-cert"),
        (&["--http", "127.0.0.1:0", "--no-auth", "--behind-proxy"], "--behind-proxy"),
        (&["--http", "127.0.0.1:0", "--no-auth", "--token-file", &good], "--token-file"),
        (&["--http", "127.0.0.1:0", "--token-file", &open], "others than its owner"),
        (&["--http", "127.0.0.1:0", "--token-file", &short], "32"),
        (&["--http", "127.0.0.1:0", "--tls-cert", &good], "--tls-key"),
        (&["--http", "127.0.0.1:0", "--tls-cert", &good, "--tls-key", &good], "certificate"),
        (&["--http", "127.0.0.1:0", "--allow-host", "a b"], "a b"),
        (&["--http", "127.0.0.1:0", "--allow-origin", "app.example"], "app.example"),
        (&["--http", "127.0.0.1:0", "--oauth", "https://issuer.example"], "--resource"),
        (
            &[
                "--http",
                "127.0.0.1:0",
                "--oauth",
                "http://issuer.example",
                "--resource",
                "https://h",
            ],
            "issuer.example",
        ),
        (&["--http", "localhost"], "--http"),
    ] {
        let ran = host.run(["mcp", "serve"].iter().chain(flags)).expect_code(2);
        assert!(ran.stderr().contains(reason), "{reason}: {ran}");
    }
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let ran = host.run(["mcp", "serve", "--http", &address]).expect_code(1);
    assert!(ran.stderr().contains(&address) && ran.stderr().contains("hint"), "{ran}");
    let mut command = host.command();
    let command = command.args(["mcp", "serve", "--http", "127.0.0.1:0", "--token-file", &good]);
    let server = Server::with_token(command);
    assert_eq!(server.request("tools/list", json!({})).status, 200);
    let mut command = host.command();
    let command = command.args(["mcp", "serve", "--http", "127.0.0.1:0", "--no-auth"]);
    let server = Server::start(command);
    assert_eq!(server.request("tools/list", json!({})).status, 200);
}

fn path(path: &std::path::Path) -> String {
    path.to_str().expect("UTF-8").to_owned()
}
