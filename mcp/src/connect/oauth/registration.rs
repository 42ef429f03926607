//! This program as a client of an issuer: RFC 7591.

use std::fmt;

use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode, header};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::discovery::Issuer;
use super::fetch::{OAuthHttp, accepting_json};
use super::proof::Proof;
use super::refusal::refusal;
use super::{OAuthError, untrusted};

/// The longest client identity or secret in bytes.
const LONGEST: usize = 4 << 10;

/// This program's identity at an issuer.
#[derive(Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct OAuthClient {
    /// The identity.
    pub id: String,
    /// The secret that proves the identity, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// The method by which the secret is presented to the issuer.
    pub(super) proof: Proof,
}

impl fmt::Debug for OAuthClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuthClient").field("id", &self.id).finish_non_exhaustive()
    }
}

/// A client as the issuer registered it.
#[derive(Deserialize)]
struct Registered {
    client_id: String,
    client_secret: Option<String>,
    token_endpoint_auth_method: Option<String>,
}

impl OAuthClient {
    /// Returns a client that was registered with the issuer by hand.
    #[must_use]
    pub fn known(issuer: &Issuer, id: String, secret: Option<String>) -> Self {
        let proof = if secret.is_some() { Proof::of_secret(issuer) } else { Proof::None };
        Self { id, secret, proof }
    }
}

impl OAuthHttp {
    /// Registers this program, as a client whose answers go to `redirect`.
    ///
    /// # Errors
    ///
    /// Fails if the issuer refuses, or if its answer names no client.
    pub async fn register(
        &self,
        issuer: &Issuer,
        redirect: &str,
    ) -> Result<OAuthClient, OAuthError> {
        let place = issuer.registration_endpoint.as_deref().ok_or(OAuthError::NoRegistration)?;
        let wanted = Proof::without_secret(issuer);
        let request = json!({
            "client_name": "ikigai",
            "application_type": "native",
            "redirect_uris": [redirect],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": wanted.name(),
        });
        let mut headers = accepting_json();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let body = Bytes::from(request.to_string());
        let reply = self.send(place, Method::POST, headers, body).await?;
        if !matches!(reply.status, StatusCode::CREATED | StatusCode::OK) {
            return Err(refusal(&reply, &[]));
        }
        let malformed = || untrusted("the issuer's answer to the registration is malformed");
        let registered: Registered =
            serde_json::from_slice(&reply.body).map_err(|_| malformed())?;
        let Registered { client_id: id, client_secret: secret, token_endpoint_auth_method } =
            registered;
        let is_text = |text: &String| !text.is_empty() && text.len() <= LONGEST;
        if !is_text(&id) || secret.as_ref().is_some_and(|secret| !is_text(secret)) {
            return Err(malformed());
        }
        let proof = match token_endpoint_auth_method {
            Some(name) => Proof::named(&name).ok_or_else(malformed)?,
            None => wanted,
        };
        Ok(OAuthClient { id, secret, proof })
    }
}
