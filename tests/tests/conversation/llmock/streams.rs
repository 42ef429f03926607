//! Exchanges that succeed: texts, calls and their results.

use std::time::Duration;

use ikigai_provider::{CallResult, Message, ModelCall, Part, Provider, Role, StopReason};
use serde_json::{Value, json};

use crate::llmock::asking::{ask, ask_with, client, question, tools};
use crate::llmock::server::Llmock;

#[tokio::test]
async fn a_text_arrives_whole() {
    let Some(llmock) = Llmock::start() else { return };
    let text = "Zwölf Boxkämpfer\n\n```rust\nfn main() {}\n```\n  jagen “Viktor” 👍 durch";
    for provider in Provider::ALL {
        llmock.script(&json!([{ "type": "reply", "text": text }]));
        let asked = ask(&llmock, provider, &question()).await;
        assert_eq!((asked.text().as_str(), asked.streamed.as_str()), (text, text), "{provider}");
        assert_eq!(asked.answer().stop, StopReason::Finished, "{provider}");
        let usage = asked.answer().usage;
        assert!(usage.input.is_some() && usage.output.is_some(), "{provider}: {usage:?}");
        llmock.verdict().expect_flawless(1, 1);
    }
}

#[tokio::test]
async fn a_call_is_made_and_its_result_taken() {
    let Some(llmock) = Llmock::start() else { return };
    for provider in Provider::ALL {
        llmock.script(&json!([]));
        let client = client(&llmock, provider, Duration::from_secs(60));
        let mut conversation = question();
        let asked = ask_with(&client, &conversation, &tools(provider)).await;
        let parts = asked.answer().parts.clone();
        let calls = calls(&parts);
        let [call] = calls.as_slice() else { panic!("{provider}: {parts:?}") };
        assert_eq!(call.name, "file_read");
        let arguments: Value = serde_json::from_str(&call.arguments).expect("JSON");
        assert!(arguments["file_path"].is_string(), "{arguments}");
        conversation.push(Message { role: Role::Model, parts: parts.clone() });
        conversation.push(Message { role: Role::User, parts: vec![result(call)] });
        let asked = ask_with(&client, &conversation, &tools(provider)).await;
        assert!(!asked.text().is_empty(), "{provider}: the loop ends with a text");
        llmock.verdict().expect_flawless(2, 2);
    }
}

#[tokio::test]
async fn calls_in_one_answer_keep_their_order() {
    let Some(llmock) = Llmock::start() else { return };
    let wanted: Vec<Value> =
        (0..5).map(|at| json!({ "name": "file_read", "arguments": { "file_path": at } })).collect();
    for provider in Provider::ALL {
        llmock.script(&json!([{ "type": "reply", "text": "So:", "tool_calls": wanted }]));
        let client = client(&llmock, provider, Duration::from_secs(60));
        let asked = ask_with(&client, &question(), &tools(provider)).await;
        let parts = &asked.answer().parts;
        let mut ids: Vec<&str> = calls(parts).iter().map(|call| call.id.as_str()).collect();
        let arguments: Vec<Value> = calls(parts)
            .iter()
            .map(|call| serde_json::from_str(&call.arguments).expect("JSON"))
            .collect();
        let expected: Vec<&Value> = wanted.iter().map(|call| &call["arguments"]).collect();
        assert_eq!(arguments.iter().collect::<Vec<_>>(), expected, "{provider}");
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), wanted.len(), "{provider}: each call has an id of its own");
        llmock.verdict().expect_flawless(1, 1);
    }
}

#[tokio::test]
async fn an_answer_cut_by_length_has_no_call() {
    let Some(llmock) = Llmock::start() else { return };
    let call = json!({ "name": "file_read", "arguments": { "file_path": "a" } });
    for provider in Provider::ALL {
        let reply = json!({ "type": "reply", "text": "So:", "tool_calls": [call],
                            "finish_reason": "length" });
        llmock.script(&json!([reply]));
        let client = client(&llmock, provider, Duration::from_secs(60));
        let asked = ask_with(&client, &question(), &tools(provider)).await;
        assert_eq!(asked.answer().stop, StopReason::Length, "{provider}");
        assert_eq!(calls(&asked.answer().parts), [] as [&ModelCall; 0], "{provider}");
        assert_eq!(asked.text(), "So:", "{provider}");
    }
}

#[tokio::test]
async fn broken_calls_reach_the_loop() {
    let Some(llmock) = Llmock::start() else { return };
    for provider in Provider::ALL {
        let client = client(&llmock, provider, Duration::from_secs(60));
        llmock.script(&json!([{ "type": "tool_fault", "kind": "unknown_tool" }]));
        let asked = ask_with(&client, &question(), &tools(provider)).await;
        let names: Vec<&str> =
            calls(&asked.answer().parts).iter().map(|call| call.name.as_str()).collect();
        assert_eq!(names, ["llmock_unknown_tool"], "{provider}");
        // Google's format cannot express arguments that are not JSON.
        if provider != Provider::Google {
            llmock.script(&json!([{ "type": "tool_fault", "kind": "malformed_arguments" }]));
            let asked = ask_with(&client, &question(), &tools(provider)).await;
            let parts = &asked.answer().parts;
            let calls = calls(parts);
            let [call] = calls.as_slice() else { panic!("{provider}: {parts:?}") };
            assert!(call.arguments.starts_with('{'), "{provider}: {call:?}");
            assert!(serde_json::from_str::<Value>(&call.arguments).is_err(), "{call:?}");
        }
    }
}

fn calls(parts: &[Part]) -> Vec<&ModelCall> {
    let calls = parts.iter().filter_map(|part| match part {
        Part::Call(call) => Some(call),
        _ => None,
    });
    calls.collect()
}

fn result(call: &ModelCall) -> Part {
    Part::Result(CallResult {
        id: call.id.clone(),
        name: call.name.clone(),
        content: json!({ "tool_success": true, "result": "twelve lines" }).to_string(),
        is_error: false,
        images: Vec::new(),
    })
}
