//! The peer over HTTP: sessions, tokens, redirects, streams, and the authorization server.

#[path = "support/journal.rs"]
mod journal;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

/// A peer, and the address that it printed.
struct Peer {
    dir: TempDir,
    child: Child,
    /// The address without scheme and path.
    address: String,
}

/// An answer.
#[derive(Debug)]
struct Answer {
    status: u16,
    /// The head, with names in lower case.
    head: String,
    body: String,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")))
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Returns the messages of an event stream.
    fn messages(&self) -> Vec<Value> {
        let data = self.body.lines().filter_map(|line| line.strip_prefix("data: "));
        data.map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }
}

impl Peer {
    fn start(http: Value) -> Self {
        let dir = TempDir::new().expect("a directory");
        let tools = ["echo", "progress", "slow", "elicit"];
        let tools: Value = tools.iter().map(|it| json!({ "name": it, "does": it })).collect();
        let definition =
            json!({ "http": http, "tools": tools, "journal": dir.path().join("journal") });
        fs::write(dir.path().join("peer.json"), definition.to_string()).expect("written");
        let mut child = Command::new(env!("CARGO_BIN_EXE_mcp-peer"))
            .arg("--http")
            .arg(dir.path().join("peer.json"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("runs");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("an address");
        let address =
            line.trim_end().strip_prefix("http://").and_then(|it| it.strip_suffix("/mcp"));
        let address = address.unwrap_or_else(|| panic!("{line}")).to_owned();
        Self { dir, child, address }
    }

    /// Sends a request without waiting for its answer.
    fn send(&self, method: &str, target: &str, headers: &[(&str, &str)], body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        let headers: String =
            headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let length = body.len();
        let request = format!(
            "{method} {target} HTTP/1.1\r\nhost: x\r\n{headers}content-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).expect("it reads");
        stream
    }

    fn ask(&self, method: &str, target: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        read(self.send(method, target, headers, body))
    }

    /// Posts a message to the protocol's endpoint.
    fn post(&self, headers: &[(&str, &str)], message: &Value) -> Answer {
        self.ask("POST", "/mcp", headers, &message.to_string())
    }

    fn journal(&self) -> String {
        journal::read(self.dir.path())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // The peer ends when its stdin does.
        drop(self.child.stdin.take());
        let status = self.child.wait().expect("ends");
        assert!(status.success() || thread::panicking());
    }
}

fn read(stream: TcpStream) -> Answer {
    let mut reader = BufReader::new(stream);
    let head = head(&mut reader);
    let status = head.split(' ').nth(1).and_then(|it| it.parse().ok()).expect("a status");
    let mut answer = Answer { status, head, body: String::new() };
    if let Some(length) = answer.header("content-length") {
        let mut body = vec![0; length.parse().expect("a length")];
        reader.read_exact(&mut body).expect("a body");
        answer.body = String::from_utf8(body).expect("UTF-8");
        return answer;
    }
    while let Some(chunk) = chunk(&mut reader) {
        answer.body += &chunk;
    }
    answer
}

fn head(reader: &mut impl std::io::BufRead) -> String {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut head).expect("a head") > 0, "{head}");
    }
    head.replace('\r', "")
}

/// Reads a chunk of a body. An empty chunk ends the body.
fn chunk(reader: &mut impl std::io::BufRead) -> Option<String> {
    let mut length = String::new();
    reader.read_line(&mut length).expect("a length");
    let length = usize::from_str_radix(length.trim_end(), 16).expect("a length");
    let mut chunk = vec![0; length + 2];
    reader.read_exact(&mut chunk).expect("a chunk");
    chunk.truncate(length);
    (length > 0).then(|| String::from_utf8(chunk).expect("UTF-8"))
}

fn initialize() -> Value {
    json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": { "name": "test", "version": "1" },
    } })
}

/// Returns a call in the newer generation, and its headers.
fn modern_call(id: u64, tool: &'static str) -> (Value, [(&'static str, &'static str); 3]) {
    let call = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
        "name": tool,
        "arguments": {},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "progressToken": "p",
        },
    } });
    let headers =
        [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", tool)];
    (call, headers)
}

#[test]
fn answers_are_json_or_a_stream() {
    let peer = Peer::start(json!({}));
    let (call, headers) = modern_call(1, "progress");
    let answer = peer.post(&headers, &call);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.json()["result"]["content"][0]["text"], "done");
    let unknown = json!({
        "jsonrpc": "2.0", "id": 2, "method": "prompts/list", "params": call["params"].clone(),
    });
    let answer = peer.post(&[headers[0], ("mcp-method", "prompts/list")], &unknown);
    assert_eq!((answer.status, &answer.json()["error"]["code"]), (404, &json!(-32601)));
    assert_eq!(peer.ask("GET", "/mcp", &[], "").status, 405);
    // The headers are part of the message.
    let answer = peer.post(&headers[..2], &call);
    assert_eq!((answer.status, &answer.json()["error"]["code"]), (400, &json!(-32020)));
    assert!(peer.journal().contains("violation: the header `mcp-name`"), "{}", peer.journal());

    let peer = Peer::start(json!({ "sse": true }));
    let (call, headers) = modern_call(1, "progress");
    let answer = peer.post(&headers, &call);
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    let messages = answer.messages();
    assert_eq!(messages.len(), 4, "{messages:?}");
    assert_eq!(messages[0]["method"], "notifications/progress");
    assert_eq!(messages[3]["result"]["resultType"], "complete");
}

#[test]
fn a_stream_that_its_client_leaves_ends_the_call() {
    let peer = Peer::start(json!({ "sse": true }));
    let (call, headers) = modern_call(1, "slow");
    let stream = peer.send("POST", "/mcp", &headers, &call.to_string());
    let mut reader = BufReader::new(stream);
    head(&mut reader);
    let first = chunk(&mut reader).expect("an event");
    assert!(first.contains("notifications/progress"), "{first}");
    drop(reader);
    journal::wait_for(peer.dir.path(), "cancelled slow", 1);
    assert!(peer.journal().lines().any(|line| line == "gone"));
}

#[test]
fn an_older_client_has_a_session_and_is_asked_on_its_stream() {
    let peer = Peer::start(json!({ "sse": true, "sessions": true }));
    let opened = peer.post(&[], &initialize());
    let session = opened.header("mcp-session-id").expect("a session").to_owned();
    let session = [("mcp-session-id", session.as_str())];
    let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    assert_eq!(peer.post(&session, &ready).status, 202);
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    assert_eq!(peer.post(&[], &list).status, 400);
    assert_eq!(peer.post(&[("mcp-session-id", "session-9")], &list).status, 404);
    assert_eq!(peer.post(&session, &list).messages()[0]["result"]["tools"][0]["name"], "echo");

    let call = json!({
        "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": { "name": "elicit" },
    });
    let mut reader = BufReader::new(peer.send("POST", "/mcp", &session, &call.to_string()));
    head(&mut reader);
    let question = chunk(&mut reader).expect("an event");
    assert!(question.contains("elicitation/create"), "{question}");
    let answer =
        json!({ "jsonrpc": "2.0", "id": "question of 2", "result": { "action": "cancel" } });
    assert_eq!(peer.post(&session, &answer).status, 202);
    let answered = chunk(&mut reader).expect("an event");
    assert!(answered.contains(r#"{\"action\":\"cancel\"}"#), "{answered}");

    let mut listening = BufReader::new(peer.send("GET", "/mcp", &session, ""));
    assert!(head(&mut listening).starts_with("HTTP/1.1 200"));
    let changed = json!({ "http": { "sse": true }, "journal": peer.dir.path().join("journal") });
    fs::write(peer.dir.path().join("next"), changed.to_string()).expect("written");
    fs::rename(peer.dir.path().join("next"), peer.dir.path().join("peer.json")).expect("renamed");
    let event = chunk(&mut listening).expect("an event");
    assert!(event.contains("notifications/tools/list_changed"), "{event}");

    assert_eq!(peer.ask("DELETE", "/mcp", &session, "").status, 204);
    assert_eq!(peer.post(&session, &list).status, 404);
}

#[test]
fn a_token_is_asked_for_and_a_request_is_redirected() {
    let peer = Peer::start(json!({ "token": "secret" }));
    let (call, headers) = modern_call(1, "echo");
    let refused = peer.post(&headers, &call);
    assert_eq!((refused.status, refused.header("www-authenticate")), (401, Some("Bearer")));
    let [first, second, third] = headers;
    let wrong = peer.post(&[first, second, third, ("authorization", "Bearer x")], &call);
    assert!(wrong.header("www-authenticate").expect("a challenge").contains("invalid_token"));
    let right = peer.post(&[first, second, third, ("authorization", "Bearer secret")], &call);
    assert_eq!(right.json()["result"]["content"][0]["text"], "{}");

    for (redirect, host) in [("same", "127.0.0.1"), ("cross", "localhost")] {
        let peer = Peer::start(json!({ "redirect": redirect }));
        let moved = peer.post(&headers, &call);
        let place = moved.header("location").expect("a place").to_owned();
        assert_eq!(moved.status, 307);
        assert!(place.starts_with(&format!("http://{host}:")), "{place}");
        assert!(place.ends_with("/moved"), "{place}");
        let answer = peer.ask("POST", "/moved", &headers, &call.to_string());
        assert_eq!(answer.json()["result"]["content"][0]["text"], "{}");
    }
}

/// The redirect URI of the client in these tests, plain and encoded.
const REDIRECT: [&str; 2] = ["http://127.0.0.1:1/back", "http%3A%2F%2F127.0.0.1%3A1%2Fback"];

/// Registers a client and requests a code. Returns the client's id and the answer.
fn authorize(peer: &Peer, verifier: &str) -> (String, Answer) {
    let registered =
        peer.ask("POST", "/register", &[], &json!({ "redirect_uris": [REDIRECT[0]] }).to_string());
    assert_eq!(registered.status, 201, "{registered:?}");
    let client = registered.json()["client_id"].as_str().expect("an id").to_owned();
    let challenge = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(verifier));
    let target = format!(
        "/authorize?response_type=code&client_id={client}&redirect_uri={}&state=s&\
         code_challenge={challenge}&code_challenge_method=S256&resource=http://{}/mcp",
        REDIRECT[1], peer.address
    );
    let answer = peer.ask("GET", &target, &[], "");
    (client, answer)
}

#[test]
fn a_client_that_logs_in_gets_tokens_that_rotate_and_expire() {
    let peer = Peer::start(json!({ "oauth": { "lasts": 1 } }));
    let (call, [first, second, third]) = modern_call(1, "echo");
    let refused = peer.post(&[first, second, third], &call);
    let challenge = refused.header("www-authenticate").expect("a challenge");
    assert!(challenge.contains("/.well-known/oauth-protected-resource/mcp\""), "{challenge}");
    let get = |target: &str| peer.ask("GET", target, &[], "").json();
    let origin = format!("http://{}", peer.address);
    let resource = get("/.well-known/oauth-protected-resource/mcp");
    assert_eq!(resource["authorization_servers"], json!([origin]));
    let metadata = get("/.well-known/oauth-authorization-server");
    assert_eq!(metadata["issuer"], json!(origin));
    assert_eq!(metadata["registration_endpoint"], format!("{origin}/register"));

    let exchange = |verifier: &str, asked: &str| {
        let (client, answer) = authorize(&peer, asked);
        let place = answer.header("location").expect("a place").to_owned();
        assert!(place.contains("&state=s&iss=http%3A%2F%2F127.0.0.1"), "{place}");
        let code = place.split(['=', '&']).nth(1).expect("a code").to_owned();
        let form = format!(
            "grant_type=authorization_code&code={code}&client_id={client}&redirect_uri={}&\
             code_verifier={verifier}&resource={origin}/mcp",
            REDIRECT[1]
        );
        (peer.ask("POST", "/token", &[], &form), form)
    };
    assert_eq!(exchange("other", "verifier").0.json()["error"], "invalid_grant");
    let (granted, form) = exchange("verifier", "verifier");
    // A code is accepted once.
    assert_eq!(peer.ask("POST", "/token", &[], &form).json()["error"], "invalid_grant");
    let tokens = granted.json();
    let with = |token: &Value| {
        let token = format!("Bearer {}", token.as_str().expect("a token"));
        peer.post(&[first, second, third, ("authorization", &token)], &call).status
    };
    assert_eq!([with(&tokens["access_token"]), with(&tokens["access_token"])], [200, 401]);
    let refresh = |token: &Value| {
        let token = token.as_str().expect("a token");
        let form = format!("grant_type=refresh_token&refresh_token={token}&resource={origin}/mcp");
        peer.ask("POST", "/token", &[], &form)
    };
    let renewed = refresh(&tokens["refresh_token"]).json();
    assert_eq!(with(&renewed["access_token"]), 200);
    assert_ne!(renewed["refresh_token"], tokens["refresh_token"]);
    assert_eq!(refresh(&tokens["refresh_token"]).json()["error"], "invalid_grant");
    let revoked = format!("token={}", renewed["refresh_token"].as_str().expect("a token"));
    assert_eq!(peer.ask("POST", "/revoke", &[], &revoked).status, 200);
    assert_eq!(refresh(&renewed["refresh_token"]).json()["error"], "invalid_grant");
}

#[test]
fn an_issuer_attacks_its_clients_on_request() {
    let peer = |fault: &str| Peer::start(json!({ "oauth": { "fault": fault } }));
    for (fault, expected) in [("state", "&state=sother&iss="), ("denied", "?error=access_denied")] {
        let peer = peer(fault);
        let (_, answer) = authorize(&peer, "verifier");
        let place = answer.header("location").expect("a place");
        assert!(place.contains(expected), "{place}");
    }
    let described = |fault: &str| {
        peer(fault).ask("GET", "/.well-known/oauth-protected-resource/mcp", &[], "").json()
    };
    assert_eq!(described("resource")["resource"], "https://other.example/mcp");
    assert_eq!(described("private")["authorization_servers"], json!(["https://10.255.255.1"]));
    let led = peer("redirect").ask("POST", "/token", &[], "");
    assert!(led.header("location").is_some_and(|it| it.starts_with("http://localhost:")));
    let large = peer("large").ask("POST", "/token", &[], "").json();
    assert_eq!(large["access_token"].as_str().map(str::len), Some(2 << 20));
}

#[test]
fn an_issuer_is_mixed_up_or_missing_and_registration_closed_on_request() {
    for (issuer, named) in [("mixed", Some("https%3A%2F%2Fother.example")), ("missing", None)] {
        let peer = Peer::start(json!({ "oauth": { "issuer": issuer } }));
        let (_, answer) = authorize(&peer, "verifier");
        let place = answer.header("location").expect("a place");
        let issuer = place.split_once("&iss=").map(|(_, issuer)| issuer);
        assert_eq!(issuer, named, "{place}");
    }
    let peer = Peer::start(json!({ "oauth": { "registers": false } }));
    let metadata = peer.ask("GET", "/.well-known/oauth-authorization-server", &[], "").json();
    assert_eq!(metadata.get("registration_endpoint"), None, "{metadata}");
    assert_eq!(peer.ask("POST", "/register", &[], "{}").status, 404);
    let stray = peer.ask("GET", "/authorize?client_id=x&redirect_uri=http://x", &[], "");
    assert_eq!((stray.status, stray.header("location")), (400, None));
}
