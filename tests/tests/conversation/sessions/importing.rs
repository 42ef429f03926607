//! `ikigai session export` and `import`: nothing is lost, and only real conversations are accepted.

use std::fs;

use ikigai_tests::host::Host;
use serde_json::{Value, json};

use crate::sessions::rig::{
    calls, end, host, import, lines, prompt, results, session, with_each_store,
};

/// The events of an exported session, as they are written.
fn events(text: &str) -> Vec<Value> {
    let events = text.lines().skip(1);
    events.map(|line| serde_json::from_str::<Value>(line).expect(line)["event"].clone()).collect()
}

#[test]
fn what_is_exported_and_imported_is_the_same() {
    with_each_store(|host| {
        // The events contain data that only a provider reads, unknown future members, long digits
        // and an odd text.
        let blob = json!({ "provider": "google", "model": "m", "value": { "signature": "x" } });
        let odd = json!({ "v": 1, "reason": "answered", "usage": {}, "of the future": 12_345_678_901_234_567_890_u64,
            "parts": [{ "text": { "text": "\u{202e}é\n\u{1}", "blob": blob } }] });
        let log = [prompt("one"), calls("1"), results("1", "a\nb"), ("end", odd)];
        let id = import(host, "Über alles", &log);
        let first = session(host, &["export", &id, "--jsonl"]).expect_code(0).stdout();
        assert_eq!(events(&first), log.map(|(_, event)| event));
        let file = host.scratch().join("talk.jsonl");
        let file = file.to_str().expect("UTF-8");
        session(host, &["export", &id, file, "--jsonl"]).expect_code(0);
        assert_eq!(fs::read_to_string(file).expect("written"), first);
        let ran = session(host, &["export", &id, file, "--jsonl"]).expect_code(1);
        assert!(ran.stderr().contains("cannot write"), "nothing is overwritten\n{ran}");

        let again = session(host, &["import", file]).expect_code(0);
        assert!(again.stderr().starts_with("Imported "), "{again}");
        assert!(again.stderr().ends_with(": 1 turn\n"), "{again}");
        let list = session(host, &["list", "--json"]).expect_code(0).json();
        let copy = &list["sessions"][0];
        assert_ne!(copy["id"], json!(id));
        assert_eq!((&copy["title"], &copy["model"]), (&json!("Über alles"), &json!("a-model")));
        let copy = copy["id"].as_str().expect("an id");
        let second = session(host, &["export", copy, "--jsonl"]).expect_code(0).stdout();
        let raw = |text: &str| {
            let raw = text.lines().skip(1).map(|line| line.split_once("\"event\":").expect(line).1);
            raw.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(raw(&second), raw(&first), "byte by byte");
    });
}

/// Imports a text that must be refused, and returns the error message.
#[track_caller]
fn refused(host: &Host, text: &str) -> String {
    let ran = host.run_with(["session", "import"], text.as_bytes()).expect_code(1);
    let said = ran.stderr();
    assert!(said.starts_with("error: cannot import stdin: "), "{said}");
    said
}

#[test]
fn what_is_no_conversation_is_not_imported() {
    let host = host();
    let says = |text: &str, expected: &str| {
        let said = refused(&host, text);
        assert!(said.contains(expected), "{expected}\n{said}");
    };
    for text in ["", "\n\n", "no JSON\n", "{}\n", "[1]\n", "{\"format\":\"other\",\"version\":1}\n"]
    {
        says(text, "its first line is not from `ikigai session export --jsonl`");
    }
    says("{\"format\":\"ikigai-session\",\"version\":2}\n", "a newer version of ikigai");
    let log = |events: &[(&str, Value)]| lines("x", events);
    says(&log(&[end("1")]), "event 1 (`end`) cannot follow the events before it");
    says(&log(&[prompt("1"), end("1"), results("1", "")]), "event 3 (`results`) cannot follow");
    says(&log(&[prompt("1"), calls("1"), results("1", ""), calls("1")]), "repeats the id `1`");
    says(&log(&[("prompt", json!({ "v": 9 }))]), "written by a newer version of ikigai");
    says(&log(&[("gossip", json!({ "v": 1 }))]), "knows no events of this kind");
    says(&log(&[("prompt", json!({ "v": 1, "typed": 1 }))]), "event 1 (`prompt`) cannot be read");
    says(&log(&[("prompt", json!([]))]), "it has no version");
    let images = json!([{ "name": "a.png", "base64": "AAEC" }]);
    let image = ("prompt", json!({ "v": 1, "typed": "1", "texts": ["1"], "images": images }));
    says(
        &log(&[image]),
        "`a.png` is not used as an image: it is not a PNG, JPEG, GIF or WebP image",
    );

    let good = log(&[prompt("1"), end("1"), prompt("2"), end("2")]);
    let all: Vec<&str> = good.lines().collect();
    says(&[all[0], all[2], all[1]].join("\n"), "line 2 has event 2; expected event 1");
    says(&[all[0], all[1], all[1]].join("\n"), "line 3 has event 1; expected event 2");
    says(&[all[0], all[1], &all[2][..20]].join("\n"), "line 3 is not an event");
    let bytes = [good.as_bytes(), b"\xff\n"].concat();
    let ran = host.run_with(["session", "import"], &bytes).expect_code(1);
    assert!(ran.stderr().contains("utf-8"), "{ran}");
    let ran = session(&host, &["import", "nowhere.jsonl"]).expect_code(1);
    assert!(ran.stderr().contains("cannot import `nowhere.jsonl`"), "{ran}");
    let titled = lines("two\nlines", &[prompt("1")]);
    let ran = host.run_with(["session", "import"], titled.as_bytes()).expect_code(2);
    assert!(ran.stderr().contains("the title of a session has 1 to 512 bytes"), "{ran}");

    let list = session(&host, &["list", "--all"]).expect_code(0);
    assert_eq!(list.stderr(), "no sessions\n", "nothing is kept of any");
    let ran = host.run_with(["session", "import"], good.as_bytes()).expect_code(0);
    assert!(ran.stderr().ends_with(": 2 turns\n"), "{ran}");
}

#[test]
fn a_file_that_is_too_large_is_refused_without_being_read_to_its_end() {
    let host = host();
    let text = lines("x", &[prompt("1")]);
    let large = [text.as_bytes(), &vec![b' '; 100_000_000]].concat();
    let said = refused(&host, str::from_utf8(&large).expect("UTF-8"));
    assert!(said.contains("it has more than 64"), "{said}");
    let ran = session(&host, &["import", "/dev/zero"]).expect_code(1);
    assert!(ran.stderr().contains("it has more than 64"), "{ran}");
    let many = format!("{}{}", lines("x", &[]), "{\"seq\":1,\"kind\":\"x\",\"event\":1}\n");
    assert!(refused(&host, &many).contains("event 1 (`x`) cannot be read"));
}

#[test]
fn calls_without_results_are_named() {
    let host = host();
    let text = lines("x", &[prompt("do it"), calls("1")]);
    let ran = host.run_with(["session", "import", "--json"], text.as_bytes()).expect_code(0);
    let said = "these calls have no results; ikigai tells the model that they may have run: `grep`";
    assert!(ran.stderr().contains(said), "{ran}");
    let id = ran.json()["id"].as_str().expect("an id").to_owned();
    let shown = session(&host, &["show", &id, "--json"]).expect_code(0).json();
    let result = shown["messages"][2]["parts"][0]["result"].clone();
    assert_eq!(result["is_error"], true, "{shown}");
    assert!(result["content"].as_str().expect("a text").contains("It may have run"), "{shown}");
}
