//! The same components in a server. A server expects a component's next call to be as short as its
//! last one. So the thread that reads requests runs the component itself, unless the machine was
//! too busy for the last call to be short.
//!
//! Other requests must still be served. The tests of `exec/wasm/threads/lead.rs` cover only that
//! thread.

use ikigai_tests::host::Host;
use ikigai_tests::mcp::Client;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

use super::greedy;

/// Starts a server.
fn serve(host: &Host, flags: &[&str]) -> Client {
    Client::start(host.command().args(flags).args(["mcp", "serve"]))
}

fn mode(mode: &str) -> Value {
    json!({ "mode": mode })
}

/// Makes several short calls, so that the next one is expected to be short.
#[track_caller]
fn make_short_calls(client: &mut Client, tool: &str, arguments: &Value) {
    for _ in 0..8 {
        let result = client.call(tool, arguments);
        assert_eq!(result["isError"], false, "{result}");
    }
}

/// Makes a call that runs until its time limit. Other calls in the meantime must be answered first.
#[track_caller]
fn assert_serves_during(client: &mut Client, tool: &str, fine: &Value, endless: &Value) {
    make_short_calls(client, tool, fine);
    let stuck = client.ask_call(tool, endless);
    let list = client.ask("tools/list", json!({}));
    let first = client.any();
    assert_eq!(first["id"], list, "{endless}: a request that needs no component");
    assert!(first["result"]["tools"].is_array(), "{first}");
    let beside = client.ask_call(tool, fine);
    let second = client.any();
    assert_eq!(second["id"], beside, "{endless}: a call of the same component");
    assert_eq!(second["result"]["isError"], false, "{second}");
    let answer = client.answer(stuck);
    assert!(answer.to_string().contains("timed out after 5s"), "{endless}: {answer}");
}

#[test]
fn others_are_served_while_a_guest_does_not_end() {
    let host = greedy();
    let mut client = serve(&host, &["--timeout", "5s"]);
    for endless in ["spin", "sleep", "answer_then_hang"] {
        assert_serves_during(&mut client, "greedy", &mode("fine"), &mode(endless));
    }
    make_short_calls(&mut client, "greedy", &mode("fine"));
    client.wait().0.expect_code(0);
    host.assert_nothing_left();
}

#[test]
fn others_are_served_while_a_guest_is_blocked_by_a_fifo() {
    let host = Host::without_system_tools();
    host.guest_as("trespass", "_trespass", "file_read");
    host.write("workspace/file", "x", 0o644);
    mknodat(CWD, host.workspace().join("fifo"), FileType::Fifo, Mode::from(0o666), 0)
        .expect("made");
    let mut client = serve(&host, &["--timeout", "5s"]);
    let path = |path: &str| json!({ "mode": "paths", "path": path });
    assert_serves_during(&mut client, "file_read", &path("file"), &path("fifo"));
    make_short_calls(&mut client, "file_read", &path("file"));
    client.wait().0.expect_code(0);
    host.assert_nothing_left();
}

#[test]
fn a_server_outlives_every_end_of_a_guest() {
    let host = greedy();
    let mut client = serve(&host, &["--memory", "64MiB"]);
    for (greed, error) in [
        ("memory", "ran out of memory"),
        ("small_memory", "ran out of memory"),
        ("recurse", "call stack exhausted"),
        ("flood_stdout", "wrote more than"),
        ("flood_stderr", "exit code 1\n"),
        ("pollables", "too many handles"),
        ("random_bomb", "exceeds limit"),
        ("read_bomb", "stdout is empty"),
        ("bad_utf8", "malformed JSON"),
        ("two_values", "trailing characters"),
        ("trap", "unreachable"),
        ("panic", "exit code 134"),
        ("exit_7", "exit code 1\n"),
    ] {
        make_short_calls(&mut client, "greedy", &mode("fine"));
        let hostile = client.ask_call("greedy", &mode(greed));
        let beside = client.ask_call("greedy", &mode("fine"));
        let answer = client.answer(hostile);
        assert_eq!(answer["result"]["isError"], true, "{greed}: {answer}");
        let text = answer["result"]["content"][0]["text"].as_str().expect("text");
        assert!(format!("{text}\n").contains(error), "{greed}: {answer}");
        let answer = client.answer(beside);
        assert_eq!(answer["result"]["isError"], false, "beside {greed}: {answer}");
    }
    client.wait().0.expect_code(0);
    host.assert_nothing_left();
}
