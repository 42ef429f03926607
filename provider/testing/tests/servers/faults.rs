//! Failures on request.

use std::io::Write as _;
use std::net::TcpStream;

use ikigai_provider_testing::{FakeServer, Gate, Reply, Trouble, Vendor};

use crate::exchange::{ask, path, question};

#[test]
fn a_body_ends_where_it_was_cut() {
    for vendor in Vendor::ALL {
        let answer = Reply::answer().text("hello");
        let replies = [
            answer.clone(),
            Reply::answer().text("hello").cut_after(70),
            Reply::answer().text("hello").end_after(70),
        ];
        let server = FakeServer::start(vendor, replies);
        let [whole, cut, ended] = [(); 3].map(|()| ask(&server));
        assert!(whole.is_whole && whole.body.len() > 70);
        assert_eq!(whole.body, answer.body(vendor, &server.requests()[0]), "{vendor}");
        assert_eq!((cut.body.len(), cut.is_whole), (70, false), "{vendor}");
        assert_eq!((ended.body.len(), ended.is_whole), (70, true), "{vendor}");
    }
}

#[test]
fn portions_change_nothing_of_the_body() {
    let reply = || Reply::answer().text("hello").call_as("c", "t", &serde_json::json!({}));
    for vendor in Vendor::ALL {
        let once = FakeServer::start(vendor, [reply()]);
        let split = FakeServer::start(vendor, [reply().in_portions(1)]);
        assert_eq!(ask(&once).text(), ask(&split).text());
    }
}

#[test]
fn troubles_come_in_the_vendors_words() {
    let expected = |vendor, trouble| match (vendor, trouble) {
        (Vendor::Google, Trouble::Key) => (400, "/error/details/0/reason", "API_KEY_INVALID"),
        (Vendor::Google, Trouble::Overloaded) => (503, "/error/status", "UNAVAILABLE"),
        (Vendor::Anthropic, Trouble::Key) => (401, "/error/type", "authentication_error"),
        (Vendor::Anthropic, Trouble::Overloaded) => (529, "/error/type", "overloaded_error"),
        (_, Trouble::Key) => (401, "/error/code", "invalid_api_key"),
        (_, _) => (503, "/error/type", "service_unavailable_error"),
    };
    for vendor in Vendor::ALL {
        for trouble in [Trouble::Key, Trouble::Overloaded] {
            let reply = Reply::trouble(trouble).header("retry-after", "3").message("no");
            let server = FakeServer::start(vendor, [reply]);
            let response = ask(&server);
            let (status, place, word) = expected(vendor, trouble);
            assert_eq!(response.status, status, "{response:?}");
            let json = response.json();
            assert_eq!(json.pointer(place).and_then(|word| word.as_str()), Some(word), "{json}");
            assert_eq!(json["error"]["message"], "no");
            assert!(response.head.contains("retry-after: 3"));
            assert_eq!(server.violations(), [""; 0]);
        }
    }
}

#[test]
fn replies_of_any_kind_are_sent() {
    let replies = [
        Reply::html(502),
        Reply::hang_up(),
        Reply::answer().invalid_utf8(),
        Reply::answer().content_type("application/json"),
    ];
    let server = FakeServer::start(Vendor::OpenAiChat, replies);
    let html = ask(&server);
    assert!(html.status == 502 && html.text().starts_with("<html>"), "{html:?}");
    assert_eq!(ask(&server).status, 0, "a connection that was closed says nothing");
    assert!(String::from_utf8(ask(&server).body).is_err());
    assert!(ask(&server).head.contains("content-type: application/json"));
    let surplus = ask(&server);
    assert_eq!((surplus.status, server.violations().len()), (500, 1), "{surplus:?}");
}

#[test]
fn a_stalled_answer_goes_on_when_its_gate_opens() {
    let gate = Gate::closed();
    let server = FakeServer::start(Vendor::Anthropic, [Reply::answer().text("a").stall(&gate)]);
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| exchange_without_half_close(&server));
        server.block_on(gate.reached());
        assert!(!asking.is_finished(), "nobody opened the gate");
        gate.open();
        assert!(asking.join().expect("answered").ends_with("0\r\n\r\n"));
    });
    assert_eq!(server.hang_ups(), 0);
}

#[test]
fn a_client_that_leaves_is_noticed() {
    let (stalled, silent) = (Gate::closed(), Gate::closed());
    let replies = [Reply::answer().text("a").stall(&stalled), Reply::silence(&silent)];
    let server = FakeServer::start(Vendor::Google, replies);
    for (gate, so_far) in [(&stalled, 1), (&silent, 2)] {
        let stream = begin(&server);
        server.block_on(gate.reached());
        drop(stream);
        server.block_on(server.hang_ups_reach(so_far));
    }
    assert_eq!(server.hang_ups(), 2);
}

/// Sends the question and leaves the connection open.
fn begin(server: &FakeServer) -> TcpStream {
    let body = question(server.vendor()).to_string();
    let path = path(server.vendor());
    let mut stream = TcpStream::connect(server.address()).expect("a connection");
    let request = format!(
        "POST {path} HTTP/1.1\r\nx-goog-api-key: k\r\nx-api-key: k\r\nanthropic-version: \
         2023-06-01\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).expect("sent");
    stream
}

/// Reads up to the end of a chunked body.
fn exchange_without_half_close(server: &FakeServer) -> String {
    use std::io::Read as _;
    let mut stream = begin(server);
    let mut came = Vec::new();
    let mut buffer = [0; 4096];
    while !came.ends_with(b"0\r\n\r\n") {
        let count = stream.read(&mut buffer).expect("read");
        assert!(count > 0, "ended early: {}", String::from_utf8_lossy(&came));
        came.extend_from_slice(&buffer[..count]);
    }
    String::from_utf8(came).expect("UTF-8")
}
