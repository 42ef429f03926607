//! The peer on stdin and stdout: it behaves as its definition says.

#[path = "support/journal.rs"]
mod journal;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

/// A peer with its definition, and pipes to it.
struct Peer {
    dir: TempDir,
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Peer {
    fn start(definition: Value) -> Self {
        let dir = TempDir::new().expect("a directory");
        define(&dir, definition);
        let mut child = Command::new(env!("CARGO_BIN_EXE_mcp-peer"))
            .arg(dir.path().join("peer.json"))
            .env("MARK", "a mark")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("runs");
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { dir, child, stdin, stdout }
    }

    /// Starts a peer with one tool for each behaviour, and shakes hands.
    fn with_tools(behaviours: &[&str]) -> Self {
        let mut peer = Self::start(json!({ "tools": tools(behaviours) }));
        peer.shake_hands();
        peer
    }

    fn shake_hands(&mut self) {
        let params = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": { "name": "test", "version": "1" },
        });
        let answer = self.ask(0, "initialize", params);
        assert_eq!(answer["result"]["protocolVersion"], "2025-06-18", "{answer}");
        self.send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    }

    fn send(&mut self, message: Value) {
        writeln!(self.stdin.as_mut().expect("open"), "{message}").expect("it reads");
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("a line");
        line
    }

    fn next(&mut self) -> Value {
        let line = self.line();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: `{line}`"))
    }

    fn ask(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        self.next()
    }

    fn ask_call(&mut self, id: u64, tool: &str, arguments: Value) {
        let params =
            json!({ "name": tool, "arguments": arguments, "_meta": { "progressToken": "p" } });
        let call = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
        self.send(call);
    }

    /// Returns the result of a call.
    fn call(&mut self, id: u64, tool: &str, arguments: Value) -> Value {
        self.ask_call(id, tool, arguments);
        let mut answer = self.next();
        assert_eq!(answer["id"], id, "{answer}");
        answer["result"].take()
    }

    fn journal(&self) -> Vec<String> {
        journal::read(self.dir.path()).lines().map(str::to_owned).collect()
    }

    /// Waits for a line of the journal.
    #[track_caller]
    fn wait_for(&self, line: &str) {
        journal::wait_for(self.dir.path(), line, 1);
    }

    /// Closes stdin. Returns the peer's exit status and its stderr.
    fn end(mut self) -> (ExitStatus, String) {
        drop(self.stdin.take());
        let mut stderr = String::new();
        let mut pipe = self.child.stderr.take().expect("a pipe");
        pipe.read_to_string(&mut stderr).expect("read");
        (self.child.wait().expect("ends"), stderr)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // A peer that has ended cannot be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Replaces the definition atomically.
fn define(dir: &TempDir, mut definition: Value) {
    let path = |name: &str| dir.path().join(name);
    definition["journal"] = json!(path("journal"));
    fs::write(path("next"), definition.to_string()).expect("written");
    fs::rename(path("next"), path("peer.json")).expect("renamed");
}

fn tools(behaviours: &[&str]) -> Value {
    behaviours.iter().map(|it| json!({ "name": it, "does": it })).collect()
}

fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}"))
}

#[test]
fn a_peer_speaks_what_it_is_told_to() {
    let discover = |peer: &mut Peer| peer.ask(1, "server/discover", json!({ "_meta": meta() }));
    let mut both = Peer::start(json!({}));
    let found = discover(&mut both);
    let versions = found["result"]["supportedVersions"].as_array().expect("a list");
    assert_eq!(versions.len(), 5, "{found}");
    assert_eq!(found["result"]["resultType"], "complete", "{found}");
    both.shake_hands();
    assert!(both.end().0.success());

    let mut modern = Peer::start(json!({ "speaks": "modern" }));
    assert_eq!(discover(&mut modern)["result"]["supportedVersions"], json!(["2026-07-28"]));
    let refused = modern.ask(2, "initialize", json!({}));
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    let mut other = meta();
    other["io.modelcontextprotocol/protocolVersion"] = "2036-01-01".into();
    let refused = modern.ask(3, "tools/list", json!({ "_meta": other }));
    assert_eq!(refused["error"]["code"], -32022, "{refused}");

    for code in [-32601, -32602] {
        let mut legacy = Peer::start(json!({ "speaks": "legacy", "discover": code }));
        assert_eq!(discover(&mut legacy)["error"]["code"], code);
        legacy.shake_hands();
    }
    let mut silent = Peer::start(json!({ "speaks": "legacy", "discover": "silence" }));
    silent.send(json!({
        "jsonrpc": "2.0", "id": 9, "method": "server/discover", "params": { "_meta": meta() },
    }));
    silent.shake_hands();
    let mut exiting = Peer::start(json!({ "speaks": "legacy", "discover": "exit" }));
    exiting.send(json!({
        "jsonrpc": "2.0", "id": 9, "method": "server/discover", "params": { "_meta": meta() },
    }));
    assert_eq!(exiting.line(), "");
    let (status, stderr) = exiting.end();
    assert_eq!(status.code(), Some(1));
    assert!(stderr.contains("initialize"), "{stderr}");
}

#[test]
fn tools_are_listed_in_pages_or_for_ever() {
    let mut peer = Peer::start(json!({ "page": 2, "tools": tools(&["echo", "env", "fork"]) }));
    peer.shake_hands();
    let page = peer.ask(1, "tools/list", json!({}));
    assert_eq!(page["result"]["tools"].as_array().expect("a list").len(), 2, "{page}");
    let cursor = page["result"]["nextCursor"].clone();
    let page = peer.ask(2, "tools/list", json!({ "cursor": cursor }));
    assert_eq!(page["result"]["tools"][0]["name"], "fork", "{page}");
    assert_eq!(page["result"].get("nextCursor"), None, "{page}");
    let wrong = peer.ask(3, "tools/list", json!({ "cursor": "x" }));
    assert_eq!(wrong["error"]["code"], -32602, "{wrong}");

    let mut endless = Peer::start(json!({ "endless": true, "tools": tools(&["echo"]) }));
    let mut cursor = Value::Null;
    for id in 0..5 {
        let params = json!({ "cursor": cursor, "_meta": meta() });
        let page = endless.ask(id, "tools/list", params);
        assert_eq!(
            (&page["result"]["ttlMs"], &page["result"]["cacheScope"]),
            (&json!(0), &json!("private"))
        );
        cursor = page["result"]["nextCursor"].clone();
        assert_eq!(cursor, "0");
    }
}

#[test]
fn answers_are_those_of_the_behaviour() {
    let mut peer = Peer::with_tools(&[
        "echo",
        "structured",
        "image",
        "error",
        "refuse",
        "malformed",
        "env",
        "twice",
        "unknown-id",
        "progress",
        "big-line",
    ]);
    let arguments = r#"{ "b":1e400, "a" : "\u00fc"}"#;
    writeln!(
        peer.stdin.as_mut().expect("open"),
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"arguments":{arguments},"name":"echo"}}}}"#
    )
    .expect("it reads");
    assert_eq!(text(&peer.next()["result"]), arguments);
    assert_eq!(peer.call(2, "structured", json!({ "a": 1 }))["structuredContent"]["a"], 1);
    assert_eq!(peer.call(3, "image", json!({}))["content"][1]["mimeType"], "image/png");
    assert_eq!(peer.call(4, "error", json!({}))["isError"], true);
    peer.ask_call(5, "refuse", json!({}));
    assert_eq!(peer.next()["error"]["code"], -32603);
    assert_eq!(peer.call(6, "malformed", json!({}))["content"], 7);
    assert!(text(&peer.call(7, "env", json!({}))).contains("MARK=a mark"));
    assert_eq!(text(&peer.call(8, "twice", json!({}))), "first");
    assert_eq!(text(&peer.next()["result"]), "second");
    peer.ask_call(9, "unknown-id", json!({}));
    assert_eq!(peer.next()["id"], "never asked");
    assert_eq!(peer.next()["id"], 9);
    peer.ask_call(10, "progress", json!({ "count": 2 }));
    let steps = [peer.next(), peer.next()].map(|it| it["params"].clone());
    let step =
        |it: u32| json!({ "progressToken": "p", "progress": it, "message": format!("step {it}") });
    assert_eq!(steps, [1, 2].map(step));
    assert_eq!(peer.next()["id"], 10);
    assert_eq!(text(&peer.call(11, "big-line", json!({}))).len(), 17 << 20);
    peer.ask_call(12, "none", json!({}));
    assert_eq!(peer.next()["error"]["code"], -32602);
    assert!(peer.end().0.success());
}

#[test]
fn a_peer_reaches_what_its_machine_lets_it_reach() {
    let mut peer = Peer::with_tools(&["read", "write", "connect"]);
    let path: PathBuf = peer.dir.path().join("file");
    assert_eq!(text(&peer.call(1, "write", json!({ "path": path }))), "written");
    assert_eq!(text(&peer.call(2, "read", json!({ "path": path }))), "written by the peer");
    let missing = peer.call(3, "read", json!({ "path": path.join("x") }));
    assert_eq!(missing["isError"], true, "{missing}");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    assert_eq!(text(&peer.call(4, "connect", json!({ "address": address }))), "connected");
    drop(listener);
    assert_eq!(peer.call(5, "connect", json!({ "address": address }))["isError"], true);
}

#[test]
fn a_slow_call_ends_when_it_is_cancelled() {
    let mut peer = Peer::with_tools(&["slow", "late", "echo"]);
    let cancel = |id: u64| {
        json!({
            "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id },
        })
    };
    peer.ask_call(1, "slow", json!({}));
    assert_eq!(peer.next()["params"]["progress"], 1);
    peer.send(cancel(1));
    peer.wait_for("cancelled slow");
    peer.ask_call(2, "late", json!({}));
    peer.send(cancel(2));
    // Reports that were already on their way arrive first.
    let late = loop {
        let message = peer.next();
        if message.get("method").is_none() {
            break message;
        }
    };
    assert_eq!((&late["id"], text(&late["result"])), (&json!(2), "too late"));
    peer.wait_for("cancelled late");
    assert_eq!(text(&peer.call(3, "echo", json!({}))), "{}");
    let faults: Vec<_> =
        peer.journal().into_iter().filter(|line| line.starts_with("violation")).collect();
    assert_eq!(faults, Vec::<String>::new());
}

#[test]
fn a_peer_ends_hangs_and_floods_on_request() {
    let mut peer = Peer::with_tools(&["exit"]);
    peer.ask_call(1, "exit", json!({}));
    assert_eq!(peer.line(), "");
    let (status, stderr) = peer.end();
    assert_eq!((status.code(), stderr.as_str()), (Some(3), "the tool gives up\n"));

    let mut peer = Peer::with_tools(&["crash"]);
    peer.ask_call(1, "crash", json!({}));
    assert_eq!(peer.line(), "");
    assert_eq!(peer.end().0.code(), None, "a signal ended it");

    let mut peer = Peer::start(json!({ "die": "no key" }));
    peer.send(json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize" }));
    assert_eq!(peer.line(), "");
    let (status, stderr) = peer.end();
    assert_eq!((status.code(), stderr.as_str()), (Some(1), "no key\n"));

    // More bytes than a pipe can buffer arrive without a line break, or on stderr.
    let mut flood = vec![0; 1 << 20];
    let mut peer = Peer::start(json!({ "flood": "stdout" }));
    peer.stdout.read_exact(&mut flood).expect("a flood");
    assert!(flood.iter().all(|byte| *byte == b'x'));
    let mut peer = Peer::with_tools(&["flood-stderr"]);
    assert_eq!(text(&peer.call(1, "flood-stderr", json!({}))), "flooding");
    let mut stderr = peer.child.stderr.take().expect("a pipe");
    stderr.read_exact(&mut flood).expect("a flood");

    let mut peer = Peer::with_tools(&["hang"]);
    peer.ask_call(1, "hang", json!({}));
    drop(peer.stdin.take());
    peer.wait_for("tools/call hang");
    // The peer does not notice that its client has gone.
    assert!(!peer.journal().contains(&"end".to_owned()));
    assert_eq!(peer.child.try_wait().expect("its state"), None);
}

#[test]
fn a_banner_comes_first_and_a_child_stays_behind() {
    let mut peer = Peer::start(json!({ "banner": "Welcome!\nto 1", "tools": tools(&["fork"]) }));
    assert_eq!((peer.line(), peer.line()), ("Welcome!\n".to_owned(), "to 1\n".to_owned()));
    peer.shake_hands();
    let result = peer.call(1, "fork", json!({}));
    let child = text(&result).to_owned();
    let command_line = format!("/proc/{child}/cmdline");
    assert!(peer.end().0.success());
    let is_there = fs::read_to_string(&command_line).is_ok_and(|line| line.contains("--child"));
    let killed = Command::new("kill").args(["-KILL", &child]).status().expect("runs");
    assert!(is_there && killed.success());
}

#[test]
fn a_change_of_the_tools_is_announced_in_each_generation() {
    let mut peer = Peer::with_tools(&["echo"]);
    define(&peer.dir, json!({ "tools": tools(&["env"]) }));
    assert_eq!(peer.next()["method"], "notifications/tools/list_changed");
    assert_eq!(peer.ask(1, "tools/list", json!({}))["result"]["tools"][0]["name"], "env");
    define(&peer.dir, json!({ "announces": false, "tools": tools(&["echo"]) }));
    journal::wait_for(peer.dir.path(), "reload", 2);
    assert_eq!(peer.ask(2, "tools/list", json!({}))["result"]["tools"][0]["name"], "echo");

    let mut peer = Peer::start(json!({ "tools": tools(&["echo"]) }));
    let filter = json!({ "notifications": { "toolsListChanged": true }, "_meta": meta() });
    let acknowledged = peer.ask(7, "subscriptions/listen", filter);
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    define(&peer.dir, json!({ "tools": tools(&["env"]) }));
    let changed = peer.next();
    assert_eq!(changed["method"], "notifications/tools/list_changed", "{changed}");
    assert_eq!(changed["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 7);
}

#[test]
fn a_client_is_asked_in_each_generation() {
    let mut peer = Peer::with_tools(&["elicit", "sampling"]);
    for (id, tool, method) in
        [(1, "elicit", "elicitation/create"), (2, "sampling", "sampling/createMessage")]
    {
        peer.ask_call(id, tool, json!({}));
        let question = peer.next();
        assert_eq!(question["method"], method, "{question}");
        peer.send(json!({
            "jsonrpc": "2.0", "id": question["id"], "result": { "action": "decline" },
        }));
        assert_eq!(text(&peer.next()["result"]), r#"{"action":"decline"}"#);
        let mut params = json!({ "name": tool, "arguments": {}, "_meta": meta() });
        let asked = peer.ask(id + 10, "tools/call", params.clone())["result"].take();
        assert_eq!(asked["resultType"], "input_required", "{asked}");
        assert_eq!(asked["inputRequests"]["question"]["method"], method, "{asked}");
        params["inputResponses"] = json!({ "question": { "action": "accept" } });
        let forged = peer.ask(id + 20, "tools/call", params.clone());
        assert_eq!(forged["error"]["code"], -32602, "{forged}");
        params["requestState"] = asked["requestState"].clone();
        let answer = peer.ask(id + 30, "tools/call", params);
        assert_eq!(text(&answer["result"]), r#"{"action":"accept"}"#);
    }
}

#[test]
fn faults_of_the_client_are_in_the_journal() {
    let mut peer = Peer::start(json!({}));
    peer.ask(1, "tools/list", json!({}));
    peer.send(json!([]));
    peer.send(json!({ "jsonrpc": "2.0", "id": "x", "result": {} }));
    peer.send(json!({ "jsonrpc": "2.0" }));
    let dir = peer.dir.path().join("journal");
    let journal = {
        drop(peer.stdin.take());
        peer.child.wait().expect("ends");
        fs::read_to_string(dir).expect("a journal")
    };
    let lines: Vec<_> =
        journal.lines().filter(|line| !line.starts_with("violation: no message")).collect();
    assert_eq!(
        lines,
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
    assert_eq!(journal.lines().count(), lines.len() + 1, "{journal}");
}

#[test]
fn a_definition_that_is_wrong_is_an_error() {
    let peer = Peer::start(json!({ "speeks": "both" }));
    let (status, stderr) = peer.end();
    assert_eq!(status.code(), Some(2));
    assert!(stderr.contains("there is no key `speeks`"), "{stderr}");
}
