//! Hosts over a store of each kind, and logs of conversations as JSON lines.

use ikigai_assets_testing::Server;
use ikigai_tests::host::{Host, Ran};
use serde_json::{Value, json};

/// The agent of every case.
pub(crate) const AGENT: &str = "tester@here";

/// Returns a host whose sessions are in its own home directory.
pub(crate) fn host() -> Host {
    Host::without_system_tools().env("IKIGAI_AGENT", AGENT)
}

/// Runs the case with a store in a file and, if this machine has a database server, with a store in
/// a database.
pub(crate) fn with_each_store(case: impl Fn(&Host)) {
    case(&host());
    // If the machine has no server, `Server::start` has reported that. CI has a server.
    let Some(server) = Server::start().expect("a server starts") else { return };
    let url = server.create_database("sessions").expect("a database");
    case(&host().env("IKIGAI_STORE", url));
}

/// Runs `ikigai session ARGS`.
pub(crate) fn session(host: &Host, args: &[&str]) -> Ran {
    host.run([&["session"], args].concat())
}

pub(crate) fn prompt(text: &str) -> (&'static str, Value) {
    ("prompt", json!({ "v": 1, "typed": text, "texts": [text] }))
}

pub(crate) fn calls(id: &str) -> (&'static str, Value) {
    let call = json!({ "id": id, "name": "grep", "arguments": "{\"pattern\":\"x\"}" });
    let parts = json!([{ "text": { "text": "I look." } }, { "call": call }]);
    ("calls", json!({ "v": 1, "parts": parts, "usage": { "input": 10 } }))
}

pub(crate) fn results(id: &str, content: &str) -> (&'static str, Value) {
    let result = json!({ "id": id, "name": "grep", "content": content, "is_error": false });
    ("results", json!({ "v": 1, "results": [result] }))
}

pub(crate) fn end(text: &str) -> (&'static str, Value) {
    let parts = json!([{ "text": { "text": text } }]);
    ("end", json!({ "v": 1, "reason": "answered", "parts": parts, "usage": { "output": 5 } }))
}

/// Returns the lines of an exported session.
pub(crate) fn lines(title: &str, events: &[(&str, Value)]) -> String {
    let header = json!({
        "format": "ikigai-session", "version": 1, "title": title, "provider": "anthropic",
        "model": "a-model", "of": "another program, perhaps",
    });
    let event = |(at, (kind, event)): (usize, &(&str, Value))| {
        json!({ "seq": at + 1, "kind": kind, "event": event }).to_string()
    };
    let events = events.iter().enumerate().map(event);
    let all: Vec<String> = std::iter::once(header.to_string()).chain(events).collect();
    all.join("\n") + "\n"
}

/// Imports a session, and returns its id.
#[track_caller]
pub(crate) fn import(host: &Host, title: &str, events: &[(&str, Value)]) -> String {
    let text = lines(title, events);
    let ran = host.run_with(["session", "import", "--json"], text.as_bytes()).expect_code(0);
    ran.json()["id"].as_str().expect("an id").to_owned()
}

/// Imports a session of two turns, and returns its id.
#[track_caller]
pub(crate) fn two_turns(host: &Host, title: &str) -> String {
    let first = [prompt("one"), calls("1"), results("1", "found"), end("1")];
    import(host, title, &[&first[..], &[prompt("two"), end("2")]].concat())
}
