//! Streams that are cut at every position: none of them is an answer.

use std::collections::HashSet;
use std::sync::Arc;

use ikigai_provider::{FailureKind, ModelClient, ModelRequest};
use ikigai_provider_testing::{FakeServer, Reply, Vendor};
use serde_json::json;
use tokio::task::JoinSet;

use crate::asking::{Asked, client, question, send_request, tools};

fn whole() -> Reply {
    Reply::answer()
        .thinking("hm")
        .text("It is ")
        .text("so.")
        .call_as("call_1", "bash", &json!({ "path": "ü.txt" }))
        .call_as("call_2", "file_read", &json!({}))
}

/// Returns the number of bytes that a stream must have to be complete.
fn needed(vendor: Vendor, body: &[u8]) -> usize {
    let body = std::str::from_utf8(body).expect("UTF-8");
    let mark = match vendor {
        Vendor::OpenAi => r#"data: {"type":"response.completed""#,
        Vendor::OpenAiChat => r#""finish_reason":"tool_calls""#,
        Vendor::Anthropic => r#"{"type":"message_stop"}"#,
        Vendor::Google => r#""finishReason":"STOP""#,
    };
    let begin = body.find(mark).expect("the terminal event");
    // Up to the end of the data; the reader decides about the blank line.
    begin + body[begin..].find(['\r', '\n']).expect("a line").max(mark.len())
}

/// Starts a server that cuts the stream at the position in the model's name. It refuses a second
/// attempt, so that nothing waits.
fn server(vendor: Vendor, is_clean: bool, whole: fn() -> Reply) -> FakeServer {
    let mut seen = HashSet::new();
    FakeServer::with(vendor, move |request| {
        let model = match vendor {
            Vendor::Google => request.path.clone(),
            _ => request.body["model"].as_str().unwrap_or_default().to_owned(),
        };
        let digits = model.split("cut-").nth(1).unwrap_or_default().get(..7);
        let at = digits.and_then(|digits| digits.parse().ok()).expect("a number");
        match (seen.insert(model), is_clean) {
            (false, _) => Reply::status(400, "once is enough"),
            (true, false) => whole().cut_after(at),
            (true, true) => whole().end_after(at),
        }
    })
}

async fn ask_cut(client: Arc<ModelClient>, at: usize) -> Asked {
    // The name occurs in some events, so it has the same length in every request.
    let model = format!("cut-{at:07}");
    let offered = tools(client.provider());
    let messages = question();
    let request = ModelRequest {
        model: &model,
        system: &[],
        messages: &messages,
        tools: &offered,
        ..ModelRequest::default()
    };
    send_request(&client, &request).await
}

async fn no_cut_is_an_answer(vendor: Vendor, is_clean: bool) {
    let server = server(vendor, is_clean, whole);
    let client = Arc::new(client(&server));
    // More bytes than the body has, so that nothing is cut.
    let asked = ask_cut(client.clone(), 1_000_000).await;
    assert_eq!((asked.text().as_str(), asked.calls().len()), ("It is so.", 2), "{vendor}");
    let body = whole().body(vendor, &server.requests()[0]);
    let needed = needed(vendor, &body);
    // Every position near the end, every third elsewhere.
    let places = (1..needed).filter(|at| at % 3 == 0 || at + 120 > needed);
    no_cut_there_is_an_answer(vendor, client, places).await;
}

async fn no_cut_there_is_an_answer(
    vendor: Vendor,
    client: Arc<ModelClient>,
    places: impl Iterator<Item = usize>,
) {
    let mut asking = JoinSet::new();
    for at in places {
        let client = client.clone();
        asking.spawn(async move { (at, ask_cut(client, at).await) });
    }
    while let Some(asked) = asking.join_next().await {
        let (at, asked) = asked.expect("no panic");
        let Err(failure) = &asked.outcome else {
            panic!("{vendor}: {at} bytes make an answer: {asked:?}")
        };
        // A thought is reported, but a further attempt does not need to withdraw it.
        let has = |kind| asked.events.iter().any(|event| event.starts_with(kind));
        let is_last = has("text ") && !has("call ");
        let expected = if is_last {
            FailureKind::Cut
        } else {
            // The second attempt was made because the first had no text, or a call.
            FailureKind::Refused { status: 400 }
        };
        assert_eq!(failure.kind, expected, "{vendor}: {at} bytes: {asked:?}");
        assert_eq!(asked.retries(), usize::from(!is_last), "{vendor} {at}: {asked:?}");
    }
}

#[tokio::test]
async fn no_part_of_a_responses_stream_is_an_answer() {
    no_cut_is_an_answer(Vendor::OpenAi, false).await;
    no_cut_is_an_answer(Vendor::OpenAi, true).await;
}

#[tokio::test]
async fn no_part_of_a_chat_stream_is_an_answer() {
    no_cut_is_an_answer(Vendor::OpenAiChat, false).await;
    no_cut_is_an_answer(Vendor::OpenAiChat, true).await;
}

#[tokio::test]
async fn no_part_of_a_messages_stream_is_an_answer() {
    no_cut_is_an_answer(Vendor::Anthropic, false).await;
    no_cut_is_an_answer(Vendor::Anthropic, true).await;
}

#[tokio::test]
async fn no_part_of_a_gemini_stream_is_an_answer() {
    no_cut_is_an_answer(Vendor::Google, false).await;
    no_cut_is_an_answer(Vendor::Google, true).await;
}

/// Only the end of the stream marks the last response. If a further response has begun, the answer
/// is therefore not complete.
#[tokio::test]
async fn no_stream_that_ends_within_a_response_is_an_answer() {
    let always_ended = || whole().ending_in_each_response();
    for is_clean in [false, true] {
        let server = server(Vendor::Google, is_clean, always_ended);
        let client = Arc::new(client(&server));
        let asked = ask_cut(client.clone(), 1_000_000).await;
        assert_eq!((asked.text().as_str(), asked.calls().len()), ("It is so.", 2));
        let body = always_ended().body(Vendor::Google, &server.requests()[0]);
        // A response ends with the first character of the blank line after it.
        let has_ended =
            |at: usize| body[..at].ends_with(b"\r\n\r\n") || body[..at].ends_with(b"\r\n\r");
        let last = body.len() - 4;
        let places = (1..=last).filter(|at| at % 3 == 0 || at + 120 > last);
        let places: Vec<usize> = places.filter(|at| !has_ended(*at)).collect();
        no_cut_there_is_an_answer(Vendor::Google, client, places.into_iter()).await;
    }
}

/// In a chat everything comes before the finish reason.
#[tokio::test]
async fn a_chat_that_is_cut_after_its_reason_is_an_answer() {
    for is_clean in [false, true] {
        let server = server(Vendor::OpenAiChat, is_clean, whole);
        let client = Arc::new(client(&server));
        ask_cut(client.clone(), 1_000_000).await;
        let body = whole().body(Vendor::OpenAiChat, &server.requests()[0]);
        // The blank line after the event with the reason is there.
        let needed = needed(Vendor::OpenAiChat, &body) + 2;
        for at in [needed, needed + 1, body.len() - 20, body.len() - 1] {
            let asked = ask_cut(client.clone(), at).await;
            assert_eq!((asked.text().as_str(), asked.calls().len()), ("It is so.", 2), "{at}");
        }
    }
}
