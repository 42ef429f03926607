//! The clients against servers that speak, refuse and fail as the vendors do, written by
//! another hand from the same documentation. The servers check each request as the vendor
//! would, so that a conversation without violations is one that the vendor takes.

mod faults;
mod turns;

use std::time::Duration;

use ikigai_protocol::ToolSchema;
use ikigai_provider::{
    Answer, Client, Endpoint, Event, Failure, Key, Message, Part, Provider, Request, Role,
    translate_all,
};
use ikigai_provider_testing::{FakeServer, Vendor};
use serde_json::{Value, json};

/// The same interface by the names of both sides.
pub(crate) fn provider(vendor: Vendor) -> Provider {
    vendor.as_str().parse().expect("both sides use the same names")
}

/// An endpoint at a fake server; retries come at once.
pub(crate) fn endpoint(server: &FakeServer) -> Endpoint {
    Endpoint {
        base_url: Some(server.base_url()),
        key: Some(Key::new("sk-test")),
        first_wait: Duration::from_millis(1),
        ..Endpoint::new(provider(server.vendor()))
    }
}

/// What was told of an answer on its way.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) text: String,
    pub(crate) calls: Vec<String>,
    pub(crate) thoughts: usize,
    pub(crate) retries: Vec<(u32, Duration)>,
}

/// Sends a conversation and keeps what was told.
pub(crate) async fn send(client: &Client, messages: &[Message]) -> (Result<Answer, Failure>, Told) {
    let tools = tools(client.provider());
    let system = ["You are ikigai.".to_owned(), "Pinned: a.txt".to_owned()];
    let request =
        Request { model: "a-model", system: &system, messages, tools: &tools, max_output: None };
    let mut told = Told::default();
    let mut tell = |event: Event<'_>| match event {
        Event::Text(text) => told.text.push_str(text),
        Event::Thinking => told.thoughts += 1,
        Event::Call(name) => told.calls.push(name.to_owned()),
        Event::Retry { attempt, wait, .. } => told.retries.push((attempt, wait)),
    };
    let answer = client.send(&request, &mut tell).await;
    (answer, told)
}

pub(crate) fn client(server: &FakeServer) -> Client {
    Client::new(endpoint(server)).expect("a client")
}

pub(crate) fn asked(text: &str) -> Vec<Message> {
    vec![Message { role: Role::User, parts: vec![Part::text(text)] }]
}

fn tools(provider: Provider) -> Value {
    let schema = |name: &str| ToolSchema {
        name: name.to_owned(),
        description: format!("Does {name}."),
        parameters: json!({ "type": "object", "properties": { "path": { "type": "string" } },
            "required": ["path"] }),
        returns: None,
    };
    translate_all(provider, &[schema("file_read"), schema("list")]).value
}
