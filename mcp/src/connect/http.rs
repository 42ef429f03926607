//! Servers of MCP over HTTP: the streamable transport of the protocol.
//!
//! Owns the bounds on what a server sends and where requests go. Choosing addresses is the caller's
//! business, and so is having tokens.

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

use super::{Client, ConnectError, Connection, Era, connect};
use crate::wire::Upstream;
use requests::Requests;
use transport::{HttpClient, HttpWire};

/// A future of a trait whose methods wait.
pub type Waiting<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A server over HTTP.
#[derive(Clone)]
pub struct HttpServer {
    /// The address. It is of `https`, or of `http` on a loopback address if that is allowed.
    pub url: String,
    /// True if `http` is allowed to addresses of this machine.
    pub allow_loopback: bool,
    /// Headers of each request.
    pub headers: HeaderMap,
    /// The source of the token that each request has.
    pub tokens: Option<Arc<dyn TokenSource>>,
    /// The judge of the addresses that are connected to.
    pub resolver: Arc<dyn Resolve>,
    /// The certificates that are trusted.
    pub tls: rustls::ClientConfig,
}

/// A source of tokens.
pub trait TokenSource: Send + Sync + 'static {
    /// Returns the token that is sent.
    ///
    /// # Errors
    ///
    /// There should be one, and it cannot be had.
    fn token(&self) -> Waiting<'_, Result<Option<String>, String>>;

    /// Returns a new token in the place of one that the server did not take. `challenge` is its
    /// `WWW-Authenticate`. Nothing is returned where no other token can be had without a person.
    ///
    /// # Errors
    ///
    /// There should be one, and it cannot be had.
    fn refresh<'a>(&'a self, challenge: &'a str) -> Waiting<'a, Result<Option<String>, String>>;
}

/// A judge of addresses.
pub trait Resolve: Send + Sync + 'static {
    /// Returns the addresses of a host that may be connected to: exactly those are. A host that is
    /// an address itself is asked about like any other.
    ///
    /// # Errors
    ///
    /// There is none, or none that may be connected to.
    fn resolve(&self, host: &str, port: u16) -> Waiting<'static, Result<Vec<IpAddr>, String>>;
}

/// Connects to a server over HTTP, as [`connect_streams`](super::connect_streams) does over two
/// streams.
///
/// # Errors
///
/// The address may not be connected to, or the server does not introduce itself in time, or refuses
/// to.
pub async fn connect_http(
    client: Client,
    server: HttpServer,
    era: Option<Era>,
) -> Result<Connection, ConnectError> {
    let url = address(&server).await?;
    let upstream = Arc::new(Upstream::default());
    let requests = Requests::new(url.clone(), &server).map_err(ConnectError::Address)?;
    let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str());
    // A call is never sent again: it may have run.
    config.reinit_on_expired_session = false;
    let http = HttpClient::new(requests, Arc::clone(&upstream));
    let transport = StreamableHttpClientTransport::with_client(http, config);
    let wire = HttpWire::new(transport, Arc::clone(&upstream));
    let connection = connect(client, wire, upstream, era).await?;
    Ok(Connection { is_http: true, ..connection })
}

/// Returns the address of a server, if it may be connected to.
async fn address(server: &HttpServer) -> Result<Url, ConnectError> {
    let refused = |reason: &str| ConnectError::Address(format!("`{}` {reason}", server.url));
    let url = Url::parse(&server.url).map_err(|error| refused(&format!("is no URL: {error}")))?;
    let (Some(host), Some(port)) = (url.host(), url.port_or_known_default()) else {
        return Err(refused("names no host"));
    };
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refused("has a user and a password, which belong into a token"));
    }
    let address = match host {
        Host::Ipv4(address) => Some(IpAddr::V4(address)),
        Host::Ipv6(address) => Some(IpAddr::V6(address)),
        Host::Domain(_) => None,
    };
    match url.scheme() {
        "https" => {}
        "http" if server.allow_loopback && address.is_some_and(|it| it.is_loopback()) => {}
        _ => return Err(refused("is not of `https`")),
    }
    if let Some(address) = address {
        // Such a host is never looked up, so it is judged here.
        let allowed = server.resolver.resolve(&address.to_string(), port).await;
        if !allowed.map_err(|error| refused(&error))?.contains(&address) {
            return Err(refused("may not be connected to"));
        }
    }
    Ok(url)
}

/// Returns the header of a token.
fn bearer(token: &str) -> Result<HeaderValue, String> {
    let mut value = HeaderValue::try_from(format!("Bearer {token}"))
        .map_err(|_| "the token has characters that no header may have".to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}

/// Returns the part of a `WWW-Authenticate` that is looked at.
fn challenge(headers: &HeaderMap) -> String {
    let value = headers.get(header::WWW_AUTHENTICATE).and_then(|value| value.to_str().ok());
    value.unwrap_or("Bearer").to_owned()
}
