//! The whole flow, for every provider: scan, submit, model, tools, answer.

use ikigai_provider_testing::{Reply, Vendor};
use serde_json::json;

use crate::rig::{Rig, envelopes};

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
        assert_eq!(ran.stdout(), "Let me see.\n\nIt says *hello*.\n", "{vendor}: {ran}");
        for line in ["→ file_read {\"file_path\":\"data.txt\"}\n", "✓ file_read (", "✓ bash ("]
        {
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
