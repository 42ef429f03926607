//! Answers without calls: their texts, ends and usage, and other content that a stream may have
//! between its events.

use ikigai_provider::{
    AnswerEvent, AnswerSettings, AnswerShape, Endpoint, ModelClient, ModelRequest, Part,
    RequestHeader, StopReason, TokenUsage,
};
use ikigai_provider_testing::{FakeServer, Gate, Reply, Vendor};
use serde_json::json;

use crate::asking::{
    Asked, KEY, answered, ask, client, endpoint, question, says, send, send_request, tools,
};

const TEXT: [&str; 4] = ["Zwölf ", "Boxkämpfer\r\n\n", "```\n\"quoted\" \\ 👍🏽", "\u{2028}日本"];

fn reply() -> Reply {
    TEXT.into_iter().fold(Reply::answer(), Reply::text)
}

#[tokio::test]
async fn a_text_is_told_and_given_as_it_was_sent() {
    for vendor in Vendor::ALL {
        let asked = ask(vendor, [reply()]).await;
        assert_eq!(asked.text(), TEXT.concat(), "{vendor}");
        assert_eq!(asked.told_text(), TEXT.concat(), "{vendor}");
        assert_eq!(asked.events.len(), TEXT.len(), "{vendor}: piece by piece: {:?}", asked.events);
        assert_eq!(asked.answer().stop, StopReason::Finished, "{vendor}");
        let texts = asked.answer().parts.iter().filter(|part| matches!(part, Part::Text { .. }));
        assert_eq!(texts.count(), 1, "{vendor}: {:?}", asked.answer().parts);
    }
}

#[tokio::test]
async fn a_text_is_told_as_soon_as_it_comes() {
    for vendor in Vendor::ALL {
        let gate = Gate::closed();
        let server = FakeServer::start(vendor, [Reply::answer().text("a").stall(&gate).text("b")]);
        let client = client(&server);
        let request = ModelRequest {
            model: "a-model",
            system: &[],
            messages: &question(),
            tools: &json!([]),
            ..ModelRequest::default()
        };
        let mut text_seen = String::new();
        // The gate opens when the first piece is reported. If the report waited for the rest,
        // nothing would ever arrive.
        let answer = client
            .send(&request, &mut |event| {
                if let AnswerEvent::Text(text) = event {
                    text_seen.push_str(text);
                    gate.open();
                }
            })
            .await;
        assert!(answer.is_ok() && text_seen == "ab", "{vendor}: {answer:?} {text_seen:?}");
    }
}

#[tokio::test]
async fn portions_of_any_size_make_the_same_answer() {
    for vendor in Vendor::ALL {
        let whole = ask(vendor, [reply().call_as("c1", "bash", &json!({ "path": "ü" }))]).await;
        for bytes in [1, 2, 3, 7, 64] {
            let call = reply().call_as("c1", "bash", &json!({ "path": "ü" }));
            let asked = ask(vendor, [call.in_portions(bytes)]).await;
            assert_eq!(asked.text(), whole.text(), "{vendor} {bytes}");
            let arguments = |asked: &Asked| asked.calls()[0].arguments.clone();
            assert_eq!(arguments(&asked), arguments(&whole), "{vendor} {bytes}");
            assert_eq!(asked.events, whole.events, "{vendor} {bytes}");
        }
    }
}

#[tokio::test]
async fn what_is_no_content_is_passed_over() {
    for vendor in Vendor::ALL {
        let reply = Reply::answer()
            .ping()
            .unknown_event()
            .text("a")
            .ping()
            .bytes(b": a comment\n\n")
            .bytes(b":\n\n")
            .bytes(b"id: 7\nretry: 10\n\n")
            .unknown_event()
            .text("b");
        let asked = ask(vendor, [reply]).await;
        assert_eq!((asked.text().as_str(), asked.told_text().as_str()), ("ab", "ab"), "{vendor}");
    }
}

#[tokio::test]
async fn what_it_cost_is_said() {
    for vendor in Vendor::ALL {
        let reply = Reply::answer().thinking("hm").text("a").usage(1200, 30);
        let asked = ask(vendor, [reply.cached(1000).cache_written(150)]).await;
        let expected = TokenUsage {
            input: Some(1200),
            output: Some(30),
            cached: Some(1000),
            cache_written: (vendor != Vendor::Google).then_some(150),
            reasoning: Some(15),
        };
        assert_eq!(asked.answer().usage, expected, "{vendor}");
    }
}

#[tokio::test]
async fn thoughts_are_told_and_are_no_part_of_the_text() {
    for vendor in Vendor::ALL {
        let asked = ask(vendor, [Reply::answer().thinking("let ").thinking("me").text("a")]).await;
        assert_eq!((asked.text().as_str(), asked.told_text().as_str()), ("a", "a"), "{vendor}");
        let thoughts = asked.events.iter().filter_map(|event| event.strip_prefix("thinking "));
        assert_eq!(thoughts.collect::<String>(), "let me", "{vendor}: {:?}", asked.events);
    }
}

#[tokio::test]
async fn an_answer_cut_by_length_says_so() {
    for vendor in Vendor::ALL {
        let reply = Reply::answer().text("so f").cut_by_length();
        let asked = ask(vendor, [reply]).await;
        assert_eq!((asked.text().as_str(), &asked.answer().stop), ("so f", &StopReason::Length));
        let reply = Reply::answer()
            .text("a")
            .call("bash", &json!({ "path": "x" }))
            .call_raw("file_read", r#"{"path": "#)
            .cut_by_length();
        let asked = ask(vendor, [reply]).await;
        assert_eq!(asked.answer().stop, StopReason::Length, "{vendor}");
        assert!(asked.calls().is_empty(), "{vendor}: none is known to be whole");
    }
}

#[tokio::test]
async fn an_answer_that_fills_the_window_says_so() {
    let word = "model_context_window_exceeded";
    let reply = Reply::answer().text("so f").call("bash", &json!({ "path": "x" }));
    let asked = ask(Vendor::Anthropic, [reply.ending_with(word)]).await;
    assert_eq!((asked.text().as_str(), &asked.answer().stop), ("so f", &StopReason::Window));
    assert!(asked.calls().is_empty(), "none is known to be whole");
}

#[tokio::test]
async fn a_refusal_is_an_answer_that_says_so() {
    for vendor in Vendor::ALL {
        let asked = ask(vendor, [Reply::answer().refused("I will not help with this.")]).await;
        let stop = &asked.answer().stop;
        assert!(matches!(stop, StopReason::Refused(_)), "{vendor}: {stop:?}");
        if let (StopReason::Refused(why), true) = (stop, vendor != Vendor::Anthropic) {
            assert!(why.contains("I will not help"), "{vendor}: {why:?}");
        }
    }
}

#[tokio::test]
async fn googles_refusal_of_a_prompt_is_one_too() {
    let blocked = json!({ "promptFeedback": { "blockReason": "PROHIBITED_CONTENT" },
                          "usageMetadata": { "promptTokenCount": 5, "totalTokenCount": 5 } });
    let asked = ask(Vendor::Google, [Reply::answer().event(blocked).without_end()]).await;
    let stop = &asked.answer().stop;
    let StopReason::Refused(why) = stop else { panic!("{stop:?}") };
    assert!(why.contains("PROHIBITED_CONTENT"), "{why:?}");
}

#[tokio::test]
async fn a_conversation_is_one_request_and_the_next_uses_its_connection() {
    for vendor in Vendor::ALL {
        let server = FakeServer::start(vendor, ["a", "b"].map(|text| Reply::answer().text(text)));
        let client = client(&server);
        let mut conversation = question();
        let first = send(&client, &conversation).await;
        conversation = answered(conversation, first.answer());
        conversation.pop();
        conversation.push(says("and then?"));
        assert_eq!(send(&client, &conversation).await.text(), "b", "{vendor}");
        assert_eq!((server.requests().len(), server.violations()), (2, vec![]), "{vendor}");
    }
}

/// Some local servers have other finish reasons.
#[tokio::test]
async fn a_stream_is_one_by_what_is_in_it() {
    for vendor in Vendor::ALL {
        for kind in ["text/event-stream", "application/octet-stream", "text/plain"] {
            let asked = ask(vendor, [Reply::answer().text("a").content_type(kind)]).await;
            assert_eq!(asked.text(), "a", "{vendor}: {kind}");
        }
    }
}

/// Some servers keep the connection open after the last event, and send no `[DONE]`.
#[tokio::test]
async fn a_chat_that_says_why_it_ended_is_not_waited_for() {
    let gate = Gate::closed();
    let ended = json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "stop" }] });
    let reply = Reply::answer().text("a").event(ended).ping().stall(&gate).without_end();
    let asked = ask(Vendor::OpenAiChat, [reply]).await;
    assert_eq!((asked.text().as_str(), &asked.answer().stop), ("a", &StopReason::Finished));
}

/// In a chat everything comes before the finish reason.
#[tokio::test]
async fn a_chat_that_is_cut_after_its_reason_is_an_answer() {
    let server = FakeServer::start(Vendor::OpenAiChat, [reply()]);
    assert_eq!(send(&client(&server), &question()).await.text(), TEXT.concat());
    let body = reply().body(Vendor::OpenAiChat, &server.requests()[0]);
    let body = std::str::from_utf8(&body).expect("UTF-8");
    let reason = body.find(r#""finish_reason":"stop""#).expect("a reason");
    let end = reason + body[reason..].find("\n\n").expect("an end") + 2;
    for at in [end, end + 1, body.len() - 1] {
        for cut in [reply().cut_after(at), reply().end_after(at)] {
            assert_eq!(ask(Vendor::OpenAiChat, [cut]).await.text(), TEXT.concat(), "{at}");
        }
    }
}

#[tokio::test]
async fn an_answer_without_anything_is_an_answer() {
    for vendor in Vendor::ALL {
        let asked = ask(vendor, [Reply::answer()]).await;
        assert_eq!((asked.text().as_str(), &asked.answer().stop), ("", &StopReason::Finished));
    }
}

#[tokio::test]
async fn the_key_goes_to_the_server_and_nowhere_else() {
    for vendor in Vendor::ALL {
        let message = format!("the key {} is wrong", KEY);
        let server = FakeServer::start(vendor, [Reply::status(401, &message)]);
        let asked = send(&client(&server), &question()).await;
        let request = &server.requests()[0];
        assert!(format!("{:?}", request.headers).contains(KEY), "{vendor}");
        assert!(!request.path.contains(KEY), "{vendor}: {}", request.path);
        let everything = format!("{:?} {} {:?}", asked, asked.failure(), client(&server));
        assert!(!everything.contains(KEY), "{vendor}: {everything}");
    }
}

#[tokio::test]
async fn a_bound_on_the_answer_is_sent() {
    for vendor in Vendor::ALL {
        let server = FakeServer::start(vendor, [Reply::answer().text("a")]);
        let client = client(&server);
        let request = ModelRequest {
            model: "a-model",
            system: &[],
            messages: &question(),
            tools: &json!([]),
            max_output: Some(4321),
            ..ModelRequest::default()
        };
        assert_eq!(send_request(&client, &request).await.text(), "a", "{vendor}");
        let body = server.requests()[0].body.to_string();
        assert!(body.contains("4321"), "{vendor}: {body}");
        assert_eq!(server.violations(), [""; 0], "{vendor}");
    }
}

#[tokio::test]
async fn settings_and_shapes_are_what_their_vendor_takes() {
    let schema = json!({ "type": "object", "properties": { "name": { "type": "string" },
        "pets": { "type": "array", "items": { "type": "object",
            "properties": { "kind": { "type": "string" } } } } } });
    for vendor in Vendor::ALL {
        let server = FakeServer::with(vendor, |_| Reply::answer().text("{}"));
        let client = client(&server);
        let provider = client.provider();
        let shape = AnswerShape::new(provider, &schema).expect("a shape");
        for &effort in provider.efforts() {
            let request = ModelRequest {
                model: "a-model",
                messages: &question(),
                tools: &tools(provider),
                settings: AnswerSettings { effort: Some(effort), temperature: None },
                shape: Some(&shape),
                ..ModelRequest::default()
            };
            assert_eq!(send_request(&client, &request).await.text(), "{}", "{vendor} {effort}");
        }
        let settings = AnswerSettings { effort: None, temperature: Some(0.25) };
        let messages = question();
        let request = ModelRequest {
            model: "a-model",
            messages: &messages,
            settings,
            ..ModelRequest::default()
        };
        assert_eq!(send_request(&client, &request).await.text(), "{}", "{vendor}");
        let last = server.requests().pop().expect("a request").body.to_string();
        assert!(last.contains(r#""temperature":0.25"#), "{vendor}: {last}");
        assert_eq!(server.violations(), [""; 0], "{vendor}");
    }
}

#[tokio::test]
async fn headers_of_a_person_are_sent_and_their_values_stay_out_of_messages() {
    for vendor in Vendor::ALL {
        let server = FakeServer::start(
            vendor,
            [Reply::answer().text("a"), Reply::status(400, "no team called hush-hush")],
        );
        let headers = vec![RequestHeader::new("X-Team", "hush-hush").expect("a header")];
        let client = ModelClient::new(Endpoint { headers, ..endpoint(&server) }).expect("a client");
        assert_eq!(send(&client, &question()).await.text(), "a", "{vendor}");
        assert_eq!(server.requests()[0].header("x-team"), Some("hush-hush"), "{vendor}");
        let asked = send(&client, &question()).await;
        assert_eq!(asked.failure().detail, "no team called …", "{vendor}");
        assert!(!format!("{client:?}").contains("hush"), "{vendor}: {client:?}");
    }
}
