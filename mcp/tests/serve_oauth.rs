//! Access tokens over HTTP: valid ones, and every way to forge one.

#[path = "support/gate.rs"]
mod gate;
#[path = "support/web.rs"]
mod web;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ikigai_mcp::{ClientAccess, ForbiddenRequest, HttpBounds, HttpSettings, OAuth};
use ring::rand::SystemRandom;
use ring::rsa::PublicKeyComponents;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256,
    RsaKeyPair,
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use gate::Gate;
use web::{CALL, Served, call, request};

/// The address by which clients know the server.
const RESOURCE: &str = "https://tools.example/mcp";

/// An RSA key of 2048 bits that signs only this test's tokens. ring cannot generate RSA keys.
const RSA: &str = include_str!("support/rs256.pkcs8.base64");

/// An issuer of tokens.
struct Issuer {
    address: String,
    fetched: Arc<AtomicUsize>,
    es256: EcdsaKeyPair,
    ed25519: Ed25519KeyPair,
    rs256: RsaKeyPair,
}

impl Issuer {
    async fn start() -> Self {
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let made = EcdsaKeyPair::generate_pkcs8(algorithm, &random).expect("made");
        let es256 = EcdsaKeyPair::from_pkcs8(algorithm, made.as_ref(), &random).expect("a key");
        let made = Ed25519KeyPair::generate_pkcs8(&random).expect("made");
        let ed25519 = Ed25519KeyPair::from_pkcs8(made.as_ref()).expect("a key");
        let made: String = RSA.split_ascii_whitespace().collect();
        let made = STANDARD.decode(made).expect("base64");
        let rs256 = RsaKeyPair::from_pkcs8(&made).expect("a key");
        let rsa = PublicKeyComponents::<Vec<u8>>::from(rs256.public());
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let point = es256.public_key().as_ref();
        let keys = json!({ "keys": [
            { "kty": "new", "kid": "unknown kind" },
            { "kty": "oct", "kid": "shared", "k": "c2VjcmV0" },
            { "kty": "EC", "crv": "P-256", "kid": "ec", "alg": "ES256", "use": "sig",
              "x": encoded(&point[1..33]), "y": encoded(&point[33..]) },
            { "kty": "RSA", "kid": "rsa", "n": encoded(&rsa.n), "e": encoded(&rsa.e) },
            { "kty": "OKP", "crv": "Ed25519", "kid": "ed", "x": encoded(ed25519.public_key().as_ref()) },
        ] });
        let metadata = json!({ "issuer": address, "jwks_uri": format!("{address}/keys") });
        let fetched = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&fetched);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut head = [0; 4096];
                let read = stream.read(&mut head).await.expect("a request");
                let line = String::from_utf8_lossy(&head[..read]).into_owned();
                let (status, body) = match line.split(' ').nth(1) {
                    Some("/keys") => {
                        count.fetch_add(1, Ordering::Relaxed);
                        ("200 OK", keys.to_string())
                    }
                    // Only the second of the two addresses has it.
                    Some("/.well-known/openid-configuration") => ("200 OK", metadata.to_string()),
                    _ => ("404 Not Found", String::new()),
                };
                let length = body.len();
                let text = format!(
                    "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
                );
                stream.write_all(text.as_bytes()).await.expect("read");
            }
        });
        Self { address, fetched, es256, ed25519, rs256 }
    }

    /// Returns the claims of a good token.
    fn claims(&self) -> Value {
        json!({
            "iss": self.address, "aud": RESOURCE, "sub": "alice", "exp": now() + 600,
            "scope": "openid tools documents",
        })
    }

    fn es256(&self, header: &Value, claims: &Value) -> String {
        let message = message(header, claims);
        let signed = self.es256.sign(&SystemRandom::new(), message.as_bytes()).expect("signed");
        format!("{message}.{}", encoded(signed.as_ref()))
    }

    fn rs256(&self, header: &Value, claims: &Value) -> String {
        let message = message(header, claims);
        let mut signed = vec![0; self.rs256.public().modulus_len()];
        let random = SystemRandom::new();
        self.rs256
            .sign(&RSA_PKCS1_SHA256, &random, message.as_bytes(), &mut signed)
            .expect("signed");
        format!("{message}.{}", encoded(&signed))
    }

    /// Returns a good token of a principal.
    fn token(&self, sub: &str, scope: &str) -> String {
        let mut claims = self.claims();
        claims["sub"] = sub.into();
        claims["scope"] = scope.into();
        self.es256(&json!({ "alg": "ES256", "kid": "ec" }), &claims)
    }

    fn settings(&self) -> HttpSettings {
        let oauth = OAuth::new(&self.address, RESOURCE).expect("addresses");
        HttpSettings::new(ClientAccess::OAuth(Box::new(oauth)))
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_secs()
}

fn encoded(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn message(header: &Value, claims: &Value) -> String {
    format!("{}.{}", encoded(header.to_string().as_bytes()), encoded(claims.to_string().as_bytes()))
}

async fn send(served: &Served, token: &str) -> (u16, String, Value) {
    served.send_text(&request(token, CALL, &call("{}"))).await
}

#[tokio::test]
async fn tokens_of_the_issuer_are_taken() {
    let issuer = Issuer::start().await;
    let gate = Gate::new(10, "done".to_owned());
    let served = Served::start(&gate, issuer.settings()).await;
    let header = json!({ "alg": "ES256", "kid": "ec", "typ": "at+jwt" });
    let several = json!(["https://other.example", RESOURCE]);
    let mut of_several = issuer.claims();
    of_several["aud"] = several;
    let edwards = message(&json!({ "alg": "EdDSA", "kid": "ed" }), &issuer.claims());
    let signed = encoded(issuer.ed25519.sign(edwards.as_bytes()).as_ref());
    for token in [
        issuer.es256(&header, &issuer.claims()),
        issuer.es256(&json!({ "alg": "ES256" }), &issuer.claims()),
        issuer.es256(&header, &of_several),
        format!("{edwards}.{signed}"),
        issuer.rs256(&json!({ "alg": "RS256", "kid": "rsa" }), &issuer.claims()),
    ] {
        let (status, head, body) = send(&served, &token).await;
        assert_eq!(status, 200, "{head}");
        assert_eq!(body["result"]["content"][0]["text"], "done", "{body}");
    }
    assert_eq!(issuer.fetched.load(Ordering::Relaxed), 1);
    served.end().await;
}

#[tokio::test]
async fn forged_tokens_are_refused_and_do_not_make_the_issuer_be_asked_again() {
    let issuer = Issuer::start().await;
    let gate = Gate::new(0, String::new());
    let served = Served::start(&gate, issuer.settings()).await;
    let header = json!({ "alg": "ES256", "kid": "ec" });
    let with = |name: &str, value: Value| {
        let mut claims = issuer.claims();
        match value {
            Value::Null => drop(claims.as_object_mut().expect("an object").remove(name)),
            value => claims[name] = value,
        }
        issuer.es256(&header, &claims)
    };
    let unsigned =
        |alg: &str| format!("{}.", message(&json!({ "alg": alg, "kid": "ec" }), &issuer.claims()));
    let public = issuer.es256.public_key().as_ref();
    let shared = |kid: &str, secret: &[u8]| {
        let message = message(&json!({ "alg": "HS256", "kid": kid }), &issuer.claims());
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret);
        format!("{message}.{}", encoded(ring::hmac::sign(&key, message.as_bytes()).as_ref()))
    };
    let good = issuer.es256(&header, &issuer.claims());
    let (head, signature) = good.rsplit_once('.').expect("three parts");
    let other = message(&header, &json!({ "iss": issuer.address, "aud": RESOURCE, "sub": "eve" }));
    let stranger = Issuer::start().await;
    let mut in_its_name = stranger.claims();
    in_its_name["iss"] = issuer.address.clone().into();
    for (what, token) in [
        ("no signature", unsigned("none")),
        ("no signature", unsigned("ES256")),
        ("the public key as a secret", shared("ec", public)),
        ("a shared key", shared("shared", b"secret")),
        (
            "another algorithm",
            message(&json!({ "alg": "RS256", "kid": "ec" }), &issuer.claims()) + ".AA",
        ),
        (
            "the algorithm of another key",
            message(&json!({ "alg": "EdDSA", "kid": "ec" }), &issuer.claims()) + "." + signature,
        ),
        (
            "other claims under a signature of RSA",
            issuer
                .rs256(&json!({ "alg": "RS256", "kid": "rsa" }), &issuer.claims())
                .rsplit_once('.')
                .map(|(_, signed)| {
                    let header = json!({ "alg": "RS256", "kid": "rsa", "typ": "JWT" });
                    format!("{}.{signed}", message(&header, &issuer.claims()))
                })
                .expect("three parts"),
        ),
        ("another server", with("aud", json!("https://other.example/mcp"))),
        ("a server below", with("aud", json!(format!("{RESOURCE}/x")))),
        ("no server", with("aud", Value::Null)),
        ("another issuer", with("iss", json!("https://evil.example"))),
        ("a list of issuers", with("iss", json!([issuer.address]))),
        ("no issuer", with("iss", Value::Null)),
        ("expired", with("exp", json!(now() - 3600))),
        ("no end", with("exp", Value::Null)),
        ("an end that is a text", with("exp", json!("never"))),
        ("not yet", with("nbf", json!(now() + 3600))),
        ("a beginning that is a text", with("nbf", json!("now"))),
        ("nobody", with("sub", Value::Null)),
        ("nobody", with("sub", json!(""))),
        ("a long name", with("sub", json!("x".repeat(200)))),
        ("a name that deceives", with("sub", json!("ali\u{202e}ce"))),
        ("a name that looks like another", with("sub", json!("alice\u{200b}"))),
        (
            "an extension",
            issuer.es256(
                &json!({ "alg": "ES256", "kid": "ec", "crit": ["x"], "x": 1 }),
                &issuer.claims(),
            ),
        ),
        (
            "an unknown key",
            issuer.es256(&json!({ "alg": "ES256", "kid": "other" }), &issuer.claims()),
        ),
        ("the key of another", stranger.es256(&header, &in_its_name)),
        ("other claims", format!("{other}.{signature}")),
        ("half a token", head.to_owned()),
        ("no token", "x".repeat(40)),
        ("nothing", ".".to_owned()),
        ("dots", "....".to_owned()),
    ] {
        let (status, head, _) = send(&served, &token).await;
        assert_eq!(status, 401, "{what}: {head}");
        let challenge = head.lines().find_map(|line| line.strip_prefix("www-authenticate: "));
        let challenge = challenge.unwrap_or_else(|| panic!("{what}: {head}"));
        assert!(challenge.contains(r#"error="invalid_token""#), "{what}: {challenge}");
        let place = "https://tools.example/.well-known/oauth-protected-resource/mcp";
        assert!(challenge.contains(&format!(r#"resource_metadata="{place}""#)), "{challenge}");
        assert!(challenge.contains(r#"scope="tools documents""#), "{challenge}");
    }
    assert_eq!(gate.begun(), 0);
    assert_eq!(issuer.fetched.load(Ordering::Relaxed), 1, "one fetch for all of them");
    served.end().await;
}

#[tokio::test]
async fn a_token_is_good_for_its_scopes_alone() {
    let issuer = Issuer::start().await;
    let gate = Gate::new(1, "done".to_owned());
    let served = Served::start(&gate, issuer.settings()).await;
    let asked = |method: &str, name: &str| {
        (
            CALL.replace("tools/call", method)
                .replace("mcp-name: tool", &format!("mcp-name: {name}")),
            call("{}")
                .replace("tools/call", method)
                .replace(r#""name":"tool""#, &format!(r#""uri":"{name}","name":"tool""#)),
        )
    };
    for (scope, method, needed) in [
        ("tools", "resources/read", "documents"),
        ("documents", "tools/call", "tools"),
        ("documents", "tools/list", "tools"),
        ("toolsdocuments", "tools/call", "tools"),
        ("", "tools/call", "tools"),
    ] {
        let (headers, body) = asked(method, "tool");
        let text = request(&issuer.token("alice", scope), &headers, &body);
        let (status, head, _) = served.send_text(&text).await;
        assert_eq!(status, 403, "{scope}: {method}: {head}");
        assert!(head.contains(r#"error="insufficient_scope""#), "{head}");
        assert!(head.contains(&format!(r#"scope="{needed}""#)), "{head}");
    }
    assert_eq!(gate.begun(), 0);
    // Requests that are recorded when they are answered are reported, and no others.
    let call = ForbiddenRequest::Call { name: "tool".to_owned(), arguments: "{}".into() };
    let read = ForbiddenRequest::Read("tool".to_owned());
    let seen = gate.wait_until(|_| true).await;
    assert_eq!(seen.forbidden, [read, call.clone(), call.clone(), call]);
    assert_eq!(send(&served, "x").await.0, 401);
    assert_eq!(send(&served, &issuer.token("alice", "tools")).await.0, 200);
    assert_eq!(gate.wait_until(|_| true).await.forbidden, seen.forbidden);
    served.end().await;
}

#[tokio::test]
async fn a_session_is_found_with_the_scopes_that_began_it_alone() {
    let issuer = Issuer::start().await;
    let gate = Gate::new(0, String::new());
    let served = Served::start(&gate, issuer.settings()).await;
    let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string();
    let ping = json!({ "jsonrpc": "2.0", "id": 2, "method": "ping" }).to_string();
    let scopes = ["tools documents", "tools", "documents", ""];
    for begun_with in scopes {
        let token = issuer.token("alice", begun_with);
        let session = served.begin(&token).await.expect("room");
        assert_eq!(served.send_text(&request(&token, &session, &ready)).await.0, 202);
        for scope in scopes.into_iter().filter(|scope| *scope != begun_with) {
            let text = request(&issuer.token("alice", scope), &session, &ping);
            assert_eq!(served.send_text(&text).await.0, 404, "{begun_with:?}: {scope:?}");
            let stream = text.replace("POST", "GET");
            assert_eq!(served.send_text(&stream).await.0, 404, "{begun_with:?}: {scope:?}");
        }
        // A later token with the same scopes continues the session.
        let later = issuer.token("alice", &format!("openid {begun_with}"));
        assert_eq!(served.send_text(&request(&later, &session, &ping)).await.0, 200);
    }
    served.end().await;
}

#[tokio::test]
async fn streams_of_changes_end_with_the_token_of_their_request() {
    let issuer = Issuer::start().await;
    let gate = Gate::new(0, String::new());
    let served = Served::start(&gate, issuer.settings()).await;
    let mut statuses = [401; 2];
    // On a slow machine, a token can expire before its streams begin. The next one lives longer.
    for seconds in [2, 8, 32, 128] {
        let mut claims = issuer.claims();
        // The server accepts a token for 30 s more, because the clocks may differ.
        claims["exp"] = (now() + seconds - 30).into();
        let token = issuer.es256(&json!({ "alg": "ES256", "kid": "ec" }), &claims);
        let ended = tokio::time::timeout(Duration::from_secs(600), ended_streams(&served, &token));
        statuses = ended.await.expect("the streams end");
        if !statuses.contains(&401) {
            break;
        }
    }
    assert_eq!(statuses, [200, 200]);
    served.end().await;
}

/// Begins a session with a token, and both kinds of streams of changes. Returns the statuses of the
/// streams when they have ended, or twice the status of the request that was refused before.
async fn ended_streams(served: &Served, token: &str) -> [u16; 2] {
    let session = match served.begin(token).await {
        Ok(session) => session,
        Err(status) => return [status; 2],
    };
    let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string();
    let (status, _, _) = served.send_text(&request(token, &session, &ready)).await;
    if status != 202 {
        return [status; 2];
    }
    let stream = request(token, &session, "").replace("POST", "GET");
    let headers = "mcp-protocol-version: 2026-07-28\r\nmcp-method: subscriptions/listen\r\n";
    let mut body: Value = serde_json::from_str(&call("{}")).expect("JSON");
    body["method"] = "subscriptions/listen".into();
    let meta = body["params"]["_meta"].take();
    body["params"] = json!({ "_meta": meta, "notifications": { "toolsListChanged": true } });
    let listen = request(token, headers, &body.to_string());
    let (stream, listen) = tokio::join!(served.send_text(&stream), served.send_text(&listen));
    [stream.0, listen.0]
}

#[tokio::test]
async fn two_clients_that_know_each_others_sessions_get_nothing_of_each_other() {
    let issuer = Issuer::start().await;
    let gate = Gate::new(2, "done".to_owned());
    let served = Served::start(&gate, issuer.settings()).await;
    let listed = listed();
    let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string();
    let mut sessions = Vec::new();
    for name in ["alice", "bob"] {
        let token = issuer.token(name, "tools");
        let session = served.begin(&token).await.expect("room");
        assert_eq!(served.send_text(&request(&token, &session, &ready)).await.0, 202);
        sessions.push((token, session));
    }
    let [(alice, of_alice), (bob, of_bob)] = &sessions[..] else { panic!("two sessions") };
    for (token, session) in [(alice, of_bob), (bob, of_alice)] {
        let text = request(token, session, &listed);
        assert_eq!(served.send_text(&text).await.0, 404);
        assert_eq!(served.send_text(&text.replace("POST", "GET")).await.0, 404);
        // The answer is the same as for a session that never existed, and the session continues.
        assert_eq!(served.send_text(&text.replace("POST", "DELETE")).await.0, 202);
    }
    for (token, session) in &sessions {
        assert_eq!(served.send_text(&request(token, session, &listed)).await.0, 200);
    }
    served.end().await;
}

/// Returns a request of a session.
fn listed() -> String {
    json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" }).to_string()
}

#[tokio::test]
async fn a_principal_without_a_session_finds_a_full_house_and_one_with_a_session_gives_it_up() {
    let issuer = Issuer::start().await;
    let gate = Gate::new(0, String::new());
    let one = HttpBounds { sessions: 1, ..HttpBounds::default() };
    let served = Served::start(&gate, issuer.settings().bounds(one)).await;
    let (alice, bob) = (issuer.token("alice", "tools"), issuer.token("bob", "tools"));
    let first = served.begin(&alice).await.expect("room");
    assert_eq!(served.begin(&bob).await, Err(503));
    let second = served.begin(&alice).await.expect("the place of her first");
    assert_eq!(served.begin(&bob).await, Err(503));
    assert_eq!(served.send_text(&request(&alice, &first, &listed())).await.0, 404);
    assert_eq!(served.send_text(&request(&alice, &second, &listed())).await.0, 200);
    // Requests of the newest revision need no session.
    assert_eq!(send_list(&served, &bob).await, 200);
    let end = request(&alice, &second, "").replace("POST", "DELETE");
    assert_eq!(served.send_text(&end).await.0, 202);
    served.begin(&bob).await.expect("the place that she left");
    served.end().await;
}

/// Requests the tools in the newest revision.
async fn send_list(served: &Served, token: &str) -> u16 {
    let headers = CALL.replace("tools/call", "tools/list").replace("mcp-name: tool\r\n", "");
    let body = call("{}").replace("tools/call", "tools/list");
    served.send_text(&request(token, &headers, &body)).await.0
}

#[tokio::test]
async fn a_session_that_nobody_uses_ends_and_makes_room() {
    let issuer = Issuer::start().await;
    let gate = Gate::new(0, String::new());
    let idle = Duration::from_millis(10);
    let one = HttpBounds { sessions: 1, idle, ..HttpBounds::default() };
    let served = Served::start(&gate, issuer.settings().bounds(one)).await;
    let (alice, bob) = (issuer.token("alice", "tools"), issuer.token("bob", "tools"));
    let of_alice = served.begin(&alice).await.expect("room");
    // Bob has no session that he could replace.
    while let Err(status) = served.begin(&bob).await {
        assert_eq!(status, 503);
    }
    assert_eq!(served.send_text(&request(&alice, &of_alice, &listed())).await.0, 404);
    served.end().await;
}

#[tokio::test]
async fn the_issuer_is_named_to_everybody_and_one_that_is_gone_is_no_open_door() {
    let issuer = Issuer::start().await;
    let gate = Gate::new(0, String::new());
    let served = Served::start(&gate, issuer.settings()).await;
    let asked =
        request("x", "", "").replace("POST /mcp", "GET /.well-known/oauth-protected-resource/mcp");
    let (status, _, found) = served.send_text(&asked).await;
    assert_eq!((status, &found["resource"]), (200, &json!(RESOURCE)), "{found}");
    assert_eq!(found["authorization_servers"], json!([issuer.address]));
    let foreign = asked.replace("host: localhost", "host: evil.example");
    assert_eq!(served.send_text(&foreign).await.0, 403);
    served.end().await;
    let nobody = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let gone = format!("http://{}", nobody.local_addr().expect("an address"));
    drop(nobody);
    let oauth = OAuth::new(&gone, RESOURCE).expect("addresses");
    let settings = HttpSettings::new(ClientAccess::OAuth(Box::new(oauth)));
    let served = Served::start(&gate, settings).await;
    for _ in 0..2 {
        assert_eq!(send(&served, &issuer.token("alice", "tools")).await.0, 503);
    }
    assert_eq!(gate.begun(), 0);
    served.end().await;
}
