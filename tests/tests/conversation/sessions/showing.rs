//! `ikigai session show`, and `export` for people.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::sessions::rig::{calls, end, host, import, prompt, results, session, two_turns};

#[test]
fn a_conversation_is_shown_as_markdown() {
    let host = host();
    let mut mention = prompt("look at @file");
    mention.1["texts"] = json!(["look at @file", "0123456789"]);
    let long = "x".repeat(1500);
    let fence = "a\n````\nb";
    let log = [
        ("model", json!({ "v": 1, "provider": "anthropic", "name": "a-model" })),
        mention,
        calls("1"),
        results("1", fence),
        calls("2"),
        results("2", &long),
        end("All is well.\n"),
        prompt("two\n## Model"),
        ("end", json!({ "v": 1, "reason": "interrupted", "parts": [], "usage": {} })),
    ];
    let id = import(&host, "Fix it", &log);
    let shown = session(&host, &["show", "fix it"]).expect_code(0).stdout();
    let begin = format!("# Fix it\n\n- session: {id}\n- workspace: ");
    assert!(shown.starts_with(&begin), "{shown}");
    for text in [
        "\n## You\n\n> look at @file\n",
        "*ikigai also sent the model 10 characters of what this mentions.*",
        "\n## Model\n\nI look.\n\nCall of `grep`:\n\n```\n{\"pattern\":\"x\"}\n```\n",
        "`grep` answered:\n\n`````\na\n````\nb\n`````\n",
        "*500 more characters; `export` writes them.*",
        "\nAll is well.\n\n## You\n\n> two\n> ## Model\n",
        "*The turn ended: interrupted.*",
        "*There was no answer. The model does not see this message.*",
    ] {
        assert!(shown.contains(text), "{text}\n{shown}");
    }
    assert!(!shown.contains(&long) && !shown.contains("no longer sees"), "{shown}");
    let exported = session(&host, &["export", &id]).expect_code(0).stdout();
    assert!(exported.contains(&long) && !exported.contains("more characters"), "{exported}");
}

#[test]
fn an_image_is_shown_by_its_name_and_its_size() {
    let host = host();
    // The beginning of a PNG of 640 × 480 pixels, filled up to 12 kB.
    let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\x02\x80\0\0\x01\xe0\x08\x02\0\0\0".to_vec();
    png.resize(12_000, 0);
    let image = json!({ "name": "picture.png", "base64": STANDARD.encode(&png) });
    let mut shows = prompt("what is @picture.png?");
    shows.1["images"] = json!([image]);
    let id = import(&host, "A picture", &[shows, end("A cat.")]);
    let shown = session(&host, &["show", &id]).expect_code(0).stdout();
    let expected = "\n## You\n\n[image picture.png, 640 × 480, 12 kB]\n\n> what is @picture.png?\n";
    assert!(shown.contains(expected), "{shown}");
    let exported = session(&host, &["export", &id, "--jsonl"]).expect_code(0).stdout();
    assert!(exported.contains(&STANDARD.encode(&png)), "the image is exported as it is");
}

#[test]
fn it_says_what_the_model_no_longer_sees() {
    let host = host();
    let turn = |id: &str| {
        let found = format!("found {id}");
        [prompt(&format!("prompt {id}")), calls(id), results(id, &found), end(&format!("end {id}"))]
    };
    let shortened = json!({ "v": 1, "results": [{ "id": "3", "line": "in ikigai:///outputs/3" }] });
    let notes = json!({ "v": 1, "kept": 5, "notes": "what was", "most_typed": 0 });
    let log = [
        &turn("1")[..],
        &[("cleared", json!({ "v": 1 }))],
        &turn("2"),
        &turn("3"),
        &turn("4"),
        &[("shortened", shortened), ("summarized", notes)],
    ];
    let id = import(&host, "x", &log.concat());
    let shown = session(&host, &["show", &id]).expect_code(0).stdout();
    let at = |text: &str| shown.find(text).unwrap_or_else(|| panic!("{text}\n{shown}"));
    let cleared = at("*The conversation was cleared. The model sees nothing of the above.*");
    assert!(at("end 1") < cleared && cleared < at("> prompt 2"), "{shown}");
    let unseen = at("*The model no longer sees what is above. It has notes on it");
    // Five messages are left: the end of the third turn, and the fourth turn.
    assert!(at("found 3") < unseen && unseen < at("end 3"), "{shown}");
    let line =
        at("*The model no longer sees this result, but only:*\n\n```\nin ikigai:///outputs/3");
    assert!(at("found 3") < line && line < unseen, "{shown}");
    let notes = at("## The notes of the model\n\n```\nwhat was\n```\n");
    assert!(notes > at("end 4"), "{shown}");
    let json = session(&host, &["show", &id, "--json"]).expect_code(0).json();
    assert_eq!((&json["notes"], &json["turns"]), (&json!("what was"), &json!(4)));
    assert_eq!(json["messages"].as_array().expect("messages").len(), 6);
}

#[test]
fn a_terminal_obeys_nothing_of_it() {
    let host = host();
    let id = import(&host, "x", &[prompt("a\u{1b}[2Jb"), end("\u{1b}]0;title\u{7}\u{202e}c")]);
    let shown = session(&host, &["show", &id]).expect_code(0).stdout();
    assert!(
        shown.contains("[2Jb") && !shown.contains(['\u{1b}', '\u{7}', '\u{202e}']),
        "{shown:?}"
    );
}

#[test]
fn a_session_of_a_newer_program_is_left_alone() {
    let host = host();
    let id = two_turns(&host, "x");
    let url = host.home().join(".local/share/ikigai/store.db");
    let url = ikigai_assets::StoreUrl::sqlite(url);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let store = ikigai_assets::Store::open(&url, &ikigai_assets::StoreOptions::default()).await;
        let (store, id) = (store.expect("it opens"), id.parse().expect("an id"));
        let hour = std::time::Duration::from_secs(3600);
        let lease = store.lease_session(&id, "newer", hour).await.expect("leased");
        let event =
            ikigai_assets::NewEvent { kind: "dream", json: "{\"v\":7}", begins_turn: false };
        store.append_events(&lease, 6, &[event], hour).await.expect("appended");
        store.release_session(&lease).await.expect("released");
    });
    let ran = session(&host, &["show", &id]).expect_code(1);
    assert!(ran.stderr().contains("event 7 (`dream`) was written by a newer version"), "{ran}");
    assert!(ran.stderr().contains("hint: `ikigai session export"), "{ran}");
    let lines = session(&host, &["export", &id, "--jsonl"]).expect_code(0).stdout();
    assert!(lines.ends_with("\"event\":{\"v\":7}}\n"), "{lines}");
    session(&host, &["rm", "--yes", &id]).expect_code(0);
}
