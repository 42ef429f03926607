//! Conversations that go well.

use ikigai_provider::{Call, CallResult, Client, Message, Part, Role, Stop};
use ikigai_provider_testing::{FakeServer, Reply, Vendor};
use serde_json::json;

use crate::{asked, client, endpoint, provider, send};

fn calls(message: &Message) -> Vec<&Call> {
    let parts = message.parts.iter();
    parts.filter_map(|part| if let Part::Call(call) = part { Some(call) } else { None }).collect()
}

/// The results of all calls of an answer, the last of them a failure.
fn results(answer: &Message) -> Message {
    let calls = calls(answer);
    let last = calls.len() - 1;
    let results = calls.iter().enumerate().map(|(index, call)| {
        Part::Result(CallResult {
            id: call.id.clone(),
            name: call.name.clone(),
            content: json!({ "tool_success": index != last }).to_string(),
            is_error: index == last,
        })
    });
    Message { role: Role::User, parts: results.collect() }
}

/// A step with thoughts and parallel calls, whose results go back and are answered.
async fn step(client: &Client, messages: &mut Vec<Message>) {
    let (answer, told) = send(client, messages).await;
    let answer = answer.expect("an answer with calls");
    assert_eq!(answer.stop, Stop::Finished);
    assert_eq!(told.text, "I read both.");
    assert_eq!(told.calls, ["file_read", "list"]);
    let model = Message { role: Role::Model, parts: answer.parts };
    let arguments: Vec<_> = calls(&model)
        .iter()
        .map(|call| serde_json::from_str::<serde_json::Value>(&call.arguments).expect("JSON"))
        .collect();
    assert_eq!(arguments, [json!({ "path": "ü.txt" }), json!({})]);
    let results = results(&model);
    messages.extend([model, results]);
    let (answer, _) = send(client, messages).await;
    let answer = answer.expect("the answer to the results");
    assert_eq!(answer.parts.iter().filter(|part| matches!(part, Part::Text { .. })).count(), 1);
    assert_eq!((answer.usage.input, answer.usage.output), (Some(100), Some(9)));
    assert_eq!(answer.usage.cached, Some(40));
    messages.push(Message { role: Role::Model, parts: answer.parts });
    messages.push(asked("again").remove(0));
}

fn replies() -> [Reply; 2] {
    [
        Reply::answer()
            .thinking("Two files.")
            .ping()
            .unknown_event()
            .text("I read ")
            .text("both.")
            .call("file_read", &json!({ "path": "ü.txt" }))
            .call("list", &json!({}))
            .in_portions(3),
        Reply::answer().text("Done.").usage(100, 9).cached(40),
    ]
}

#[tokio::test]
async fn calls_and_results_go_round() {
    for vendor in Vendor::ALL {
        let server = FakeServer::start(vendor, replies());
        step(&client(&server), &mut asked("read both")).await;
        assert_eq!(server.violations(), [""; 0], "{vendor}");
    }
}

#[tokio::test]
async fn a_conversation_goes_on_with_another_model() {
    for from in Vendor::ALL {
        // What a vendor signed, another server of the same vendor would refuse.
        for to in Vendor::ALL.into_iter().filter(|to| *to != from) {
            let servers = [FakeServer::start(from, replies()), FakeServer::start(to, replies())];
            let mut messages = asked("read both");
            for server in &servers {
                step(&client(server), &mut messages).await;
                assert_eq!(server.violations(), [""; 0], "{from} and then {to}");
            }
        }
    }
}

#[tokio::test]
async fn ids_that_come_twice_or_never() {
    for vendor in Vendor::ALL {
        let reply = |id: &str| {
            Reply::answer().call_as(id, "list", &json!({ "path": "1" })).call_as(
                id,
                "list",
                &json!({ "path": "2" }),
            )
        };
        let server = FakeServer::with(vendor, move |request| {
            if request.body.to_string().contains("tool_success") {
                Reply::answer().text("Done.")
            } else {
                reply(if vendor == Vendor::Google { "" } else { "same" })
            }
        });
        let client = client(&server);
        let mut messages = asked("list");
        let (answer, _) = send(&client, &messages).await;
        let model = Message { role: Role::Model, parts: answer.expect("calls").parts };
        let found = calls(&model);
        assert_eq!(found.len(), 2, "{vendor}");
        assert_ne!(found[0].id, found[1].id, "{vendor}");
        let results = results(&model);
        messages.extend([model, results]);
        send(&client, &messages).await.0.expect("an answer to the results");
        assert_eq!(server.requests().len(), 2);
    }
}

#[tokio::test]
async fn arguments_that_are_no_json_are_kept_and_sent_back() {
    for vendor in [Vendor::OpenAi, Vendor::OpenAiChat, Vendor::Anthropic] {
        let replies =
            [Reply::answer().call_raw("list", "{\"path\": oops"), Reply::answer().text("Sorry.")];
        let server = FakeServer::start(vendor, replies);
        let client = client(&server);
        let mut messages = asked("list");
        let (answer, _) = send(&client, &messages).await;
        let model = Message { role: Role::Model, parts: answer.expect("a call").parts };
        assert_eq!(calls(&model)[0].arguments, "{\"path\": oops", "{vendor}");
        let results = results(&model);
        messages.extend([model, results]);
        send(&client, &messages).await.0.expect("an answer");
        assert_eq!(server.violations(), [""; 0], "{vendor}");
        let sent = server.requests()[1].body.to_string();
        assert!(sent.contains("oops"), "{vendor}: {sent}");
    }
}

#[tokio::test]
async fn a_local_server_wants_no_key() {
    let server = FakeServer::of(Vendor::OpenAiChat)
        .without_key()
        .start([Reply::answer().text("hello").content_type("application/octet-stream")]);
    let endpoint = ikigai_provider::Endpoint { key: None, ..endpoint(&server) };
    let client = Client::new(endpoint).expect("a client");
    let (answer, _) = send(&client, &asked("hello")).await;
    assert_eq!(answer.expect("an answer").parts, [Part::text("hello")]);
    assert_eq!(server.requests()[0].header("authorization"), None);
}

#[tokio::test]
async fn an_answer_that_ended_early_says_why() {
    for vendor in Vendor::ALL {
        let server = FakeServer::start(
            vendor,
            [Reply::answer().text("so ").cut_by_length(), Reply::answer().refused("policy")],
        );
        let client = client(&server);
        let cut = send(&client, &asked("a")).await.0.expect("an answer");
        assert_eq!((cut.stop, cut.parts), (Stop::Length, vec![Part::text("so ")]), "{vendor}");
        let refused = send(&client, &asked("b")).await.0.expect("an answer");
        assert!(matches!(refused.stop, Stop::Refused(_)), "{}: {refused:?}", provider(vendor));
    }
}
