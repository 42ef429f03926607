//! MCP servers over HTTP: the streamable transport of the protocol.
//!
//! Owns the bounds on what a server sends, and decides where requests go. The caller chooses the
//! addresses and supplies the tokens.

mod events;
mod requests;
mod transport;

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use http::{HeaderMap, HeaderValue, header};
use rmcp::transport::streamable_http_client::{
    StreamableHttpClientTransport, StreamableHttpClientTransportConfig,
};
use url::{Host, Url};

use super::{ClientIdentity, ConnectError, Era, RemoteConnection, connect, lifecycle};
use crate::wire::{UpstreamState, plain};
use requests::{HttpError, RequestSender};
pub(super) use requests::{cause, client};
use transport::{HttpClient, HttpWire};

/// The name of this machine. Resolvers are not trusted for it: RFC 6761, section 6.3.
const THIS_MACHINE: &str = "localhost";

/// A boxed future, for the asynchronous methods of a trait.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A server over HTTP.
#[derive(Clone)]
pub struct HttpServer {
    /// The address. Its scheme is `https`, or `http` on this machine if that is allowed.
    pub url: String,
    /// True if `http` is allowed to addresses of this machine.
    pub allow_loopback: bool,
    /// Headers of each request.
    pub headers: HeaderMap,
    /// The source of the token that each request carries.
    pub tokens: Option<Arc<dyn TokenSource>>,
    /// Decides which addresses may be connected to.
    pub resolver: Arc<dyn HostResolver>,
    /// The certificates that are trusted.
    pub tls: rustls::ClientConfig,
}

/// A source of tokens.
pub trait TokenSource: Send + Sync + 'static {
    /// Returns the token to send, or `None` if requests carry no token.
    ///
    /// # Errors
    ///
    /// Fails if a token is needed and cannot be obtained.
    fn token(&self) -> BoxFuture<'_, Result<Option<String>, String>>;

    /// Returns a new token to replace `refused`, which the server rejected. `challenge` is its
    /// `WWW-Authenticate` header. Returns `None` if a different token requires the user.
    ///
    /// Requests run concurrently, so the same token may have been refused several times.
    ///
    /// # Errors
    ///
    /// Fails if a token is needed and cannot be obtained.
    fn refresh<'a>(
        &'a self,
        refused: Option<&'a str>,
        challenge: &'a str,
    ) -> BoxFuture<'a, Result<Option<String>, String>>;
}

/// Decides which addresses may be connected to.
pub trait HostResolver: Send + Sync + 'static {
    /// Returns the addresses of a host that may be connected to. The client connects to no others,
    /// and for `localhost` only to loopback addresses. It also calls this method for a host that is
    /// itself an address.
    ///
    /// # Errors
    ///
    /// Fails if the host has no address, or if none of its addresses may be connected to.
    fn resolve(&self, host: &str, port: u16) -> BoxFuture<'static, Result<Vec<IpAddr>, String>>;
}

/// Connects to a server over HTTP, as [`connect_streams`](super::connect_streams) does over two
/// streams.
///
/// # Errors
///
/// Fails if the address may not be connected to, or if the server does not introduce itself in time
/// or refuses the connection.
pub async fn connect_http(
    client: ClientIdentity,
    server: HttpServer,
    era: Option<Era>,
) -> Result<RemoteConnection, ConnectError> {
    let url = judged(&server.url, server.allow_loopback, &*server.resolver).await;
    let url = url.map_err(ConnectError::Address)?;
    let upstream = Arc::new(UpstreamState::default());
    let requests = RequestSender::new(url.clone(), &server).map_err(ConnectError::Address)?;
    let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str());
    // A call is never sent again, because it may have run.
    config.reinit_on_expired_session = false;
    let http = HttpClient::new(requests, Arc::clone(&upstream));
    let transport = StreamableHttpClientTransport::with_client(http, config);
    let wire = HttpWire::new(transport, Arc::clone(&upstream));
    let connection = connect(client, wire, upstream, lifecycle(era)).await?;
    Ok(RemoteConnection { is_http: true, ..connection })
}

/// Accepts only an address whose traffic cannot be intercepted: `https`, or, if that is allowed,
/// this machine.
pub(super) fn trusted(address: &str, allow_loopback: bool) -> Result<Url, String> {
    let refused = |reason: &str| format!("`{}` {reason}", plain(address));
    let url = Url::parse(address).map_err(|error| refused(&format!("is not a URL: {error}")))?;
    if url.host().is_none() {
        return Err(refused("names no host"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refused("has a user and a password; use a token instead"));
    }
    match url.scheme() {
        "https" => Ok(url),
        "http" if allow_loopback && is_here(&url) => Ok(url),
        _ => Err(refused("does not use `https`")),
    }
}

/// Returns a trusted address if it may be connected to.
pub(super) async fn judged(
    address: &str,
    allow_loopback: bool,
    resolver: &dyn HostResolver,
) -> Result<Url, String> {
    let url = trusted(address, allow_loopback)?;
    if let Some(ip) = literal(&url) {
        // The HTTP client never looks up such a host, so the address is checked here.
        let port = url.port_or_known_default().unwrap_or_default();
        let refused = |reason: &str| format!("`{}` {reason}", plain(address));
        let allowed = resolver.resolve(&ip.to_string(), port).await;
        if !allowed.map_err(|error| refused(&error))?.contains(&ip) {
            return Err(refused("may not be connected to"));
        }
    }
    Ok(url)
}

/// Returns whether an address belongs to this machine, no matter what names resolve to.
fn is_here(url: &Url) -> bool {
    match literal(url) {
        Some(ip) => ip.is_loopback(),
        None => url.host_str() == Some(THIS_MACHINE),
    }
}

/// Returns the host of a URL if it is an IP address.
fn literal(url: &Url) -> Option<IpAddr> {
    match url.host()? {
        Host::Ipv4(ip) => Some(IpAddr::V4(ip)),
        Host::Ipv6(ip) => Some(IpAddr::V6(ip)),
        Host::Domain(_) => None,
    }
}

/// Returns the reason for a missing token, if that is the cause of this library error.
pub(super) fn no_token(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let held = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        if let Some(HttpError::NoToken(reason)) = held.and_then(|it| it.downcast_ref()) {
            return Some(reason.clone());
        }
        cause = error.source();
    }
    None
}

/// Returns the value of the `Authorization` header for a token.
fn bearer(token: &str) -> Result<HeaderValue, String> {
    let mut value = HeaderValue::try_from(format!("Bearer {token}"))
        .map_err(|_| "the token has characters that no header may have".to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}

/// Returns the relevant part of the `WWW-Authenticate` headers.
pub(super) fn challenge(headers: &HeaderMap) -> String {
    let values = headers.get_all(header::WWW_AUTHENTICATE).iter();
    let texts: Vec<&str> = values.filter_map(|value| value.to_str().ok()).collect();
    let is_bearer =
        |text: &&&str| text.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("bearer"));
    let found = texts.iter().find(is_bearer).or_else(|| texts.first());
    found.copied().unwrap_or("Bearer").to_owned()
}
