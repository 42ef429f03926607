//! A question that gets no answer. Its time limit is over at once.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, duplex};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use super::{ServerIdentity, ServerQuestions, serve_asking};
use crate::offer::{
    AnswerBody, CallAnswer, Catalog, CatalogChange, ClientCall, ForbiddenRequest, Offer,
    QuestionVerdict, Resource, ResourceError, ResourceText, Unanswered, UriTemplate,
};

/// A tool that answers with the fate of its question.
struct AskingTool;

impl Offer for AskingTool {
    async fn catalog(&self) -> Arc<Catalog> {
        Arc::default()
    }

    async fn call(&self, call: ClientCall) -> Result<CallAnswer, Unanswered> {
        let verdict = call.asker.ask("may it?").await.verdict;
        let text = if verdict == QuestionVerdict::Timeout { "timeout" } else { "another" };
        Ok(CallAnswer { body: AnswerBody::Text(text.to_owned()), ..CallAnswer::default() })
    }

    fn refused(&self, _: &str, _: Option<String>, _: &str) {}

    fn forbidden(&self, _: ForbiddenRequest, _: &str) {}

    fn has_resources(&self) -> bool {
        false
    }

    fn template(&self) -> UriTemplate {
        UriTemplate { uri: "", name: "", description: "" }
    }

    async fn resources(&self, _: Option<String>) -> Result<Vec<Resource>, ResourceError> {
        Ok(Vec::new())
    }

    async fn read(&self, uri: &str, _: Option<String>) -> Result<ResourceText, ResourceError> {
        Err(ResourceError::NotFound(uri.to_owned()))
    }

    fn changes(&self) -> broadcast::Receiver<CatalogChange> {
        broadcast::Sender::new(1).subscribe()
    }

    async fn watch(&self, uri: &str, _: Option<String>) -> Result<(), ResourceError> {
        Err(ResourceError::NotFound(uri.to_owned()))
    }

    fn unwatch(&self, _: &str) {}
}

#[tokio::test]
async fn a_question_that_nobody_answers_is_a_no_and_is_taken_back() {
    let questions = Arc::new(ServerQuestions::with_patience(Duration::ZERO).expect("a key"));
    let (mut input, server_input) = duplex(64 << 10);
    let (server_output, output) = duplex(64 << 10);
    let text = || "test".to_owned();
    let server =
        ServerIdentity { name: text(), title: text(), version: text(), instructions: text() };
    let streams = (server_input, server_output);
    let cancel = CancellationToken::new();
    let served =
        tokio::spawn(serve_asking(Arc::new(AskingTool), server, questions, streams, cancel));
    let initialize = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": { "elicitation": {} },
        "clientInfo": { "name": "test", "version": "1" },
    });
    for message in [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": { "name": "tool" } }),
    ] {
        input.write_all(format!("{message}\n").as_bytes()).await.expect("it reads");
    }
    let mut lines = BufReader::new(output).lines();
    let (mut asked, mut taken_back, mut answer) = (Value::Null, Value::Null, Value::Null);
    while answer.is_null() || taken_back.is_null() {
        let line = lines.next_line().await.expect("a line").expect("it goes on");
        let message: Value = serde_json::from_str(&line).expect("JSON");
        match message["method"].as_str() {
            Some("elicitation/create") => asked = message["id"].clone(),
            Some("notifications/cancelled") => taken_back = message["params"]["requestId"].clone(),
            None if message["id"] == 2 => answer = message["result"].clone(),
            _ => {}
        }
    }
    assert_eq!(answer["content"][0]["text"], "timeout", "{answer}");
    assert!(!asked.is_null());
    assert_eq!(taken_back, asked);
    drop(input);
    served.await.expect("no panic").expect("served");
}
