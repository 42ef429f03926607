//! Requests of a login: to judged addresses alone, without redirects, with bounded answers.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use serde::de::DeserializeOwned;
use url::Url;

use super::super::http::{Resolve, cause, client, judged};
use super::{OAuthError, untrusted};

/// The largest answer in bytes.
const LARGEST: usize = 256 << 10;

/// The time in which an answer must be there.
const TIME: Duration = Duration::from_secs(30);

/// The way to the parties of a login: the server, or its issuer.
#[derive(Clone)]
pub struct OAuthHttp {
    /// The judge of the addresses that are connected to.
    pub resolver: Arc<dyn Resolve>,
    /// The certificates that are trusted.
    pub tls: rustls::ClientConfig,
    /// True if `http` is allowed to addresses of this machine.
    pub allow_loopback: bool,
}

/// An answer.
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) body: Bytes,
}

impl OAuthHttp {
    /// Returns an address, if it may be connected to.
    pub(super) async fn judged(&self, address: &str) -> Result<Url, OAuthError> {
        let judged = judged(address, self.allow_loopback, &*self.resolver).await;
        judged.map_err(OAuthError::Address)
    }

    /// Accepts only an address that nobody can intercept. Does not connect to it.
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
            // A code, a token or a secret would go along, or an answer come from somebody else.
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
    ) -> Result<Reply, OAuthError> {
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
        Ok(Reply { status, body: body.freeze() })
    }

    /// Returns a document of JSON; nothing where there is none.
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
        // The error of the parser could repeat what it read.
        read.map(Some).map_err(|_| untrusted(format!("`{address}` is not OAuth metadata")))
    }
}

/// Returns the headers of a request for JSON.
pub(super) fn accepting_json() -> HeaderMap {
    HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static("application/json"))])
}
