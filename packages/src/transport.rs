//! HTTP to registries and web servers: TLS, redirects, bounded answers, silence.
//!
//! This module does not know registries or credentials. It sends a header that a caller marks as
//! secret only to the origin of the request.

mod body;
mod error;

use std::error::Error as _;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, StatusCode};
use reqwest::Response;
use reqwest::redirect::Policy;
use rustls::crypto::ring::default_provider;
use rustls::{ClientConfig, RootCertStore};
use tokio::time::timeout;
use url::Url;

use crate::harmless;
use crate::reference::is_loopback;
use body::WatchedBody;
pub use error::TransportError;

/// The most redirects that one request follows.
const REDIRECTS: usize = 5;

/// The largest part of an error response that is read, in bytes.
const LARGEST_ERROR: usize = 64 << 10;

/// The settings of a [`Transport`].
#[derive(Clone)]
pub struct TransportSettings {
    /// The certificates that are trusted.
    pub tls: ClientConfig,
    /// The time within which a connection must be established.
    pub connect: Duration,
    /// The longest time without a byte, and the longest time for a whole document.
    pub silence: Duration,
}

/// The connections to registries and web servers. They stay open for the next request.
pub struct Transport {
    public: reqwest::Client,
    /// Without the environment's proxy, which could not reach this machine's own addresses.
    loopback: reqwest::Client,
    silence: Duration,
}

/// A request.
pub(crate) struct HttpRequest {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    /// A secret, which is sent only to the origin of `url`.
    pub(crate) authorization: Option<HeaderValue>,
    pub(crate) body: Bytes,
}

impl TransportSettings {
    /// Returns settings with the certificates that this machine trusts, 10 seconds for a connection
    /// and 30 seconds of silence.
    ///
    /// # Errors
    ///
    /// Fails if TLS cannot be set up.
    pub fn of_this_machine() -> Result<Self, TransportError> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        Self::trusting(roots)
    }

    /// Returns the same settings with other certificate authorities.
    ///
    /// # Errors
    ///
    /// Fails if TLS cannot be set up.
    pub fn trusting(roots: RootCertStore) -> Result<Self, TransportError> {
        let mut tls = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| TransportError::Setup(error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { tls, connect: Duration::from_secs(10), silence: Duration::from_secs(30) })
    }
}

impl HttpRequest {
    /// Returns a request without a body.
    pub(crate) fn new(method: Method, url: Url) -> Self {
        let headers = HeaderMap::new();
        Self { method, url, headers, authorization: None, body: Bytes::new() }
    }

    /// Returns the request with another header.
    pub(crate) fn with(mut self, name: header::HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }
}

impl Transport {
    /// Creates a transport.
    ///
    /// # Errors
    ///
    /// Fails if HTTP cannot be set up. The caller has no alternative in that case.
    pub fn new(settings: &TransportSettings) -> Result<Self, TransportError> {
        let builder = || {
            reqwest::Client::builder()
                .tls_backend_preconfigured(settings.tls.clone())
                // Each redirect is checked here, and never carries a secret.
                .redirect(Policy::none())
                .connect_timeout(settings.connect)
                .user_agent(concat!("ikigai/", env!("CARGO_PKG_VERSION")))
        };
        let built = |builder: reqwest::ClientBuilder| {
            builder.build().map_err(|error| TransportError::Setup(root_cause(&error)))
        };
        let public = built(builder())?;
        let loopback = built(builder().no_proxy())?;
        Ok(Self { public, loopback, silence: settings.silence })
    }

    /// Returns a small file, or `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// Fails if the server cannot be reached, refuses, or sends more than `most` bytes.
    pub async fn small(&self, url: &Url, most: usize) -> Result<Option<Bytes>, TransportError> {
        let response = self.send(HttpRequest::new(Method::GET, url.clone())).await?;
        if [StatusCode::NOT_FOUND, StatusCode::GONE].contains(&response.status()) {
            return Ok(None);
        }
        let what = quoted(url);
        let response = self.successful(response, &what).await?;
        self.whole(response, most, &what).await.map(Some)
    }

    /// Sends a request and returns the head of the response. A `GET` or a `HEAD` follows redirects,
    /// but without its secret.
    pub(crate) async fn send(&self, mut request: HttpRequest) -> Result<Response, TransportError> {
        let first = request.url.clone();
        for _ in 0..=REDIRECTS {
            let response = self.send_once(&request).await?;
            let is_reading = [Method::GET, Method::HEAD].contains(&request.method);
            // 304 is not a redirect, and was not requested.
            if !response.status().is_redirection() || response.status() == StatusCode::NOT_MODIFIED
            {
                return Ok(response);
            }
            let to = location(&response)?;
            if !is_reading {
                let (from, to) = (shown(&request.url), shown(&to));
                let reason = "what is sent is not sent on".to_owned();
                return Err(TransportError::Redirect { from, to, reason });
            }
            check_next(&request.url, &to)?;
            request.authorization = None;
            request.url = to;
        }
        Err(TransportError::Redirect {
            from: shown(&first),
            to: shown(&request.url),
            reason: format!("there are more than {REDIRECTS} redirects"),
        })
    }

    async fn send_once(&self, request: &HttpRequest) -> Result<Response, TransportError> {
        let url = &request.url;
        check_scheme(url)?;
        let client = if is_loopback(url) { &self.loopback } else { &self.public };
        let mut builder = client
            .request(request.method.clone(), url.clone())
            .headers(request.headers.clone())
            // A few compressed bytes can expand without limit.
            .header(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if let Some(secret) = &request.authorization {
            let mut secret = secret.clone();
            secret.set_sensitive(true);
            builder = builder.header(header::AUTHORIZATION, secret);
        }
        let watched = WatchedBody::new(request.body.clone());
        let activity = watched.activity();
        if !request.body.is_empty() {
            builder = builder.body(reqwest::Body::wrap(watched));
        } else if ![Method::GET, Method::HEAD].contains(&request.method) {
            builder = builder.header(header::CONTENT_LENGTH, HeaderValue::from(0));
        }
        let response = tokio::select! {
            response = builder.send() => {
                response.map_err(|error| send_error(url, &error.without_url()))?
            }
            () = activity.silence(self.silence) => {
                return Err(TransportError::Silence { host: host(url), after: self.silence });
            }
        };
        let encoding = response.headers().get(header::CONTENT_ENCODING);
        if encoding.is_some_and(|it| !it.as_bytes().eq_ignore_ascii_case(b"identity")) {
            let detail = "it compresses its answers unasked".to_owned();
            return Err(TransportError::Malformed { what: quoted(url), detail });
        }
        Ok(response)
    }

    /// Returns the next bytes of a response, or `None` at its end.
    pub(crate) async fn next(
        &self,
        response: &mut Response,
    ) -> Result<Option<Bytes>, TransportError> {
        match timeout(self.silence, response.chunk()).await {
            Ok(Ok(bytes)) => Ok(bytes),
            Ok(Err(error)) => Err(TransportError::Cut {
                host: host(response.url()),
                detail: root_cause(&error.without_url()),
            }),
            Err(_) => {
                Err(TransportError::Silence { host: host(response.url()), after: self.silence })
            }
        }
    }

    /// Returns a whole response of at most `most` bytes.
    pub(crate) async fn whole(
        &self,
        mut response: Response,
        most: usize,
        what: &str,
    ) -> Result<Bytes, TransportError> {
        let host = host(response.url());
        let too_large = || TransportError::TooLarge { what: what.to_owned(), most: most as u64 };
        if response.content_length().is_some_and(|length| length > most as u64) {
            return Err(too_large());
        }
        let read = async {
            let mut body = BytesMut::new();
            while let Some(bytes) = self.next(&mut response).await? {
                if body.len() + bytes.len() > most {
                    return Err(too_large());
                }
                body.extend_from_slice(&bytes);
            }
            Ok(body.freeze())
        };
        // One limit for the whole response, in case it arrives one byte at a time.
        let silence = |_| Err(TransportError::Silence { host, after: self.silence });
        timeout(self.silence, read).await.unwrap_or_else(silence)
    }

    /// Returns a successful response, or otherwise the error that it describes.
    pub(crate) async fn successful(
        &self,
        response: Response,
        what: &str,
    ) -> Result<Response, TransportError> {
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let host = host(response.url());
        let body = self.beginning(response).await;
        Err(TransportError::Status { host, what: what.to_owned(), status, detail: detail(&body) })
    }

    /// Returns the beginning of an error response. If that fails, the status says enough.
    async fn beginning(&self, mut response: Response) -> Vec<u8> {
        let mut body = Vec::new();
        let read = async {
            while body.len() < LARGEST_ERROR
                && let Ok(Some(bytes)) = response.chunk().await
            {
                body.extend_from_slice(&bytes);
            }
        };
        let _ = timeout(self.silence, read).await;
        body
    }
}

/// Refuses addresses whose answers could be forged in transit.
pub(crate) fn check_scheme(url: &Url) -> Result<(), TransportError> {
    match url.scheme() {
        "https" => Ok(()),
        "http" if is_loopback(url) => Ok(()),
        _ => Err(TransportError::PlainHttp { url: shown(url) }),
    }
}

/// Refuses an address from a server if answers from it could be forged in transit, or if another
/// machine redirects to a service on this one.
pub(crate) fn check_next(from: &Url, to: &Url) -> Result<(), TransportError> {
    let refused = |reason: &str| TransportError::Redirect {
        from: shown(from),
        to: shown(to),
        reason: reason.to_owned(),
    };
    if to.scheme() != "https" && !(to.scheme() == "http" && is_loopback(to)) {
        return Err(refused("`http` is only for this machine"));
    }
    if is_loopback(to) && !is_loopback(from) {
        return Err(refused("it is an address of this machine"));
    }
    Ok(())
}

/// Returns whether two addresses have the same scheme, host and port.
pub(crate) fn is_same_origin(one: &Url, other: &Url) -> bool {
    one.origin() == other.origin()
}

/// Returns the address that a response redirects to.
pub(crate) fn location(response: &Response) -> Result<Url, TransportError> {
    let from = response.url();
    let malformed =
        |detail: &str| TransportError::Malformed { what: quoted(from), detail: detail.to_owned() };
    let value = response.headers().get(header::LOCATION);
    let value = value.ok_or_else(|| malformed("it leads on, and does not say where"))?;
    let value =
        value.to_str().map_err(|_| malformed("it leads to something that is not an address"))?;
    from.join(value).map_err(|_| malformed("it leads to something that is not an address"))
}

/// Returns an address for messages: without its query, which may be a secret.
pub(crate) fn shown(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    // Neither call can fail for an address with a host. Other addresses have no user.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    harmless::line(url.as_str())
}

/// Returns an address for messages, in backticks.
pub(crate) fn quoted(url: &Url) -> String {
    format!("`{}`", shown(url))
}

/// Returns the host of an address, with its port unless it is the default.
pub(crate) fn host(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// Returns the explanation in an error response: the registry's messages, or the first words.
fn detail(body: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(body);
    if text.trim_start().starts_with('<') {
        return Some("a web page".to_owned());
    }
    let of_registry = || {
        let value: serde_json::Value = serde_json::from_str(&text).ok()?;
        let errors = value.get("errors")?.as_array()?;
        let messages = errors.iter().filter_map(|error| {
            let text = |key: &str| error.get(key)?.as_str().filter(|text| !text.is_empty());
            text("message").or_else(|| text("code"))
        });
        let messages: Vec<&str> = messages.take(4).collect();
        (!messages.is_empty()).then(|| harmless::line(&messages.join(", ")))
    };
    let first_words = || Some(harmless::line(text.trim())).filter(|text| !text.is_empty());
    of_registry().or_else(first_words)
}

/// Returns the error for a request that could not be sent.
fn send_error(url: &Url, error: &reqwest::Error) -> TransportError {
    let host = host(url);
    if let Some(detail) = tls_error(error) {
        return TransportError::Tls { host, detail };
    }
    let detail = root_cause(error);
    if error.is_connect() {
        let detail = if error.is_timeout() { "it does not answer".to_owned() } else { detail };
        return TransportError::Unreachable { host, detail };
    }
    TransportError::Cut { host, detail }
}

/// Returns the TLS error's message, if the cause is a TLS error.
fn tls_error(error: &reqwest::Error) -> Option<String> {
    let mut next = error.source();
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<rustls::Error>() {
            return Some(error.to_string());
        }
        next = match error.downcast_ref::<io::Error>() {
            // The `source` of such an error would skip the error inside it.
            Some(error) => error.get_ref().map(|within| within as _),
            None => error.source(),
        };
    }
    None
}

/// Returns the message of the innermost error. The outer errors add nothing.
fn root_cause(error: &reqwest::Error) -> String {
    let mut root: &dyn std::error::Error = error;
    while let Some(source) = root.source() {
        root = source;
    }
    harmless::line(&root.to_string())
}
