//! Calls and their results: what a model requests, and that the vendor accepts what is sent back.

use std::collections::BTreeSet;

use ikigai_provider::{CallResult, Message, ModelRequest, Part, Role, StopReason};
use ikigai_provider_testing::{FakeServer, Reply, Vendor};
use serde_json::{Value, json};

use crate::asking::{
    answered, ask, calls, client, provider, question, says, send, send_request, tools_called,
};

#[tokio::test]
async fn calls_are_told_of_and_given() {
    for vendor in Vendor::ALL {
        let arguments = json!({ "path": "a \"b\"\n👍.txt", "limit": 12 });
        let reply =
            Reply::answer().text("I look.").call("file_read", &arguments).call("bash", &json!({}));
        let asked = ask(vendor, [reply]).await;
        assert_eq!(asked.events, ["text I look.", "call file_read", "call bash"], "{vendor}");
        let calls = asked.calls();
        let names: Vec<&str> = calls.iter().map(|call| call.name.as_str()).collect();
        assert_eq!(names, ["file_read", "bash"], "{vendor}");
        let parsed = |at: usize| serde_json::from_str::<Value>(&calls[at].arguments).expect("JSON");
        assert_eq!((parsed(0), parsed(1)), (arguments, json!({})), "{vendor}");
        assert_ne!(calls[0].id, calls[1].id, "{vendor}");
    }
}

#[tokio::test]
async fn results_go_back_and_the_vendor_takes_them() {
    for vendor in Vendor::ALL {
        let replies = [
            Reply::answer()
                .thinking("first the file")
                .text("I look.")
                .call("file_read", &json!({ "path": "a" }))
                .call("file_read", &json!({ "path": "b" }))
                .call("bash", &json!({ "path": "c" })),
            Reply::answer().hidden_thinking().call("bash", &json!({ "path": "d" })),
            Reply::answer().text("It is empty."),
        ];
        let server = FakeServer::start(vendor, replies);
        let client = client(&server);
        let mut conversation = question();
        for round in [3, 1] {
            let asked = send(&client, &conversation).await;
            assert_eq!(asked.calls().len(), round, "{vendor}");
            conversation = answered(conversation, asked.answer());
        }
        let asked = send(&client, &conversation).await;
        assert_eq!(asked.text(), "It is empty.", "{vendor}");
        assert_eq!((server.requests().len(), server.violations()), (3, vec![]), "{vendor}");
    }
}

#[tokio::test]
async fn results_are_sent_in_the_order_of_the_calls() {
    for vendor in Vendor::ALL {
        let paths = ["a", "b", "c", "d"];
        let reply = paths
            .iter()
            .fold(Reply::answer(), |reply, path| reply.call("bash", &json!({ "path": path })));
        let server = FakeServer::start(vendor, [reply, Reply::answer().text("done")]);
        let client = client(&server);
        let asked = send(&client, &question()).await;
        let conversation = answered(question(), asked.answer());
        assert_eq!(send(&client, &conversation).await.text(), "done", "{vendor}");
        let body = server.requests()[1].body.to_string();
        // An id occurs in its call and in its result, which comes later.
        let places: Vec<usize> = asked
            .calls()
            .iter()
            .map(|call| body.rfind(&call.id))
            .map(|place| place.unwrap_or_else(|| panic!("{vendor}: a result is not in {body}")))
            .collect();
        assert!(places.is_sorted(), "{vendor}: {places:?}");
    }
}

#[tokio::test]
async fn ids_that_repeat_are_told_apart() {
    for vendor in Vendor::ALL {
        let twice = |path: &str| {
            Reply::answer().call_as("call_0", "bash", &json!({ "path": path })).call_as(
                "call_0",
                "file_read",
                &json!({ "path": path }),
            )
        };
        let replies = [twice("a"), twice("b"), Reply::answer().text("done")];
        let server = FakeServer::start(vendor, replies);
        let client = client(&server);
        let mut conversation = question();
        for _ in 0..2 {
            let asked = send(&client, &conversation).await;
            conversation = answered(conversation, asked.answer());
        }
        let all = conversation.iter().flat_map(|message| calls(&message.parts));
        let ids: BTreeSet<&str> = all.map(|call| call.id.as_str()).collect();
        assert_eq!(ids.len(), 4, "{vendor}: {ids:?}");
        assert_eq!(send(&client, &conversation).await.text(), "done", "{vendor}");
        assert_eq!(server.violations(), [""; 0], "{vendor}");
    }
}

#[tokio::test]
async fn calls_without_ids_get_some() {
    let call = |path: &str| Reply::answer().call_as("", "bash", &json!({ "path": path }));
    let both = call("b").call_as("", "bash", &json!({ "path": "c" }));
    let server = FakeServer::start(Vendor::Google, [call("a"), both, Reply::answer().text("done")]);
    let client = client(&server);
    let mut conversation = question();
    for _ in 0..2 {
        let asked = send(&client, &conversation).await;
        conversation = answered(conversation, asked.answer());
    }
    let all = conversation.iter().flat_map(|message| calls(&message.parts));
    let ids: BTreeSet<&str> = all.map(|call| call.id.as_str()).collect();
    assert!(ids.len() == 3 && !ids.contains(""), "{ids:?}");
    assert_eq!(send(&client, &conversation).await.text(), "done");
    assert_eq!(server.violations(), [""; 0]);
}

#[tokio::test]
async fn a_name_that_no_tool_can_have_does_not_end_the_conversation() {
    for vendor in Vendor::ALL {
        let names = ["multi_tool_use/parallel".to_owned(), "x".repeat(300)];
        let reply =
            names.iter().fold(Reply::answer(), |reply, name| reply.call(name, &json!({ "n": 1 })));
        let server = FakeServer::start(vendor, [reply, Reply::answer().text("done")]);
        let client = client(&server);
        let asked = send(&client, &question()).await;
        let given: Vec<&str> = asked.calls().iter().map(|call| call.name.as_str()).collect();
        assert_eq!(given, names, "{vendor}");
        let conversation = answered(question(), asked.answer());
        assert_eq!(send(&client, &conversation).await.text(), "done", "{vendor}");
        assert_eq!(server.violations(), [""; 0], "{vendor}");
    }
}

#[tokio::test]
async fn arguments_that_are_no_json_are_given_and_go_back() {
    for vendor in [Vendor::OpenAi, Vendor::OpenAiChat, Vendor::Anthropic] {
        for arguments in [r#"{"path": "a"#, "ls -l", "[1]", "null", ""] {
            let replies =
                [Reply::answer().call_raw("bash", arguments), Reply::answer().text("I see.")];
            let server = FakeServer::start(vendor, replies);
            let client = client(&server);
            let asked = send(&client, &question()).await;
            assert_eq!(asked.calls().len(), 1, "{vendor} {arguments:?}");
            let given = &asked.calls()[0].arguments;
            // An empty text means that the call has no arguments.
            let is_same = given == arguments || (arguments.is_empty() && given == "{}");
            assert!(is_same, "{vendor}: {given:?} for {arguments:?}");
            let conversation = answered(question(), asked.answer());
            assert_eq!(send(&client, &conversation).await.text(), "I see.", "{vendor}");
            assert_eq!(server.violations(), [""; 0], "{vendor} {arguments:?}");
        }
    }
}

#[tokio::test]
async fn a_call_that_google_could_not_write_is_no_call() {
    let reply = Reply::answer().text("so").call_raw("bash", "ls -l");
    let asked = ask(Vendor::Google, [reply]).await;
    // The outcome may be an answer or a failure, but no call runs.
    if let Ok(answer) = &asked.outcome {
        assert_eq!(calls(&answer.parts).len(), 0, "{answer:?}");
        assert_ne!(answer.stop, StopReason::Finished, "{answer:?}");
    }
}

#[tokio::test]
async fn two_hundred_calls_in_one_answer() {
    for vendor in Vendor::ALL {
        let reply = (0..200).fold(Reply::answer(), |reply, at| {
            reply.call("file_read", &json!({ "path": format!("{at}.txt"), "limit": at }))
        });
        let server = FakeServer::start(vendor, [reply, Reply::answer().text("done")]);
        let client = client(&server);
        let asked = send(&client, &question()).await;
        for (at, call) in asked.calls().iter().enumerate() {
            let arguments: Value = serde_json::from_str(&call.arguments).expect("JSON");
            assert_eq!(arguments["limit"], at, "{vendor}");
        }
        assert_eq!(asked.calls().len(), 200, "{vendor}");
        let conversation = answered(question(), asked.answer());
        assert_eq!(send(&client, &conversation).await.text(), "done", "{vendor}");
        assert_eq!(server.violations(), [""; 0], "{vendor}");
    }
}

#[tokio::test]
async fn results_stand_with_what_is_said_after_them() {
    for vendor in Vendor::ALL {
        let replies =
            [Reply::answer().call("bash", &json!({ "path": "a" })), Reply::answer().text("done")];
        let server = FakeServer::start(vendor, replies);
        let client = client(&server);
        let asked = send(&client, &question()).await;
        let mut conversation = answered(question(), asked.answer());
        let last = conversation.last_mut().expect("the results");
        last.parts.extend(says("and hurry").parts);
        assert_eq!(send(&client, &conversation).await.text(), "done", "{vendor}");
        assert_eq!(server.violations(), [""; 0], "{vendor}");
        assert!(server.requests()[1].body.to_string().contains("and hurry"), "{vendor}");
    }
}

#[tokio::test]
async fn results_may_be_errors_empty_or_no_json() {
    let contents = ["", " ", "no JSON", "[1, 2]", "\"text\"", "null", r#"{"error": "gone"}"#];
    for vendor in Vendor::ALL {
        let reply = contents
            .iter()
            .fold(Reply::answer(), |reply, _| reply.call("bash", &json!({ "path": "a" })));
        let server = FakeServer::start(vendor, [reply, Reply::answer().text("done")]);
        let client = client(&server);
        let asked = send(&client, &question()).await;
        let results = asked.calls().into_iter().zip(contents).map(|(call, content)| {
            Part::Result(CallResult {
                id: call.id.clone(),
                name: call.name.clone(),
                content: content.to_owned(),
                is_error: true,
                images: Vec::new(),
            })
        });
        let mut conversation = question();
        conversation.push(Message { role: Role::Model, parts: asked.answer().parts.clone() });
        conversation.push(Message { role: Role::User, parts: results.collect() });
        assert_eq!(send(&client, &conversation).await.text(), "done", "{vendor}");
        assert_eq!(server.violations(), [""; 0], "{vendor}");
        let body = &server.requests()[1].body;
        if vendor == Vendor::Anthropic {
            let results = body["messages"][2]["content"].as_array().expect("blocks");
            assert!(results.iter().all(|result| result["is_error"] == true), "{results:?}");
        }
    }
}

/// JSON allows the escape of half a surrogate pair, and no vendor accepts it. Within a text, the
/// backslash itself is escaped, which is harmless.
#[tokio::test]
async fn half_a_character_does_not_spoil_the_conversation() {
    let arguments = r#"{"path":"\ud83d","limit":1}"#;
    let part = format!(r#"{{"functionCall":{{"id":"g","name":"bash","args":{arguments}}}}}"#);
    let event = format!(r#"data: {{"candidates":[{{"content":{{"parts":[{part}]}}}}]}}"#);
    for vendor in Vendor::ALL {
        let reply = match vendor {
            Vendor::Google => Reply::answer().bytes(format!("{event}\r\n\r\n").as_bytes()),
            _ => Reply::answer().call_raw("bash", arguments),
        };
        let server = FakeServer::start(vendor, [reply, Reply::answer().text("I see.")]);
        let client = client(&server);
        let asked = send(&client, &question()).await;
        assert_eq!(asked.calls()[0].arguments, arguments, "{vendor}: the tool gets it as it was");
        let mut conversation = answered(question(), asked.answer());
        let Some(Part::Result(result)) = &mut conversation.last_mut().expect("results").parts.pop()
        else {
            panic!("{vendor}: no result")
        };
        result.content = r#"{"tool_success":true,"result":{"name":"\ude00.txt"}}"#.to_owned();
        conversation.last_mut().expect("results").parts.push(Part::Result(result.clone()));
        let asked = send(&client, &conversation).await;
        assert_eq!(server.violations(), [""; 0], "{vendor}");
        assert_eq!(asked.text(), "I see.", "{vendor}");
    }
}

#[tokio::test]
async fn more_tools_than_a_vendor_takes_do_not_spoil_a_request() {
    let names: Vec<String> = (0..600).map(|at| format!("tool_{at}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for vendor in Vendor::ALL {
        let server = FakeServer::start(vendor, [Reply::answer().text("done")]);
        let tools = tools_called(provider(vendor), &names);
        let request = ModelRequest {
            model: "a-model",
            system: &[],
            messages: &question(),
            tools: &tools.value,
            ..ModelRequest::default()
        };
        let asked = send_request(&client(&server), &request).await;
        assert_eq!((asked.text().as_str(), server.violations()), ("done", vec![]), "{vendor}");
    }
}

/// OpenAI's own library joins texts under one number.
#[tokio::test]
async fn a_name_in_pieces_is_one_call() {
    let piece = |function: Value| {
        let call = json!({ "index": 0, "id": null, "function": function });
        json!({ "choices": [{ "index": 0, "delta": { "tool_calls": [call] } }] })
    };
    let mut first = piece(json!({ "name": "file", "arguments": "" }));
    first["choices"][0]["delta"]["tool_calls"][0]["id"] = json!("call_1");
    let reply = Reply::answer()
        .event(first)
        .event(piece(json!({ "name": "_read" })))
        .event(piece(json!({ "arguments": r#"{"path":"# })))
        .event(piece(json!({ "arguments": r#""a"}"# })))
        .ending_with("tool_calls");
    let asked = ask(Vendor::OpenAiChat, [reply]).await;
    let [call] = asked.calls()[..] else { panic!("{asked:?}") };
    assert_eq!((call.name.as_str(), call.arguments.as_str()), ("file_read", r#"{"path":"a"}"#));
    assert_eq!(asked.events, ["call file_read"]);
}
