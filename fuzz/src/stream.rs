//! The stream that answers a request to a model, in the form of each provider.

use std::collections::HashSet;

use ikigai_provider::{
    CallResult, Message, ModelAnswer, ModelRequest, Part, Provider, Role, StopReason, fuzzing,
};
use serde_json::{Value, json};

use crate::pieces;

/// The Responses API.
pub(crate) fn openai(data: &[u8]) {
    run(Provider::OpenAi, data);
}

/// Chat Completions.
pub(crate) fn openai_chat(data: &[u8]) {
    run(Provider::OpenAiChat, data);
}

/// The Messages API.
pub(crate) fn anthropic(data: &[u8]) {
    run(Provider::Anthropic, data);
}

/// The Gemini API.
pub(crate) fn google(data: &[u8]) {
    run(Provider::Google, data);
}

/// Checks that the same bytes give the same events and the same answer or failure, wherever they
/// are cut, and that an answer can be sent back to every provider.
fn run(provider: Provider, data: &[u8]) {
    let question = Message { role: Role::User, parts: vec![Part::text("question")] };
    let messages = [question.clone()];
    let whole = fuzzing::read(provider, &request(&messages), [data]);
    for cut in pieces::cuts(data) {
        assert_eq!(fuzzing::read(provider, &request(&messages), cut), whole);
    }
    let Ok(answer) = whole.answer else { return };
    let results = results(&answer);
    let messages = [
        question,
        Message { role: Role::Model, parts: answer.parts },
        Message { role: Role::User, parts: results },
    ];
    for provider in Provider::ALL {
        let body = fuzzing::body(provider, &request(&messages));
        let body: Value = serde_json::from_slice(&body).unwrap_or_else(|error| {
            panic!("{provider}: {error}: {}", String::from_utf8_lossy(&body))
        });
        assert!(body.is_object(), "{provider}: {body}");
    }
}

fn request(messages: &[Message]) -> ModelRequest<'_> {
    const NO_TOOLS: &Value = &Value::Null;
    ModelRequest {
        model: "model",
        system: &[],
        messages,
        tools: NO_TOOLS,
        ..ModelRequest::default()
    }
}

/// Returns a result for each call of the answer. Checks that the ids of the calls are distinct, and
/// that an answer that was cut off has no call.
fn results(answer: &ModelAnswer) -> Vec<Part> {
    let mut ids = HashSet::new();
    let mut results = Vec::new();
    for part in &answer.parts {
        let Part::Call(call) = part else { continue };
        assert_eq!(answer.stop, StopReason::Finished, "a call in an answer that was cut off");
        assert!(!call.id.is_empty() && ids.insert(&call.id), "the id `{}`", call.id);
        results.push(Part::Result(CallResult {
            id: call.id.clone(),
            name: call.name.clone(),
            content: json!({ "tool_success": true, "result": {} }).to_string(),
            is_error: false,
            images: Vec::new(),
        }));
    }
    results
}
