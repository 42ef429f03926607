//! Failures, and llmock's verdict on the reaction of the client.

use std::time::Duration;

use ikigai_provider::{FailureKind, Provider};
use serde_json::{Value, json};

use crate::llmock::asking::{ask, ask_with, client, question};
use crate::llmock::server::Llmock;

/// Returns the number of events before the first piece of text in a stream.
fn before_text(provider: Provider) -> u64 {
    match provider {
        // The events for the response and its progress, the item, and its part.
        Provider::OpenAi => 4,
        // The event with the role.
        Provider::OpenAiChat => 1,
        // The events for the message and the block, and a ping.
        Provider::Anthropic => 3,
        Provider::Google => 0,
    }
}

fn stream_fault(kind: &str, after: u64) -> Value {
    json!({ "type": "stream_fault", "kind": kind, "after_chunks": after })
}

#[tokio::test]
async fn what_passes_is_waited_for() {
    let Some(llmock) = Llmock::start() else { return };
    for provider in Provider::ALL {
        let overloaded = if provider == Provider::Anthropic { 529 } else { 503 };
        for status in [429, 500, overloaded] {
            llmock.script(&json!([
                { "type": "fail", "status": status, "retry_after": 0.2, "times": 2 },
                { "type": "reply", "text": "back" },
            ]));
            let asked = ask(&llmock, provider, &question()).await;
            assert_eq!((asked.text().as_str(), asked.retries), ("back", 2), "{provider} {status}");
            llmock.verdict().expect_flawless(1, 3);
        }
    }
}

#[tokio::test]
async fn what_does_not_pass_is_not_tried_again() {
    let Some(llmock) = Llmock::start() else { return };
    let cases = [
        (400, FailureKind::Refused { status: 400 }),
        (401, FailureKind::Key),
        (403, FailureKind::Forbidden),
        (404, FailureKind::UnknownModel { model: "a-model".to_owned() }),
        (422, FailureKind::Refused { status: 422 }),
    ];
    for provider in Provider::ALL {
        for (status, kind) in &cases {
            llmock.script(&json!([{ "type": "fail", "status": status, "times": null }]));
            let asked = ask(&llmock, provider, &question()).await;
            assert_eq!(&asked.failure().kind, kind, "{provider}");
            assert!(!asked.failure().detail.is_empty(), "{provider} {status}");
            llmock.verdict().expect_flawless(1, 1);
        }
    }
}

#[tokio::test]
async fn an_outage_is_given_up_after_four_more_attempts() {
    let Some(llmock) = Llmock::start() else { return };
    for provider in Provider::ALL {
        let outage = json!({ "type": "fail", "status": 503, "retry_after": 0, "times": null });
        llmock.script(&json!([outage]));
        let asked = ask(&llmock, provider, &question()).await;
        assert_eq!(asked.failure().kind, FailureKind::Overloaded, "{provider}");
        llmock.verdict().expect_flawless(1, 5);
    }
}

#[tokio::test]
async fn a_stream_that_breaks_before_its_text_is_asked_for_again() {
    let Some(llmock) = Llmock::start() else { return };
    for provider in Provider::ALL {
        for kind in ["disconnect", "truncate"] {
            let fault = stream_fault(kind, before_text(provider));
            llmock.script(&json!([fault, { "type": "reply", "text": "back", "times": 2 }]));
            let asked = ask(&llmock, provider, &question()).await;
            assert_eq!((asked.text().as_str(), asked.retries), ("back", 1), "{provider} {kind}");
            llmock.verdict().expect_flawless(1, 2);
        }
    }
}

/// Checks the failure as well as the verdict. llmock reports a finding here, because it cannot see
/// whether the client reports that the answer was cut off.
#[tokio::test]
async fn a_stream_that_breaks_in_its_text_is_no_answer() {
    let Some(llmock) = Llmock::start() else { return };
    let findings = [("disconnect", "gave_up"), ("truncate", "truncated_stream_accepted")];
    for provider in Provider::ALL {
        for (kind, finding) in findings {
            let fault = stream_fault(kind, before_text(provider) + 1);
            llmock.script(&json!([fault, { "type": "reply", "text": "one two three" }]));
            let asked = ask(&llmock, provider, &question()).await;
            assert_eq!(asked.failure().kind, FailureKind::Cut, "{provider} {kind}");
            assert_eq!((asked.streamed.as_str(), asked.retries), ("one ", 0), "{provider} {kind}");
            let verdict = llmock.verdict();
            verdict.expect_only(finding);
            verdict.expect_counts(1, 1);
        }
    }
}

#[tokio::test]
async fn an_event_that_is_no_json_is_no_answer() {
    let Some(llmock) = Llmock::start() else { return };
    for provider in Provider::ALL {
        let fault = stream_fault("malformed", before_text(provider) + 1);
        llmock.script(&json!([fault, { "type": "reply", "text": "one two three" }]));
        let asked = ask(&llmock, provider, &question()).await;
        assert_eq!(asked.failure().kind, FailureKind::Malformed, "{provider}");
        let requests = llmock.requests();
        assert_eq!(requests.len(), 1, "{provider}: text was shown\n{requests:#?}");
    }
}

#[tokio::test]
async fn a_stream_that_stalls_is_left() {
    let Some(llmock) = Llmock::start() else { return };
    for provider in Provider::ALL {
        let mut stall = stream_fault("stall", before_text(provider));
        stall["stall_seconds"] = json!(600);
        llmock.script(&json!([stall, { "type": "reply", "text": "back", "times": 2 }]));
        let client = client(&llmock, provider, Duration::from_millis(1500));
        let asked = ask_with(&client, &question(), &json!([])).await;
        assert_eq!((asked.text().as_str(), asked.retries), ("back", 1), "{provider}");
        llmock.verdict().expect_flawless(1, 2);
    }
}
