//! A client of a fake server, requests to it, and their outcomes.

use std::time::Duration;

use ikigai_protocol::ToolSchema;
use ikigai_provider::{
    AnswerEvent, ApiKey, CallResult, Endpoint, FailureKind, Message, ModelAnswer, ModelCall,
    ModelClient, ModelRequest, Part, Provider, RequestFailure, Role, ToolBounds, TranslatedTools,
    translate_all,
};
use ikigai_provider_testing::{FakeServer, Reply, Vendor};
use serde_json::{Value, json};

/// The key of every test. It occurs nowhere else, so that the tests notice a leak.
pub(crate) const KEY: &str = "sk-the-key-of-this-test";

/// Returns the provider that has the vendor's name.
pub(crate) fn provider(vendor: Vendor) -> Provider {
    vendor.as_str().parse().expect("the same name")
}

/// Returns the endpoint of a server, with long timeouts and minimal waits between attempts.
pub(crate) fn endpoint(server: &FakeServer) -> Endpoint {
    Endpoint {
        provider: provider(server.vendor()),
        base_url: Some(server.base_url()),
        key: Some(ApiKey::new(KEY)),
        headers: Vec::new(),
        connect_timeout: Duration::from_secs(60),
        silence_timeout: Duration::from_secs(60),
        first_wait: Duration::from_millis(1),
    }
}

pub(crate) fn client(server: &FakeServer) -> ModelClient {
    ModelClient::new(endpoint(server)).expect("an address")
}

/// The outcome of a request.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) outcome: Result<ModelAnswer, RequestFailure>,
    /// The events that were reported, one per line.
    pub(crate) events: Vec<String>,
}

impl Asked {
    #[track_caller]
    pub(crate) fn answer(&self) -> &ModelAnswer {
        self.outcome.as_ref().unwrap_or_else(|failure| panic!("{failure:?}\n{:?}", self.events))
    }

    #[track_caller]
    pub(crate) fn failure(&self) -> &RequestFailure {
        self.outcome.as_ref().expect_err("no answer")
    }

    #[track_caller]
    pub(crate) fn kind(&self) -> &FailureKind {
        &self.failure().kind
    }

    #[track_caller]
    pub(crate) fn text(&self) -> String {
        text(&self.answer().parts)
    }

    #[track_caller]
    pub(crate) fn calls(&self) -> Vec<&ModelCall> {
        calls(&self.answer().parts)
    }

    /// Returns the text that was reported.
    pub(crate) fn told_text(&self) -> String {
        self.events.iter().filter_map(|line| line.strip_prefix("text ")).collect()
    }

    /// Returns the number of failed attempts that were reported.
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

pub(crate) fn calls(parts: &[Part]) -> Vec<&ModelCall> {
    let calls = parts.iter().filter_map(|part| match part {
        Part::Call(call) => Some(call),
        _ => None,
    });
    calls.collect()
}

/// Starts a server with replies and sends it one request.
pub(crate) async fn ask(vendor: Vendor, replies: impl IntoIterator<Item = Reply>) -> Asked {
    let server = FakeServer::start(vendor, replies);
    let asked = send(&client(&server), &question()).await;
    assert_eq!(server.violations(), [""; 0]);
    asked
}

/// Sends a conversation, with tools to call.
pub(crate) async fn send(client: &ModelClient, messages: &[Message]) -> Asked {
    let tools = tools(client.provider());
    let request = ModelRequest {
        model: "a-model",
        system: &["You are brief.".to_owned(), "You like tools.".to_owned()],
        messages,
        tools: &tools,
        ..ModelRequest::default()
    };
    send_request(client, &request).await
}

/// Sends a request.
pub(crate) async fn send_request(client: &ModelClient, request: &ModelRequest<'_>) -> Asked {
    let mut events = Vec::new();
    let mut tell = |event: AnswerEvent<'_>| {
        events.push(match event {
            AnswerEvent::Text(text) => format!("text {text}"),
            AnswerEvent::Thinking(thought) => format!("thinking {thought}"),
            AnswerEvent::Call(name) => format!("call {name}"),
            AnswerEvent::Retry { attempt, wait, failure } => {
                format!("retry {attempt} after {wait:?}: {:?}", failure.kind)
            }
        });
    };
    let outcome = client.send(request, &mut tell).await;
    Asked { outcome, events }
}

pub(crate) fn question() -> Vec<Message> {
    vec![says("what is in the file?")]
}

pub(crate) fn says(text: &str) -> Message {
    Message { role: Role::User, parts: vec![Part::text(text)] }
}

/// Extends the conversation with an answer and the results of its calls.
pub(crate) fn answered(mut conversation: Vec<Message>, answer: &ModelAnswer) -> Vec<Message> {
    let results = calls(&answer.parts).into_iter().map(result).collect();
    conversation.push(Message { role: Role::Model, parts: answer.parts.clone() });
    conversation.push(Message { role: Role::User, parts: results });
    conversation
}

/// Returns a result that names its call.
pub(crate) fn result(call: &ModelCall) -> Part {
    Part::Result(CallResult {
        id: call.id.clone(),
        name: call.name.clone(),
        content: json!({ "tool_success": true, "result": { "of": call.id } }).to_string(),
        is_error: false,
        images: Vec::new(),
    })
}

/// Returns two tools in the provider's form.
pub(crate) fn tools(provider: Provider) -> Value {
    let tools = tools_called(provider, &["file_read", "bash"]);
    assert_eq!(tools.left_out, [], "{provider}");
    tools.value
}

/// Returns tools of these names.
pub(crate) fn tools_called(provider: Provider, names: &[&str]) -> TranslatedTools {
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
    translate_all(provider, ToolBounds::for_provider(provider), &schemas)
}
