//! The rules that the peer enforces on its client, and the processes that outlive its calls.
//!
//! If the peer were wrong here, a test of a client could pass although the client is wrong. Any
//! other fault of the peer makes such a test fail.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::{fs, thread, time};

use serde_json::{Value, json};
use tempfile::TempDir;

/// A verifier and its challenge, from RFC 7636, appendix B.
const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";

/// A running peer. It ends when its stdin does.
struct Peer {
    dir: TempDir,
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Peer {
    fn start(flags: &[&str], mut definition: Value) -> Self {
        let dir = TempDir::new().expect("a directory");
        let file = dir.path().join("peer.json");
        definition["journal"] = dir.path().join("journal").display().to_string().into();
        fs::write(&file, definition.to_string()).expect("written");
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcp-peer"));
        command.args(flags).arg(file).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("runs");
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { dir, child, stdin, stdout }
    }

    /// Starts a peer over HTTP. Returns it with its host and port.
    fn over_http(http: &Value) -> (Self, String) {
        let tools = json!([{ "name": "echo", "does": "echo" }]);
        let mut peer = Self::start(&["--http"], json!({ "http": http, "tools": tools }));
        let url = peer.line();
        let address = url.strip_prefix("http://").and_then(|it| it.strip_suffix("/mcp\n"));
        let address = address.unwrap_or_else(|| panic!("{url}")).to_owned();
        (peer, address)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("a line");
        line
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.stdin.as_mut().expect("open"), "{message}").expect("it reads");
    }

    fn journal(&self) -> Vec<String> {
        let journal = fs::read_to_string(self.dir.path().join("journal")).unwrap_or_default();
        journal.lines().map(str::to_owned).collect()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // A peer that has ended cannot be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends one request over its own connection, and returns the whole response.
fn ask(address: &str, request: &str, headers: &[(&str, &str)], body: &str) -> String {
    let headers: String =
        headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let length = body.len();
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream
        .write_all(
            format!("{request} HTTP/1.1\r\n{headers}content-length: {length}\r\n\r\n{body}")
                .as_bytes(),
        )
        .expect("it reads");
    stream.shutdown(Shutdown::Write).expect("half closed");
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("a response");
    response
}

#[track_caller]
fn expect(response: &str, status: u16, words: &str) {
    let is_it = response.starts_with(&format!("HTTP/1.1 {status} ")) && response.contains(words);
    assert!(is_it, "not {status} with `{words}`: {response}");
}

/// Returns the member of a JSON body.
fn member(response: &str, name: &str) -> String {
    let (_, body) = response.split_once("\r\n\r\n").expect("a body");
    let body: Value = serde_json::from_str(body).expect("JSON");
    body[name].as_str().unwrap_or_else(|| panic!("no `{name}`: {response}")).to_owned()
}

#[test]
fn faults_of_the_client_are_in_the_journal() {
    let mut peer = Peer::start(&[], json!({}));
    peer.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }));
    peer.send(&json!([]));
    peer.send(&json!({ "jsonrpc": "2.0", "id": "x", "result": {} }));
    peer.send(&json!({ "jsonrpc": "2.0" }));
    drop(peer.stdin.take());
    assert!(peer.child.wait().expect("ends").success());
    let mut journal = peer.journal();
    let lines = journal.len();
    journal.retain(|line| !line.starts_with("violation: no message"));
    assert_eq!(
        journal,
        [
            "start",
            "violation: `tools/list` before `notifications/initialized`",
            "tools/list",
            "answer",
            "violation: an answer to nothing",
            "violation: an answer has either a result or an error",
            "violation: a message with neither a method nor an id",
            "end",
        ]
    );
    assert_eq!(lines, journal.len() + 1);
}

#[test]
fn a_child_and_a_peer_that_hangs_do_not_end_with_their_client() {
    let tools = ["fork", "hang"].map(|name| json!({ "name": name, "does": name }));
    let mut peer = Peer::start(&[], json!({ "tools": tools }));
    let call = |name: &str| {
        let params = json!({ "name": name });
        json!({ "jsonrpc": "2.0", "id": name, "method": "tools/call", "params": params })
    };
    peer.send(&call("fork"));
    let answer: Value = serde_json::from_str(&peer.line()).expect("JSON");
    let child = answer["result"]["content"][0]["text"].as_str().expect("a process").to_owned();
    peer.send(&call("hang"));
    while !peer.journal().contains(&"tools/call hang".to_owned()) {
        thread::sleep(time::Duration::from_millis(5));
    }
    drop(peer.stdin.take());
    thread::sleep(time::Duration::from_millis(100));
    assert_eq!(peer.child.try_wait().expect("its state"), None);
    drop(peer);
    let command_line = fs::read_to_string(format!("/proc/{child}/cmdline"));
    let killed = Command::new("kill").args(["-KILL", &child]).status().expect("runs");
    assert!(command_line.is_ok_and(|line| line.contains("--child")) && killed.success());
}

#[test]
fn headers_sessions_and_tokens_are_checked() {
    let (peer, address) = Peer::over_http(&json!({}));
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "echo",
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    } });
    let headers = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "echo"),
    ];
    for left_out in 0..headers.len() {
        let mut some = headers.to_vec();
        let (name, _) = some.remove(left_out);
        expect(&ask(&address, "POST /mcp", &some, &call.to_string()), 400, "-32020");
        let violation = format!("violation: the header `{name}` differs from the body");
        assert!(peer.journal().contains(&violation), "{:?}", peer.journal());
    }
    expect(&ask(&address, "POST /mcp", &headers, &call.to_string()), 200, "complete");

    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }).to_string();
    let (_peer, address) = Peer::over_http(&json!({ "sessions": true }));
    expect(&ask(&address, "POST /mcp", &[], &list), 400, "");
    expect(&ask(&address, "POST /mcp", &[("mcp-session-id", "session-9")], &list), 404, "");

    let (_peer, address) = Peer::over_http(&json!({ "token": "secret" }));
    expect(&ask(&address, "POST /mcp", &headers, &call.to_string()), 401, "Bearer");
    let wrong = [headers[0], headers[1], headers[2], ("authorization", "Bearer x")];
    expect(&ask(&address, "POST /mcp", &wrong, &call.to_string()), 401, "invalid_token");
}

#[test]
fn an_issuer_takes_no_code_and_no_refresh_token_twice() {
    let (_peer, address) = Peer::over_http(&json!({ "oauth": {} }));
    let resource = format!("http://{address}/mcp");
    let post = |path: &str, body: &str| ask(&address, &format!("POST {path}"), &[], body);
    let registered = post("/register", r#"{"redirect_uris":["http://127.0.0.1:1/back"]}"#);
    let client = member(&registered, "client_id");
    let authorize = |redirect: &str| {
        let query = format!(
            "response_type=code&client_id={client}&redirect_uri={redirect}&state=s&\
             code_challenge={CHALLENGE}&code_challenge_method=S256&resource={resource}"
        );
        ask(&address, &format!("GET /authorize?{query}"), &[], "")
    };
    expect(&authorize("http://127.0.0.1:2/other"), 400, "invalid_request");
    let exchange = |code: &str, verifier: &str| {
        let form = format!(
            "grant_type=authorization_code&code={code}&client_id={client}&\
             redirect_uri=http://127.0.0.1:1/back&code_verifier={verifier}&resource={resource}"
        );
        post("/token", &form)
    };
    let code = || {
        let granted = authorize("http://127.0.0.1:1/back");
        expect(&granted, 302, "&state=s&iss=");
        let (_, rest) = granted.split_once("?code=").expect("a code");
        rest.split('&').next().unwrap_or_default().to_owned()
    };
    expect(&exchange(&code(), "another"), 400, "invalid_grant");
    let code = code();
    let granted = exchange(&code, VERIFIER);
    expect(&exchange(&code, VERIFIER), 400, "invalid_grant");
    let refresh = |token: &str| {
        let form = format!("grant_type=refresh_token&refresh_token={token}&resource={resource}");
        post("/token", &form)
    };
    let first = member(&granted, "refresh_token");
    let second = member(&refresh(&first), "refresh_token");
    expect(&refresh(&first), 400, "invalid_grant");
    expect(&post("/revoke", &format!("token={second}")), 200, "");
    expect(&refresh(&second), 400, "invalid_grant");
}
