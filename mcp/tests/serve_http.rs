//! A server over HTTP, with clients that are foreign, slow, hostile or gone. Everything runs on one
//! thread, over sockets of this machine.

#[path = "support/gate.rs"]
mod gate;
#[path = "support/web.rs"]
mod web;

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ikigai_mcp::{CatalogChange, ClientAccess, HttpBounds, HttpSettings, SharedToken, Tls};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};

use gate::Gate;
use web::{CALL, Served, answer, call, request};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

fn settings() -> HttpSettings {
    HttpSettings::new(ClientAccess::Token(SharedToken::new(TOKEN).expect("a token")))
}

/// Sends a request on a new connection.
async fn send(served: &Served, headers: &str, body: &str) -> (u16, String, Value) {
    served.send_text(&request(TOKEN, headers, body)).await
}

/// Returns the bounds of a server with very short time limits for headers and bodies.
fn bounds(little: Duration) -> HttpBounds {
    HttpBounds { headers_within: little, body_within: little, ..HttpBounds::default() }
}

#[tokio::test]
async fn a_call_is_answered_and_its_arguments_are_those_of_the_client() {
    let gate = Gate::new(1, "done".to_owned());
    let served = Served::start(&gate, settings()).await;
    let arguments = r#"{ "b":1.10000000000000000000001, "a" : [1e400,{"arguments":"\u00fc"}] }"#;
    let (status, _, body) = send(&served, CALL, &call(arguments)).await;
    assert_eq!((status, &body["result"]["content"][0]["text"]), (200, &json!("done")), "{body}");
    assert_eq!(gate.wait_until(|seen| seen.begun == 1).await.arguments, arguments);
    served.end().await;
}

#[tokio::test]
async fn a_head_that_contradicts_its_body_is_refused() {
    let gate = Gate::new(0, String::new());
    let served = Served::start(&gate, settings()).await;
    for (from, to) in [
        ("mcp-method: tools/call", "mcp-method: tools/list"),
        ("mcp-name: tool", "mcp-name: other"),
        ("mcp-protocol-version: 2026-07-28", "mcp-protocol-version: 2025-11-25"),
    ] {
        let (status, _, body) = send(&served, &CALL.replace(from, to), &call("{}")).await;
        assert_eq!((status, &body["error"]["code"]), (400, &json!(-32020)), "{to}: {body}");
    }
    assert_eq!(gate.begun(), 0);
    served.end().await;
}

#[tokio::test]
async fn nobody_is_answered_without_the_token_from_another_host_or_origin() {
    let gate = Gate::new(0, String::new());
    let served = Served::start(&gate, settings()).await;
    let body = call("{}");
    let good = request(TOKEN, CALL, &body);
    for (from, to, expected) in [
        ("host: localhost", "host: evil.example", 403),
        ("host: localhost", "host: localhost\r\norigin: http://evil.example", 403),
        ("host: localhost", "x: y", 400),
        (&*format!("authorization: Bearer {TOKEN}"), "x: y", 401),
        (TOKEN, "fedcba9876543210fedcba9876543210", 401),
        ("POST /mcp ", "POST / ", 404),
        ("POST /mcp ", "PUT /mcp ", 405),
    ] {
        let mut stream = served.connect().await;
        stream.write_all(good.replace(from, to).as_bytes()).await.expect("sent");
        let (status, head, _) = answer(stream).await;
        assert_eq!(status, expected, "{to}: {head}");
        assert_eq!(head.contains("www-authenticate: Bearer"), expected == 401, "{head}");
    }
    // The order of the checks matters: a foreign page must not learn if its token is right.
    let both = good.replace("host: localhost", "host: evil.example").replace(TOKEN, "wrong");
    let mut stream = served.connect().await;
    stream.write_all(both.as_bytes()).await.expect("sent");
    assert_eq!(answer(stream).await.0, 403);
    assert_eq!(gate.begun(), 0);
    served.end().await;
}

#[tokio::test]
async fn the_newest_revision_has_no_method_that_was_removed() {
    let gate = Gate::new(0, String::new());
    let served = Served::start(&gate, settings()).await;
    for (method, params) in [
        ("initialize", json!({})),
        ("ping", json!({})),
        ("logging/setLevel", json!({ "level": "info" })),
        ("resources/subscribe", json!({})),
        ("resources/subscribe", json!({ "uri": "ikigai:///a" })),
        ("resources/unsubscribe", json!({})),
        ("resources/unsubscribe", json!({ "uri": "ikigai:///a" })),
        ("unknown/method", json!({})),
    ] {
        let mut body: Value = serde_json::from_str(&call("{}")).expect("JSON");
        let meta = body["params"]["_meta"].take();
        body["method"] = method.into();
        body["params"] = params.clone();
        body["params"]["_meta"] = meta;
        let name = params["uri"].as_str().map(|uri| format!("mcp-name: {uri}\r\n"));
        let headers = format!(
            "mcp-protocol-version: 2026-07-28\r\nmcp-method: {method}\r\n{}",
            name.unwrap_or_default()
        );
        let (status, _, answer) = send(&served, &headers, &body.to_string()).await;
        let found = (status, &answer["error"]["code"], &answer["id"]);
        assert_eq!(found, (404, &json!(-32601), &json!(1)), "{method} {params}: {answer}");
    }
    served.end().await;
}

#[tokio::test]
async fn a_page_of_an_origin_that_is_allowed_may_ask_and_read() {
    let gate = Gate::new(1, "done".to_owned());
    let settings = settings().allow_origin("https://app.example").expect("an origin");
    let served = Served::start(&gate, settings).await;
    let allowed = "access-control-allow-origin: https://app.example";
    // A browser sends its preflight request without the token.
    let preflight = |origin: &str| {
        format!(
            "OPTIONS /mcp HTTP/1.1\r\nhost: localhost\r\norigin: {origin}\r\nconnection: close\r\n\
             access-control-request-method: POST\r\n\
             access-control-request-headers: authorization,content-type,mcp-method\r\n\r\n"
        )
    };
    let (status, head, _) = served.send_text(&preflight("https://app.example")).await;
    assert_eq!(status, 204, "{head}");
    assert!(head.contains(allowed), "{head}");
    for header in ["authorization", "content-type", "mcp-method", "mcp-session-id"] {
        let line = head.lines().find(|it| it.starts_with("access-control-allow-headers:"));
        assert!(line.is_some_and(|line| line.contains(header)), "{header}: {head}");
    }
    let (status, head, _) = served.send_text(&preflight("https://evil.example")).await;
    assert_eq!(status, 403, "{head}");
    assert!(!head.contains("access-control"), "{head}");
    // An answer also has these headers, and so does a refusal.
    let headers = format!("{CALL}origin: https://app.example\r\n");
    let (status, head, _) = send(&served, &headers, &call("{}")).await;
    assert_eq!(status, 200, "{head}");
    assert!(head.contains(allowed) && head.contains("vary: origin"), "{head}");
    let unknown = request("fedcba9876543210fedcba9876543210", &headers, &call("{}"));
    let (status, head, _) = served.send_text(&unknown).await;
    assert_eq!(status, 401, "{head}");
    assert!(head.contains(allowed), "{head}");
    assert!(head.contains("access-control-expose-headers:"), "{head}");
    // A request without an origin does not come from a web page.
    let (_, head, _) = served.send_text(&request(TOKEN, "", "")).await;
    assert!(!head.contains("access-control"), "{head}");
    served.end().await;
}

#[tokio::test]
async fn a_body_that_is_no_message_is_answered_in_json() {
    let gate = Gate::new(0, String::new());
    let served = Served::start(&gate, settings()).await;
    for (body, status, code) in [
        ("garbage", 400, -32700),
        ("", 400, -32700),
        ("[]", 400, -32600),
        (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, 400, -32600),
    ] {
        let (found, _, answer) = send(&served, CALL, body).await;
        assert_eq!((found, &answer["error"]["code"]), (status, &json!(code)), "{body}: {answer}");
    }
    // A long body is refused without being read: by its length, or after the limit if that is
    // unknown.
    let long = request(TOKEN, CALL, "");
    let with = |length: &str| long.replace("content-length: 0", length);
    for (head, sent) in [
        (with("content-length: 4194305"), 0),
        (with("transfer-encoding: chunked").replace("\r\n\r\n", "\r\n\r\n400001\r\n"), 4 << 20),
    ] {
        let mut stream = served.connect().await;
        stream.write_all(head.as_bytes()).await.expect("sent");
        stream.write_all(&vec![b'x'; sent + usize::from(sent > 0)]).await.expect("sent");
        let (found, _, answer) = answer(stream).await;
        assert_eq!((found, &answer["error"]["code"]), (413, &json!(-32600)), "{answer}");
    }
    assert_eq!(gate.begun(), 0);
    served.end().await;
}

#[tokio::test]
async fn headers_that_come_slowly_or_are_long_and_slow_bodies_end_their_connection() {
    let gate = Gate::new(0, String::new());
    let little = settings().bounds(bounds(Duration::from_millis(50)));
    let served = Served::start(&gate, little).await;
    let mut stream = served.connect().await;
    stream.write_all(b"POST /mcp HTTP/1.1\r\nhost: local").await.expect("sent");
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.expect("closed by the server");
    let mut stream = served.connect().await;
    let whole = request(TOKEN, CALL, &call("{}"));
    stream.write_all(&whole.as_bytes()[..whole.len() - 1]).await.expect("sent");
    assert_eq!(answer(stream).await.0, 408);
    served.end().await;
    let served = Served::start(&gate, settings()).await;
    let (status, ..) = send(&served, &format!("x: {}\r\n", "x".repeat(17 << 10)), "").await;
    assert_eq!(status, 431);
    assert_eq!(gate.begun(), 0);
    served.end().await;
}

#[tokio::test]
async fn a_connection_beyond_the_bound_is_told_so_and_the_others_go_on() {
    let gate = Gate::new(1, "done".to_owned());
    gate.permits.acquire().await.expect("open").forget();
    let few = settings().bounds(HttpBounds { connections: 2, ..HttpBounds::default() });
    let served = Served::start(&gate, few).await;
    let mut calling = Vec::new();
    for begun in 1..=2 {
        let mut stream = served.connect().await;
        stream.write_all(request(TOKEN, CALL, &call("{}")).as_bytes()).await.expect("sent");
        gate.wait_until(|seen| seen.begun == begun).await;
        calling.push(stream);
    }
    assert_eq!(answer(served.connect().await).await.0, 503);
    gate.permits.add_permits(2);
    for stream in calling {
        let (status, _, body) = answer(stream).await;
        assert_eq!((status, &body["result"]["content"][0]["text"]), (200, &json!("done")));
    }
    served.end().await;
}

#[tokio::test]
async fn whoever_has_no_token_keeps_no_client_out() {
    let gate = Gate::new(9, "done".to_owned());
    let bounds = HttpBounds { connections: 6, unauthenticated: 3, ..HttpBounds::default() };
    let served = Served::start(&gate, settings().bounds(bounds)).await;
    let asked = request(TOKEN, CALL, &call("{}"));
    let mut idle = Vec::new();
    for _ in 0..9 {
        for _ in 0..4 {
            let mut stream = served.connect().await;
            // The furthest that a client without a token gets.
            stream.write_all(b"POST /mcp HTTP/1.1\r\nhost: local").await.expect("sent");
            idle.push(stream);
        }
        assert_eq!(served.send_text(&asked).await.0, 200);
    }
    served.end().await;
}

#[tokio::test]
async fn a_connection_without_a_token_ends_soon_and_one_with_it_stays() {
    let gate = Gate::new(1, "done".to_owned());
    let unauthenticated_within = Duration::from_millis(50);
    let bounds = HttpBounds { unauthenticated_within, ..HttpBounds::default() };
    let served = Served::start(&gate, settings().bounds(bounds)).await;
    let asked = request(TOKEN, CALL, &call("{}")).replace("connection: close\r\n", "");
    let mut client = served.connect().await;
    client.write_all(asked.as_bytes()).await.expect("sent");
    gate.wait_until(|seen| seen.begun == 1).await;
    // A client with a wrong token counts as one without, although it keeps its connection.
    for text in ["", &*asked.replace(TOKEN, "fedcba9876543210fedcba9876543210")] {
        let mut stream = served.connect().await;
        stream.write_all(text.as_bytes()).await.expect("sent");
        let mut told = Vec::new();
        stream.read_to_end(&mut told).await.expect("closed by the server");
        assert_eq!(told.starts_with(b"HTTP/1.1 401 "), !text.is_empty(), "{told:?}");
    }
    // The server still answers a request on the first connection.
    client.write_all(asked.replace("POST", "PUT").as_bytes()).await.expect("sent");
    let mut lines = BufReader::new(client).lines();
    loop {
        let line = lines.next_line().await.expect("readable").expect("the second answer");
        if line.contains("HTTP/1.1 405 ") {
            break;
        }
    }
    served.end().await;
}

#[tokio::test]
async fn a_session_has_a_share_of_the_connections_and_so_has_a_principal() {
    let gate = Gate::new(0, "done".to_owned());
    let bounds = HttpBounds { of_principal: 3, of_session: 2, ..HttpBounds::default() };
    let served = Served::start(&gate, settings().bounds(bounds)).await;
    let session = served.begin(TOKEN).await.expect("room");
    let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string();
    assert_eq!(send(&served, &session, &ready).await.0, 202);
    let called = |id: usize| {
        let params = json!({ "name": "tool", "arguments": {} });
        json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }).to_string()
    };
    let mut calling = Vec::new();
    for id in 1..=2 {
        let mut stream = served.connect().await;
        let text = request(TOKEN, &session, &called(id));
        stream.write_all(text.as_bytes()).await.expect("sent");
        gate.wait_until(|seen| seen.begun == id).await;
        calling.push(stream);
    }
    let (status, _, body) = send(&served, &session, &called(3)).await;
    assert_eq!(status, 503, "{body}");
    assert!(body["error"]["message"].as_str().is_some_and(|it| it.contains("session")), "{body}");
    // Another client of the principal has room for one more call.
    let mut other = served.connect().await;
    other.write_all(request(TOKEN, CALL, &call("{}")).as_bytes()).await.expect("sent");
    gate.wait_until(|seen| seen.begun == 3).await;
    let (status, head, body) = send(&served, CALL, &call("{}")).await;
    assert_eq!(status, 503, "{body}");
    assert!(head.contains("connection: close"), "{head}");
    assert!(body["error"]["message"].as_str().is_some_and(|it| it.contains("principal")), "{body}");
    drop(calling.pop());
    gate.permits.add_permits(9);
    assert_eq!(answer(other).await.0, 200);
    served.end().await;
}

#[tokio::test]
async fn a_client_that_does_not_read_its_answer_loses_its_connection() {
    // More than the system's buffers hold.
    let gate = Gate::new(2, "x".repeat(32 << 20));
    let read_within = Duration::from_millis(50);
    let few = HttpBounds { connections: 1, read_within, ..HttpBounds::default() };
    let served = Served::start(&gate, settings().bounds(few)).await;
    let mut silent = served.connect().await;
    let asked = request(TOKEN, CALL, &call("{}"));
    silent.write_all(asked.as_bytes()).await.expect("sent");
    gate.wait_until(|seen| seen.begun == 1).await;
    // Another client has room once this one has lost its place. Until then, other clients get a
    // refusal, or only see their connection close.
    loop {
        let mut stream = served.connect().await;
        let mut status = [0; 12];
        let sent = stream.write_all(asked.as_bytes()).await;
        if sent.is_ok() && stream.read_exact(&mut status).await.is_ok() && status.ends_with(b"200")
        {
            break;
        }
    }
    let mut rest = Vec::new();
    // The client may get an error instead.
    let _ = silent.read_to_end(&mut rest).await;
    assert!(rest.len() < 32 << 20, "{} bytes", rest.len());
    served.end().await;
}

#[tokio::test]
async fn a_client_that_is_gone_ends_its_call() {
    let gate = Gate::new(0, String::new());
    let served = Served::start(&gate, settings()).await;
    let mut stream = served.connect().await;
    stream.write_all(request(TOKEN, CALL, &call("{}")).as_bytes()).await.expect("sent");
    gate.wait_until(|seen| seen.begun == 1).await;
    drop(stream);
    gate.wait_until(|seen| seen.cancelled == 1).await;
    served.end().await;
}

#[tokio::test]
async fn a_call_of_a_session_is_cancelled_by_a_notification() {
    let gate = Gate::new(0, "done".to_owned());
    let served = Served::start(&gate, settings()).await;
    let session = served.begin(TOKEN).await.expect("room");
    let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    assert_eq!(send(&served, &session, &ready.to_string()).await.0, 202);
    let called = |id: u64| {
        let params = json!({ "name": "tool", "arguments": {} });
        json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }).to_string()
    };
    let cancelled = |id: u64| {
        let params = json!({ "requestId": id, "reason": "enough" });
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params })
            .to_string()
    };
    let mut streams = Vec::new();
    for id in [7, 8] {
        let mut stream = served.connect().await;
        let text = request(TOKEN, &session, &called(id));
        stream.write_all(text.as_bytes()).await.expect("sent");
        streams.push(stream);
    }
    gate.wait_until(|seen| seen.begun == 2).await;
    // Another session of the same principal has its own ids.
    let other = served.begin(TOKEN).await.expect("room");
    assert_eq!(send(&served, &other, &ready.to_string()).await.0, 202);
    assert_eq!(send(&served, &other, &cancelled(7)).await.0, 202);
    assert_eq!(send(&served, &session, &cancelled(7)).await.0, 202);
    gate.wait_until(|seen| seen.cancelled == 1).await;
    // The other call continues, and is answered.
    gate.permits.add_permits(1);
    let answered = streams.pop().expect("the second");
    let mut text = String::new();
    let mut answered = BufReader::new(answered).lines();
    while !text.contains(r#""id":8"#) {
        text = answered.next_line().await.expect("readable").expect("an answer");
    }
    assert!(text.contains("done"), "{text}");
    assert_eq!(gate.wait_until(|_| true).await.cancelled, 1);
    served.end().await;
}

#[tokio::test]
async fn an_id_in_flight_is_refused_in_its_session_until_it_is_answered() {
    let gate = Gate::new(0, "done".to_owned());
    let served = Served::start(&gate, settings()).await;
    let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string();
    let params = json!({ "name": "tool", "arguments": {} });
    // The longest possible id, in its longest encoding.
    let id = "\u{1}".repeat(256);
    let called = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
    let called = called.to_string();
    let mut sessions = Vec::new();
    for _ in 0..2 {
        let session = served.begin(TOKEN).await.expect("room");
        assert_eq!(send(&served, &session, &ready).await.0, 202);
        sessions.push(session);
    }
    let ask = async |session: &str| {
        let mut stream = served.connect().await;
        let text = request(TOKEN, session, &called);
        stream.write_all(text.as_bytes()).await.expect("sent");
        stream
    };
    let first = ask(&sessions[0]).await;
    gate.wait_until(|seen| seen.begun == 1).await;
    let (status, _, body) = send(&served, &sessions[0], &called).await;
    assert_eq!((status, &body["error"]["code"]), (400, &json!(-32600)), "{body}");
    assert_eq!(body.get("id").unwrap_or(&Value::Null), &Value::Null, "{body}");
    assert!(body["error"]["message"].as_str().is_some_and(|it| it.contains("in flight")), "{body}");
    // After a client has gone, its call continues, and its id stays in use.
    drop(first);
    assert_eq!(send(&served, &sessions[0], &called).await.0, 400);
    // Another session has its own ids.
    let other = ask(&sessions[1]).await;
    gate.wait_until(|seen| seen.begun == 2).await;
    gate.permits.add_permits(2);
    let answered = async |mut stream: tokio::net::TcpStream| {
        let mut text = String::new();
        stream.read_to_string(&mut text).await.expect("an answer");
        text
    };
    assert!(answered(other).await.contains("done"));
    // The id is free again after the call.
    gate.permits.add_permits(1);
    while send(&served, &sessions[0], &called).await.0 == 400 {
        tokio::task::yield_now().await;
    }
    let longer = called.replacen(r#""id":""#, r#""id":"x"#, 1);
    assert_eq!(send(&served, &sessions[0], &longer).await.0, 400);
    served.end().await;
}

#[tokio::test]
async fn listeners_beyond_the_bound_are_refused_until_one_ends() {
    let gate = Gate::new(0, String::new());
    let one = HttpBounds { listeners: 1, ..HttpBounds::default() };
    let served = Served::start(&gate, settings().bounds(one)).await;
    let headers = "mcp-protocol-version: 2026-07-28\r\nmcp-method: subscriptions/listen\r\n";
    let mut body: Value = serde_json::from_str(&call("{}")).expect("JSON");
    body["method"] = "subscriptions/listen".into();
    let meta = body["params"]["_meta"].take();
    body["params"] = json!({ "_meta": meta, "notifications": { "toolsListChanged": true } });
    let text = request(TOKEN, headers, &body.to_string());
    // Returns a stream after the client was notified of a change.
    let listen = async || {
        let mut stream = served.connect().await;
        stream.write_all(text.as_bytes()).await.expect("sent");
        while gate.changes.receiver_count() == 0 {
            tokio::task::yield_now().await;
        }
        gate.changes.send(CatalogChange::Tools).expect("somebody listens");
        let mut lines = BufReader::new(stream).lines();
        loop {
            let line = lines.next_line().await.expect("readable").expect("a notification");
            if line.contains("notifications/tools/list_changed") {
                return lines;
            }
        }
    };
    let first = listen().await;
    let mut second = served.connect().await;
    second.write_all(text.as_bytes()).await.expect("sent");
    let mut refused = String::new();
    let is_taken = async {
        while gate.changes.receiver_count() < 2 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        read = second.read_to_string(&mut refused) => assert!(read.is_ok(), "{read:?}"),
        () = is_taken => panic!("there are two listeners"),
    }
    assert!(refused.contains("-32602") && refused.contains("listeners"), "{refused}");
    drop(first);
    while gate.changes.receiver_count() > 0 {
        tokio::task::yield_now().await;
    }
    let told = listen().await;
    served.end().await;
    drop(told);
}

#[tokio::test]
async fn the_end_of_the_server_ends_its_calls_and_answers_them() {
    let gate = Gate::new(0, "ended".to_owned());
    let served = Served::start(&gate, settings()).await;
    let mut stream = served.connect().await;
    stream.write_all(request(TOKEN, CALL, &call("{}")).as_bytes()).await.expect("sent");
    let idle = served.connect().await;
    gate.wait_until(|seen| seen.begun == 1).await;
    served.end().await;
    assert_eq!(gate.wait_until(|_| true).await.cancelled, 1);
    let (status, _, body) = answer(stream).await;
    assert_eq!((status, &body["result"]["content"][0]["text"]), (200, &json!("ended")));
    drop(idle);
}

fn pem(label: &str, der: &[u8]) -> String {
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", STANDARD.encode(der))
}

#[tokio::test]
async fn a_server_with_a_certificate_speaks_tls_alone() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("made");
    let key = pem("PRIVATE KEY", made.signing_key.serialized_der());
    let certificate = pem("CERTIFICATE", made.cert.der());
    let tls = Tls::from_pem(certificate.as_bytes(), key.as_bytes()).expect("a pair");
    assert!(Tls::from_pem(b"", key.as_bytes()).is_err());
    assert!(Tls::from_pem(certificate.as_bytes(), b"").is_err());
    let gate = Gate::new(1, "done".to_owned());
    let served = Served::start(&gate, settings().tls(tls)).await;
    let mut roots = rustls::RootCertStore::empty();
    roots.add(made.cert.der().clone()).expect("a root");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = "localhost".try_into().expect("a name");
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let mut stream = connector.connect(name, served.connect().await).await.expect("TLS");
    stream.write_all(request(TOKEN, CALL, &call("{}")).as_bytes()).await.expect("sent");
    let mut text = String::new();
    // The server closes the connection as in HTTP, perhaps without a TLS close message.
    let _ = stream.read_to_string(&mut text).await;
    assert!(text.starts_with("HTTP/1.1 200 ") && text.contains("done"), "{text}");
    let mut plain = served.connect().await;
    plain.write_all(request(TOKEN, CALL, &call("{}")).as_bytes()).await.expect("sent");
    let mut text = Vec::new();
    let _ = plain.read_to_end(&mut text).await;
    assert!(!text.starts_with(b"HTTP"), "{text:?}");
    assert_eq!(gate.begun(), 1);
    served.end().await;
}
