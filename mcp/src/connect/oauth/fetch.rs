//! Requests of a login: only to allowed addresses, without redirects, with bounded answers.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use serde::de::DeserializeOwned;
use url::Url;

use super::super::http::{HostResolver, cause, client, judged};
use super::{OAuthError, untrusted};

/// The largest answer in bytes.
const LARGEST: usize = 256 << 10;

/// The time within which the whole answer must arrive.
const TIME: Duration = Duration::from_secs(30);

/// Sends requests to the parties of a login: the server, or its issuer.
#[derive(Clone)]
pub struct OAuthHttp {
    /// Decides which addresses may be connected to.
    pub resolver: Arc<dyn HostResolver>,
    /// The certificates that are trusted.
    pub tls: rustls::ClientConfig,
    /// True if `http` is allowed for addresses of this machine.
    pub allow_loopback: bool,
}

/// A complete answer.
pub(super) struct FetchResponse {
    pub(super) status: StatusCode,
    pub(super) body: Bytes,
}

impl OAuthHttp {
    /// Returns an address if it may be connected to.
    pub(super) async fn judged(&self, address: &str) -> Result<Url, OAuthError> {
        let judged = judged(address, self.allow_loopback, &*self.resolver).await;
        judged.map_err(OAuthError::Address)
    }

    /// Accepts only an address whose traffic cannot be intercepted. Does not connect to it.
    pub(super) fn trusted(&self, address: &str) -> Result<Url, OAuthError> {
        super::super::http::trusted(address, self.allow_loopback).map_err(OAuthError::Address)
    }

    /// Sends a request to an address, and returns the head of the answer.
    pub(super) async fn head(
        &self,
        address: &str,
        method: Method,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<reqwest::Response, OAuthError> {
        let url = self.judged(address).await?;
        let failed = |reason: String| {
            OAuthError::Unreachable(format!("`{}`: {reason}", url.origin().ascii_serialization()))
        };
        let http = client(&url, &self.resolver, &self.tls).map_err(failed)?;
        let request = http
            .request(method, url.clone())
            .headers(headers)
            .header(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"))
            .timeout(TIME)
            .body(body);
        let response = request.send().await.map_err(|error| failed(cause(&error)))?;
        if response.status().is_redirection() {
            // A redirect would pass on a code, a token or a secret, or another server would answer.
            let status = response.status();
            return Err(untrusted(format!("`{url}` leads to another address (HTTP {status})")));
        }
        Ok(response)
    }

    /// Sends a request to an address, and returns the whole answer.
    pub(super) async fn send(
        &self,
        address: &str,
        method: Method,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<FetchResponse, OAuthError> {
        let mut response = self.head(address, method, headers, body).await?;
        let failed = |error: reqwest::Error| OAuthError::Unreachable(cause(&error));
        let status = response.status();
        let mut body = BytesMut::new();
        while let Some(chunk) = response.chunk().await.map_err(failed)? {
            if body.len() + chunk.len() > LARGEST {
                let most = LARGEST >> 10;
                return Err(untrusted(format!("an answer has more than {most} KiB")));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(FetchResponse { status, body: body.freeze() })
    }

    /// Fetches a JSON document. Returns `None` if the server answers that it does not exist.
    pub(super) async fn document<T: DeserializeOwned>(
        &self,
        address: &str,
    ) -> Result<Option<T>, OAuthError> {
        let reply = self.send(address, Method::GET, accepting_json(), Bytes::new()).await?;
        if reply.status.is_client_error() {
            return Ok(None);
        }
        if reply.status != StatusCode::OK {
            return Err(untrusted(format!("`{address}` answered with HTTP {}", reply.status)));
        }
        let read = serde_json::from_slice(&reply.body);
        // The parser's error could quote the answer.
        read.map(Some).map_err(|_| untrusted(format!("`{address}` is not OAuth metadata")))
    }
}

/// Returns the headers of a request for JSON.
pub(super) fn accepting_json() -> HeaderMap {
    HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static("application/json"))])
}
