//! Tools that answer with content blocks.

use ikigai_tests::host::Host;
use ikigai_tests::mcp::Client;
use serde_json::{Value, json};

use crate::mcp::{legacy, modern, server, text};

/// Installs a tool that answers with content blocks, with exactly this text.
fn answering(host: &Host, name: &str, returns: &str, answer: &str) {
    let schema = format!(
        r#"{{"name":"{name}","description":"","parameters":{{}},"result":"content"{returns}}}"#
    );
    host.write(format!("workspace/{name}.json"), answer, 0o644);
    let file = host.workspace().join(format!("{name}.json"));
    host.program(
        name,
        format!(
            "#!/bin/sh\nif [ \"$1\" = --schema ]; then printf %s '{schema}'; exit; fi\ncat '{}'\n",
            file.display()
        ),
    );
}

const IMAGE: &str = r#"{"type":"image","data":"AAEC","mimeType":"image/png"}"#;

#[test]
fn blocks_reach_the_client_as_the_tool_wrote_them() {
    let host = Host::without_system_tools();
    let blocks = format!(
        r#"[{{"type":"text","text":"a\nb","annotations":{{"priority":1.0}}}},{IMAGE},
            {{"type":"resource","resource":{{"uri":"x:a","text":"inside","mimeType":"text/plain"}}}},
            {{"type":"resource_link","uri":"x:b","name":"b","size":7}}]"#
    );
    let returns = r#","returns":{"type":"object","properties":{"n":{"type":"integer"}}}"#;
    let answer = format!(r#"{{"content":{blocks},"structuredContent":{{"n":1}}}}"#);
    answering(&host, "shot", returns, &answer);
    answering(&host, "sad", "", r#"{"content":[{"type":"text","text":"no"}],"isError":true}"#);
    answering(&host, "wrong", "", r#"{"content":[{"type":"image","data":"?","mimeType":"a/b"}]}"#);
    for mut client in [modern(&host), legacy(&host)] {
        let listed = client.result("tools/list", json!({}));
        let shot =
            listed["tools"].as_array().expect("a list").iter().find(|it| it["name"] == "shot");
        assert_eq!(shot.expect("listed")["outputSchema"]["properties"]["n"]["type"], "integer");
        let result = client.call("shot", &json!({}));
        let expected: Value = serde_json::from_str(&blocks).expect("JSON");
        assert_eq!(result["content"], expected);
        assert_eq!(result["structuredContent"], json!({ "n": 1 }));
        assert_eq!(result["isError"], false);
        let result = client.call("sad", &json!({}));
        assert_eq!((text(&result), &result["isError"]), ("no", &json!(true)));
        let result = client.call("wrong", &json!({}));
        assert_eq!(result["_meta"]["ikigai/error_code"], "INVALID_OUTPUT", "{result}");
        assert!(text(&result).contains("content[0]"), "{result}");
        client.wait().0.expect_code(0);
    }
    // A script gets the answer unchanged.
    let envelope = host.run(["tool", "call", "shot", "{}"]).expect_code(0).json();
    assert_eq!(envelope["result"]["content"][1]["data"], "AAEC", "{envelope}");
}

#[test]
fn long_texts_are_cut_and_images_are_not() {
    let host = Host::without_system_tools();
    let long = "word ".repeat(1_000);
    let block = json!({ "type": "text", "text": long });
    answering(
        &host,
        "long",
        "",
        &format!(r#"{{"content":[{IMAGE},{block}],"structuredContent":1}}"#),
    );
    let mut command = server(&host);
    command.args(["--max-result", "2000"]);
    let mut client = Client::start(&mut command);
    let result = client.call("long", &json!({}));
    let shown = text(&result);
    assert!(shown.contains("word word") && shown.len() < 3_000, "{result}");
    assert_eq!(result["content"][1]["data"], "AAEC", "{result}");
    assert_eq!(result["structuredContent"], Value::Null);
    // The whole answer is an asset, which names the image.
    let uri = result["content"][2]["uri"].as_str().expect("a link");
    let read = client.result("resources/read", json!({ "uri": uri }));
    let kept = read["contents"][0]["text"].as_str().expect("a text");
    assert!(kept.contains("[image of type image/png, 3 bytes]"), "{kept}");
    assert!(kept.matches("word").count() == 1_000, "{}", kept.len());
}

#[test]
fn a_file_is_checked_for_the_form_that_it_promises() {
    let host = Host::without_system_tools();
    answering(&host, "fine", "", r#"{"content":[{"type":"text","text":"no"}],"isError":true}"#);
    answering(&host, "plain", "", r#"{"error":"no"}"#);
    let verdict = |name: &str| {
        let path = host.scratch().join("user-tools").join(name).display().to_string();
        let report = host.run(["tool", "check", "--json", &path]).expect_code(0).json();
        let findings = report["findings"].as_array().expect("a list").clone();
        let call = findings.iter().find(|it| it["check"] == "malformed call").expect("checked");
        (call["verdict"].clone(), call["text"].as_str().expect("a text").to_owned())
    };
    assert_eq!(verdict("fine"), (json!("ok"), "answered in content blocks".to_owned()));
    let (word, text) = verdict("plain");
    assert_eq!(word, "warn");
    assert!(text.contains("missing field `content`"), "{text}");
}
