//! Streams that break off, omit something, contradict themselves, or are not event streams.

use super::*;

#[test]
fn cut_at_every_byte() {
    for provider in Provider::ALL {
        let stream = recorded(provider);
        let terminal = match provider {
            // Only the usage follows the reason.
            Provider::OpenAiChat => {
                let reason = br#""finish_reason":"tool_calls""#;
                let at = stream.windows(reason.len()).position(|found| found == reason);
                let at = at.expect("a reason");
                at + stream[at..].iter().position(|byte| *byte == b'\n').expect("an end")
            }
            _ => stream.trim_ascii_end().len(),
        };
        // The event ends with the first character of the line end after it.
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
                    assert_eq!(answer, ModelAnswer { usage, ..expected(provider) });
                }
            }
        }
    }
}

/// Some models of Google send the finish reason in every response.
#[test]
fn cut_within_a_response_that_says_that_it_is_the_last() {
    let recorded = std::str::from_utf8(recorded(Provider::Google)).expect("text");
    let mut stream = String::new();
    // The positions after which nothing shows that more was to come.
    let mut ends = Vec::new();
    for data in recorded.lines().filter_map(|line| line.strip_prefix("data: ")) {
        let mut response: serde_json::Value = serde_json::from_str(data).expect("JSON");
        response["candidates"][0]["finishReason"] = "STOP".into();
        stream.push_str(&format!("data: {response}\r\n\r\n"));
        ends.extend([stream.len() - 1, stream.len()]);
    }
    assert!(ends.len() > 4, "{stream}");
    for cut in (0..stream.len()).filter(|cut| !ends.contains(cut)) {
        let found = answer(Provider::Google, &stream.as_bytes()[..cut]);
        let kind = found.as_ref().map_err(|failure| &failure.kind);
        assert_eq!(kind, Err(&FailureKind::Cut), "cut at {cut}");
    }
    let whole = answer(Provider::Google, stream.as_bytes()).expect("an answer");
    assert_eq!(whole.parts.len(), expected(Provider::Google).parts.len());
}

#[test]
fn a_lost_event_never_leaves_half_of_the_arguments() {
    // Anthropic and Chat Completions send nothing whole to compare the pieces with.
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
                assert_eq!(failure.detail, "the stream is not UTF-8");
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
        // The answer was paid for; another attempt would be paid for again.
        for document in [
            r#"{"type":"message","role":"assistant","content":[],"stop_reason":"end_turn"}"#,
            r#"{"object":"response","status":"completed","error":null,"output":[]}"#,
            "{\n  \"candidates\": [{ \"finishReason\": \"STOP\" }]\n}\n",
        ] {
            assert_eq!(kind(provider, document), FailureKind::Malformed, "{provider}: {document}");
        }
    }
}

#[test]
fn more_than_the_limit() {
    for provider in Provider::ALL {
        let mut answer_reader = answer_reader(provider);
        answer_reader.limit = 100;
        let mut on_event = |_: AnswerEvent<'_>| {};
        assert_eq!(answer_reader.feed(&[b':'; 100], &mut on_event), Ok(Flow::Idle));
        let failure = answer_reader.feed(b":", &mut on_event).expect_err("too large");
        assert_eq!(failure.kind, FailureKind::TooLarge { limit: 100 });
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
