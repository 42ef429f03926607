//! Answers that do not end normally: too long, refused, or failed.

use super::*;

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
        assert_eq!((answer.stop, answer.parts), (StopReason::Length, Vec::new()), "{provider}");
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
            assert_eq!((answer.stop, answer.parts.len()), (StopReason::Finished, 1), "{reason}");
        }
        for (reason, stop) in [("length", StopReason::Length), ("model_length", StopReason::Window)]
        {
            let answer = of(reason).expect(reason);
            assert_eq!((answer.stop, answer.parts), (stop, vec![]), "{reason}");
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
            Provider::OpenAiChat,
            json!({ "object": "error", "type": "BadRequestError", "param": null, "code": 400,
                "message": "the maximum context length is 8 m" }),
            FailureKind::TooLong { window: Some(8) },
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
        assert!(failure.detail.ends_with('m'), "{provider}: {failure}");
    }
}

#[test]
fn events_that_are_called_errors() {
    for provider in Provider::ALL {
        for (data, expected) in [
            (
                json!({ "error": { "type": "overloaded_error", "message": "m" } }),
                FailureKind::Overloaded,
            ),
            (
                json!({ "type": "error", "code": "rate_limit_exceeded", "message": "m" }),
                FailureKind::RateLimited,
            ),
            (json!({ "message": "m" }), FailureKind::Server { status: 200 }),
        ] {
            let stream = format!("event: error\ndata: {data}\n\n");
            let failure = answer(provider, stream.as_bytes()).expect_err("a failure");
            assert_eq!((failure.kind, failure.detail.as_str()), (expected, "m"), "{provider}");
        }
        // An event named `error` without an error in it is like any other.
        let whole = format!("event: error\n{}", events(&one_call(provider, "{}")));
        assert_eq!(answer(provider, whole.as_bytes()).expect("an answer").parts.len(), 1);
    }
}

/// Gemini and some gateways send an error without an event, in a stream that had begun.
#[test]
fn failures_that_are_no_event() {
    let error = |code: u16, status: &str| json!({ "error": { "code": code, "status": status, "message": "m" } });
    for (error, expected) in [
        (error(429, "RESOURCE_EXHAUSTED"), FailureKind::RateLimited),
        (error(503, "UNAVAILABLE"), FailureKind::Overloaded),
        (error(401, "UNAUTHENTICATED"), FailureKind::Key),
        (json!([error(503, "UNAVAILABLE")]), FailureKind::Overloaded),
    ] {
        for provider in Provider::ALL {
            // For a provider without a last event, the answer is complete already.
            let begun = match provider {
                Provider::Google => events(&one_call(provider, "{}")),
                Provider::OpenAiChat => events(&one_call(provider, "{}")[..1]),
                _ => format!("{}: still here\n\n", events(&one_call(provider, "{}")[..1])),
            };
            for bare in [error.to_string(), format!("{error:#}"), format!("{error:#}\r\n\r\n")] {
                let stream = format!("{begun}{bare}");
                for size in [1, 7, stream.len()] {
                    let (answer, _) = read(provider, stream.as_bytes().chunks(size));
                    let failure = answer.expect_err("a failure");
                    assert_eq!(failure.kind, expected, "{provider}: {bare}");
                    assert_eq!(failure.detail, "m", "{provider}: {bare}");
                }
            }
        }
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
        assert_eq!(answer.stop, StopReason::Refused("no".into()), "{provider}");
    }
}

/// The rest may come in the same piece as the end, or never.
#[test]
fn what_follows_the_last_event_is_not_read() {
    for provider in [Provider::OpenAi, Provider::OpenAiChat, Provider::Anthropic] {
        let done = if provider == Provider::OpenAiChat { "data: [DONE]\n\n" } else { "" };
        let whole = format!("{}{done}", events(&one_call(provider, "{}")));
        let expected = answer(provider, whole.as_bytes()).expect("an answer");
        for rest in [&b"{\"error\":{\"message\":\"late\"}}\n"[..], b"<p>\n", b"data: \xff\n"] {
            let stream = [whole.as_bytes(), rest].concat();
            assert_eq!(answer(provider, &stream), Ok(expected.clone()), "{provider}: {rest:?}");
        }
    }
}
