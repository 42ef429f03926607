//! Every way in which an answer can fail, and the kind of the failure.

use ikigai_provider::FailureKind;
use ikigai_provider_testing::{Reply, Trouble, Vendor};

use crate::asking::ask;

/// Returns the same reply for every attempt of a client, without a wait between them.
fn always(reply: &Reply) -> Vec<Reply> {
    vec![reply.clone().header("retry-after", "0"); 5]
}

fn kind(vendor: Vendor, trouble: Trouble) -> FailureKind {
    match trouble {
        Trouble::Key => FailureKind::Key,
        Trouble::Forbidden => FailureKind::Forbidden,
        Trouble::Quota => FailureKind::Quota,
        Trouble::UnknownModel => FailureKind::UnknownModel { model: "a-model".to_owned() },
        Trouble::TooLong => FailureKind::TooLong { window: window(vendor) },
        Trouble::RateLimited => FailureKind::RateLimited,
        Trouble::Overloaded => FailureKind::Overloaded,
        Trouble::Server => FailureKind::Server { status: 500 },
    }
}

/// Returns the window in the message of a vendor. OpenAI's Responses API does not send it.
fn window(vendor: Vendor) -> Option<u64> {
    match vendor {
        Vendor::OpenAi => None,
        Vendor::OpenAiChat => Some(128_000),
        Vendor::Anthropic => Some(200_000),
        Vendor::Google => Some(1_048_576),
    }
}

#[tokio::test]
async fn every_trouble_is_known_by_its_kind() {
    for vendor in Vendor::ALL {
        for trouble in Trouble::ALL {
            let asked = ask(vendor, always(&Reply::trouble(trouble))).await;
            assert_eq!(asked.kind(), &kind(vendor, trouble), "{vendor}: {:?}", asked.failure());
            assert!(!asked.failure().detail.is_empty(), "{vendor}: {:?}", asked.failure());
            assert!(asked.failure().remedy().is_some(), "{vendor}: {:?}", asked.failure());
        }
    }
}

#[tokio::test]
async fn troubles_in_a_stream_are_known_by_their_kind() {
    let server = FailureKind::Server { status: 200 };
    for vendor in Vendor::ALL {
        for is_other_form in [false, true] {
            for trouble in [Trouble::Overloaded, Trouble::Server] {
                let reply = Reply::answer().text("a");
                let reply = if is_other_form {
                    reply.error_in_other_form(trouble)
                } else {
                    reply.error(trouble)
                };
                let asked = ask(vendor, [reply]).await;
                let expected = match (vendor, trouble) {
                    // OpenAI has no code for this error within a stream.
                    (Vendor::OpenAi | Vendor::OpenAiChat, _) | (_, Trouble::Server) => &server,
                    _ => &FailureKind::Overloaded,
                };
                assert_eq!(asked.kind(), expected, "{vendor}: {:?}", asked.failure());
                assert!(!asked.failure().detail.is_empty(), "{vendor}: {:?}", asked.failure());
                assert_eq!(asked.events, ["text a"], "{vendor}");
            }
        }
    }
}

/// Google may report a proper end of the answer, and then, outside of any event, an error.
#[tokio::test]
async fn an_error_that_is_no_event_is_no_answer() {
    for trouble in [Trouble::Overloaded, Trouble::RateLimited, Trouble::Key] {
        let reply = Reply::answer().text("a").ending_in_each_response();
        let asked = ask(Vendor::Google, [reply.error_in_other_form(trouble)]).await;
        assert_eq!(asked.kind(), &kind(Vendor::Google, trouble), "{asked:?}");
        assert_eq!(asked.events, ["text a"]);
    }
}

#[tokio::test]
async fn pages_for_people_are_known_by_their_status() {
    for vendor in Vendor::ALL {
        for (status, expected) in [
            (401, FailureKind::Key),
            (403, FailureKind::Forbidden),
            (413, FailureKind::Refused { status: 413 }),
            (502, FailureKind::Server { status: 502 }),
            (503, FailureKind::Overloaded),
            (524, FailureKind::Server { status: 524 }),
        ] {
            let asked = ask(vendor, always(&Reply::html(status))).await;
            // A page has no error in the vendor's JSON, so its status decides.
            let too_long = FailureKind::TooLong { window: None };
            let is_too_long = status == 413 && asked.kind() == &too_long;
            assert!(asked.kind() == &expected || is_too_long, "{vendor}: {:?}", asked.failure());
            assert!(!asked.failure().detail.contains('<'), "{vendor}: {:?}", asked.failure());
        }
    }
}

#[tokio::test]
async fn what_is_no_stream_is_no_answer() {
    for vendor in Vendor::ALL {
        let replies = [
            Reply::raw(200, "text/html", "<html><body>Sign in to the network</body></html>"),
            Reply::raw(200, "text/plain", "<html></html>"),
            Reply::raw(200, "application/json", r#"{"id":"1","choices":[],"content":[]}"#),
            Reply::raw(200, "text/event-stream", "data: {\"a\": \n\n"),
            Reply::raw(200, "text/event-stream", "data: [1]\n\n"),
            Reply::answer().invalid_utf8(),
            Reply::answer().bytes(b"data: {]\n\n"),
        ];
        for (number, reply) in replies.into_iter().enumerate() {
            // A further attempt fails the same way.
            let asked = ask(vendor, always(&reply)).await;
            let kind = asked.kind();
            let is_expected = matches!(kind, FailureKind::Malformed | FailureKind::Cut);
            assert!(is_expected, "{vendor} {number}: {:?}", asked.failure());
        }
    }
}

#[tokio::test]
async fn a_stream_without_its_end_is_cut() {
    for vendor in Vendor::ALL {
        let begun = Reply::answer().text("half a sen");
        // The connection breaks in a long comment after the text.
        let broken = begun.clone().bytes(&[b':'; 100_000]).cut_after(50_000);
        for reply in [begun.without_end(), broken] {
            let asked = ask(vendor, [reply]).await;
            assert_eq!(asked.kind(), &FailureKind::Cut, "{vendor}");
            assert_eq!(asked.events, ["text half a sen"], "{vendor}");
        }
    }
}

#[tokio::test]
async fn what_was_said_is_short_and_clean() {
    for vendor in Vendor::ALL {
        let message = format!("no\u{1b}[31m red\u{7}\nline {}", "x".repeat(100_000));
        let asked = ask(vendor, [Reply::status(400, &message)]).await;
        let failure = asked.failure();
        assert_eq!(failure.kind, FailureKind::Refused { status: 400 }, "{vendor}");
        assert!(failure.detail.chars().count() < 2_000, "{vendor}: {}", failure.detail.len());
        assert!(!failure.detail.chars().any(char::is_control), "{vendor}: {:?}", failure.detail);
        assert!(failure.detail.contains("red"), "{vendor}: {:?}", failure.detail);
    }
}
