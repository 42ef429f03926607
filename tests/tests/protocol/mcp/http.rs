//! `ikigai mcp serve --http`. The attacks on its library are in `mcp/tests/serve_http.rs`.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ikigai_tests::host::Host;
use ikigai_tests::mcp::http::{Answer, Server};
use ikigai_tests::mcp::{LEGACY, MODERN};
use ikigai_tests::mode::permit;
use rustix::process::Signal;
use rustls::crypto::ring::default_provider;
use rustls::{ClientConnection, StreamOwned};
use serde_json::{Value, json};

use crate::mcp::text;

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
    assert_eq!(text(called.result()), "a line\n");
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
        assert_eq!(text(called.result()), "a line\n", "{revision}");
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
fn a_token_that_a_tool_could_choose_is_not_used() {
    let host = Host::new();
    let runtime = host.workspace().join("run");
    fs::create_dir_all(runtime.join("ikigai")).expect("made");
    let write =
        r#"{"file_path": "run/ikigai/mcp.token", "content": "0123456789abcdef0123456789abcdef"}"#;
    host.run(["tool", "call", "file_write", write]).expect_code(0);
    permit(runtime.join("ikigai"), 0o700);
    let host = host.env("XDG_RUNTIME_DIR", runtime.display().to_string());
    let refused = host.run(["mcp", "serve", "--http", "127.0.0.1:0"]).expect_code(1).stderr();
    assert!(refused.contains("where tools could write in an earlier run"), "{refused}");
    assert!(refused.contains("--token-file FILE"), "{refused}");
}

#[test]
fn a_token_of_a_client_is_in_no_log() {
    let host = Host::new().env("IKIGAI_LOG", "debug");
    let mut server = start(&host);
    server.running().keep_reading_stderr();
    let token = fs::read_to_string(server.token_file()).expect("a token");
    let glob = json!({ "name": "glob", "arguments": { "pattern": "*" } });
    assert_eq!(server.request("tools/call", glob).status, 200);
    let client = json!({ "name": "old", "version": "1" });
    let params = json!({ "protocolVersion": LEGACY[3], "capabilities": {}, "clientInfo": client });
    let initialize = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params });
    // A client may put the token into headers from which the server does not read it.
    for headers in ["", "cookie: a=TOKEN\r\n", "proxy-authorization: Bearer TOKEN\r\n"] {
        let headers = headers.replace("TOKEN", token.trim());
        assert_eq!(server.post(&headers, &initialize.to_string()).status, 200);
    }
    let other = "fedcba9876543210fedcba9876543210";
    fs::write(server.token_file(), other).expect("written");
    assert_eq!(server.request("tools/list", json!({})).status, 401);
    let ran = server.end(Signal::TERM).expect_code(130);
    let log = ran.stderr();
    assert!(log.contains("DEBUG"), "it logs everything: {log}");
    let audit = fs::read_to_string(host.audit_log());
    let audit = audit.expect("a log");
    assert!(audit.contains(r#""principal":"token""#), "{audit}");
    for token in [token.trim(), other] {
        assert!(!log.contains(token) && !audit.contains(token), "{log}\n{audit}");
    }
}

/// Starts a server with these flags.
fn serving(host: &Host, flags: &[&str]) -> Server {
    let mut command = host.command();
    Server::start(command.args(["mcp", "serve", "--http", "127.0.0.1:0"]).args(flags))
}

#[test]
fn a_client_without_an_access_token_is_led_to_the_issuer() {
    let host = Host::without_system_tools();
    // Nothing is fetched before a client presents a token.
    let nobody = TcpListener::bind("127.0.0.1:0").expect("a port");
    let issuer = format!("http://{}", nobody.local_addr().expect("an address"));
    drop(nobody);
    let resource = "https://tools.example/mcp";
    let server = serving(&host, &["--oauth", &issuer, "--resource", resource]);
    let place = "https://tools.example/.well-known/oauth-protected-resource/mcp";
    for host in [server.address().to_owned(), "tools.example".to_owned()] {
        let text = server.text("tools/list", json!({}));
        let refused = server.answer_to(&text.replace(server.address(), &host));
        assert_eq!(refused.status, 401, "{host}: {refused:?}");
        let challenge = refused.header("www-authenticate").expect("a challenge");
        assert!(challenge.contains(&format!(r#"resource_metadata="{place}""#)), "{challenge}");
        assert!(challenge.contains(r#"scope="tools documents""#), "{challenge}");
    }
    let asked = format!(
        "GET /.well-known/oauth-protected-resource HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n",
        server.address()
    );
    let found = server.answer_to(&asked);
    assert_eq!((found.status, &found.body["resource"]), (200, &json!(resource)), "{found:?}");
    assert_eq!(found.body["authorization_servers"], json!([issuer]));
    server.end(Signal::TERM).expect_code(130);
}

#[test]
fn a_foreign_host_is_answered_where_it_is_allowed() {
    let host = Host::without_system_tools();
    let status = |server: &Server, host: &str| {
        let text = server.text("tools/list", json!({}));
        let text = text.replacen(&format!("host: {}", server.address()), host, 1);
        server.answer_to(&text).status
    };
    let server = serving(&host, &["--no-auth"]);
    assert_eq!(status(&server, "host: tools.example"), 403);
    let allowed = ["--no-auth", "--allow-host", "tools.example", "--allow-host", "b.example:81"];
    let server = serving(&host, &allowed);
    for (host, expected) in [
        ("host: tools.example", 200),
        ("host: tools.example:4127", 200),
        ("host: b.example:81", 200),
        ("host: b.example", 403),
        ("host: localhost", 200),
        ("host: evil.example", 403),
        ("host: tools.example\r\norigin: https://app.example", 403),
    ] {
        assert_eq!(status(&server, host), expected, "{host}");
    }
    let server = serving(&host, &["--no-auth", "--allow-origin", "https://app.example"]);
    assert_eq!(status(&server, "host: localhost\r\norigin: https://app.example"), 200);
    assert_eq!(status(&server, "host: localhost\r\norigin: https://evil.example"), 403);
}

#[test]
fn other_machines_are_served_behind_a_proxy_that_has_tls() {
    let host = Host::without_system_tools();
    let token = host.write("good.token", "0123456789abcdef0123456789abcdef\n", 0o600);
    let mut command = host.command();
    command.args(["mcp", "serve", "--http", "0.0.0.0:0", "--behind-proxy", "--token-file"]);
    let server = Server::with_token(command.arg(token).args(["--allow-host", "tools.example"]));
    // The proxy reports the host that its clients asked for.
    let text = server.text("tools/list", json!({}));
    let with = |from: &str, to: &str| server.answer_to(&text.replacen(from, to, 1)).status;
    let own = format!("host: {}", server.address());
    assert_eq!(with(&own, "host: tools.example"), 200);
    assert_eq!(with(&own, "host: evil.example"), 403);
    let text = text.replacen(&own, "host: tools.example", 1);
    let with = |from: &str, to: &str| server.answer_to(&text.replacen(from, to, 1)).status;
    assert_eq!(with("authorization: Bearer 0", "authorization: Bearer 1"), 401);
    server.end(Signal::TERM).expect_code(130);
}

#[test]
fn a_server_with_a_certificate_is_reached_by_tls() {
    let host = Host::without_system_tools();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("made");
    let pem = |label: &str, der: &[u8]| {
        format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", STANDARD.encode(der))
    };
    let certificate = host.write("cert.pem", pem("CERTIFICATE", made.cert.der()), 0o644);
    let key = pem("PRIVATE KEY", made.signing_key.serialized_der());
    let open = path(&host.write("open.pem", &key, 0o644));
    let (certificate, key) = (path(&certificate), path(&host.write("key.pem", &key, 0o600)));
    // A key that other users can read is refused.
    let flags = ["mcp", "serve", "--http", "127.0.0.1:0", "--tls-cert", &certificate];
    let ran = host.run(flags.iter().chain(&["--tls-key", &open])).expect_code(2);
    assert!(ran.stderr().contains("open.pem"), "{ran}");
    let mut command = host.command();
    let server = Server::with_token(command.args(flags).args(["--tls-key", &key]));
    assert!(server.url().starts_with("https://127.0.0.1:"), "{}", server.url());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(made.cert.der().clone()).expect("a root");
    let config = rustls::ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = "localhost".try_into().expect("a name");
    let tls = ClientConnection::new(Arc::new(config), name).expect("a connection");
    let stream = TcpStream::connect(server.address()).expect("it listens");
    let mut stream = StreamOwned::new(tls, stream);
    let text = server.text("tools/list", json!({}));
    stream.write_all(text.as_bytes()).expect("the server reads");
    let mut answer = String::new();
    // The server closes the connection as HTTP does, possibly without a TLS message.
    let _ = stream.read_to_string(&mut answer);
    assert_eq!(Answer::from_text(&answer).status, 200, "{answer}");
    // A request without TLS is not understood.
    let mut stream = TcpStream::connect(server.address()).expect("it listens");
    stream.write_all(text.as_bytes()).expect("sent");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    server.end(Signal::TERM).expect_code(130);
}

#[test]
fn the_token_is_made_once_and_for_its_user_alone() {
    let host = Host::without_system_tools();
    let runtime = host.scratch().join("run");
    fs::create_dir(&runtime).expect("a directory");
    permit(&runtime, 0o700);
    let host = host.env("XDG_RUNTIME_DIR", &runtime);
    let server = start(&host);
    let file = server.token_file();
    assert_eq!(file, runtime.join("ikigai/mcp.token"));
    assert_eq!(fs::metadata(&file).expect("a file").mode() & 0o7777, 0o600);
    let token = fs::read_to_string(&file).expect("a token");
    assert_eq!(token.len(), 64);
    // A second server of the user has the same token, so the first one stays reachable.
    let second = start(&host);
    assert_eq!(fs::read_to_string(second.token_file()).expect("a token"), token);
    assert_eq!(server.request("tools/list", json!({})).status, 200);
    fs::write(&file, "another token, which no server has").expect("written");
    let refused = server.request("tools/list", json!({}));
    assert_eq!(refused.status, 401, "{refused:?}");
    let challenge = refused.header("www-authenticate").expect("a challenge");
    assert_eq!(challenge, r#"Bearer realm="ikigai", error="invalid_token""#);
    permit(&file, 0o644);
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
    host.write_policy(grant);
    assert_eq!(read().result()["contents"][0]["text"], "a text");
    let audit = host.run(["audit", "--json"]).expect_code(0).stdout();
    let of_principal = |line: &&str| line.contains("mcp_assets") && line.contains("principal");
    assert_eq!(audit.lines().filter(of_principal).count(), 2, "{audit}");
}

#[test]
fn a_client_uses_assets_by_path_as_far_as_clients_are_granted_them() {
    let host = Host::new();
    host.run_with(["asset", "put", "notes/private.md"], b"secret").expect_code(0);
    host.write("workspace/long.txt", "a line\n".repeat(500), 0o644);
    let mut command = host.command();
    let arguments = ["mcp", "serve", "--max-result", "1000", "--http", "127.0.0.1:0"];
    let server = Server::with_token(command.args(arguments));
    let uri = "ikigai:///notes/private.md";
    let call = |name: &str, arguments: Value| {
        let called = server.request("tools/call", json!({ "name": name, "arguments": arguments }));
        (called.result()["isError"] == false, called.result()["content"].clone())
    };
    let read = |path: &str| call("file_read", json!({ "file_path": path }));
    let write = || call("file_write", json!({ "file_path": uri, "content": "other" }));
    let edit = || {
        let edit = json!({ "file_path": uri, "old_string": "secret", "new_string": "other" });
        call("file_edit", edit)
    };
    // The result of a client's own call is accessible to it, and to other clients with the same
    // token.
    let (_, long) = read("long.txt");
    let kept = long[1]["uri"].as_str().expect("the whole").to_owned();
    assert!(kept.starts_with("ikigai:///outputs/token/"), "{kept}");
    let of_owner = "ikigai:///outputs/owned.txt";
    host.run_with(["asset", "put", "outputs/owned.txt"], b"secret").expect_code(0);
    let grants =
        ["", "[tools.mcp_assets]\nassets = \"read\"\n", "[tools.mcp_assets]\nassets = \"write\"\n"];
    for (granted, grant) in grants.into_iter().enumerate() {
        host.write_policy(grant);
        let part = json!({ "file_path": kept, "limit": 2 });
        let (is_read, text) = call("file_read", part);
        assert!(is_read && text.to_string().contains("a line"), "{grant}: {text}");
        let resource = server.request("resources/read", json!({ "uri": kept }));
        assert!(resource.result()["contents"][0]["text"].is_string(), "{grant}: {resource:?}");
        assert!(!read(of_owner).0, "{grant}");
        let (is_read, text) = read(uri);
        assert_eq!(is_read, granted > 0, "{grant}: {text}");
        if !is_read {
            assert!(text.to_string().contains("mcp_assets"), "{text}");
        }
        for (done, text) in [edit(), write()] {
            assert_eq!(done, granted > 1, "{grant}: {text}");
            assert!(done || text.to_string().contains("mcp_assets"), "{text}");
        }
        let now = host.run(["asset", "get", "notes/private.md"]).expect_code(0).stdout();
        assert_eq!(now, if granted > 1 { "other" } else { "secret" }, "{grant}");
    }
    let listed = server.request("resources/list", json!({}));
    let listed = listed.result()["resources"].to_string();
    assert!(listed.contains(uri) && listed.contains(&kept), "{listed}");
    assert!(!listed.contains(of_owner), "{listed}");
    for path in [uri, &kept] {
        let log = host.run(["asset", "log", path, "--json"]).expect_code(0).json();
        let versions = log["versions"].as_array().expect("versions");
        let of_principal = |it: &&Value| it["author"]["agent"] == "token";
        assert!(versions.iter().any(|it| of_principal(&it)), "{path}: {log}");
    }
    let audit = host.run(["audit", "--json"]).expect_code(0).stdout();
    let refusal = format!("mcp_assets write {uri}");
    assert!(audit.contains(&refusal), "{audit}");
    server.end(Signal::TERM).expect_code(130);
}

/// Returns a host, its server, and the connection of a call that has begun and never ends.
fn in_endless_call() -> (Host, Server, TcpStream) {
    let host = Host::without_system_tools();
    let begun = host.workspace().join("begun");
    host.script("endless", &format!("echo > '{}'; sleep 1000", begun.display()));
    let mut server = start(&host);
    let stream = server.ask("tools/call", json!({ "name": "endless", "arguments": {} }));
    server.running().wait_for(&begun);
    (host, server, stream)
}

#[test]
fn a_client_that_is_gone_leaves_no_process() {
    let (host, mut server, stream) = in_endless_call();
    drop(stream);
    // The record is written once the call has left nothing behind.
    let log = host.audit_log();
    let is_recorded =
        || fs::read_to_string(&log).is_ok_and(|log| log.contains(r#""cancelled":true"#));
    server.running().wait_until("the call is recorded", is_recorded);
    server.end(Signal::INT).expect_code(130);
    host.assert_nothing_left();
}

#[test]
fn the_end_of_the_server_leaves_no_process() {
    let (host, server, stream) = in_endless_call();
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
    // As a tree of values, each of these would take a hundred bytes per byte of text.
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
