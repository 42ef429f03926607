//! The tokens of a login: how they are obtained for a code, renewed, and revoked.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use url::form_urlencoded;

use super::challenge::is_scope;
use super::discovery::Issuer;
use super::fetch::{FetchResponse, OAuthHttp, accepting_json};
use super::proof::Proof;
use super::refusal::refusal;
use super::registration::OAuthClient;
use super::{OAuthError, untrusted};

/// The longest token in bytes.
const LONGEST: usize = 32 << 10;

/// The longest token lifetime that is believed, in seconds: ten years.
const LIFE: u64 = 10 * 365 * 86_400;

/// A token is renewed this many seconds before it expires, so that it does not expire in transit. A
/// short-lived token is renewed in the last quarter of its life.
const MARGIN: u64 = 60;

/// The tokens of a login, and the data to renew them. Contains secrets.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OAuthSession {
    /// The issuer of the tokens.
    pub issuer: String,
    /// The server that the tokens are for, as the issuer knows it.
    pub resource: String,
    /// The identity of this program at the issuer.
    pub client: OAuthClient,
    token_endpoint: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    revocation_endpoint: Option<String>,
    access_token: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    refresh_token: Option<String>,
    /// The time when the tokens were issued, in seconds since 1970.
    obtained: u64,
    /// The time when the access token expires, in seconds since 1970. `None` if the issuer does not
    /// say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
    /// The scopes that were granted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
}

impl fmt::Debug for OAuthSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

/// A response with tokens: RFC 6749, section 5.1.
#[derive(Deserialize)]
struct TokenResponse {
    access_token: String,
    token_type: String,
    // Some issuers write it as a string, and others with a fraction.
    expires_in: Option<Value>,
    refresh_token: Option<String>,
    scope: Option<String>,
}

impl OAuthSession {
    /// Returns a session without tokens.
    pub(super) fn new(issuer: &Issuer, resource: &str, client: &OAuthClient) -> Self {
        Self {
            issuer: issuer.issuer.clone(),
            resource: resource.to_owned(),
            client: client.clone(),
            token_endpoint: issuer.token_endpoint.clone(),
            revocation_endpoint: issuer.revocation_endpoint.clone(),
            access_token: String::new(),
            refresh_token: None,
            obtained: 0,
            expires: None,
            scope: None,
        }
    }

    /// Returns the access token, which is a secret.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.access_token
    }

    /// Returns whether the access token can still be used: it is not about to expire.
    #[must_use]
    pub fn is_fresh(&self) -> bool {
        self.is_fresh_at(now())
    }

    fn is_fresh_at(&self, now: u64) -> bool {
        self.expires.is_none_or(|end| {
            let life = end.saturating_sub(self.obtained);
            now < end.saturating_sub(MARGIN.min(life / 4))
        })
    }

    /// Returns whether the access token has expired.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.expires.is_some_and(|end| end <= now())
    }

    /// Returns whether the session can continue without the user when its access token expires.
    #[must_use]
    pub fn is_renewable(&self) -> bool {
        self.refresh_token.is_some()
    }

    /// Returns whether the issuer supports revocation.
    #[must_use]
    pub fn is_revocable(&self) -> bool {
        self.revocation_endpoint.is_some()
    }

    /// Returns the scopes of the session and those of `more`, for a login that loses no right of
    /// the earlier one.
    #[must_use]
    pub fn scope_with(&self, more: &str) -> String {
        let mut scopes: Vec<&str> = self.scope.iter().flat_map(|it| it.split(' ')).collect();
        for scope in more.split(' ') {
            if !scopes.contains(&scope) {
                scopes.push(scope);
            }
        }
        scopes.join(" ")
    }

    /// Returns the session with new tokens. The old refresh token may become invalid, so only one
    /// process may renew at a time.
    ///
    /// # Errors
    ///
    /// Fails if the session has no refresh token, or if the issuer refuses.
    pub async fn renewed(&self, http: &OAuthHttp) -> Result<Self, OAuthError> {
        let token = self.refresh_token.as_deref().ok_or_else(|| OAuthError::Refused {
            error: "invalid_grant".to_owned(),
            description: ": it gave no token that renews others".to_owned(),
        })?;
        let form = [("grant_type", "refresh_token"), ("refresh_token", token)];
        self.granted(http, &form, self.scope.as_deref()).await
    }

    /// Asks the issuer to revoke the tokens.
    ///
    /// # Errors
    ///
    /// Fails if the issuer refuses, or does not support revocation.
    pub async fn revoke(&self, http: &OAuthHttp) -> Result<(), OAuthError> {
        let place = self.revocation_endpoint.as_deref();
        let place = place.ok_or_else(|| untrusted("the issuer offers no revocation"))?;
        // Most issuers revoke the access tokens together with their refresh token, but not all.
        let renewing = self.refresh_token.iter().map(|token| (token, "refresh_token"));
        for (token, kind) in renewing.chain([(&self.access_token, "access_token")]) {
            let form = [("token", token.as_str()), ("token_type_hint", kind)];
            let reply = self.post(http, place, &form).await?;
            if reply.status != StatusCode::OK {
                return Err(refusal(&reply, &self.secrets(&form)));
            }
        }
        Ok(())
    }

    /// Requests tokens with a form, and returns the session with them. `asked` is the granted scope
    /// if the issuer names none.
    pub(super) async fn granted(
        &self,
        http: &OAuthHttp,
        form: &[(&str, &str)],
        asked: Option<&str>,
    ) -> Result<Self, OAuthError> {
        let mut form = form.to_vec();
        form.push(("resource", &self.resource));
        let reply = self.post(http, &self.token_endpoint, &form).await?;
        if reply.status != StatusCode::OK {
            return Err(refusal(&reply, &self.secrets(&form)));
        }
        // The parser's error could quote a token.
        let granted: TokenResponse = serde_json::from_slice(&reply.body)
            .map_err(|_| untrusted("the answer of the issuer has no tokens"))?;
        self.with(granted, asked, now())
    }

    fn with(
        &self,
        granted: TokenResponse,
        asked: Option<&str>,
        now: u64,
    ) -> Result<Self, OAuthError> {
        let TokenResponse { access_token, token_type, expires_in, refresh_token, scope } = granted;
        if !token_type.eq_ignore_ascii_case("bearer") {
            return Err(untrusted("the tokens of the issuer are of a kind that is not known"));
        }
        let is_token = |text: &str| {
            (1..=LONGEST).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
        };
        if !is_token(&access_token) || !refresh_token.as_deref().is_none_or(is_token) {
            return Err(untrusted("the tokens of the issuer have characters that none may have"));
        }
        let scope = scope.or_else(|| asked.map(ToOwned::to_owned)).filter(|scope| is_scope(scope));
        Ok(Self {
            access_token,
            // A refresh token that was not replaced stays valid.
            refresh_token: refresh_token.or_else(|| self.refresh_token.clone()),
            obtained: now,
            expires: expires_in.as_ref().and_then(seconds).map(|life| now + life.min(LIFE)),
            scope,
            ..self.clone()
        })
    }

    /// Sends a form as this client.
    async fn post(
        &self,
        http: &OAuthHttp,
        place: &str,
        form: &[(&str, &str)],
    ) -> Result<FetchResponse, OAuthError> {
        let (headers, body) = self.request(form)?;
        http.send(place, Method::POST, headers, body).await
    }

    /// Returns the headers and the body of a request with a form and this client's identity.
    fn request(&self, form: &[(&str, &str)]) -> Result<(HeaderMap, Bytes), OAuthError> {
        let mut headers = accepting_json();
        let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
        headers.insert(header::CONTENT_TYPE, kind);
        let mut body = form_urlencoded::Serializer::new(String::new());
        body.extend_pairs(form);
        let OAuthClient { id, secret, proof } = &self.client;
        match (proof, secret) {
            (Proof::ClientSecretBasic, Some(secret)) => self.prove(&mut headers, secret)?,
            (Proof::ClientSecretPost, Some(secret)) => {
                body.append_pair("client_id", id).append_pair("client_secret", secret);
            }
            (Proof::None, _) | (_, None) => {
                body.append_pair("client_id", id);
            }
        }
        Ok((headers, Bytes::from(body.finish())))
    }

    /// Adds this client's identity and its secret to the headers of a request.
    fn prove(&self, headers: &mut HeaderMap, secret: &str) -> Result<(), OAuthError> {
        // Both are form-encoded before they are joined: RFC 6749, section 2.3.1.
        let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect();
        let (id, secret): (String, String) = (encoded(&self.client.id), encoded(secret));
        let proof = BASE64_STANDARD.encode(format!("{id}:{secret}"));
        let mut value = HeaderValue::try_from(format!("Basic {proof}"))
            .map_err(|_| untrusted("the secret of this client cannot be sent"))?;
        value.set_sensitive(true);
        headers.insert(header::AUTHORIZATION, value);
        Ok(())
    }

    /// Returns the secrets that an issuer might repeat, and that must not be shown.
    fn secrets<'a>(&'a self, form: &[(&str, &'a str)]) -> Vec<&'a str> {
        let sent = form.iter().filter(|(name, _)| {
            matches!(*name, "code" | "code_verifier" | "refresh_token" | "token")
        });
        let sent = sent.map(|(_, value)| *value);
        sent.chain(self.client.secret.as_deref()).chain([self.token()]).collect()
    }
}

/// Returns a token's lifetime in seconds, as the issuer wrote it.
fn seconds(value: &Value) -> Option<u64> {
    let number = value.as_f64().or_else(|| value.as_str()?.parse().ok())?;
    // The cast saturates a number that is not finite.
    (number >= 0.0).then_some(number as u64)
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::connect::oauth::refusal::described;

    fn session() -> OAuthSession {
        let session = serde_json::from_value(json!({
            "issuer": "https://issuer.example",
            "resource": "https://a.example/mcp",
            "client": { "id": "c", "secret": "s3cret", "proof": "client_secret_basic" },
            "token_endpoint": "https://issuer.example/token",
            "access_token": "acc3ss",
            "refresh_token": "r3fresh",
            "obtained": 1_000,
        }));
        session.expect("a session")
    }

    fn granted(answer: Value) -> Result<OAuthSession, OAuthError> {
        let granted = serde_json::from_value(answer).expect("an answer");
        session().with(granted, Some("asked"), 1_000)
    }

    #[test]
    fn a_token_is_renewed_before_it_ends() {
        for (life, fresh, stale) in
            [(json!(3600), 4_539, 4_540), (json!("40"), 1_029, 1_030), (json!(60.5), 1_044, 1_045)]
        {
            let answer = json!({ "access_token": "a", "token_type": "bearer", "expires_in": life });
            let session = granted(answer).expect("tokens");
            assert!(session.is_fresh_at(fresh) && !session.is_fresh_at(stale), "{life}");
            assert_eq!(session.refresh_token.as_deref(), Some("r3fresh"));
            assert_eq!(session.scope.as_deref(), Some("asked"));
        }
        let without = granted(json!({ "access_token": "a", "token_type": "Bearer" }));
        assert!(without.expect("tokens").is_fresh_at(u64::MAX));
        let forever = json!({ "access_token": "a", "token_type": "Bearer", "expires_in": 1e300 });
        assert_eq!(granted(forever).expect("tokens").expires, Some(1_000 + LIFE));
    }

    #[test]
    fn more_scopes_are_asked_for_beside_those_of_the_session() {
        let answer = json!({ "access_token": "a", "token_type": "Bearer", "scope": "read list" });
        let session = granted(answer).expect("tokens");
        assert_eq!(session.scope_with("write read"), "read list write");
        assert_eq!(OAuthSession { scope: None, ..session }.scope_with("write"), "write");
    }

    #[test]
    fn tokens_that_cannot_be_sent_are_refused() {
        for (access, refresh, kind) in [
            ("", "r", "Bearer"),
            ("a b", "r", "Bearer"),
            ("a\r\nX: y", "r", "Bearer"),
            ("a", "é", "Bearer"),
            ("a", "r", "mac"),
        ] {
            let answer =
                json!({ "access_token": access, "refresh_token": refresh, "token_type": kind });
            assert!(matches!(granted(answer), Err(OAuthError::Untrusted(_))), "{access:?} {kind}");
        }
    }

    #[test]
    fn no_secret_is_shown_or_repeated() {
        let session = session();
        let shown = format!("{session:?} {:?}", session.client);
        let words = "the token r3fresh of s3cret or acc3ss\u{1b}[2J is bad";
        let secrets = session.secrets(&[("refresh_token", "r3fresh")]);
        let error = described("invalid_grant", Some(words), &secrets);
        assert!(error.ends_session());
        for text in [shown, error.to_string()] {
            for secret in ["r3fresh", "s3cret", "acc3ss", "\u{1b}"] {
                assert!(!text.contains(secret), "{text}");
            }
        }
        let kept = serde_json::to_value(&session).expect("JSON");
        assert_eq!(serde_json::from_value::<OAuthSession>(kept).expect("a session"), session);
    }
}
