//! One question to one provider, and the tools that it may call.

use std::time::Duration;

use ikigai_provider::{
    AnswerEvent, ApiKey, Endpoint, Message, ModelAnswer, ModelClient, ModelRequest, Part, Provider,
    RequestFailure, Role, ToolBounds, translate_all,
};
use serde_json::{Value, json};

use crate::llmock::server::Llmock;

/// Returns a client of llmock that waits no longer than `silence` for any data.
pub(crate) fn client(llmock: &Llmock, provider: Provider, silence: Duration) -> ModelClient {
    let endpoint = Endpoint {
        provider,
        base_url: Some(llmock.base_url(provider)),
        key: Some(ApiKey::new("test")),
        headers: Vec::new(),
        connect_timeout: Duration::from_secs(30),
        silence_timeout: silence,
        // The wait is short, but long enough for llmock to recognise it.
        first_wait: Duration::from_millis(100),
    };
    ModelClient::new(endpoint).expect("an address")
}

/// The result of a question.
pub(crate) struct Asked {
    pub(crate) outcome: Result<ModelAnswer, RequestFailure>,
    /// The text of the events during the answer.
    pub(crate) streamed: String,
    /// The number of events about a failed attempt.
    pub(crate) retries: usize,
}

impl Asked {
    pub(crate) fn answer(&self) -> &ModelAnswer {
        self.outcome.as_ref().unwrap_or_else(|failure| panic!("{failure:?}"))
    }

    pub(crate) fn failure(&self) -> &RequestFailure {
        self.outcome.as_ref().expect_err("no answer")
    }

    /// The text of the answer.
    pub(crate) fn text(&self) -> String {
        let texts = self.answer().parts.iter().filter_map(|part| match part {
            Part::Text { text, .. } => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }
}

/// Asks a question without tools, with a long timeout.
pub(crate) async fn ask(llmock: &Llmock, provider: Provider, messages: &[Message]) -> Asked {
    ask_with(&client(llmock, provider, Duration::from_secs(60)), messages, &json!([])).await
}

/// Asks a question with tools.
pub(crate) async fn ask_with(client: &ModelClient, messages: &[Message], tools: &Value) -> Asked {
    let request = ModelRequest {
        model: "a-model",
        system: &["Be short.".to_owned()],
        messages,
        tools,
        ..ModelRequest::default()
    };
    let (mut streamed, mut retries) = (String::new(), 0);
    let mut on_event = |event: AnswerEvent<'_>| match event {
        AnswerEvent::Text(text) => streamed.push_str(text),
        AnswerEvent::Retry { .. } => retries += 1,
        AnswerEvent::Thinking(_) | AnswerEvent::Call(_) => {}
    };
    let outcome = client.send(&request, &mut on_event).await;
    Asked { outcome, streamed, retries }
}

/// Returns a question.
pub(crate) fn question() -> Vec<Message> {
    vec![Message { role: Role::User, parts: vec![Part::text("Read the file, please.")] }]
}

/// Returns a tool with one required argument, in the format of a provider.
pub(crate) fn tools(provider: Provider) -> Value {
    let schema = json!({
        "name": "file_read",
        "description": "Reads a file.",
        "parameters": {
            "type": "object",
            "properties": {
                "file_path": { "type": "string", "description": "Which file" },
                "limit": { "type": "integer", "description": "How many lines" },
            },
            "required": ["file_path"],
        },
    });
    let schema = ikigai_protocol::ToolSchema::parse(schema.to_string().as_bytes());
    translate_all(provider, ToolBounds::for_provider(provider), [&schema.expect("a schema")]).value
}
