//! Data that a provider expects back, and conversations that began with another provider.

use ikigai_provider::{Blob, Message, ModelCall, ModelRequest, Part, Role};
use ikigai_provider_testing::{FakeServer, Reply, Vendor};
use serde_json::{Value, json};

use crate::asking::{
    answered, client, provider, question, result, says, send, send_request, tools,
};

/// An answer with every kind of data that must be sent back.
fn with_thoughts() -> Reply {
    Reply::answer()
        .thinking("let me ")
        .thinking("see")
        .text("I look.")
        .call("file_read", &json!({ "path": "a" }))
        .call("bash", &json!({ "path": "b" }))
}

/// Returns whether the vendor's signed data is in a request.
fn has_signed(vendor: Vendor, body: &Value) -> bool {
    let text = body.to_string();
    match vendor {
        Vendor::OpenAi => text.contains("encrypted_content") && text.contains("+s/=="),
        // Nothing is signed.
        Vendor::OpenAiChat => true,
        Vendor::Anthropic => text.contains(r#""thinking":"let me see""#) && text.contains("+s/=="),
        Vendor::Google => text.contains("thoughtSignature") && text.contains("+s/=="),
    }
}

#[tokio::test]
async fn what_was_signed_goes_back_to_its_provider() {
    for vendor in Vendor::ALL {
        let server = FakeServer::start(vendor, [with_thoughts(), Reply::answer().text("done")]);
        let client = client(&server);
        let asked = send(&client, &question()).await;
        let conversation = answered(question(), asked.answer());
        assert_eq!(send(&client, &conversation).await.text(), "done", "{vendor}");
        assert_eq!(server.violations(), [""; 0], "{vendor}");
        let body = &server.requests()[1].body;
        assert!(has_signed(vendor, body), "{vendor}: {body:#}");
    }
}

#[tokio::test]
async fn an_answer_of_thoughts_and_text_alone_goes_back() {
    for vendor in Vendor::ALL {
        for thought in [Reply::answer().thinking("let me see"), Reply::answer().hidden_thinking()] {
            let replies = [thought.text("So it is."), Reply::answer().text("done")];
            let server = FakeServer::start(vendor, replies);
            let client = client(&server);
            let asked = send(&client, &question()).await;
            let mut conversation = question();
            conversation.push(Message { role: Role::Model, parts: asked.answer().parts.clone() });
            conversation.push(says("and then?"));
            assert_eq!(send(&client, &conversation).await.text(), "done", "{vendor}");
            assert_eq!(server.violations(), [""; 0], "{vendor}");
        }
    }
}

#[tokio::test]
async fn a_blank_text_does_not_spoil_the_conversation() {
    for vendor in Vendor::ALL {
        let blank = Reply::answer().text("\n\n").call("bash", &json!({ "path": "a" }));
        let server = FakeServer::start(vendor, [blank, Reply::answer().text("done")]);
        let client = client(&server);
        let asked = send(&client, &question()).await;
        let conversation = answered(question(), asked.answer());
        assert_eq!(send(&client, &conversation).await.text(), "done", "{vendor}");
        assert_eq!(server.violations(), [""; 0], "{vendor}");
    }
}

#[tokio::test]
async fn an_empty_answer_does_not_spoil_the_conversation() {
    for vendor in Vendor::ALL {
        for empty in [Reply::answer(), Reply::answer().hidden_thinking()] {
            let server = FakeServer::start(vendor, [empty, Reply::answer().text("done")]);
            let client = client(&server);
            let asked = send(&client, &question()).await;
            let mut conversation = question();
            conversation.push(Message { role: Role::Model, parts: asked.answer().parts.clone() });
            conversation.push(says("and then?"));
            assert_eq!(send(&client, &conversation).await.text(), "done", "{vendor}");
            assert_eq!(server.violations(), [""; 0], "{vendor}");
        }
    }
}

#[tokio::test]
async fn a_conversation_goes_on_with_another_provider() {
    for from in Vendor::ALL {
        let first = FakeServer::start(from, [with_thoughts()]);
        let asked = send(&client(&first), &question()).await;
        let conversation = answered(question(), asked.answer());
        for to in Vendor::ALL.into_iter().filter(|to| *to != from) {
            let second = FakeServer::start(to, [Reply::answer().text("done")]);
            let asked = send(&client(&second), &conversation).await;
            assert_eq!(asked.text(), "done", "{from} to {to}");
            assert_eq!(second.violations(), [""; 0], "{from} to {to}");
            let body = second.requests()[0].body.to_string();
            assert!(!body.contains("+s/=="), "{from} to {to}: {body}");
            assert!(body.contains("I look."), "{from} to {to}: {body}");
        }
    }
}

#[tokio::test]
async fn a_conversation_goes_on_with_another_model_of_its_provider() {
    for vendor in Vendor::ALL {
        let server = FakeServer::start(vendor, [with_thoughts(), Reply::answer().text("done")]);
        let client = client(&server);
        let asked = send(&client, &question()).await;
        let conversation = answered(question(), asked.answer());
        let request = ModelRequest {
            model: "another-model",
            system: &[],
            messages: &conversation,
            tools: &tools(client.provider()),
            ..ModelRequest::default()
        };
        assert_eq!(send_request(&client, &request).await.text(), "done", "{vendor}");
        assert_eq!(server.violations(), [""; 0], "{vendor}");
        let body = server.requests()[1].body.to_string();
        assert!(!body.contains("+s/==") && !body.contains("let me"), "{vendor}: {body}");
        assert!(body.contains("I look."), "{vendor}: {body}");
    }
}

/// Servers of open models derive the id of a call from its tool and its number.
#[tokio::test]
async fn ids_of_any_form_are_sent_in_one_that_the_vendor_takes() {
    for vendor in Vendor::ALL {
        let call = |id: &str| ModelCall {
            id: id.to_owned(),
            name: "bash".to_owned(),
            arguments: r#"{"path":"a"}"#.to_owned(),
            blob: None,
        };
        let calls = ["functions.bash:0", "functions.bash:1", "ü 1", &"x".repeat(100)].map(call);
        let mut conversation = question();
        let results = calls.iter().map(result).collect();
        conversation.push(Message {
            role: Role::Model,
            parts: calls.map(Part::Call).into_iter().collect(),
        });
        conversation.push(Message { role: Role::User, parts: results });
        let server = FakeServer::start(vendor, [Reply::answer().text("done")]);
        let asked = send(&client(&server), &conversation).await;
        assert_eq!((server.violations(), asked.outcome.is_ok()), (vec![], true), "{vendor}");
    }
}

#[tokio::test]
async fn what_is_somebody_elses_is_left_out_wherever_it_stands() {
    for vendor in Vendor::ALL {
        let other = Vendor::ALL.into_iter().find(|other| *other != vendor).expect("another");
        let (provider, model) = (provider(other), "a-model".to_owned());
        let blob = Blob { provider, model, value: json!({ "secret": "theirs" }) };
        let text = Part::Text { text: "I think.".to_owned(), blob: Some(blob.clone()) };
        let conversation = vec![
            says("how?"),
            Message { role: Role::Model, parts: vec![Part::Blob(blob), text] },
            says("and then?"),
        ];
        let server = FakeServer::start(vendor, [Reply::answer().text("done")]);
        assert_eq!(send(&client(&server), &conversation).await.text(), "done", "{vendor}");
        assert_eq!(server.violations(), [""; 0], "{vendor}");
        let body = server.requests()[0].body.to_string();
        assert!(body.contains("I think.") && !body.contains("theirs"), "{vendor}: {body}");
    }
}
