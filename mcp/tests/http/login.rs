//! The client half of OAuth, against an honest issuer and against dishonest ones.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ikigai_mcp::{
    Authorization, Callback, OAuthClient, OAuthError, OAuthHttp, OAuthSession, Protection,
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use url::{Url, form_urlencoded};

use super::server::{Received, Response, Server, serve};
use super::{Only, to};

fn http() -> OAuthHttp {
    let server = to(String::new());
    OAuthHttp { resolver: server.resolver, tls: server.tls, allow_loopback: true }
}

/// The origin that a request was sent to.
fn origin(request: &Received) -> String {
    format!("http://{}", request.header("host").expect("a host"))
}

fn metadata(request: &Received) -> Value {
    let origin = origin(request);
    json!({
        "issuer": origin,
        "authorization_endpoint": format!("{origin}/authorize"),
        "token_endpoint": format!("{origin}/token"),
        "registration_endpoint": format!("{origin}/register"),
        "revocation_endpoint": format!("{origin}/revoke"),
        "code_challenge_methods_supported": ["plain", "S256"],
        "token_endpoint_auth_methods_supported": ["client_secret_basic"],
        "authorization_response_iss_parameter_supported": true,
    })
}

/// Answers like a server and its issuer at one origin.
fn honest(request: &Received) -> Response {
    let origin = origin(request);
    match request.path.as_str() {
        "/mcp" => {
            let place = format!("{origin}/.well-known/oauth-protected-resource/mcp");
            let challenge = format!("Bearer resource_metadata=\"{place}\", scope=\"tools\"");
            Response::status(401)
                .with("WWW-Authenticate", "Basic realm=\"x\"")
                .with("WWW-Authenticate", &challenge)
        }
        "/.well-known/oauth-protected-resource/mcp" => Response::json(&json!({
            "resource": format!("{origin}/mcp"),
            "authorization_servers": [origin],
            "scopes_supported": ["tools", "all"],
        })),
        "/.well-known/oauth-authorization-server" => Response::json(&metadata(request)),
        "/register" => {
            let asked = request.message();
            assert_eq!(asked["token_endpoint_auth_method"], "client_secret_basic");
            assert!(asked["redirect_uris"][0].as_str().expect("a text").ends_with("/callback"));
            Response::json(&json!({ "client_id": "c:1", "client_secret": "s3cret" }))
        }
        "/token" => Response::json(&tokens(request)),
        "/revoke" => Response::status(200),
        _ => Response::status(404),
    }
}

fn tokens(request: &Received) -> Value {
    // `c:1` and `s3cret`, form-encoded before they are joined.
    assert_eq!(request.header("authorization"), Some("Basic YyUzQTE6czNjcmV0"));
    let renews = field(request, "grant_type") == "refresh_token";
    json!({
        "access_token": if renews { "second" } else { "first" },
        "token_type": "Bearer",
        "expires_in": 3600,
        "refresh_token": if renews { "r2" } else { "r1" },
    })
}

fn field(request: &Received, name: &str) -> String {
    let mut pairs = form_urlencoded::parse(request.body.as_bytes());
    let found = pairs.find(|(key, _)| key == name).map(|(_, value)| value.into_owned());
    found.unwrap_or_else(|| panic!("no {name}: {}", request.body))
}

/// Begins a login, until it waits for its answer.
async fn begin(server: &Server) -> Result<(Authorization, Callback), OAuthError> {
    let http = http();
    let protection = http.protection(&mcp(server)).await?;
    let issuer = http.issuer(&protection.issuers[0]).await?;
    let callback = Callback::bind(0).await.expect("a port");
    let redirect = callback.redirect();
    let client = http.register(&issuer, &redirect).await?;
    Ok((Authorization::new(issuer, &protection, client, redirect, None)?, callback))
}

/// Delivers an answer like a browser, and returns the status of the page that the browser shows.
async fn bring(redirect: &str, query: &str) -> String {
    let url = Url::parse(redirect).expect("a URL");
    let address = (url.host_str().expect("a host"), url.port().expect("a port"));
    let mut stream = TcpStream::connect(address).await.expect("connected");
    let request = format!("GET {}?{query} HTTP/1.1\r\nHost: x\r\n\r\n", url.path());
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut page = String::new();
    stream.read_to_string(&mut page).await.expect("a page");
    page.split(' ').nth(1).expect("a status").to_owned()
}

fn query(url: &Url, name: &str) -> String {
    let found = url.query_pairs().find(|(key, _)| key == name);
    found.unwrap_or_else(|| panic!("no {name}: {url}")).1.into_owned()
}

async fn logged_in(server: &Server) -> OAuthSession {
    let (login, callback) = begin(server).await.expect("begun");
    let url = login.url().expect("a URL");
    let answer = format!("code=x&state={}&iss={}", query(&url, "state"), origin_of(server));
    let redirect = callback.redirect();
    let (code, status) = tokio::join!(callback.code(&login), bring(&redirect, &answer));
    assert_eq!((code.as_deref(), status.as_str()), (Ok("x"), "200"));
    login.exchange(&http(), "x").await.expect("tokens")
}

fn mcp(server: &Server) -> String {
    format!("{}mcp", server.url())
}

fn origin_of(server: &Server) -> String {
    Url::parse(&server.url()).expect("a URL").origin().ascii_serialization()
}

#[tokio::test]
async fn a_login_leads_to_tokens_that_are_renewed_and_revoked() {
    let server = serve(honest).await;
    let first = logged_in(&server).await;
    assert_eq!((first.token(), first.scope.as_deref()), ("first", Some("tools")));
    assert!(first.is_fresh() && first.is_renewable() && first.is_revocable());
    let second = first.renewed(&http()).await.expect("renewed");
    assert_eq!(second.token(), "second");
    second.revoke(&http()).await.expect("revoked");
    let requests = server.requests();
    let of = |path: &str| requests.iter().filter(|it| it.path == path).collect::<Vec<_>>();
    let [exchanged, renewed] = of("/token")[..] else { panic!("{requests:?}") };
    assert_eq!(field(exchanged, "code"), "x");
    assert_eq!(field(exchanged, "code_verifier").len(), 43);
    assert_eq!(field(renewed, "refresh_token"), "r1");
    for request in [exchanged, renewed] {
        assert_eq!(field(request, "resource"), mcp(&server));
    }
    let revoked: Vec<_> = of("/revoke").into_iter().map(|it| field(it, "token")).collect();
    assert_eq!(revoked, ["r2", "second"]);
}

#[tokio::test]
async fn answers_to_another_login_are_refused_and_the_wait_goes_on() {
    let server = serve(honest).await;
    let (login, callback) = begin(&server).await.expect("begun");
    let state = query(&login.url().expect("a URL"), "state");
    let brought = async {
        // A browser opens connections that it does not use.
        let redirect = callback.redirect();
        let unused = TcpStream::connect(redirect.split('/').nth(2).expect("a host"));
        let unused = unused.await.expect("connected");
        assert_eq!(bring(&redirect, "code=y&state=wrong").await, "400");
        assert_eq!(bring(&redirect.replace("callback", "favicon.ico"), "").await, "404");
        let mixed = format!("code=y&state={state}&iss=https://other.example");
        assert_eq!(bring(&redirect, &mixed).await, "400");
        drop(unused);
    };
    let (code, ()) = tokio::join!(callback.code(&login), brought);
    let error = code.expect_err("the code of another issuer");
    assert!(error.to_string().contains("did not come from the issuer"), "{error}");
}

#[tokio::test]
async fn a_server_that_speaks_for_another_is_refused_before_anybody_is_asked() {
    for (described, expected) in [
        (json!({ "resource": "https://other.example/mcp" }), "another server"),
        (json!({ "resource": "{origin}/mcp", "authorization_servers": [] }), "no issuer"),
        (json!([]), "not OAuth metadata"),
    ] {
        let server = serve(move |request: &Received| match request.path.as_str() {
            "/.well-known/oauth-protected-resource/mcp" => {
                let text = described.to_string().replace("{origin}", &origin(request));
                Response::json(&serde_json::from_str(&text).expect("JSON"))
            }
            _ => honest(request),
        });
        let error = http().protection(&mcp(&server.await)).await.expect_err("refused");
        assert!(error.to_string().contains(expected), "{error}");
    }
    let server = serve(|_: &Received| {
        let elsewhere = "Bearer resource_metadata=\"http://127.0.0.1:1/x\"";
        Response::status(401).with("WWW-Authenticate", elsewhere)
    });
    let error = http().protection(&mcp(&server.await)).await.expect_err("refused");
    assert!(error.to_string().contains("another address than its own"), "{error}");
}

#[tokio::test]
async fn an_issuer_that_is_another_or_unsafe_is_refused() {
    for (key, value, expected) in [
        ("issuer", json!("https://other.example"), "names another issuer"),
        ("code_challenge_methods_supported", json!(["plain"]), "PKCE"),
        ("token_endpoint", json!("http://issuer.example/token"), "does not use `https`"),
        ("authorization_endpoint", json!("javascript:alert(1)"), "names no host"),
        ("revocation_endpoint", json!("file:///etc/passwd"), "names no host"),
    ] {
        let server = serve(move |request: &Received| match request.path.as_str() {
            "/.well-known/oauth-authorization-server" => {
                let mut metadata = metadata(request);
                metadata[key] = value.clone();
                Response::json(&metadata)
            }
            _ => honest(request),
        });
        let error = begin(&server.await).await.expect_err("refused");
        assert!(error.to_string().contains(expected), "{key}: {error}");
    }
}

#[tokio::test]
async fn an_issuer_at_an_address_that_is_not_allowed_hears_nothing() {
    let server = serve(honest).await;
    let nowhere = OAuthHttp { resolver: Arc::new(Only(None)), ..http() };
    let plain = OAuthHttp { allow_loopback: false, ..http() };
    let elsewhere = IpAddr::from([203, 0, 113, 1]);
    let other = OAuthHttp { resolver: Arc::new(Only(Some(elsewhere))), ..http() };
    for http in [nowhere, plain, other] {
        let error = http.issuer(&origin_of(&server)).await.expect_err("refused");
        assert!(matches!(error, OAuthError::Address(_)), "{error}");
    }
    assert_eq!(server.requests().len(), 0);
}

#[tokio::test]
async fn an_issuer_on_this_machine_may_call_itself_localhost() {
    let server = serve(honest).await;
    let name = origin_of(&server).replace("127.0.0.1", "localhost");
    let issuer = http().issuer(&name).await.expect("an issuer");
    assert_eq!(issuer.name(), name);
    let elsewhere = Arc::new(Only(Some([203, 0, 113, 1].into())));
    let deceived = OAuthHttp { resolver: elsewhere, ..http() };
    let error = deceived.issuer(&name).await.expect_err("refused").to_string();
    assert!(error.contains("`localhost` is another machine"), "{error}");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn tokens_come_from_nowhere_else_and_are_bounded() {
    let requests = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&requests);
    let other = serve(move |_: &Received| {
        count.fetch_add(1, Ordering::Relaxed);
        Response::status(200)
    })
    .await;
    let place = other.url();
    for (answer, expected) in [
        (Err(place.clone()), "leads to another address"),
        (Ok(json!({ "access_token": "x".repeat(2 << 20), "token_type": "Bearer" })), "KiB"),
        (Ok(json!({ "access_token": "a\nb", "token_type": "Bearer" })), "characters"),
        (Ok(json!({ "access_token": "a", "token_type": "DPoP" })), "kind"),
        (Ok(json!({ "error": "invalid_grant" })), "no tokens"),
    ] {
        let server = serve(move |request: &Received| match (request.path.as_str(), &answer) {
            ("/token", Ok(answer)) => Response::json(answer),
            ("/token", Err(place)) => Response::status(307).with("Location", place),
            _ => honest(request),
        })
        .await;
        let (login, _callback) = begin(&server).await.expect("begun");
        let error = login.exchange(&http(), "c0de").await.expect_err("refused");
        assert!(error.to_string().contains(expected), "{error}");
        assert!(!error.to_string().contains("c0de"), "{error}");
    }
    assert_eq!(requests.load(Ordering::Relaxed), 0, "the code went somewhere else");
}

#[tokio::test]
async fn a_session_that_the_issuer_ended_says_so_without_its_token() {
    let server = serve(|request: &Received| match request.path.as_str() {
        "/token" if field(request, "grant_type") == "refresh_token" => {
            let words = format!("{} is used up", field(request, "refresh_token"));
            let body = json!({ "error": "invalid_grant", "error_description": words });
            Response::json(&body).status_of(400)
        }
        _ => honest(request),
    })
    .await;
    let error = logged_in(&server).await.renewed(&http()).await.expect_err("refused");
    assert!(error.ends_session() && error.to_string().contains("… is used up"), "{error}");
}

#[tokio::test]
async fn a_client_that_is_known_is_not_registered() {
    let server = serve(|request: &Received| match request.path.as_str() {
        "/.well-known/oauth-authorization-server" => {
            let mut metadata = metadata(request);
            metadata.as_object_mut().expect("an object").remove("registration_endpoint");
            Response::json(&metadata)
        }
        _ => honest(request),
    })
    .await;
    let error = begin(&server).await.expect_err("refused");
    assert_eq!(error, OAuthError::NoRegistration);
    let issuer = http().issuer(&origin_of(&server)).await.expect("an issuer");
    assert!(!issuer.registers());
    let secret = Some("s3cret".to_owned());
    let client = OAuthClient::known(&issuer, "c:1".to_owned(), secret);
    let (resource, issuers) = (mcp(&server), vec![origin_of(&server)]);
    let protection = Protection { resource, issuers, scope: None };
    let redirect = "http://127.0.0.1:1/callback".to_owned();
    let login = Authorization::new(issuer, &protection, client, redirect, None).expect("begun");
    assert_eq!(login.exchange(&http(), "x").await.expect("tokens").token(), "first");
}
