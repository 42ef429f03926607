//! The streams of all providers, without a network: complete ones here, and the functions that the
//! other tests share.

mod broken;
mod endings;

use serde_json::json;

use super::*;
use crate::wire::stream_reader;
use crate::{AnswerEvent, Blob, ModelCall, ModelRequest, Part, StopReason, TokenUsage};

const NO_TOOLS: serde_json::Value = serde_json::Value::Null;

fn recorded(provider: Provider) -> &'static [u8] {
    match provider {
        Provider::OpenAi => include_bytes!("../../../tests/data/streams/openai.sse"),
        Provider::OpenAiChat => include_bytes!("../../../tests/data/streams/openai-chat.sse"),
        Provider::Anthropic => include_bytes!("../../../tests/data/streams/anthropic.sse"),
        Provider::Google => include_bytes!("../../../tests/data/streams/google.sse"),
    }
}

fn answer_reader(provider: Provider) -> AnswerReader {
    let request = ModelRequest {
        model: "m",
        system: &[],
        messages: &[],
        tools: &NO_TOOLS,
        ..ModelRequest::default()
    };
    AnswerReader::new(provider, stream_reader(provider, &request))
}

/// Reads pieces to their end, and returns the answer and the reported events.
fn read<'a>(
    provider: Provider,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Result<ModelAnswer, RequestFailure>, Vec<String>) {
    let mut answer_reader = answer_reader(provider);
    let mut seen = Vec::new();
    let mut on_event = |event: AnswerEvent<'_>| {
        seen.push(match event {
            AnswerEvent::Text(text) => text.to_owned(),
            AnswerEvent::Thinking(thought) => format!("(thinks {thought})"),
            AnswerEvent::Call(name) => format!("(calls {name})"),
            AnswerEvent::Retry { .. } => panic!("nothing is sent here"),
        });
    };
    for piece in pieces {
        match answer_reader.feed(piece, &mut on_event) {
            Ok(Flow::Done) => break,
            Ok(_) => {}
            Err(failure) => return (Err(failure), seen),
        }
    }
    (answer_reader.finish(), seen)
}

fn answer(provider: Provider, stream: &[u8]) -> Result<ModelAnswer, RequestFailure> {
    read(provider, [stream]).0
}

fn kind(provider: Provider, stream: &str) -> FailureKind {
    answer(provider, stream.as_bytes()).expect_err(stream).kind
}

fn events(data: &[serde_json::Value]) -> String {
    data.iter().map(|data| format!("data: {data}\n\n")).collect()
}

fn expected(provider: Provider) -> ModelAnswer {
    let written = |value| Blob { provider, model: "m".into(), value };
    let blob = |value| Some(written(value));
    let alone = |value| Part::Blob(written(value));
    let call = |id: &str, name: &str, arguments: &str, blob| {
        Part::Call(ModelCall {
            id: id.into(),
            name: name.into(),
            arguments: arguments.into(),
            blob,
        })
    };
    let text = "I read both 👍é.";
    let arguments = r#"{"file_path": "ü.txt", "offset": 1.0}"#;
    let (before, text_part, signed, listed, after) = match provider {
        Provider::OpenAi => (
            vec![alone(json!({ "type": "reasoning", "id": "rs_1", "summary": [],
                "encrypted_content": "gAAAAABo" }))],
            Part::Text { text: text.into(), blob: blob(json!({ "phase": "commentary" })) },
            None,
            None,
            None,
        ),
        Provider::OpenAiChat => (
            vec![alone(json!({ "reasoning_content": "Two files — at once." }))],
            Part::text(text),
            None,
            None,
            None,
        ),
        Provider::Anthropic => (
            vec![
                alone(json!({ "type": "thinking", "thinking": "Two files — at once.",
                    "signature": "EqQBCgIYAhIM" })),
                alone(json!({ "type": "redacted_thinking", "data": "EmwKAhgB" })),
            ],
            Part::text(text),
            None,
            None,
            None,
        ),
        Provider::Google => (
            Vec::new(),
            Part::text(text),
            blob(json!({ "id": "call_a", "thoughtSignature": "EjQKMgEM" })),
            blob(json!({ "id": "call_a" })),
            Some(Part::Text {
                text: String::new(),
                blob: blob(json!({ "thoughtSignature": "CuMB" })),
            }),
        ),
    };
    let first = if provider == Provider::Anthropic { "toolu_a" } else { "call_a" };
    let mut parts = before;
    parts.push(text_part);
    parts.push(call(first, "file_read", arguments, signed));
    parts.push(call(&format!("{first}_1"), "list", "{}", listed));
    parts.extend(after);
    // The recorded answers come from models that report everything that their providers ever
    // report. The exception is the chat, which comes from an older server.
    let usage = TokenUsage {
        input: Some(1112),
        output: Some(57),
        cached: Some(1000),
        cache_written: (provider == Provider::Anthropic).then_some(100),
        reasoning: matches!(provider, Provider::OpenAi | Provider::Google).then_some(20),
    };
    ModelAnswer { parts, stop: StopReason::Finished, usage }
}

#[test]
fn a_whole_answer() {
    for provider in Provider::ALL {
        let (answer, seen) = read(provider, [recorded(provider)]);
        assert_eq!(answer, Ok(expected(provider)), "{provider}");
        let mut all = match provider {
            Provider::OpenAi => vec!["(thinks )"],
            Provider::OpenAiChat => vec!["(thinks Two files — at once.)"],
            Provider::Anthropic => vec!["(thinks )", "(thinks Two files — at once.)", "(thinks )"],
            Provider::Google => vec!["(thinks Two files at once.)"],
        };
        all.extend(["I read ", "both 👍é.", "(calls file_read)", "(calls list)"]);
        assert_eq!(seen, all, "{provider}");
    }
}

#[test]
fn in_pieces_of_every_size() {
    for provider in Provider::ALL {
        let stream = recorded(provider);
        for size in (1..200).chain([499, 1000, 2000]) {
            let (answer, _) = read(provider, stream.chunks(size));
            assert_eq!(answer, Ok(expected(provider)), "{provider} in pieces of {size}");
        }
    }
}

fn one_call(provider: Provider, arguments: &str) -> Vec<serde_json::Value> {
    let item = |arguments: &str| {
        json!({ "type": "function_call", "call_id": "a", "name": "f",
        "arguments": arguments })
    };
    match provider {
        Provider::OpenAi => vec![
            json!({ "type": "response.output_item.added", "output_index": 0, "item": item("") }),
            json!({ "type": "response.function_call_arguments.delta", "output_index": 0,
                "delta": arguments }),
            json!({ "type": "response.output_item.done", "output_index": 0,
                "item": item(arguments) }),
            json!({ "type": "response.completed", "response": { "status": "completed" } }),
        ],
        Provider::OpenAiChat => vec![
            json!({ "choices": [{ "delta": { "tool_calls": [{ "index": 0, "id": "a",
                "function": { "name": "f", "arguments": arguments } }] } }] }),
            json!({ "choices": [{ "delta": {}, "finish_reason": "stop" }] }),
        ],
        Provider::Anthropic => vec![
            json!({ "type": "message_start", "message": {} }),
            json!({ "type": "content_block_start", "index": 0,
                "content_block": { "type": "tool_use", "id": "a", "name": "f", "input": {} } }),
            json!({ "type": "content_block_delta", "index": 0,
                "delta": { "type": "input_json_delta", "partial_json": arguments } }),
            json!({ "type": "content_block_stop", "index": 0 }),
            json!({ "type": "message_delta", "delta": { "stop_reason": "tool_use" } }),
            json!({ "type": "message_stop" }),
        ],
        Provider::Google => vec![json!({ "candidates": [{ "finishReason": "STOP",
            "content": { "parts": [{ "functionCall": { "name": "f",
                "args": serde_json::from_str::<serde_json::Value>(arguments).expect("JSON") } }] },
        }] })],
    }
}

#[test]
fn ten_megabytes_of_arguments_in_small_pieces() {
    let arguments = json!({ "content": "x".repeat(10 << 20) }).to_string();
    for provider in Provider::ALL {
        let mut stream = events(&one_call(provider, &arguments));
        if provider == Provider::OpenAiChat {
            stream.push_str("data: [DONE]\n\n");
        }
        // If each piece cost as much as everything before it, this would take an hour.
        let (answer, _) = read(provider, stream.as_bytes().chunks(100));
        let parts = answer.expect("an answer").parts;
        let [Part::Call(call)] = parts.as_slice() else { panic!("one call") };
        assert!(call.arguments == arguments, "{provider}");
    }
}

#[test]
fn two_hundred_calls_at_once() {
    let numbers = 0..200_u64;
    for provider in Provider::ALL {
        let arguments = |number: u64| format!("{{\"n\":{number}}}");
        let mut all = Vec::new();
        for number in numbers.clone() {
            let mut one = one_call(provider, &arguments(number));
            let ends = match provider {
                Provider::OpenAi | Provider::OpenAiChat => 1,
                Provider::Anthropic => 2,
                Provider::Google => 0,
            };
            if number + 1 < numbers.end {
                one.truncate(one.len() - ends);
            }
            if number > 0 && provider == Provider::Anthropic {
                one.remove(0);
            }
            for event in &mut one {
                for member in ["index", "output_index"] {
                    if event.get(member).is_some() {
                        event[member] = number.into();
                    }
                }
                if let Some(fragment) = event.pointer_mut("/choices/0/delta/tool_calls/0/index") {
                    *fragment = number.into();
                }
            }
            all.extend(one);
        }
        let mut stream = events(&all);
        if provider == Provider::OpenAiChat {
            stream.push_str("data: [DONE]\n\n");
        }
        let answer = answer(provider, stream.as_bytes()).expect("an answer");
        let mut ids = std::collections::HashSet::new();
        let found: Vec<&str> = answer
            .parts
            .iter()
            .map(|part| match part {
                Part::Call(call) => {
                    assert!(ids.insert(&call.id), "{provider}: {} twice", call.id);
                    call.arguments.as_str()
                }
                part => panic!("{part:?}"),
            })
            .collect();
        assert_eq!(found, numbers.clone().map(arguments).collect::<Vec<_>>(), "{provider}");
    }
}

#[test]
fn a_chat_whose_content_comes_in_chunks() {
    let content =
        |content: serde_json::Value| json!({ "choices": [{ "delta": { "content": content } }] });
    let thinking = json!({ "type": "thinking", "thinking": [{ "type": "text", "text": "hm" }] });
    let text = |text: &str| json!({ "type": "text", "text": text });
    let stream = events(&[
        content(json!("")),
        content(json!([thinking])),
        content(json!([thinking, text("It "), { "type": "reference", "reference_ids": [1] }])),
        content(json!([text("is "), text("so")])),
        content(json!(".")),
        json!({ "choices": [{ "delta": { "content": [] }, "finish_reason": "stop" }] }),
    ]);
    let (answer, seen) = read(Provider::OpenAiChat, [stream.as_bytes()]);
    assert_eq!(answer.expect("an answer").parts, [Part::text("It is so.")]);
    assert_eq!(seen, ["(thinks hm)", "(thinks hm)", "It ", "is so", "."]);
}

#[test]
fn the_thoughts_of_a_response_are_told_as_they_come() {
    let summary = |kind: &str, index: u64, delta: &str| {
        json!({ "type": format!("response.reasoning_summary_{kind}"), "output_index": 0,
            "summary_index": index, "delta": delta })
    };
    let item = json!({ "type": "reasoning", "id": "rs_1", "summary": [] });
    let stream = events(&[
        json!({ "type": "response.output_item.added", "output_index": 0, "item": item }),
        summary("part.added", 0, ""),
        summary("text.delta", 0, "First "),
        summary("text.delta", 0, "this."),
        summary("part.added", 1, ""),
        summary("text.delta", 1, "Then that."),
        json!({ "type": "response.reasoning_text.delta", "output_index": 0, "delta": "Raw." }),
        json!({ "type": "response.output_item.done", "output_index": 0, "item": item }),
        json!({ "type": "response.completed", "response": { "status": "completed" } }),
    ]);
    let (answer, seen) = read(Provider::OpenAi, [stream.as_bytes()]);
    answer.expect("an answer");
    let thoughts = ["", "", "First ", "this.", "\n\n", "Then that.", "Raw."];
    assert_eq!(seen, thoughts.map(|thought| format!("(thinks {thought})")));
}

#[test]
fn thoughts_under_two_names_are_told_once() {
    let delta = json!({ "reasoning_content": "hm", "reasoning": "hm" });
    let stream = events(&[
        json!({ "choices": [{ "delta": delta }] }),
        json!({ "choices": [{ "delta": { "content": "a" }, "finish_reason": "stop" }] }),
    ]);
    let (answer, seen) = read(Provider::OpenAiChat, [stream.as_bytes()]);
    answer.expect("an answer");
    assert_eq!(seen, ["(thinks hm)", "a"]);
}
