//! Failures of the network: proxies, handshakes, and servers that do not speak HTTP.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::read_timeout::ReadWait;
use super::*;
use crate::{FailureRemedy, Message, Part, Role};

/// A time limit that is short enough for a test and long enough for a busy machine. The tests wait
/// only for data that arrives at once or never.
const SHORT: Duration = Duration::from_millis(300);

fn endpoint(base: &str) -> Endpoint {
    Endpoint {
        base_url: Some(base.to_owned()),
        key: Some(ApiKey::new("sk-very-secret")),
        first_wait: Duration::from_millis(1),
        ..Endpoint::new(Provider::OpenAi)
    }
}

async fn failure(client: &ModelClient) -> (RequestFailure, u32) {
    let messages = [Message { role: Role::User, parts: vec![Part::text("hello")] }];
    let tools = Value::Null;
    let request = ModelRequest {
        model: "m",
        system: &[],
        messages: &messages,
        tools: &tools,
        ..ModelRequest::default()
    };
    let mut retries = 0;
    let mut on_event =
        |event: AnswerEvent<'_>| retries += u32::from(matches!(event, AnswerEvent::Retry { .. }));
    let failure = client.send(&request, &mut on_event).await.expect_err("no answer");
    let shown = format!("{failure} {failure:?} {client:?}");
    assert!(!shown.contains("sk-very-secret"), "{shown}");
    (failure, retries)
}

async fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    (listener, address)
}

/// Starts a server that reads the head of each request and writes these bytes.
async fn server(reply: Vec<u8>) -> SocketAddr {
    let (listener, address) = listener().await;
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut byte = [0];
            let mut last = [0; 4];
            while last != *b"\r\n\r\n" && stream.read_exact(&mut byte).await.is_ok() {
                last.rotate_left(1);
                last[3] = byte[0];
                // A TLS handshake has no head.
                if byte[0] == 0x16 {
                    break;
                }
            }
            // The client may already be gone.
            let _ = stream.write_all(&reply).await;
            let _ = stream.shutdown().await;
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest).await;
        }
    });
    address
}

fn http(status: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n{headers}\r\n{body}").into_bytes()
}

#[tokio::test]
async fn tls_against_a_port_without_it() {
    let address = server(http("400 Bad Request", "", "")).await;
    let client = ModelClient::with_proxies(
        endpoint(&format!("https://{address}/v1")),
        &Matcher::builder().build(),
    );
    let (failure, retries) = failure(&client.expect("a client")).await;
    assert_eq!(failure.kind, FailureKind::Tls { host: address.to_string() });
    assert_eq!(retries, 0);
    assert_eq!(failure.remedy(), Some(FailureRemedy::TrustCertificate(Provider::OpenAi)));
}

#[tokio::test]
async fn a_port_where_nobody_listens() {
    let (listener, address) = listener().await;
    drop(listener);
    let client = ModelClient::with_proxies(
        endpoint(&format!("http://{address}")),
        &Matcher::builder().build(),
    );
    let (failure, retries) = failure(&client.expect("a client")).await;
    assert_eq!(failure.kind, FailureKind::NoServer { host: address.to_string() });
    assert_eq!(retries, 1);
}

#[tokio::test]
async fn a_proxy_that_says_nothing() {
    // The connection is never accepted: the system establishes it, and no one answers.
    let (_listener, address) = listener().await;
    let proxies = Matcher::builder().https(format!("http://someone:hidden@{address}")).build();
    let endpoint = Endpoint { connect_timeout: SHORT, ..endpoint("https://api.test/v1") };
    let client = ModelClient::with_proxies(endpoint, &proxies).expect("a client");
    let (failure, retries) = failure(&client).await;
    let FailureKind::Proxy { proxy } = &failure.kind else { panic!("{failure:?}") };
    assert!(proxy.contains(&address.to_string()), "{proxy}");
    assert!(!format!("{failure:?}").contains("hidden"), "{failure:?}");
    assert_eq!(retries, 1);
    assert_eq!(failure.remedy(), Some(FailureRemedy::CheckProxy));
}

#[tokio::test]
async fn a_proxy_that_wants_a_password() {
    let address = server(http("407 Proxy Authentication Required", "", "")).await;
    for base in ["https://api.test/v1", "http://api.test/v1"] {
        let proxies = Matcher::builder().all(format!("http://{address}")).build();
        let client = ModelClient::with_proxies(endpoint(base), &proxies).expect("a client");
        let (failure, _) = failure(&client).await;
        let FailureKind::Proxy { proxy } = &failure.kind else { panic!("{failure:?}") };
        assert!(proxy.contains(&address.to_string()), "{proxy}");
    }
}

#[tokio::test]
async fn a_proxy_that_shows_the_password_it_was_given() {
    // `someone:hidden` in base64, as in the header.
    let body = "denied: c29tZW9uZTpoaWRkZW4= is someone with hidden";
    let address = server(http("403 Forbidden", "", body)).await;
    let proxies = Matcher::builder().all(format!("http://someone:hidden@{address}")).build();
    let client =
        ModelClient::with_proxies(endpoint("http://api.test/v1"), &proxies).expect("a client");
    let (failure, _) = failure(&client).await;
    assert_eq!(failure.detail, "denied: … is someone with …");
}

#[test]
fn a_client_does_not_show_the_password_of_its_proxy() {
    for scheme in ["http", "https", "socks5", "socks5h"] {
        let proxies =
            Matcher::builder().all(format!("{scheme}://someone:hidden@proxy.test")).build();
        let client =
            ModelClient::with_proxies(endpoint("https://api.test/v1"), &proxies).expect("a client");
        let shown = format!("{client:?}");
        assert!(shown.contains("proxy.test"), "{shown}");
        for secret in ["hidden", "c29tZW9uZTpoaWRkZW4="] {
            assert!(!shown.contains(secret), "{scheme}: {shown}");
        }
    }
}

#[tokio::test]
async fn a_key_in_the_address_is_in_no_message() {
    let body = "no route /v1/responses?v=1&key=a-key-for-a-gateway";
    let address = server(http("400 Bad Request", "", body)).await;
    let base = format!("http://{address}/v1?v=1&key=a-key-for-a-gateway");
    let client =
        ModelClient::with_proxies(endpoint(&base), &Matcher::builder().build()).expect("a client");
    let (failure, _) = failure(&client).await;
    assert_eq!(failure.detail, "no route /v1/responses?v=1&key=…");
    for (base, kept) in [
        (base.as_str(), "/v1?…"),
        ("https://u:a-key-for-a-gateway@a.test", "https://a.test/"),
        ("//a-key-for-a-gateway", "…"),
    ] {
        let shown = format!("{:?}", endpoint(base));
        assert!(shown.contains(kept) && !shown.contains("a-key"), "{shown}");
    }
    assert!(!format!("{client:?}").contains("a-key"), "{client:?}");
}

#[tokio::test]
async fn a_key_in_the_address_is_shown_in_no_encoding() {
    let query = "key=SECRET%2Fkey%2Bvalue%3D0123456789";
    let body = format!("no route {query}, key=SECRET/key+value=0123456789");
    let moved = format!("location: http://127.0.0.1:1/v1?{query}\r\n");
    for (status, headers, detail) in [
        ("404 Not Found", "", "no route key=…, key=…"),
        ("308 Permanent Redirect", &*moved, "moved to http://127.0.0.1:1/v1?key=…"),
    ] {
        let address = server(http(status, headers, &body)).await;
        let endpoint = endpoint(&format!("http://{address}/v1?{query}"));
        let client =
            ModelClient::with_proxies(endpoint, &Matcher::builder().build()).expect("a client");
        let (failure, _) = failure(&client).await;
        assert_eq!(failure.detail, detail);
        assert!(!format!("{failure:?} {client:?}").contains("0123456789"), "{client:?}");
    }
}

#[tokio::test]
async fn an_address_with_a_version_that_is_added_once_more() {
    for provider in [Provider::Anthropic, Provider::Google] {
        let advice = "the address must be without `/v1`, which every request adds";
        for (body, detail) in [("", advice.to_owned()), ("nothing", format!("{advice}; nothing"))] {
            let address = server(http("404 Not Found", "", body)).await;
            let endpoint = Endpoint { provider, ..endpoint(&format!("http://{address}/v1/")) };
            let client =
                ModelClient::with_proxies(endpoint, &Matcher::builder().build()).expect("a client");
            let (failure, _) = failure(&client).await;
            assert_eq!(failure.kind, FailureKind::UnknownModel { model: "m".to_owned() });
            assert_eq!(failure.detail, detail, "{provider}");
        }
    }
}

#[tokio::test]
async fn a_server_that_does_not_speak_http() {
    let address = server(b"SSH-2.0-OpenSSH_9.9\r\n".to_vec()).await;
    let client = ModelClient::with_proxies(
        endpoint(&format!("http://{address}")),
        &Matcher::builder().build(),
    );
    let (failure, retries) = failure(&client.expect("a client")).await;
    assert_eq!((&failure.kind, retries), (&FailureKind::Malformed, 0), "{failure:?}");
    assert!(failure.detail.contains(&format!("{address} does not speak HTTP")), "{failure:?}");
    assert_eq!(failure.remedy(), Some(FailureRemedy::CheckAddress(Provider::OpenAi)));
}

#[tokio::test]
async fn a_host_without_a_proxy() {
    let address = server(http("401 Unauthorized", "", "{}")).await;
    let proxies = Matcher::builder().all("http://127.0.0.1:1").no("127.0.0.1").build();
    let client = ModelClient::with_proxies(endpoint(&format!("http://{address}/v1")), &proxies);
    let (failure, _) = failure(&client.expect("a client")).await;
    assert_eq!(failure.kind, FailureKind::Key);
}

#[tokio::test]
async fn a_redirect_is_told_and_not_followed() {
    let address =
        server(http("307 Temporary Redirect", "location: http://127.0.0.1:1/v1\r\n", "")).await;
    let client = ModelClient::with_proxies(
        endpoint(&format!("http://{address}/v1")),
        &Matcher::builder().build(),
    );
    let (failure, retries) = failure(&client.expect("a client")).await;
    assert_eq!(failure.kind, FailureKind::Refused { status: 307 });
    assert_eq!((failure.detail.as_str(), retries), ("moved to http://127.0.0.1:1/v1", 0));
}

#[tokio::test]
async fn a_refusal_that_does_not_end_is_not_waited_for() {
    let (listener, address) = listener().await;
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a client");
        stream.read_u8().await.expect("a request");
        let head = "HTTP/1.1 400 Bad Request\r\ncontent-length: 1000000\r\n\r\n";
        let mut written = stream.write_all(head.as_bytes()).await;
        // Never silent for long, until the client is gone.
        while written.is_ok() {
            sleep(SHORT / 10).await;
            written = stream.write_all(b"x").await;
        }
    });
    let endpoint = Endpoint { silence_timeout: SHORT, ..endpoint(&format!("http://{address}")) };
    let client =
        ModelClient::with_proxies(endpoint, &Matcher::builder().build()).expect("a client");
    let (failure, retries) = failure(&client).await;
    assert_eq!((failure.kind, retries), (FailureKind::Refused { status: 400 }, 0));
    assert!(failure.detail.starts_with('x'), "{}", failure.detail);
}

#[tokio::test]
async fn a_stream_that_is_cut_after_it_said_why() {
    let error = r#"{"error":{"type":"authentication_error","message":"who"}}"#;
    for (body, kind, detail) in [
        (format!(": here\n\n{error}"), FailureKind::Key, "who"),
        (": here\n\n".to_owned(), FailureKind::Cut, ""),
    ] {
        let longer = body.len() + 1;
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream";
        let reply = format!("{head}\r\ncontent-length: {longer}\r\n\r\n{body}");
        let address = server(reply.into_bytes()).await;
        let endpoint = endpoint(&format!("http://{address}"));
        let client =
            ModelClient::with_proxies(endpoint, &Matcher::builder().build()).expect("a client");
        let (failure, _) = failure(&client).await;
        assert_eq!(failure.kind, kind, "{failure:?}");
        assert!(failure.detail.contains(detail), "{failure:?}");
    }
}

#[tokio::test]
async fn signs_of_life_alone_do_not_keep_a_connection_for_ever() {
    let ping = "event: ping\ndata: {\"type\": \"ping\"}\n\n";
    for (provider, sign) in [(Provider::OpenAi, ": still here\n\n"), (Provider::Anthropic, ping)] {
        let (listener, address) = listener().await;
        let gone = tokio::spawn(async move {
            // Nothing was reported, so there is one more attempt.
            for _ in 0..2 {
                let (mut stream, _) = listener.accept().await.expect("a client");
                stream.read_u8().await.expect("a request");
                let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
                let mut written = stream.write_all(head.as_bytes()).await;
                while written.is_ok() {
                    sleep(SHORT / 30).await;
                    written = stream.write_all(sign.as_bytes()).await;
                }
            }
        });
        let endpoint = endpoint(&format!("http://{address}"));
        let endpoint = Endpoint { silence_timeout: SHORT, provider, ..endpoint };
        let client =
            ModelClient::with_proxies(endpoint, &Matcher::builder().build()).expect("a client");
        let (failure, retries) = failure(&client).await;
        // A busy machine may be silent for that long on its own.
        let FailureKind::SilenceTimeout(silence) = failure.kind else { panic!("{failure:?}") };
        assert!(silence == SHORT || silence == SHORT * 6, "{silence:?}");
        assert_eq!(retries, 1);
        gone.await.expect("the client hung up twice");
    }
}

#[tokio::test]
async fn what_a_server_says_is_short_and_plain() {
    let message = format!("no \\u001b[31msk-very-secret\\u202e here\\n{}", "x".repeat(1000));
    let body = format!("{{\"error\":{{\"message\":\"{message}\"}}}}");
    let address =
        server(http("400 Bad Request", "content-type: application/json\r\n", &body)).await;
    let client = ModelClient::with_proxies(
        endpoint(&format!("http://{address}/v1")),
        &Matcher::builder().build(),
    );
    let (failure, _) = failure(&client.expect("a client")).await;
    assert_eq!(failure.kind, FailureKind::Refused { status: 400 });
    assert!(failure.detail.starts_with("no [31m… here xxx"), "{}", failure.detail);
    assert_eq!(failure.detail.chars().count(), 301);
    assert!(!failure.detail.contains(|c: char| c.is_control() || c == '\u{202e}'));
}

#[tokio::test]
async fn without_a_key_at_the_own_address_nothing_is_sent() {
    for provider in Provider::ALL {
        let proxies = Matcher::builder().all("http://127.0.0.1:1").build();
        let client =
            ModelClient::with_proxies(Endpoint::new(provider), &proxies).expect("a client");
        let (failure, retries) = failure(&client).await;
        assert_eq!((failure.kind.clone(), retries), (FailureKind::NoKey { provider }, 0));
        assert_eq!(failure.remedy(), Some(FailureRemedy::SetKey(provider)));
    }
}

/// Reads one request, whose body is `{}`.
async fn request(stream: &mut TcpStream) {
    let mut text = Vec::new();
    while !text.ends_with(b"{}") {
        text.push(stream.read_u8().await.expect("a request"));
    }
}

#[tokio::test]
async fn a_connection_serves_the_next_request_although_its_response_ends_late() {
    const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
        transfer-encoding: chunked\r\n\r\n4\r\nlast\r\n";
    let (listener, address) = listener().await;
    let (is_read, after_reading) = tokio::sync::oneshot::channel();
    let server = tokio::spawn(async move {
        // Only one connection is accepted.
        let (mut stream, _) = listener.accept().await.expect("a connection");
        request(&mut stream).await;
        stream.write_all(HEAD).await.expect("a response");
        after_reading.await.expect("the last event was read");
        stream.write_all(b"0\r\n\r\n").await.expect("its end");
        request(&mut stream).await;
        stream.write_all(HEAD).await.expect("a response");
    });
    let client = ModelClient::with_proxies(
        endpoint(&format!("http://{address}")),
        &Matcher::builder().build(),
    );
    let ModelClient { transport, .. } = client.expect("a client");
    let url = Url::parse(&format!("http://{address}/")).expect("an address");
    let body = Bytes::from_static(b"{}");
    let post = async || match transport.post(&url, &HeaderMap::new(), &body).await {
        Ok(ProviderResponse::Stream(response)) => response,
        Ok(ProviderResponse::Document(_)) | Err(_) => panic!("no stream"),
    };
    let mut response = post().await;
    let read = transport.next(&mut response, ReadWait::for_silence(Duration::from_secs(60))).await;
    assert_eq!(read.expect("bytes").as_deref(), Some(&b"last"[..]));
    let finished = transport.finish(response);
    is_read.send(()).expect("a server");
    finished.await.expect("the end of the response");
    post().await;
    server.await.expect("both requests on one connection");
}
