//! A client of a fake server, questions to ask it, and what came of each.

use std::time::Duration;

use ikigai_protocol::ToolSchema;
use ikigai_provider::{
    Answer, Bounds, Call, CallResult, Client, Endpoint, Event, Failure, FailureKind, Key, Message,
    Part, Provider, Request, Role, Tools, translate_all,
};
use ikigai_provider_testing::{FakeServer, Reply, Vendor};
use serde_json::{Value, json};

/// The key of every test. It occurs nowhere else, so that a leak is seen.
pub(crate) const KEY: &str = "sk-the-key-of-this-test";

/// The interface of a vendor, by the name that both have for it.
pub(crate) fn provider(vendor: Vendor) -> Provider {
    vendor.as_str().parse().expect("the same name")
}

/// Where a server is. There is patience enough for everything, and no wait of the
/// client's own.
pub(crate) fn endpoint(server: &FakeServer) -> Endpoint {
    Endpoint {
        provider: provider(server.vendor()),
        base_url: Some(server.base_url()),
        key: Some(Key::new(KEY)),
        connect_timeout: Duration::from_secs(60),
        silence_timeout: Duration::from_secs(60),
        first_wait: Duration::from_millis(1),
    }
}

/// A client of a server.
pub(crate) fn client(server: &FakeServer) -> Client {
    Client::new(endpoint(server)).expect("an address")
}

/// What came of a question.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) outcome: Result<Answer, Failure>,
    /// What was told of while it came, a line each.
    pub(crate) events: Vec<String>,
}

impl Asked {
    #[track_caller]
    pub(crate) fn answer(&self) -> &Answer {
        self.outcome.as_ref().unwrap_or_else(|failure| panic!("{failure:?}\n{:?}", self.events))
    }

    #[track_caller]
    pub(crate) fn failure(&self) -> &Failure {
        self.outcome.as_ref().expect_err("no answer")
    }

    #[track_caller]
    pub(crate) fn kind(&self) -> &FailureKind {
        &self.failure().kind
    }

    /// The text of the answer.
    #[track_caller]
    pub(crate) fn text(&self) -> String {
        text(&self.answer().parts)
    }

    /// The calls of the answer.
    #[track_caller]
    pub(crate) fn calls(&self) -> Vec<&Call> {
        calls(&self.answer().parts)
    }

    /// The text that was told of.
    pub(crate) fn told_text(&self) -> String {
        self.events.iter().filter_map(|line| line.strip_prefix("text ")).collect()
    }

    /// How often an attempt was told to have failed.
    pub(crate) fn retries(&self) -> usize {
        self.events.iter().filter(|line| line.starts_with("retry ")).count()
    }
}

pub(crate) fn text(parts: &[Part]) -> String {
    let texts = parts.iter().filter_map(|part| match part {
        Part::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

pub(crate) fn calls(parts: &[Part]) -> Vec<&Call> {
    let calls = parts.iter().filter_map(|part| match part {
        Part::Call(call) => Some(call),
        _ => None,
    });
    calls.collect()
}

/// Starts a server with replies and asks it once.
pub(crate) async fn ask(vendor: Vendor, replies: impl IntoIterator<Item = Reply>) -> Asked {
    let server = FakeServer::start(vendor, replies);
    let asked = send(&client(&server), &question()).await;
    assert_eq!(server.violations(), [""; 0]);
    asked
}

/// Sends a conversation, with tools to call.
pub(crate) async fn send(client: &Client, messages: &[Message]) -> Asked {
    let tools = tools(client.provider());
    let request = Request {
        model: "a-model",
        system: &["You are brief.".to_owned(), "You like tools.".to_owned()],
        messages,
        tools: &tools,
        max_output: None,
    };
    send_request(client, &request).await
}

/// Sends a request.
pub(crate) async fn send_request(client: &Client, request: &Request<'_>) -> Asked {
    let mut events = Vec::new();
    let mut tell = |event: Event<'_>| {
        events.push(match event {
            Event::Text(text) => format!("text {text}"),
            Event::Thinking => "thinking".to_owned(),
            Event::Call(name) => format!("call {name}"),
            Event::Retry { attempt, wait, failure } => {
                format!("retry {attempt} after {wait:?}: {:?}", failure.kind)
            }
        });
    };
    let outcome = client.send(request, &mut tell).await;
    Asked { outcome, events }
}

/// A question.
pub(crate) fn question() -> Vec<Message> {
    vec![says("what is in the file?")]
}

/// Something that the person says.
pub(crate) fn says(text: &str) -> Message {
    Message { role: Role::User, parts: vec![Part::text(text)] }
}

/// The conversation after an answer and the results of its calls.
pub(crate) fn answered(mut conversation: Vec<Message>, answer: &Answer) -> Vec<Message> {
    let results = calls(&answer.parts).into_iter().map(result).collect();
    conversation.push(Message { role: Role::Model, parts: answer.parts.clone() });
    conversation.push(Message { role: Role::User, parts: results });
    conversation
}

/// A result that names its call.
pub(crate) fn result(call: &Call) -> Part {
    Part::Result(CallResult {
        id: call.id.clone(),
        name: call.name.clone(),
        content: json!({ "tool_success": true, "result": { "of": call.id } }).to_string(),
        is_error: false,
    })
}

/// Two tools, as they are sent.
pub(crate) fn tools(provider: Provider) -> Value {
    let tools = tools_called(provider, &["file_read", "bash"]);
    assert_eq!(tools.left_out, [], "{provider}");
    tools.value
}

/// Tools of these names.
pub(crate) fn tools_called(provider: Provider, names: &[&str]) -> Tools {
    let schema = |name: &&str| {
        let schema = json!({
            "name": name,
            "description": "Does what it is called.",
            "parameters": {
                "type": "object",
                "properties": {
                    "path": { "type": "string", "description": "Which file" },
                    "limit": { "type": "integer", "description": "How much of it" },
                },
                "required": ["path"],
            },
            "returns": { "type": "object", "properties": { "of": { "type": "string" } } },
        });
        ToolSchema::parse(schema.to_string().as_bytes()).expect("a schema")
    };
    let schemas: Vec<ToolSchema> = names.iter().map(schema).collect();
    translate_all(provider, Bounds::of(provider), &schemas)
}
