//! Large calls and large results.

use ikigai_tests::host::Host;
use ikigai_tests::mcp::MODERN;
use serde_json::json;

use crate::mcp::{modern, text};

#[test]
fn a_hostile_call_takes_no_more_than_three_times_its_size() {
    const SIZE: usize = 16 << 20;
    let host = Host::without_system_tools();
    host.script("swallow", "cat > /dev/null; echo 1");
    let mut client = modern(&host);
    assert_eq!(text(&client.call("swallow", &json!({}))), "1");
    let before = client.running().peak_memory();
    // As a tree of values, each of these would take a hundred bytes per byte of text.
    let values = "[1],".repeat(SIZE / 4);
    client.send_line(format!(
        r#"{{"jsonrpc":"2.0","id":"big","method":"tools/call","params":{{"name":"swallow","arguments":{{"x":[{values}0]}},"_meta":{{"io.modelcontextprotocol/protocolVersion":"{MODERN}","io.modelcontextprotocol/clientCapabilities":{{}}}}}}}}"#
    ));
    let answer = client.wait_for(|message| message["id"] == "big");
    assert_eq!(text(&answer["result"]), "1");
    let taken = client.running().peak_memory() - before;
    assert!(taken <= 3 * SIZE as u64, "{} MiB", taken >> 20);
}

#[test]
fn a_result_of_many_short_lines_is_cut_before_a_client_cuts_it() {
    let host = Host::new();
    let mut client = modern(&host);
    let result = client.call("bash", &json!({ "command": "seq 1 4000; exit 7" }));
    let (shown, note) = text(&result).rsplit_once("\n\n").expect("an answer and a note");
    assert!(shown.starts_with("1\n2\n") && shown.ends_with("\n4000\nexit_code: 7"), "{shown}");
    assert!(note.contains("ikigai:///outputs/bash-"), "{note}");
    // opencode shows at most this many lines.
    assert!(text(&result).lines().count() < 2_000, "{shown}");
    let result = client.call("bash", &json!({ "command": "seq 1 1800" }));
    assert!(text(&result).ends_with("\n1800\nexit_code: 0"), "{result}");
    assert!(!text(&result).contains("left out"), "{result}");
}

#[test]
fn a_long_result_is_cut_and_the_whole_is_kept() {
    let host = Host::new();
    let lines: String = (0..40_000).map(|number| format!("line {number:016}\n")).collect();
    host.write("workspace/long.txt", &lines, 0o644);
    let mut client = modern(&host);
    let result = client.call("file_read", &json!({ "file_path": "long.txt", "limit": 40_000 }));
    let (shown, note) = text(&result).rsplit_once("\n\n").expect("an answer and a note");
    assert!((29_000..=30_000).contains(&text(&result).len()), "{}", text(&result).len());
    assert!(shown.starts_with("line 0000000000000000\n"), "the head");
    assert!(shown.ends_with("line 0000000000039999\n"), "the tail");
    assert!(note.contains("ikigai:///outputs/"), "{note}");
    let link = &result["content"][1];
    assert_eq!(link["type"], "resource_link", "{link}");
    let uri = link["uri"].as_str().expect("a URI");
    assert!(uri.starts_with("ikigai:///outputs/file_read-"), "{uri}");
    let whole = client.result("resources/read", json!({ "uri": uri }));
    assert_eq!(whole["contents"][0]["text"].as_str().map(str::len), Some(lines.len()));
    let again = client.call("file_read", &json!({ "file_path": uri, "offset": 39_999 }));
    assert!(text(&again).contains("line 0000000000039999"), "{again}");
}
