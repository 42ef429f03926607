//! Everything that can go wrong on the way.

use std::time::Duration;

use ikigai_provider::{Client, Endpoint, FailureKind};
use ikigai_provider_testing::{FakeServer, Gate, Reply, Trouble, Vendor};
use serde_json::json;

use crate::{asked, client, endpoint, provider, send};

/// Long enough for a loopback that is busy, as what is waited for never comes.
const SHORT: Duration = Duration::from_millis(400);

fn impatient(server: &FakeServer) -> Client {
    Client::new(Endpoint { silence: SHORT, ..endpoint(server) }).expect("a client")
}

fn expected(trouble: Trouble, status: u16) -> FailureKind {
    match trouble {
        Trouble::Key => FailureKind::Key,
        Trouble::Forbidden => FailureKind::Forbidden,
        Trouble::Quota => FailureKind::Quota,
        Trouble::UnknownModel => FailureKind::UnknownModel { model: "a-model".to_owned() },
        Trouble::TooLong => FailureKind::TooLong,
        Trouble::RateLimited => FailureKind::RateLimited,
        Trouble::Overloaded => FailureKind::Overloaded,
        Trouble::Server => FailureKind::Server { status },
    }
}

fn passes(trouble: Trouble) -> bool {
    matches!(trouble, Trouble::RateLimited | Trouble::Overloaded | Trouble::Server)
}

#[tokio::test]
async fn each_trouble_is_told_apart() {
    for vendor in Vendor::ALL {
        for trouble in Trouble::ALL {
            let server = FakeServer::with(vendor, move |_| Reply::trouble(trouble));
            let (answer, told) = send(&client(&server), &asked("hello")).await;
            let failure = answer.expect_err("a failure");
            assert_eq!(failure.kind, expected(trouble, 500), "{vendor} {trouble:?}");
            assert!(!failure.said.is_empty(), "{vendor} {trouble:?}");
            assert!(failure.hint().is_some(), "{vendor} {trouble:?}");
            let retries = if passes(trouble) { 4 } else { 0 };
            assert_eq!(told.retries.len(), retries, "{vendor} {trouble:?}");
            assert_eq!(server.requests().len(), retries + 1, "{vendor} {trouble:?}");
        }
    }
}

#[tokio::test]
async fn trouble_within_the_stream_is_tried_again_until_something_was_shown() {
    for vendor in Vendor::ALL {
        for trouble in [Trouble::Overloaded, Trouble::RateLimited, Trouble::Server] {
            let first = Reply::answer().thinking("hm").error(trouble);
            let server = FakeServer::start(vendor, [first, Reply::answer().text("hello")]);
            let (answer, told) = send(&client(&server), &asked("hello")).await;
            answer.unwrap_or_else(|failure| panic!("{vendor} {trouble:?}: {failure}"));
            assert_eq!(told.retries.len(), 1, "{vendor} {trouble:?}");

            let shown = [
                Reply::answer().text("half").error(trouble),
                Reply::answer().call("list", &json!({})).error_in_other_form(trouble),
            ];
            for reply in shown {
                let server = FakeServer::start(vendor, [reply]);
                let (answer, told) = send(&client(&server), &asked("hello")).await;
                answer.expect_err("half of an answer is none");
                assert_eq!(told.retries, [], "{vendor} {trouble:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_server_says_how_long_to_wait() {
    for vendor in Vendor::ALL {
        let busy = Reply::trouble(Trouble::Overloaded);
        let server = FakeServer::start(
            vendor,
            [busy.clone().header("retry-after", "0"), Reply::answer().text("hello")],
        );
        let (answer, told) = send(&client(&server), &asked("hello")).await;
        answer.expect("an answer");
        assert_eq!(told.retries, [(1, Duration::ZERO)], "{vendor}");

        let server = FakeServer::start(vendor, [busy.header("retry-after", "3600")]);
        let (answer, told) = send(&client(&server), &asked("hello")).await;
        let failure = answer.expect_err("an hour is not waited for");
        assert_eq!(failure.retry_after, Some(Duration::from_secs(3600)), "{vendor}");
        assert_eq!(told.retries, [], "{vendor}");
    }
}

#[tokio::test]
async fn a_stream_that_does_not_end() {
    for vendor in Vendor::ALL {
        let half = || Reply::answer().text("half").call("list", &json!({ "path": "a" }));
        for reply in [half().without_end(), half().cut_after(700), half().end_after(100)] {
            let server = FakeServer::with(vendor, move |_| reply.clone());
            let (answer, _) = send(&client(&server), &asked("hello")).await;
            assert_eq!(answer.expect_err("half").kind, FailureKind::Cut, "{vendor}");
        }
    }
}

#[tokio::test]
async fn a_connection_that_is_closed_before_the_answer() {
    for vendor in Vendor::ALL {
        let server = FakeServer::start(vendor, [Reply::hang_up(), Reply::answer().text("hello")]);
        let (answer, told) = send(&client(&server), &asked("hello")).await;
        answer.expect("an answer");
        assert_eq!(told.retries.len(), 1, "{vendor}");
    }
}

#[tokio::test]
async fn a_server_that_says_nothing() {
    for vendor in Vendor::ALL {
        let gate = Gate::closed();
        let server = FakeServer::with(vendor, {
            let gate = gate.clone();
            move |_| Reply::answer().text("half").stall(&gate)
        });
        let (answer, told) = send(&impatient(&server), &asked("hello")).await;
        assert_eq!(answer.expect_err("silence").kind, FailureKind::Silence(SHORT), "{vendor}");
        assert_eq!((told.text.as_str(), told.retries.len()), ("half", 0), "{vendor}");
        server.hang_ups_reach(1).await;
    }
}

#[tokio::test]
async fn silence_before_the_answer_is_tried_once_more() {
    let gate = Gate::closed();
    let replies = [Reply::silence(&gate), Reply::answer().text("hello")];
    let server = FakeServer::start(Vendor::Anthropic, replies);
    let endpoint = Endpoint { connect_timeout: SHORT, silence: SHORT, ..endpoint(&server) };
    let client = Client::new(endpoint).expect("a client");
    let (answer, told) = send(&client, &asked("hello")).await;
    answer.expect("an answer");
    assert_eq!(told.retries.len(), 1);
}

#[tokio::test]
async fn a_dropped_request_closes_its_connection() {
    for vendor in Vendor::ALL {
        let gate = Gate::closed();
        let server = FakeServer::start(vendor, [Reply::answer().text("half").stall(&gate)]);
        let client = client(&server);
        let messages = asked("hello");
        tokio::select! {
            _ = send(&client, &messages) => panic!("the answer stalls"),
            () = gate.reached() => {}
        }
        server.hang_ups_reach(1).await;
    }
}

#[tokio::test]
async fn a_page_for_people() {
    for vendor in Vendor::ALL {
        for (reply, kind) in [
            (Reply::html(200), FailureKind::Malformed),
            (Reply::raw(200, "text/plain", "<html></html>"), FailureKind::Malformed),
            (Reply::raw(200, "application/json", "{}"), FailureKind::Malformed),
            (Reply::html(403), FailureKind::Forbidden),
            (Reply::html(502), FailureKind::Server { status: 502 }),
        ] {
            let server = FakeServer::with(vendor, move |_| reply.clone());
            let (answer, _) = send(&client(&server), &asked("hello")).await;
            let failure = answer.expect_err("no answer");
            assert_eq!(failure.kind, kind, "{vendor}");
            if kind == FailureKind::Malformed {
                let hint = failure.hint().expect("a hint");
                assert!(hint.contains(provider(vendor).base_url_variable()), "{hint}");
            }
        }
    }
}

#[tokio::test]
async fn bytes_that_are_no_text() {
    for vendor in Vendor::ALL {
        let server = FakeServer::start(vendor, [Reply::answer().invalid_utf8()]);
        let (answer, _) = send(&client(&server), &asked("hello")).await;
        assert_eq!(answer.expect_err("no text").kind, FailureKind::Malformed, "{vendor}");
    }
}
