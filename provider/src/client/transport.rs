//! HTTP: connections, proxies, certificates and the bytes of responses. This module knows no
//! provider's format, but only whether a response is a stream.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, LOCATION};
use http::{HeaderMap, StatusCode};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use reqwest::Response;
use reqwest::redirect::Policy;
use rustls::crypto::ring::default_provider;
use rustls::{ClientConfig, RootCertStore};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use url::Url;

use super::address::Address;
use super::answer_reader::{DOCUMENT, HTML};
use super::read_timeout::ReadWait;
use super::{Endpoint, retry};
use crate::wire::refusal::ServerError;
use crate::{ApiKey, FailureKind, Provider, RequestFailure};

/// The maximum number of bytes that are read of a document to find its error.
const MAX_DOCUMENT: usize = 64 << 10;

/// The time limit for the end of a response after the end of the answer in it.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// The HTTP connections to one host.
#[derive(Debug)]
pub(super) struct ProviderTransport {
    provider: Provider,
    http: reqwest::Client,
    host: String,
    proxy: Option<Proxy>,
    connect_timeout: Duration,
    silence_timeout: Duration,
}

/// The proxy to the host.
#[derive(Debug)]
struct Proxy {
    /// The address, without user and password.
    shown: String,
    /// The password and the header that carries it, which no message may contain.
    secrets: Vec<ApiKey>,
}

/// A response.
pub(super) enum ProviderResponse {
    /// A response whose body is a stream.
    Stream(Response),
    /// Any other response, with its body.
    Document(TextResponse),
}

/// A response that is not a stream.
pub(super) struct TextResponse {
    status: StatusCode,
    is_html: bool,
    text: String,
    retry_after: Option<Duration>,
    proxy: Option<String>,
    moved_to: Option<String>,
}

impl ProviderTransport {
    /// Creates the transport to an address, through the first of the proxies that applies to it.
    pub(super) fn new(
        endpoint: &Endpoint,
        address: &Address,
        proxies: &Matcher,
    ) -> Result<Self, RequestFailure> {
        let provider = endpoint.provider;
        let failed = |kind: FailureKind, detail: String| {
            RequestFailure::new(provider, kind).with_detail(detail)
        };
        let uri: http::Uri =
            address.base().as_str().parse().map_err(|error: http::uri::InvalidUri| {
                failed(FailureKind::Address, error.to_string())
            })?;
        let tls =
            tls().map_err(|error| failed(FailureKind::Tls { host: address.host() }, error))?;
        let mut builder = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            // The key must not be sent to another host.
            .redirect(Policy::none())
            // This code chooses the proxy, and not the library, so that a failure can name it.
            .no_proxy()
            .connect_timeout(endpoint.connect_timeout);
        let mut proxy = None;
        if let Some(intercept) = proxies.intercept(&uri) {
            let found = Proxy::from_intercept(&intercept);
            let unusable = |error: reqwest::Error| {
                let kind = FailureKind::Proxy { proxy: found.shown.clone() };
                failed(kind, root_cause(&error.without_url()))
            };
            builder = builder.proxy(reqwest_proxy(&intercept).map_err(unusable)?);
            proxy = Some(found);
        }
        let http =
            builder.build().map_err(|error| failed(FailureKind::Address, root_cause(&error)))?;
        Ok(Self {
            provider,
            http,
            host: address.host(),
            proxy,
            connect_timeout: endpoint.connect_timeout,
            silence_timeout: endpoint.silence_timeout,
        })
    }

    /// Returns the secrets of the proxy.
    pub(super) fn secrets(&self) -> impl Iterator<Item = &str> {
        self.proxy.iter().flat_map(|proxy| &proxy.secrets).map(ApiKey::reveal)
    }

    /// Sends a request and waits for the head of the response.
    pub(super) async fn post(
        &self,
        url: &Url,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Result<ProviderResponse, RequestFailure> {
        let request = self.http.post(url.clone()).headers(headers.clone()).body(body.clone());
        let longest = self.connect_timeout.saturating_add(self.silence_timeout);
        let response = match timeout(longest, request.send()).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(self.send_failure(&error.without_url())),
            Err(_) => return Err(self.failure(FailureKind::SilenceTimeout(self.silence_timeout))),
        };
        let kind = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let kind = kind.unwrap_or_default().trim().to_ascii_lowercase();
        let is_document = kind.starts_with("text/html") || kind.starts_with("application/json");
        if response.status().is_success() && !is_document {
            return Ok(ProviderResponse::Stream(response));
        }
        self.document(response, kind.starts_with("text/html")).await.map(ProviderResponse::Document)
    }

    /// Returns the next bytes of a response, or nothing at its end.
    pub(super) async fn next(
        &self,
        response: &mut Response,
        wait: ReadWait,
    ) -> Result<Option<Bytes>, RequestFailure> {
        let silence = || self.failure(FailureKind::SilenceTimeout(wait.silence));
        // Otherwise bytes that have already arrived would be returned, however late they are.
        if wait.left.is_zero() {
            return Err(silence());
        }
        match timeout(wait.left, response.chunk()).await {
            Ok(Ok(bytes)) => Ok(bytes),
            Ok(Err(error)) => {
                Err(self.failure(FailureKind::Cut).with_detail(root_cause(&error.without_url())))
            }
            Err(_) => Err(silence()),
        }
    }

    /// Reads the end of a response in the background, so that its connection can serve the next
    /// request. The end usually arrives a moment after the last event. Dropping a response before
    /// its end closes the connection, which costs a handshake per round.
    pub(super) fn finish(&self, mut response: Response) -> JoinHandle<()> {
        tokio::spawn(async move {
            let end = async { while let Ok(Some(_)) = response.chunk().await {} };
            // A server that sends more, or nothing, loses its connection; nothing waits for it.
            let _ = timeout(DRAIN_TIMEOUT, end).await;
        })
    }

    async fn document(
        &self,
        mut response: Response,
        is_html: bool,
    ) -> Result<TextResponse, RequestFailure> {
        let mut text = Vec::new();
        // One limit for the whole document, in case it comes one byte at a time.
        let read = timeout(self.silence_timeout, self.read(&mut response, &mut text)).await;
        let read = read.unwrap_or_else(|_| {
            Err(self.failure(FailureKind::SilenceTimeout(self.silence_timeout)))
        });
        // A failure can be reported from its status, but a success needs the whole document.
        if response.status().is_success() {
            read?;
        }
        let headers = response.headers();
        let location = headers.get(LOCATION).and_then(|value| value.to_str().ok());
        Ok(TextResponse {
            status: response.status(),
            is_html: is_html || text.trim_ascii_start().starts_with(b"<"),
            text: String::from_utf8_lossy(&text).into_owned(),
            retry_after: retry::retry_after(headers, SystemTime::now()),
            proxy: self.proxy.as_ref().map(|proxy| proxy.shown.clone()),
            moved_to: location.filter(|_| response.status().is_redirection()).map(str::to_owned),
        })
    }

    /// Reads a document up to its maximum size.
    async fn read(
        &self,
        response: &mut Response,
        text: &mut Vec<u8>,
    ) -> Result<(), RequestFailure> {
        while text.len() < MAX_DOCUMENT
            && let Some(bytes) =
                self.next(response, ReadWait::for_silence(self.silence_timeout)).await?
        {
            text.extend_from_slice(&bytes);
        }
        Ok(())
    }

    /// Returns the failure of a request that could not be sent.
    fn send_failure(&self, error: &reqwest::Error) -> RequestFailure {
        let host = self.host.clone();
        if let Some(detail) = tls_error(error) {
            return self.failure(FailureKind::Tls { host }).with_detail(detail);
        }
        let timed_out =
            error.is_timeout().then(|| format!("nothing within {:?}", self.connect_timeout));
        match &self.proxy {
            Some(proxy) if error.is_connect() => self
                .failure(FailureKind::Proxy { proxy: proxy.shown.clone() })
                .with_detail(timed_out.unwrap_or_else(|| root_cause(error))),
            _ if is_no_http(error) => self.failure(FailureKind::Malformed).with_detail(format!(
                "the server at {host} does not speak HTTP: {}",
                root_cause(error)
            )),
            _ if error.is_timeout() => {
                self.failure(FailureKind::ConnectTimeout(self.connect_timeout))
            }
            // The system's message would repeat the kind.
            _ if is_refused(error) => self.failure(FailureKind::NoServer { host }),
            _ => self.failure(FailureKind::Network { host }).with_detail(root_cause(error)),
        }
    }

    fn failure(&self, kind: FailureKind) -> RequestFailure {
        RequestFailure::new(self.provider, kind)
    }
}

impl TextResponse {
    /// Returns the failure that the document describes.
    pub(super) fn failure(self, provider: Provider, model: &str) -> RequestFailure {
        let status = self.status.as_u16();
        let failure = |kind: FailureKind| RequestFailure::new(provider, kind);
        if status == 407
            && let Some(proxy) = self.proxy
        {
            return failure(FailureKind::Proxy { proxy })
                .with_detail("it requires a user and a password");
        }
        if let Some(to) = self.moved_to {
            return failure(FailureKind::Refused { status }).with_detail(format!("moved to {to}"));
        }
        let reported =
            serde_json::from_str(&self.text).ok().as_ref().and_then(ServerError::from_value);
        let mut found = match reported {
            Some(reported) => reported.failure(provider, model, status),
            None if self.status.is_success() => failure(FailureKind::Malformed)
                .with_detail(if self.is_html { HTML } else { DOCUMENT }),
            None => {
                let detail = if self.is_html { HTML.to_owned() } else { self.text };
                ServerError::new(None, Some(detail)).failure(provider, model, status)
            }
        };
        found.retry_after = self.retry_after.or(found.retry_after);
        found
    }
}

impl Proxy {
    fn from_intercept(intercept: &Intercept) -> Self {
        let mut secrets = Vec::new();
        if let Some((_, password)) = intercept.raw_auth() {
            secrets.push(ApiKey::new(password));
        }
        // An HTTP proxy gets both as one word in base64.
        let basic = intercept.basic_auth().and_then(|value| value.to_str().ok());
        if let Some(encoded) = basic.and_then(|value| value.strip_prefix("Basic ")) {
            secrets.push(ApiKey::new(encoded));
            let decoded = BASE64_STANDARD.decode(encoded).unwrap_or_default();
            if let Some((_, password)) = String::from_utf8_lossy(&decoded).split_once(':') {
                secrets.push(ApiKey::new(password));
            }
        }
        Self { shown: intercept.uri().to_string(), secrets }
    }
}

fn reqwest_proxy(intercept: &Intercept) -> Result<reqwest::Proxy, reqwest::Error> {
    let mut proxy = reqwest::Proxy::all(intercept.uri().to_string())?;
    if let Some((user, password)) = intercept.raw_auth() {
        proxy = proxy.basic_auth(user, password);
    }
    if let Some(basic) = intercept.basic_auth() {
        proxy = proxy.custom_http_auth(basic.clone());
    }
    Ok(proxy)
}

/// Returns TLS with the certificates that this machine trusts. A machine without certificates can
/// still reach servers without TLS.
fn tls() -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// Returns whether the response could not be parsed as HTTP.
fn is_no_http(error: &reqwest::Error) -> bool {
    let mut next = error.source();
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<hyper::Error>() {
            return error.is_parse();
        }
        next = error.source();
    }
    false
}

/// Returns whether the connection was refused, for the last address that was tried.
fn is_refused(error: &reqwest::Error) -> bool {
    let mut next = error.source();
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<io::Error>()
            && error.kind() == io::ErrorKind::ConnectionRefused
        {
            return true;
        }
        next = error.source();
    }
    false
}

/// Returns the message of a TLS error, if it is one.
fn tls_error(error: &reqwest::Error) -> Option<String> {
    let mut next = error.source();
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<rustls::Error>() {
            return Some(error.to_string());
        }
        next = match error.downcast_ref::<io::Error>() {
            // The `source` of this error is the source of the error inside it, so that the inner
            // error would be skipped.
            Some(error) => error.get_ref().map(|within| within as &(dyn Error + 'static)),
            None => error.source(),
        };
        // tokio-rustls has no error type for a server that closes the connection.
        if next.is_none() && error.to_string() == "tls handshake eof" {
            return Some("the connection was closed during the handshake".to_owned());
        }
    }
    None
}

/// Returns the message of the innermost error; those around it add nothing.
fn root_cause(error: &reqwest::Error) -> String {
    let mut root: &dyn Error = error;
    while let Some(source) = root.source() {
        root = source;
    }
    root.to_string()
}
