//! The whole flow, for every provider: scan, submit, model, tools, answer.

use ikigai_provider_testing::{Reply, Trouble, Vendor};
use serde_json::{Value, json};

use crate::agent::rig::{Rig, envelopes};

#[test]
fn a_model_calls_tools_and_answers() {
    for vendor in Vendor::ALL {
        let rig = Rig::new(
            vendor,
            [
                Reply::answer()
                    .text("Let me ")
                    .text("see.")
                    .call("file_read", &json!({ "file_path": "data.txt" }))
                    .call("bash", &json!({ "command": "echo answer-$((6*7))" }))
                    .usage(100, 10),
                Reply::answer().text("It says *hello*.").usage(200, 20),
            ],
        );
        rig.file("data.txt", "hello from the file\n");
        let ran = rig.ask(&["what", "does it say?"]).expect_code(0);
        assert_eq!(ran.stdout(), "It says *hello*.\n", "{vendor}: {ran}");
        for line in [
            "Let me see.\n→ file_read {\"file_path\":\"data.txt\"}\n",
            "→ file_read {\"file_path\":\"data.txt\"}\n",
            "✓ file_read (",
            "✓ bash (",
        ] {
            assert!(ran.stderr().contains(line), "{vendor}: {line}: {ran}");
        }
        rig.assert_valid();
        let first = rig.request(0);
        for told in ["what does it say?", "file_edit", "slash_command", "100k tokens"] {
            assert!(first.contains(told), "{vendor}: {told}: {first}");
        }
        let second = rig.request(1);
        let file = second.find("hello from the file").expect("the file's text");
        let shell = second.find("answer-42").expect("what the shell printed");
        assert!(file < shell, "{vendor}: results are in the order of their calls: {second}");

        let audit = rig.host.run(["audit", "--json"]).expect_code(0).stdout();
        let records: Vec<serde_json::Value> =
            audit.lines().map(|line| serde_json::from_str(line).expect("a record")).collect();
        let of = |tool| records.iter().find(|it| it["tool"] == tool).expect("a record of the call");
        assert_eq!(of("file_read")["outcome"], "ok", "{audit}");
        assert_eq!(of("file_read")["backend"], "wasm", "{audit}");
        assert_eq!(of("bash")["outcome"], "ok", "{audit}");
        assert_ne!(of("bash")["grant"]["sandbox"], "off", "{audit}");
    }
}

#[test]
fn an_exchange_is_printed_as_one_object() {
    for vendor in Vendor::ALL {
        let rig = Rig::new(
            vendor,
            [
                Reply::answer().call("glob", &json!({ "pattern": "*.txt" })).usage(100, 10),
                Reply::answer().text("One file.").usage(200, 20),
            ],
        );
        rig.file("a.txt", "");
        let ran = rig.ask(&["--json", "--system", "Be brief.", "which files?"]).expect_code(0);
        let told = ran.json();
        assert_eq!(told["stop"], "answered", "{ran}");
        assert_eq!(told["prompt"], "which files?");
        assert_eq!(told["provider"], vendor.as_str());
        assert_eq!(told["model"], "model-of-the-test");
        assert_eq!((&told["answer"], &told["rounds"]), (&json!("One file."), &json!(2)));
        assert_eq!(told["usage"]["input"], 300, "{ran}");
        assert_eq!(told["usage"]["output"], 30, "{ran}");
        let roles: Vec<_> =
            told["messages"].as_array().expect("messages").iter().map(|it| &it["role"]).collect();
        assert_eq!(roles, ["user", "model", "user", "model"], "{ran}");
        let [envelope] = &envelopes(&told)[..] else { panic!("one call: {ran}") };
        assert_eq!(envelope["tool_success"], true);
        assert!(envelope["result"]["output"].as_str().expect("a text").contains("a.txt"), "{ran}");
        assert!(rig.request(0).contains("Be brief."));
        rig.assert_valid();
    }
}

#[test]
fn nulls_of_strict_mode_do_not_reach_a_tool() {
    for vendor in [Vendor::OpenAi, Vendor::OpenAiChat] {
        let arguments = json!({ "file_path": "a.txt", "offset": null, "limit": 1 });
        let rig = Rig::new(
            vendor,
            [Reply::answer().call("file_read", &arguments), Reply::answer().text("Done.")],
        );
        rig.file("a.txt", "one\ntwo\n");
        let ran = rig.ask(&["--json", "read"]).expect_code(0);
        assert_eq!(envelopes(&ran.json())[0]["result"]["output"], "one\n", "{ran}");
        rig.assert_valid();
    }
}

/// Reads the lines of `--stream-json` as the page describes them.
#[test]
fn events_are_lines_of_a_form_with_a_version() {
    for vendor in Vendor::ALL {
        let rig = Rig::new(
            vendor,
            [
                Reply::answer()
                    .text("Let me see.")
                    .call("file_read", &json!({ "file_path": "a.txt" }))
                    .usage(100, 10),
                Reply::answer().text("It says ").text("*hello*.").usage(200, 20),
            ],
        );
        rig.file("a.txt", "hello\n");
        rig.file("AGENTS.md", b"\xff");
        let ran = rig.ask(&["--stream-json", "what", "does it say?"]).expect_code(0);
        let stdout = ran.stdout();
        let lines: Vec<Value> =
            stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let names: Vec<&str> =
            lines.iter().map(|line| line["event"].as_str().expect("an event")).collect();
        // The provider decides how many pieces a text has, and whether a model thinks.
        let mut kinds = names.clone();
        kinds.retain(|name| *name != "thinking");
        kinds.dedup();
        let expected = [
            "begin", "warning", "text", "answered", "call", "running", "result", "text",
            "answered", "end",
        ];
        assert_eq!(kinds, expected, "{vendor}: {ran}");
        let of = |name: &str| -> Vec<&Value> {
            lines.iter().filter(|line| line["event"] == name).collect()
        };
        let begin = of("begin")[0];
        assert_eq!((&begin["version"], &begin["prompt"]), (&json!(1), &json!("what does it say?")));
        assert_eq!(begin["provider"], vendor.as_str());
        assert_eq!(begin["model"], "model-of-the-test");
        let texts: String = of("text").iter().filter_map(|line| line["text"].as_str()).collect();
        assert_eq!(texts, "Let me see.It says *hello*.");
        assert_eq!(of("answered")[0]["usage"]["input"], 100);
        let (call, result) = (of("call")[0], of("result")[0]);
        assert_eq!((&call["name"], &call["id"]), (&json!("file_read"), &result["id"]));
        assert_eq!(of("running")[0]["id"], call["id"]);
        let arguments = call["arguments"].as_str().expect("a text");
        let arguments: Value = serde_json::from_str(arguments).expect("JSON");
        assert_eq!(arguments["file_path"], "a.txt");
        assert_eq!(result["envelope"]["result"]["output"], "hello\n");
        assert!(result["duration_ms"].is_u64(), "{result}");
        let end = of("end")[0];
        assert_eq!((&end["stop"], &end["rounds"]), (&json!("answered"), &json!(2)));
        assert_eq!((&end["answer"], &end["reason"]), (&json!("It says *hello*."), &Value::Null));
        assert_eq!(end["usage"]["output"], 30);
        rig.assert_valid();
    }
}

#[test]
fn the_last_line_says_why_there_is_no_answer() {
    let rig = Rig::new(Vendor::OpenAi, [Reply::trouble(Trouble::Key)]);
    let ran = rig.ask(&["--stream-json", "go"]).expect_code(1);
    let stdout = ran.stdout();
    let last: Value = serde_json::from_str(stdout.lines().last().expect("a line")).expect("JSON");
    assert_eq!((&last["event"], &last["stop"]), (&json!("end"), &json!("failed")), "{ran}");
    assert!(last["reason"].is_string() && last["answer"].is_null(), "{ran}");
}

#[test]
fn what_broke_off_is_no_answer_on_stdout() {
    let rig = Rig::new(Vendor::Anthropic, [Reply::answer().text("It begins").without_end()]);
    let ran = rig.ask(&["go"]).expect_code(1);
    assert_eq!(ran.stdout(), "", "{ran}");
    assert!(ran.stderr().contains("It begins\n"), "{ran}");
}
