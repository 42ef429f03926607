//! A client and handwritten HTTP servers on ports of this machine.

mod login;
mod server;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::HeaderMap;
use ikigai_mcp::{
    BoxFuture, ClientIdentity, ConnectError, Era, HostResolver, HttpServer, RemoteCallError,
    RemoteConnection, TokenSource, Unattended, connect_http,
};
use rustls::crypto::ring::default_provider;
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use server::{Received, Response, serve};

/// Allows only this address.
struct Only(Option<IpAddr>);

impl HostResolver for Only {
    fn resolve(&self, host: &str, _: u16) -> BoxFuture<'static, Result<Vec<IpAddr>, String>> {
        let found = self.0.map(|it| vec![it]).ok_or(format!("may not reach `{host}`"));
        Box::pin(std::future::ready(found))
    }
}

/// Supplies a token, and new ones after it. Counts how often a new one was requested.
struct Tokens {
    refreshed: AtomicUsize,
    most: usize,
}

impl TokenSource for Tokens {
    fn token(&self) -> BoxFuture<'_, Result<Option<String>, String>> {
        Box::pin(async { Ok(Some(format!("token-{}", self.refreshed.load(Ordering::Relaxed)))) })
    }

    fn refresh<'a>(
        &'a self,
        refused: Option<&'a str>,
        challenge: &'a str,
    ) -> BoxFuture<'a, Result<Option<String>, String>> {
        let before = self.refreshed.load(Ordering::Relaxed);
        assert_eq!(refused, Some(format!("token-{before}")).as_deref());
        assert_eq!(challenge, "Bearer resource_metadata=\"x\"");
        Box::pin(async {
            let count = self.refreshed.fetch_add(1, Ordering::Relaxed) + 1;
            Ok((count <= self.most).then(|| format!("token-{count}")))
        })
    }
}

fn to(url: String) -> HttpServer {
    let tls = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring")
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    HttpServer {
        url,
        allow_loopback: true,
        headers: HeaderMap::new(),
        tokens: None,
        resolver: Arc::new(Only(Some([127, 0, 0, 1].into()))),
        tls,
    }
}

async fn connect(server: HttpServer, era: Option<Era>) -> Result<RemoteConnection, ConnectError> {
    let client = ClientIdentity { name: "test".into(), title: "Test".into(), version: "1".into() };
    connect_http(client, server, era).await
}

async fn call(connection: &RemoteConnection) -> Result<Bytes, RemoteCallError> {
    let cancel = CancellationToken::new();
    connection.call("tool", Bytes::from_static(b"{\"n\":1.10}"), &cancel, &Unattended).await
}

/// Answers a request of the newer era.
fn modern(request: &Received) -> Response {
    let asked = request.message();
    let result = match asked["method"].as_str() {
        Some("server/discover") => json!({
            "resultType": "complete",
            "supportedVersions": ["2026-07-28"],
            "capabilities": { "tools": {} },
        }),
        Some("tools/list") => json!({ "tools": [
            { "name": "tool", "inputSchema": { "type": "object" } },
            { "name": "headers", "inputSchema": { "type": "object", "properties": {
                "n": { "type": "integer", "x-mcp-header": "N" },
            } } },
            { "name": "invalid", "inputSchema": { "type": "object", "properties": {
                "n": { "type": "integer", "x-mcp-header": "a b" },
            } } },
        ] }),
        Some("tools/call") => json!({ "content": [] }),
        _ => return Response::status(202),
    };
    Response::json(&answer(&asked, &result))
}

fn answer(asked: &Value, result: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result })
}

#[tokio::test]
async fn a_server_of_the_newer_era_answers_in_json() {
    let server = serve(modern).await;
    let connection = connect(to(server.url()), None).await.expect("connected");
    assert_eq!(connection.era(), Era::Modern);
    let listed = connection.tools().await.expect("a list");
    assert_eq!(listed.tools.len(), 2, "{listed:?}");
    assert_eq!(listed.skipped.len(), 1, "{listed:?}");
    assert!(listed.skipped[0].1.contains("x-mcp-header"), "{listed:?}");
    assert_eq!(call(&connection).await.expect("a result"), r#"{"content":[]}"#);
    let requests = server.requests();
    let last = requests.last().expect("a request");
    assert!(last.body.contains(r#""arguments":{"n":1.10}"#), "{}", last.body);
    for (name, value) in [
        ("mcp-method", "tools/call"),
        ("mcp-name", "tool"),
        ("mcp-protocol-version", "2026-07-28"),
        ("accept-encoding", "identity"),
    ] {
        assert_eq!(last.header(name), Some(value), "{name}");
    }
    assert_eq!(last.header("mcp-param-n"), None);
    connection.close().await;
}

#[tokio::test]
async fn an_argument_is_repeated_as_a_header_where_the_schema_of_its_tool_asks_for_it() {
    let server = serve(modern).await;
    let connection = connect(to(server.url()), None).await.expect("connected");
    connection.tools().await.expect("a list");
    let arguments = Bytes::from_static(b"{\"n\":1.10}");
    let cancel = CancellationToken::new();
    connection.call("headers", arguments, &cancel, &Unattended).await.expect("a result");
    let requests = server.requests();
    let last = requests.last().expect("a request");
    assert_eq!(last.header("mcp-param-n"), Some("1.10"));
    assert_eq!(last.header("mcp-name"), Some("headers"));
    connection.close().await;
}

#[tokio::test]
async fn a_server_of_the_older_era_has_a_session_and_answers_in_events() {
    let server = serve(|request: &Received| {
        if request.method == "DELETE" {
            return Response::status(204);
        }
        if request.method == "GET" {
            return Response::status(405);
        }
        let asked = request.message();
        match asked["method"].as_str() {
            Some("server/discover") => Response::status(400),
            Some("initialize") => {
                let result = json!({ "protocolVersion": "2025-06-18", "capabilities": {} });
                Response::json(&answer(&asked, &result)).with("Mcp-Session-Id", "s1")
            }
            Some("tools/call") => {
                let ping = json!({ "jsonrpc": "2.0", "id": "p", "method": "ping" });
                let result = r#"{"content":[],"structuredContent":{"n":1.10}}"#;
                let id = &asked["id"];
                let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);
                Response::events(&[ping.to_string(), text])
            }
            _ => Response::status(202),
        }
    })
    .await;
    let connection = connect(to(server.url()), None).await.expect("connected");
    assert_eq!(connection.era(), Era::Legacy);
    let result = call(&connection).await.expect("a result");
    assert_eq!(result, r#"{"content":[],"structuredContent":{"n":1.10}}"#);
    connection.close().await;
    let requests = server.requests();
    let pong = requests.iter().find(|it| it.body.contains("\"p\"")).expect("an answer");
    assert_eq!(pong.message()["result"], json!({}));
    let last = requests.last().expect("a request");
    assert_eq!((&*last.method, last.header("mcp-session-id")), ("DELETE", Some("s1")));
}

#[tokio::test]
async fn a_token_that_is_refused_is_refreshed_once() {
    let server = serve(|request: &Received| {
        if request.header("authorization") == Some("Bearer token-1") {
            return modern(request);
        }
        Response::status(401).with("WWW-Authenticate", "Bearer resource_metadata=\"x\"")
    })
    .await;
    let tokens = Arc::new(Tokens { refreshed: AtomicUsize::new(0), most: 1 });
    let with = HttpServer { tokens: Some(Arc::clone(&tokens) as _), ..to(server.url()) };
    let connection = connect(with.clone(), None).await.expect("connected");
    assert!(call(&connection).await.is_ok());
    assert_eq!(tokens.refreshed.load(Ordering::Relaxed), 1);
    // The server does not accept the next token either.
    tokens.refreshed.store(7, Ordering::Relaxed);
    let challenge = "Bearer resource_metadata=\"x\"".to_owned();
    assert_eq!(call(&connection).await, Err(RemoteCallError::Unauthorized(challenge.clone())));
    assert_eq!(tokens.refreshed.load(Ordering::Relaxed), 8);
    let refused = connect(with, None).await.expect_err("no connection");
    assert_eq!(refused, ConnectError::Unauthorized(challenge));
}

#[tokio::test]
async fn requests_stay_at_their_origin() {
    let elsewhere = serve(modern).await;
    let other = elsewhere.url();
    let server = serve(move |request: &Received| match &*request.path {
        "/" => Response::status(307).with("Location", "/here"),
        "/here" if request.body.contains("tools/call") => {
            Response::status(307).with("Location", &other)
        }
        _ => modern(request),
    })
    .await;
    let connection = connect(to(server.url()), None).await.expect("connected");
    let error = call(&connection).await.expect_err("no result").to_string();
    assert!(error.contains("leads to another one"), "{error}");
    assert!(elsewhere.requests().is_empty());
}

#[tokio::test]
async fn three_redirects_are_followed_that_keep_the_request() {
    for (status, redirects, expected) in [
        (307, 3, None),
        (308, 3, None),
        (307, 4, Some("redirects more than 3 times")),
        (308, 4, Some("redirects more than 3 times")),
        // A client may change the method for these redirects.
        (301, 1, Some("HTTP 301")),
        (302, 1, Some("HTTP 302")),
        (303, 1, Some("HTTP 303")),
    ] {
        let server = serve(move |request: &Received| {
            let step: usize = request.path.trim_start_matches('/').parse().unwrap_or_default();
            if request.body.contains("tools/call") && step < redirects {
                let next = format!("/{}", step + 1);
                return Response::status(status).with("Location", &next);
            }
            modern(request)
        })
        .await;
        let connection = connect(to(server.url()), None).await.expect("connected");
        let what = format!("{redirects} of {status}");
        match (call(&connection).await, expected) {
            (Ok(result), None) => assert_eq!(result, r#"{"content":[]}"#, "{what}"),
            (Ok(_), Some(_)) => panic!("{what}: there is a result"),
            (Err(error), expected) => {
                let error = error.to_string();
                assert!(expected.is_some_and(|it| error.contains(it)), "{what}: {error}");
            }
        }
        let mut calls = server.requests();
        calls.retain(|it| it.body.contains("tools/call"));
        assert_eq!(calls.len(), if status < 307 { 1 } else { 4 }, "{what}");
        let is_same = |it: &Received| (&it.method, &it.body) == (&calls[0].method, &calls[0].body);
        assert!(calls.iter().all(is_same), "{what}: {calls:?}");
    }
}

#[tokio::test]
async fn addresses_are_judged_before_anything_is_sent() {
    let server = serve(modern).await;
    let url = server.url();
    let forbidden = HttpServer { resolver: Arc::new(Only(None)), ..to(url.clone()) };
    let another = Arc::new(Only(Some([127, 0, 0, 2].into())));
    let another = HttpServer { resolver: another, ..to(url.clone()) };
    let plain = HttpServer { allow_loopback: false, ..to(url.clone()) };
    for (server, expected) in [
        (forbidden, "may not reach"),
        (another, "may not be connected to"),
        (plain, "does not use `https`"),
        (to("http://192.0.2.1/".to_owned()), "does not use `https`"),
        (to("http://localhost.example/".to_owned()), "does not use `https`"),
        (to("ftp://127.0.0.1/".to_owned()), "does not use `https`"),
        (to("https://user:secret@example.org/".to_owned()), "use a token instead"),
        (to("nonsense".to_owned()), "is not a URL"),
    ] {
        let error = connect(server, None).await.expect_err("no connection");
        assert!(matches!(&error, ConnectError::Address(it) if it.contains(expected)), "{error}");
    }
    let named = HttpServer { resolver: Arc::new(Only(None)), ..to("https://example.org/".into()) };
    let error = connect(named, None).await.expect_err("no connection");
    assert!(error.to_string().contains("may not reach `example.org`"), "{error}");
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn localhost_is_this_machine_whatever_a_resolver_says() {
    let server = serve(modern).await;
    let url = server.url().replace("127.0.0.1", "localhost");
    let connection = connect(to(url.clone()), None).await.expect("connected");
    assert!(call(&connection).await.is_ok());
    let requests = server.requests();
    let host = requests.last().expect("a request").header("host").expect("a host");
    assert!(host.starts_with("localhost:"), "{host}");
    let plain = HttpServer { allow_loopback: false, ..to(url.clone()) };
    let error = connect(plain, None).await.expect_err("no connection");
    assert!(matches!(error, ConnectError::Address(_)), "{error}");
    let elsewhere = Arc::new(Only(Some([203, 0, 113, 1].into())));
    let deceived = HttpServer { resolver: elsewhere, ..to(url) };
    let error = connect(deceived, None).await.expect_err("no connection").to_string();
    assert!(error.contains("`localhost` is another machine"), "{error}");
    assert_eq!(server.requests().len(), requests.len());
}

#[tokio::test]
async fn an_answer_that_is_too_large_or_compressed_is_refused() {
    for (make, expected) in [
        (Response::endless as fn() -> Response, "more than 16777216 bytes"),
        (|| Response::status(200).with("Content-Encoding", "gzip"), "compresses"),
        (|| Response::status(500), "HTTP 500"),
        (|| Response::status(200).with("Content-Type", "text/html"), "without a message"),
    ] {
        let server =
            serve(
                move |request: &Received| {
                    if request.body.contains("tools/call") { make() } else { modern(request) }
                },
            )
            .await;
        let connection = connect(to(server.url()), None).await.expect("connected");
        let error = call(&connection).await.expect_err("no result").to_string();
        assert!(error.contains(expected), "{error}");
        let calls = server.requests().iter().filter(|it| it.body.contains("tools/call")).count();
        assert_eq!(calls, 1, "{expected}");
    }
}

#[tokio::test]
async fn a_session_that_the_server_ended_ends_the_connection_and_no_call_is_sent_twice() {
    let server = serve(|request: &Received| {
        let asked = if request.body.is_empty() { Value::Null } else { request.message() };
        match asked["method"].as_str() {
            Some("initialize") => {
                let result = json!({ "protocolVersion": "2025-06-18", "capabilities": {} });
                Response::json(&answer(&asked, &result)).with("Mcp-Session-Id", "s1")
            }
            Some("notifications/initialized") => Response::status(202),
            Some(_) => Response::status(404),
            None => Response::status(405),
        }
    })
    .await;
    let connection = connect(to(server.url()), Some(Era::Legacy)).await.expect("connected");
    let ended = "the server ended the session";
    assert_eq!(call(&connection).await, Err(RemoteCallError::Closed(ended.to_owned())));
    assert_eq!(&*connection.closed().await, ended);
    let calls = server.requests().iter().filter(|it| it.body.contains("tools/call")).count();
    assert_eq!(calls, 1);
}
