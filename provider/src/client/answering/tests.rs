//! The streams of all providers, whole and broken, without a network.

use serde_json::json;

use super::*;
use crate::wire::reading;
use crate::{Blob, Call, Event, Part, Request, Stop, Usage};

const NO_TOOLS: serde_json::Value = serde_json::Value::Null;

fn recorded(provider: Provider) -> &'static [u8] {
    match provider {
        Provider::OpenAi => include_bytes!("../../../tests/data/streams/openai.sse"),
        Provider::OpenAiChat => include_bytes!("../../../tests/data/streams/openai-chat.sse"),
        Provider::Anthropic => include_bytes!("../../../tests/data/streams/anthropic.sse"),
        Provider::Google => include_bytes!("../../../tests/data/streams/google.sse"),
    }
}

fn answering(provider: Provider) -> Answering {
    let request =
        Request { model: "m", system: &[], messages: &[], tools: &NO_TOOLS, max_output: None };
    Answering::new(provider, reading(provider, &request))
}

/// Reads pieces to their end, and gives what was told meanwhile.
fn read<'a>(
    provider: Provider,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Result<Answer, Failure>, Vec<String>) {
    let mut answering = answering(provider);
    let mut told = Vec::new();
    let mut tell = |event: Event<'_>| {
        told.push(match event {
            Event::Text(text) => text.to_owned(),
            Event::Thinking => "(thinks)".to_owned(),
            Event::Call(name) => format!("(calls {name})"),
            Event::Retry { .. } => panic!("nothing is sent here"),
        });
    };
    for piece in pieces {
        match answering.feed(piece, &mut tell) {
            Ok(Flow::More) => {}
            Ok(Flow::Done) => break,
            Err(failure) => return (Err(failure), told),
        }
    }
    (answering.finish(), told)
}

fn answer(provider: Provider, stream: &[u8]) -> Result<Answer, Failure> {
    read(provider, [stream]).0
}

fn kind(provider: Provider, stream: &str) -> FailureKind {
    answer(provider, stream.as_bytes()).expect_err(stream).kind
}

fn events(data: &[serde_json::Value]) -> String {
    data.iter().map(|data| format!("data: {data}\n\n")).collect()
}

fn expected(provider: Provider) -> Answer {
    let blob = |value| Some(Blob { provider, value });
    let alone = |value| Part::Blob(Blob { provider, value });
    let call = |id: &str, name: &str, arguments: &str, blob| {
        Part::Call(Call { id: id.into(), name: name.into(), arguments: arguments.into(), blob })
    };
    let text = "I read both 👍é.";
    let arguments = r#"{"file_path": "ü.txt", "offset": 1.0}"#;
    let (before, said, signed, listed, after) = match provider {
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
    parts.push(said);
    parts.push(call(first, "file_read", arguments, signed));
    parts.push(call(&format!("{first}_1"), "list", "{}", listed));
    parts.extend(after);
    let usage = Usage { input: Some(1112), output: Some(57), cached: Some(1000) };
    Answer { parts, stop: Stop::Finished, usage }
}

#[test]
fn a_whole_answer() {
    for provider in Provider::ALL {
        let (answer, told) = read(provider, [recorded(provider)]);
        assert_eq!(answer, Ok(expected(provider)), "{provider}");
        let thought = if provider == Provider::Anthropic { 2 } else { 1 };
        let mut all = vec!["(thinks)"; thought];
        all.extend(["I read ", "both 👍é.", "(calls file_read)", "(calls list)"]);
        assert_eq!(told, all, "{provider}");
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

#[test]
fn cut_at_every_byte() {
    for provider in Provider::ALL {
        let stream = recorded(provider);
        let terminal = match provider {
            // What comes after the reason is what the answer cost.
            Provider::OpenAiChat => {
                let reason = br#""finish_reason":"tool_calls""#;
                let at = stream.windows(reason.len()).position(|found| found == reason);
                let at = at.expect("a reason");
                at + stream[at..].iter().position(|byte| *byte == b'\n').expect("an end")
            }
            _ => stream.trim_ascii_end().len(),
        };
        // The event has ended once the line after it has begun to end.
        let whole = terminal + if provider == Provider::Google { 3 } else { 2 };
        for cut in 0..stream.len() {
            let (answer, _) = read(provider, [&stream[..cut]]);
            match answer {
                Err(failure) => {
                    assert!(cut < whole, "{provider} cut at {cut}: {failure}");
                    assert_eq!(failure.kind, FailureKind::Cut, "{provider} cut at {cut}");
                }
                Ok(answer) => {
                    assert!(cut >= whole, "{provider} cut at {cut}: {answer:?}");
                    let usage = answer.usage;
                    assert_eq!(answer, Answer { usage, ..expected(provider) });
                }
            }
        }
    }
}

#[test]
fn a_lost_event_never_leaves_half_of_the_arguments() {
    // Anthropic's and Chat Completions' pieces have no sum to be held against.
    let stream = std::str::from_utf8(recorded(Provider::OpenAi)).expect("text");
    let all: Vec<&str> = stream.split_inclusive("\n\n").collect();
    let mut whole = 0;
    for lost in 0..all.len() {
        let rest: String = [&all[..lost], &all[lost + 1..]].concat().concat();
        let Ok(answer) = answer(Provider::OpenAi, rest.as_bytes()) else { continue };
        whole += 1;
        for call in answer.parts.iter().filter_map(|part| match part {
            Part::Call(call) => Some(call),
            _ => None,
        }) {
            let read: Result<serde_json::Value, _> = serde_json::from_str(&call.arguments);
            assert!(read.is_ok(), "without {}: {}", all[lost], call.arguments);
        }
    }
    assert!(whole > 0, "what nobody needs may be missing");
}

#[test]
fn bytes_that_are_no_text() {
    for provider in Provider::ALL {
        let stream = recorded(provider);
        let accent = stream.windows(2).position(|two| two == "ü".as_bytes()).expect("an accent");
        for (at, byte) in [(accent, b'x'), (accent + 1, b'x'), (accent, 0xff)] {
            let mut spoiled = stream.to_vec();
            spoiled[at] = byte;
            for size in [1, 7, spoiled.len()] {
                let failure = read(provider, spoiled.chunks(size)).0.expect_err("no text");
                assert_eq!(failure.kind, FailureKind::Malformed, "{provider}");
                assert_eq!(failure.said, "the stream is not UTF-8");
            }
        }
    }
}

#[test]
fn what_is_no_stream_of_events() {
    for provider in Provider::ALL {
        assert_eq!(kind(provider, ""), FailureKind::Cut);
        assert_eq!(kind(provider, "\n <html><body>login</body></html>"), FailureKind::Malformed);
        assert_eq!(kind(provider, "data: {\"type\":\n\n"), FailureKind::Malformed, "{provider}");
        assert_eq!(kind(provider, "data: 7\n\n"), FailureKind::Malformed, "{provider}");
        let error = r#"{"error":{"code":503,"type":"overloaded_error","status":"UNAVAILABLE"}}"#;
        assert_eq!(kind(provider, error), FailureKind::Overloaded, "{provider}");
    }
}

#[test]
fn more_than_the_limit() {
    for provider in Provider::ALL {
        let mut answering = answering(provider);
        answering.limit = 100;
        let mut tell = |_: Event<'_>| {};
        assert_eq!(answering.feed(&[b':'; 100], &mut tell), Ok(Flow::More));
        let failure = answering.feed(b":", &mut tell).expect_err("too large");
        assert_eq!(failure.kind, FailureKind::TooLarge { limit: 100 });
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
        // Were each piece to cost as much as all before it, this would take an hour.
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
fn events_that_contradict_each_other() {
    let anthropic = one_call(Provider::Anthropic, "{}");
    let openai = one_call(Provider::OpenAi, "{}");
    let chosen = |all: &[serde_json::Value], which: &[usize]| {
        events(&which.iter().map(|&at| all[at].clone()).collect::<Vec<_>>())
    };
    for which in [
        &[1][..],         // a block before the message
        &[0, 0],          // two messages
        &[0, 1, 1],       // a block twice
        &[0, 2],          // a piece of no block
        &[0, 1, 3, 2],    // a piece after the end
        &[0, 1, 3, 3],    // two ends
        &[0, 1, 2, 4, 5], // a message that stops within a block
        &[0, 1, 2, 3, 5], // a message that stops for no reason
        &[0, 4, 1],       // a block after the reason
    ] {
        let stream = chosen(&anthropic, which);
        assert_eq!(kind(Provider::Anthropic, &stream), FailureKind::Malformed, "{which:?}");
    }
    for which in [&[0, 0][..], &[1], &[0, 2, 2], &[0, 2, 1], &[0, 1, 3], &[0, 1, 1, 2]] {
        let stream = chosen(&openai, which);
        assert_eq!(kind(Provider::OpenAi, &stream), FailureKind::Malformed, "{which:?}");
    }
    let mut chat = one_call(Provider::OpenAiChat, "{}");
    chat.reverse();
    assert_eq!(kind(Provider::OpenAiChat, &events(&chat)), FailureKind::Malformed);
    let nameless = events(&[json!({ "choices": [{ "finish_reason": "stop",
        "delta": { "tool_calls": [{ "index": 0, "function": { "arguments": "{}" } }] } }] })]);
    let nameless = format!("{nameless}data: [DONE]\n\n");
    assert_eq!(kind(Provider::OpenAiChat, &nameless), FailureKind::Malformed);
    let google = [
        json!({ "candidates": [{ "finishReason": "MAX_TOKENS" }] }),
        one_call(Provider::Google, "{}").remove(0),
    ];
    assert_eq!(kind(Provider::Google, &events(&google)), FailureKind::Malformed);
}

#[test]
fn an_answer_that_was_too_long_has_no_calls() {
    let mut anthropic = one_call(Provider::Anthropic, "{\"half");
    anthropic[4] = json!({ "type": "message_delta", "delta": { "stop_reason": "max_tokens" } });
    let mut openai = one_call(Provider::OpenAi, "{\"half");
    openai[3] = json!({ "type": "response.incomplete", "response": { "status": "incomplete",
        "incomplete_details": { "reason": "max_output_tokens" } } });
    let unfinished = [openai[0].clone(), openai[1].clone(), openai[3].clone()];
    let mut chat = one_call(Provider::OpenAiChat, "{\"half");
    chat[1] = json!({ "choices": [{ "delta": {}, "finish_reason": "length" }] });
    let mut google = one_call(Provider::Google, "{}");
    google[0]["candidates"][0]["finishReason"] = "MAX_TOKENS".into();
    for (provider, stream) in [
        (Provider::Anthropic, events(&anthropic)),
        (Provider::OpenAi, events(&openai)),
        (Provider::OpenAi, events(&unfinished)),
        (Provider::OpenAiChat, format!("{}data: [DONE]\n\n", events(&chat))),
        (Provider::Google, events(&google)),
    ] {
        let answer = answer(provider, stream.as_bytes()).expect("an answer");
        assert_eq!((answer.stop, answer.parts), (Stop::Length, Vec::new()), "{provider}");
    }
}

#[test]
fn a_chat_ends_with_its_reason() {
    let ended = |reason: &str| {
        let call = json!({ "index": 0, "id": "a", "function": { "name": "f", "arguments": "{}" } });
        events(&[
            json!({ "choices": [{ "delta": { "tool_calls": [call] } }] }),
            json!({ "choices": [{ "delta": {}, "finish_reason": reason }] }),
        ])
    };
    for end in ["", "data: [DONE]\n\n"] {
        let of =
            |reason| answer(Provider::OpenAiChat, format!("{}{end}", ended(reason)).as_bytes());
        for reason in ["stop", "tool_calls", "eos"] {
            let answer = of(reason).expect(reason);
            assert_eq!((answer.stop, answer.parts.len()), (Stop::Finished, 1), "{reason}");
        }
        for reason in ["length", "model_length"] {
            let answer = of(reason).expect(reason);
            assert_eq!((answer.stop, answer.parts), (Stop::Length, vec![]), "{reason}");
        }
        for (reason, kind) in [
            ("", FailureKind::Cut),
            ("insufficient_system_resource", FailureKind::Overloaded),
            ("error", FailureKind::Server { status: 200 }),
            ("abort", FailureKind::Server { status: 200 }),
        ] {
            assert_eq!(of(reason).expect_err(reason).kind, kind, "{reason}");
        }
    }
}

#[test]
fn failures_within_the_stream() {
    for (provider, event, expected) in [
        (
            Provider::Anthropic,
            json!({ "type": "error", "error": { "type": "overloaded_error", "message": "m" } }),
            FailureKind::Overloaded,
        ),
        (
            Provider::OpenAi,
            json!({ "type": "error", "code": "rate_limit_exceeded", "message": "m" }),
            FailureKind::RateLimited,
        ),
        (
            Provider::OpenAi,
            json!({ "type": "response.failed", "response": { "status": "failed",
                "error": { "code": "insufficient_quota", "message": "m" } } }),
            FailureKind::Quota,
        ),
        (
            Provider::OpenAiChat,
            json!({ "error": { "message": "m", "code": 500 } }),
            FailureKind::Server { status: 200 },
        ),
        (Provider::OpenAiChat, json!({ "error": "m" }), FailureKind::Server { status: 200 }),
        (
            Provider::OpenAiChat,
            json!({ "choices": [{ "finish_reason": "error", "delta": {} }],
                "error": { "code": 502, "message": "m" } }),
            FailureKind::Server { status: 200 },
        ),
        (
            Provider::Google,
            json!({ "error": { "code": 503, "message": "m", "status": "UNAVAILABLE" } }),
            FailureKind::Overloaded,
        ),
        (
            Provider::Google,
            json!({ "candidates": [{ "finishReason": "MALFORMED_FUNCTION_CALL",
                "finishMessage": "m" }] }),
            FailureKind::Server { status: 200 },
        ),
    ] {
        let failure = answer(provider, events(&[event]).as_bytes()).expect_err("a failure");
        assert_eq!(failure.kind, expected, "{provider}");
        assert!(failure.said.ends_with('m'), "{provider}: {failure}");
    }
}

#[test]
fn refusals() {
    let anthropic = [
        json!({ "type": "message_start", "message": {} }),
        json!({ "type": "message_delta", "delta": { "stop_reason": "refusal",
            "stop_details": { "type": "refusal", "category": "c", "explanation": "no" } } }),
        json!({ "type": "message_stop" }),
    ];
    let message = json!({ "type": "message", "content": [{ "type": "refusal", "refusal": "no" }] });
    let openai = [
        json!({ "type": "response.output_item.done", "output_index": 0, "item": message }),
        json!({ "type": "response.completed", "response": { "status": "completed" } }),
    ];
    let chat = [json!({ "choices": [{ "delta": { "refusal": "no" }, "finish_reason": "stop" }] })];
    let google = [json!({ "promptFeedback": { "blockReason": "SAFETY",
        "blockReasonMessage": "no" } })];
    for (provider, stream) in [
        (Provider::Anthropic, events(&anthropic)),
        (Provider::OpenAi, events(&openai)),
        (Provider::OpenAiChat, format!("{}data: [DONE]\n\n", events(&chat))),
        (Provider::Google, events(&google)),
    ] {
        let answer = answer(provider, stream.as_bytes()).expect("an answer");
        assert_eq!(answer.stop, Stop::Refused("no".into()), "{provider}");
    }
}
