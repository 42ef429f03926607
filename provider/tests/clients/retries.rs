//! Retries: which failures are tried again and how often, and that a dropped request ends.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use ikigai_provider::{Endpoint, FailureKind, ModelClient};
use ikigai_provider_testing::{FakeServer, Gate, Reply, Trouble, Vendor};
use tokio::task::JoinSet;

use crate::asking::{ask, client, endpoint, question, send};

fn soon(trouble: Trouble) -> Reply {
    Reply::trouble(trouble).header("retry-after", "0")
}

#[tokio::test]
async fn what_passes_is_tried_again_until_it_goes() {
    for vendor in Vendor::ALL {
        let replies = [
            soon(Trouble::RateLimited),
            soon(Trouble::Server),
            soon(Trouble::Overloaded),
            Reply::html(502).header("retry-after", "0"),
            Reply::answer().text("back"),
        ];
        let asked = ask(vendor, replies).await;
        assert_eq!((asked.text().as_str(), asked.retries()), ("back", 4), "{vendor}");
        assert!(
            asked.events[0].starts_with("retry 1 ") && asked.events[0].ends_with(": RateLimited"),
            "{vendor}: {:?}",
            asked.events
        );
        // If a server asks for a wait of zero, the client's own wait applies.
        let waits = asked.events.iter().filter(|event| event.contains(" after 0ns: "));
        assert_eq!(waits.count(), 0, "{vendor}: {:?}", asked.events);
        assert!(asked.events[3].starts_with("retry 4 "), "{vendor}: {:?}", asked.events);
    }
}

#[tokio::test]
async fn a_wait_that_is_too_long_is_told_instead() {
    for vendor in Vendor::ALL {
        let busy = Reply::trouble(Trouble::Overloaded).header("retry-after", "3600");
        let asked = ask(vendor, [busy]).await;
        assert_eq!(asked.retries(), 0, "{vendor}");
        assert_eq!(asked.failure().retry_after, Some(Duration::from_secs(3600)), "{vendor}");
    }
}

#[tokio::test]
async fn five_attempts_are_all() {
    for vendor in Vendor::ALL {
        let server = FakeServer::with(vendor, |_| soon(Trouble::Overloaded));
        let asked = send(&client(&server), &question()).await;
        assert_eq!((asked.kind(), asked.retries()), (&FailureKind::Overloaded, 4), "{vendor}");
        assert_eq!(server.requests().len(), 5, "{vendor}");
        let bodies: Vec<_> = server.requests().into_iter().map(|request| request.body).collect();
        assert!(bodies.iter().all(|body| *body == bodies[0]), "the same each time: {bodies:#?}");
    }
}

#[tokio::test]
async fn what_does_not_pass_is_not_tried_again() {
    for vendor in Vendor::ALL {
        for trouble in [
            Trouble::Key,
            Trouble::Forbidden,
            Trouble::Quota,
            Trouble::UnknownModel,
            Trouble::TooLong,
        ] {
            let server = FakeServer::with(vendor, move |_| soon(trouble));
            let asked = send(&client(&server), &question()).await;
            assert_eq!((server.requests().len(), asked.retries()), (1, 0), "{vendor} {trouble:?}");
        }
    }
}

#[tokio::test]
async fn a_connection_that_is_closed_is_made_again() {
    for vendor in Vendor::ALL {
        let asked = ask(vendor, [Reply::hang_up(), Reply::answer().text("back")]).await;
        assert_eq!(asked.text(), "back", "{vendor}");
    }
}

#[tokio::test]
async fn a_stream_that_fails_before_anything_is_shown_is_asked_for_again() {
    for vendor in Vendor::ALL {
        for reply in [
            Reply::answer().text("a").cut_after(10),
            Reply::answer().text("a").end_after(10),
            Reply::answer().thinking("hm").without_end(),
            Reply::answer().error(Trouble::Overloaded),
            Reply::answer().error_in_other_form(Trouble::Server),
        ] {
            let asked = ask(vendor, [reply.clone(), Reply::answer().text("back")]).await;
            assert_eq!(
                (asked.text().as_str(), asked.retries()),
                ("back", 1),
                "{vendor}: {reply:?}"
            );
            assert_eq!(asked.told_text(), "back", "{vendor}: {reply:?}");
        }
    }
}

#[tokio::test]
async fn nothing_is_tried_again_once_a_text_is_shown() {
    for vendor in Vendor::ALL {
        let shown = Reply::answer().text("a");
        for reply in [shown.clone().without_end(), shown.error(Trouble::Overloaded)] {
            let asked = ask(vendor, [reply]).await;
            assert!(asked.outcome.is_err() && asked.retries() == 0, "{vendor}: {asked:?}");
            assert_eq!(asked.events.len(), 1, "{vendor}: {asked:?}");
        }
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_in_a_call_is_asked_for_once_more() {
    let call = serde_json::json!({ "path": "a" });
    for vendor in Vendor::ALL {
        for begun in [Reply::answer(), Reply::answer().text("I look.")] {
            let begun = begun.call("bash", &call);
            for cut in [begun.clone().without_end(), begun.error(Trouble::Overloaded)] {
                let whole = Reply::answer().call("bash", &call);
                let asked = ask(vendor, [cut.clone(), whole]).await;
                assert_eq!((asked.calls().len(), asked.retries()), (1, 1), "{vendor}: {asked:?}");

                let asked = ask(vendor, [cut.clone(), cut.clone()]).await;
                assert!(asked.outcome.is_err() && asked.retries() == 1, "{vendor}: {asked:?}");
            }
        }
    }
}

#[tokio::test]
async fn silence_is_left_and_told_of() {
    let mut all = JoinSet::new();
    for vendor in Vendor::ALL {
        all.spawn(async move {
            let gate = Gate::closed();
            let silence = Duration::from_secs(1);
            // First before any data, and then after a text was reported.
            let shown = Reply::answer().text("a").stall(&gate).text("b");
            let server = FakeServer::start(vendor, [Reply::silence(&gate), shown]);
            // Before an answer begins, the connect timeout is part of the limit.
            let connect_timeout = Duration::from_secs(2);
            let endpoint =
                Endpoint { silence_timeout: silence, connect_timeout, ..endpoint(&server) };
            let client = ModelClient::new(endpoint).expect("an address");
            let asked = send(&client, &question()).await;
            assert_eq!(
                asked.kind(),
                &FailureKind::SilenceTimeout(silence),
                "{vendor}: {:?}",
                asked.events
            );
            assert_eq!((asked.retries(), asked.told_text().as_str()), (1, "a"), "{vendor}");
            server.hang_ups_reach(2).await;
        });
    }
    all.join_all().await;
}

#[tokio::test]
async fn signs_of_life_are_no_silence() {
    let mut all = JoinSet::new();
    for vendor in Vendor::ALL {
        all.spawn(async move {
            let gates: Vec<Gate> = (0..4).map(|_| Gate::closed()).collect();
            let reply = gates.iter().fold(Reply::answer(), |reply, gate| reply.ping().stall(gate));
            let silence = Duration::from_secs(3);
            let server = FakeServer::start(vendor, [reply.text("at last")]);
            let endpoint = Endpoint { silence_timeout: silence, ..endpoint(&server) };
            let client = ModelClient::new(endpoint).expect("an address");
            // The whole answer takes longer than the silence timeout, but is never silent for that
            // long.
            let opened = async {
                for gate in &gates {
                    gate.reached().await;
                    tokio::time::sleep(silence / 3).await;
                    gate.open();
                }
            };
            let conversation = question();
            let (asked, ()) = tokio::join!(send(&client, &conversation), opened);
            assert_eq!(asked.text(), "at last", "{vendor}");
        });
    }
    all.join_all().await;
}

#[tokio::test]
async fn a_request_that_is_dropped_closes_its_connection() {
    for vendor in Vendor::ALL {
        let gates = [(); 2].map(|()| Gate::closed());
        let replies = [Reply::answer().text("a").stall(&gates[0]), Reply::silence(&gates[1])];
        let server = FakeServer::start(vendor, replies);
        let client = Arc::new(client(&server));
        for (number, gate) in gates.iter().enumerate() {
            let client = client.clone();
            let asking = tokio::spawn(async move { send(&client, &question()).await });
            gate.reached().await;
            asking.abort();
            server.hang_ups_reach(number + 1).await;
        }
        assert_eq!((server.requests().len(), server.violations()), (2, vec![]), "{vendor}");
    }
}

#[tokio::test]
async fn two_hundred_requests_at_once() {
    for vendor in Vendor::ALL {
        let gate = Gate::closed();
        let held = gate.clone();
        let server =
            FakeServer::with(vendor, move |_| Reply::answer().text("a").stall(&held).text("b"));
        let client = Arc::new(client(&server));
        let mut asking = JoinSet::new();
        for _ in 0..200 {
            let client = client.clone();
            asking.spawn(async move { send(&client, &question()).await });
        }
        // All of them are in progress at the same time.
        gate.reached_by(200).await;
        gate.open();
        let asked = asking.join_all().await;
        assert!(asked.iter().all(|asked| asked.text() == "ab"), "{vendor}");
        assert_eq!((server.violations(), server.hang_ups()), (vec![], 0), "{vendor}");
    }
}

#[tokio::test]
async fn a_port_where_nobody_listens_is_told_of_soon() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    drop(listener);
    let server = FakeServer::start(Vendor::Anthropic, []);
    let base_url = Some(format!("http://{address}"));
    let client = ModelClient::new(Endpoint { base_url, ..endpoint(&server) }).expect("an address");
    let asked = send(&client, &question()).await;
    let FailureKind::NoServer { host } = asked.kind() else { panic!("{asked:?}") };
    assert!(host.contains("127.0.0.1"), "{host}");
    // One retry after a short wait, in case the server is being restarted.
    assert_eq!(asked.retries(), 1, "{:?}", asked.events);
}

#[tokio::test]
async fn a_local_server_needs_no_key() {
    for vendor in Vendor::ALL {
        let server =
            FakeServer::for_vendor(vendor).without_key().start([Reply::answer().text("a")]);
        let client =
            ModelClient::new(Endpoint { key: None, ..endpoint(&server) }).expect("an address");
        assert_eq!(send(&client, &question()).await.text(), "a", "{vendor}");
        let headers = format!("{:?}", server.requests()[0].headers);
        assert!(!headers.contains("authorization") && !headers.contains("api-key"), "{headers}");
    }
}
