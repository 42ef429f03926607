//! Requests to one origin: the addresses they go to, their token, and redirects within the origin.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use reqwest::Response;
use reqwest::dns::{Addrs, Name, Resolve as Lookup, Resolving};
use reqwest::redirect::Policy;
use url::Url;

use super::{HostResolver, HttpServer, THIS_MACHINE, TokenSource, bearer, challenge};
use crate::wire::plain;

/// The most redirects that one request follows.
const MAX_REDIRECTS: usize = 3;

/// The longest body in bytes.
pub(super) const MAX_BODY: usize = 16 << 20;

/// The time within which a connection must be established.
const CONNECT: Duration = Duration::from_secs(10);

/// The reason why a request has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::connect) enum HttpError {
    /// The server wants a different token.
    #[error("the server requires another token")]
    Unauthorized(String),
    /// The request could not be given a token. Nothing was sent.
    #[error("{0}")]
    NoToken(String),
    /// The answer is missing, or the protocol forbids it.
    #[error("{0}")]
    Failed(String),
}

/// Sends requests to one server.
#[derive(Clone)]
pub(super) struct RequestSender {
    http: reqwest::Client,
    url: Url,
    headers: HeaderMap,
    tokens: Option<Arc<dyn TokenSource>>,
}

impl RequestSender {
    pub(super) fn new(url: Url, server: &HttpServer) -> Result<Self, String> {
        let http = client(&url, &server.resolver, &server.tls)?;
        let (headers, tokens) = (server.headers.clone(), server.tokens.clone());
        Ok(Self { http, url, headers, tokens })
    }

    /// Sends a request. If the server wants a different token, sends it once more with a new one:
    /// the server has not processed the first request.
    pub(super) async fn send(
        &self,
        method: Method,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<Response, HttpError> {
        let token = match &self.tokens {
            Some(tokens) => tokens.token().await.map_err(HttpError::NoToken)?,
            None => None,
        };
        let response = self.follow(&method, headers, &body, token.as_deref()).await?;
        if response.status() != StatusCode::UNAUTHORIZED {
            return accepted(response);
        }
        let challenge = challenge(response.headers());
        let token = match &self.tokens {
            Some(tokens) => {
                let renewed = tokens.refresh(token.as_deref(), &challenge).await;
                renewed.map_err(HttpError::NoToken)?
            }
            None => None,
        };
        let Some(token) = token else { return Err(HttpError::Unauthorized(challenge)) };
        accepted(self.follow(&method, headers, &body, Some(&token)).await?)
    }

    /// Sends a request, and follows the server's redirects within its origin.
    async fn follow(
        &self,
        method: &Method,
        headers: &HeaderMap,
        body: &Bytes,
        token: Option<&str>,
    ) -> Result<Response, HttpError> {
        let mut url = self.url.clone();
        for _ in 0..=MAX_REDIRECTS {
            let mut request = self
                .http
                .request(method.clone(), url.clone())
                .headers(self.headers.clone())
                .headers(headers.clone())
                .header(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"))
                .body(body.clone());
            if let Some(token) = token {
                request = request
                    .header(header::AUTHORIZATION, bearer(token).map_err(HttpError::NoToken)?);
            }
            let response =
                request.send().await.map_err(|error| HttpError::Failed(cause(&error)))?;
            let status = response.status();
            if !matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT) {
                return Ok(response);
            }
            let location = response.headers().get(header::LOCATION);
            let next = location.and_then(|it| it.to_str().ok()).and_then(|it| url.join(it).ok());
            url = next.filter(|next| next.origin() == self.url.origin()).ok_or_else(|| {
                HttpError::Failed(format!("the server leads to another one (HTTP {status})"))
            })?;
        }
        Err(HttpError::Failed(format!("the server redirects more than {MAX_REDIRECTS} times")))
    }
}

/// Returns a client for one host, which connects only to addresses that the resolver allows.
pub(in crate::connect) fn client(
    url: &Url,
    resolver: &Arc<dyn HostResolver>,
    tls: &rustls::ClientConfig,
) -> Result<reqwest::Client, String> {
    let port = url.port_or_known_default().unwrap_or_default();
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls.clone())
        // The token must not be sent to another origin.
        .redirect(Policy::none())
        // A proxy would choose the address.
        .no_proxy()
        .dns_resolver(ResolverAdapter { resolver: Arc::clone(resolver), port })
        .connect_timeout(CONNECT)
        .build()
        .map_err(|error| cause(&error))
}

/// Refuses a response that must not be read.
fn accepted(response: Response) -> Result<Response, HttpError> {
    if response.status() == StatusCode::UNAUTHORIZED {
        return Err(HttpError::Unauthorized(challenge(response.headers())));
    }
    let encoding = response.headers().get(header::CONTENT_ENCODING);
    if encoding.is_some_and(|it| !it.as_bytes().eq_ignore_ascii_case(b"identity")) {
        // A few compressed bytes can expand without limit.
        return Err(HttpError::Failed("the server compresses its answers unasked".to_owned()));
    }
    Ok(response)
}

/// Reads a body to its end.
pub(super) async fn body(mut response: Response) -> Result<Bytes, HttpError> {
    let too_large = || HttpError::Failed(format!("an answer has more than {MAX_BODY} bytes"));
    let mut body = BytesMut::new();
    while let Some(chunk) =
        response.chunk().await.map_err(|error| HttpError::Failed(cause(&error)))?
    {
        if body.len() + chunk.len() > MAX_BODY {
            return Err(too_large());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.freeze())
}

/// Returns the innermost reason of an error, without the address, which may contain a secret.
pub(in crate::connect) fn cause(error: &reqwest::Error) -> String {
    let mut source: &dyn std::error::Error = error;
    while let Some(inner) = source.source() {
        source = inner;
    }
    plain(&source.to_string())
}

/// Adapts the caller's resolver to the HTTP client.
struct ResolverAdapter {
    resolver: Arc<dyn HostResolver>,
    port: u16,
}

impl Lookup for ResolverAdapter {
    fn resolve(&self, name: Name) -> Resolving {
        let port = self.port;
        let is_here = name.as_str() == THIS_MACHINE;
        let found = self.resolver.resolve(name.as_str(), port);
        Box::pin(async move {
            let mut addresses = found.await?;
            if is_here {
                addresses.retain(IpAddr::is_loopback);
                if addresses.is_empty() {
                    return Err("`localhost` is another machine".into());
                }
            }
            let sockets = addresses.into_iter().map(move |it| SocketAddr::new(it, port));
            Ok(Box::new(sockets) as Addrs)
        })
    }
}
