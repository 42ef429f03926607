//! `wasi:http/outgoing-handler`, and `wasi:http/client` of WASI 0.3: sends a guest's requests to
//! their peers.
//!
//! Each request has its own HTTP/1.1 connection, which the [`NetworkGate`] of the call makes.
//! Redirections are answers like others; a guest that follows one makes another request. Proxies of
//! the environment are not used: a tool would reach them without a grant.

use std::future::{Future, poll_fn};
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::uri::{PathAndQuery, Scheme};
use http::{Method, Request, Response, Uri};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use rustls::pki_types::ServerName;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep, timeout};
use tokio_rustls::TlsConnector;
use url::Host;
use wasmtime_wasi_http::io::TokioIo;
use wasmtime_wasi_http::p2::bindings::http::types::ErrorCode;
use wasmtime_wasi_http::p3::bindings::http::types::ErrorCode as NewErrorCode;
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttpHooks};

use crate::exec::net::{NetworkGate, NoAddress, NoConnection, PeerAddress};
use crate::exec::wasm::bounds::CHUNK;

/// The largest head of a response, and the largest read ahead of a guest, in bytes. hyper's own
/// default is 400 KiB.
const READ_BUFFER: usize = 64 << 10;

/// The sender of one guest's requests.
pub(in crate::exec::wasm) struct Hooks {
    reach: Arc<NetworkGate>,
    /// A permit for each connection that the guest may have at once.
    connections: Arc<Semaphore>,
}

impl Hooks {
    pub(in crate::exec::wasm) fn new(reach: Arc<NetworkGate>, connections: usize) -> Self {
        Self { reach, connections: Arc::new(Semaphore::new(connections)) }
    }
}

/// The work that goes on after the head of a response: reading and writing the bodies.
type BodyTransfer = Box<dyn Future<Output = Result<(), Error>> + Send>;

type HttpResult = Result<(Response<WasiBody>, BodyTransfer), Error>;

/// Defines the codes of errors in one version of WASI; they have the same names in both.
macro_rules! error_codes {
    ($hyper:ident, $connect:ident, $tls:ident, $code:ident) => {
        fn $hyper(&mut self, error: &hyper::Error) -> $code {
            if error.is_parse_too_large() {
                $code::HttpResponseHeaderSectionSize(None)
            } else if error.is_incomplete_message() {
                $code::HttpResponseIncomplete
            } else if error.is_timeout() {
                $code::HttpResponseTimeout
            } else if error.is_closed() || error.is_canceled() || is_io(error) {
                $code::ConnectionTerminated
            } else {
                $code::HttpProtocolError
            }
        }

        fn $connect(&mut self, error: &io::Error) -> $code {
            match error.kind() {
                io::ErrorKind::ConnectionRefused => $code::ConnectionRefused,
                io::ErrorKind::TimedOut => $code::ConnectionTimeout,
                io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
                    $code::DestinationUnavailable
                }
                _ => $code::ConnectionTerminated,
            }
        }

        fn $tls(&mut self, error: &io::Error) -> $code {
            let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
            match inner {
                Some(
                    rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented,
                ) => $code::TlsCertificateError,
                Some(_) => $code::TlsProtocolError,
                None => $code::ConnectionTerminated,
            }
        }
    };
}

impl WasiHttpHooks for Hooks {
    fn send_request(
        &mut self,
        request: Request<WasiBody>,
        options: Option<RequestOptions>,
        _: BodyTransfer,
    ) -> Box<dyn Future<Output = HttpResult> + Send> {
        let reach = Arc::clone(&self.reach);
        let connections = Arc::clone(&self.connections);
        Box::new(async move {
            // Here, because connections that the guest has just dropped have ended by now.
            let permit =
                connections.try_acquire_owned().map_err(|_| Error::ConnectionLimitReached)?;
            send(&reach, request, options.unwrap_or_default(), permit).await
        })
    }

    fn p2_outgoing_body_buffer_chunks(&mut self) -> usize {
        1
    }

    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        CHUNK
    }

    fn p3_outgoing_body_chunk_size(&mut self) -> usize {
        CHUNK
    }

    error_codes!(p2_error_from_hyper, p2_error_from_connect, p2_error_from_tls, ErrorCode);
    error_codes!(p3_error_from_hyper, p3_error_from_connect, p3_error_from_tls, NewErrorCode);
}

fn is_io(error: &hyper::Error) -> bool {
    std::error::Error::source(error).is_some_and(|source| source.is::<io::Error>())
}

async fn send(
    reach: &NetworkGate,
    mut request: Request<WasiBody>,
    options: RequestOptions,
    permit: OwnedSemaphorePermit,
) -> HttpResult {
    let (peer, tls) = peer_of(&request)?;
    let connecting = async {
        let stream = reach.connect(&peer, None).await.map_err(error)?;
        if !tls {
            return handshake(stream).await;
        }
        let config = reach.tls().map_err(|reason| Error::InternalError(Some(reason)))?;
        let connector = TlsConnector::from(config);
        let stream = connector.connect(server_name(&peer)?, stream).await.map_err(Error::Tls)?;
        handshake(stream).await
    };
    let (mut sender, connection) =
        within(options.connect_timeout, connecting).await.ok_or(Error::ConnectionTimeout)??;
    // The request line has a path, unless it is for a proxy.
    *request.uri_mut() = origin_form(request.uri());

    // Polled while the response is waited for, and afterwards by the reader of its body.
    let mut connection = Box::pin(async move {
        let end = connection.await;
        drop(permit);
        end
    });
    let mut responding = Box::pin(sender.send_request(request));
    let mut over = false;
    let response = poll_fn(|context| {
        if let Poll::Ready(response) = responding.as_mut().poll(context) {
            return Poll::Ready(response);
        }
        if !over {
            // The response reports an error that ended it.
            over = connection.as_mut().poll(context).is_ready();
        }
        if over { responding.as_mut().poll(context) } else { Poll::Pending }
    });
    let response = within(options.first_byte_timeout, response)
        .await
        .ok_or(Error::ConnectionReadTimeout)??;
    let rest = async move {
        if !over && let Err(error) = connection.await {
            // The guest sees it when it reads the body.
            tracing::debug!("a guest's connection ended: {error}");
        }
        Ok(())
    };
    let between = options.between_bytes_timeout;
    let response = response.map(|body| Paced::new(body, between).boxed_unsync());
    Ok((response, Box::new(rest)))
}

/// Waits for a future, at most for the limit. Without a limit it waits forever, since the call has
/// its own limit.
async fn within<T>(limit: Option<Duration>, future: impl Future<Output = T>) -> Option<T> {
    match limit {
        Some(limit) => timeout(limit, future).await.ok(),
        None => Some(future.await),
    }
}

type HttpConnection =
    (http1::SendRequest<WasiBody>, Pin<Box<dyn Future<Output = Result<(), hyper::Error>> + Send>>);

async fn handshake<S>(stream: S) -> Result<HttpConnection, Error>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = http1::Builder::new();
    builder.max_buf_size(READ_BUFFER);
    let (sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
    Ok((sender, Box::pin(connection)))
}

/// Returns the peer of a request, and whether the connection to it uses TLS.
fn peer_of(request: &Request<WasiBody>) -> Result<(PeerAddress, bool), Error> {
    // A tunnel would lead wherever the peer likes, and `wasi:http` does not have tunnels.
    if request.method() == Method::CONNECT {
        return Err(Error::HttpRequestMethodInvalid);
    }
    let uri = request.uri();
    let authority = uri.authority().ok_or(Error::HttpRequestUriInvalid)?;
    let tls = uri.scheme() == Some(&Scheme::HTTPS);
    let peer = PeerAddress::of_authority(authority, Some(if tls { 443 } else { 80 }));
    Ok((peer.ok_or(Error::HttpRequestUriInvalid)?, tls))
}

fn server_name(peer: &PeerAddress) -> Result<ServerName<'static>, Error> {
    match &peer.host {
        Host::Ipv4(ip) => Ok(IpAddr::from(*ip).into()),
        Host::Ipv6(ip) => Ok(IpAddr::from(*ip).into()),
        Host::Domain(name) => {
            ServerName::try_from(name.clone()).map_err(|_| Error::HttpRequestUriInvalid)
        }
    }
}

fn error(error: NoConnection) -> Error {
    match error {
        NoConnection::NotGranted | NoConnection::Name(NoAddress::NotGranted) => {
            Error::HttpRequestDenied
        }
        NoConnection::Name(NoAddress::NotPublic) => Error::DestinationIpProhibited,
        NoConnection::Name(NoAddress::TooMany) => Error::DnsTimeout,
        NoConnection::Name(NoAddress::Unresolved(error)) => {
            tracing::debug!("a name did not resolve: {error}");
            Error::DnsError { rcode: Some("name not resolved".to_owned()), info_code: None }
        }
        NoConnection::TimedOut => Error::ConnectionTimeout,
        NoConnection::Failed(error) => Error::Connect(error),
    }
}

fn origin_form(uri: &Uri) -> Uri {
    let path = uri.path_and_query().cloned();
    Uri::from(path.unwrap_or_else(|| PathAndQuery::from_static("/")))
}

/// A body with the guest's limit on the time between two pieces.
struct Paced {
    body: Incoming,
    between: Option<(Duration, Pin<Box<Sleep>>)>,
}

impl Paced {
    fn new(body: Incoming, between: Option<Duration>) -> Self {
        Self { body, between: between.map(|limit| (limit, Box::pin(sleep(limit)))) }
    }
}

impl Body for Paced {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        let Some((limit, clock)) = &mut self.between else {
            return frame.map_err(Error::from);
        };
        if frame.is_ready() {
            let next = tokio::time::Instant::now() + *limit;
            clock.as_mut().reset(next);
            return frame.map_err(Error::from);
        }
        ready!(clock.as_mut().poll(context));
        Poll::Ready(Some(Err(Error::ConnectionReadTimeout)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::Empty;

    use super::*;

    fn peer(url: &str) -> Option<(String, u16, bool)> {
        let body = Empty::new().map_err(|never| match never {}).boxed_unsync();
        let request = Request::get(url).body(body).ok()?;
        let (peer, tls) = peer_of(&request).ok()?;
        Some((peer.host.to_string(), peer.port, tls))
    }

    #[test]
    fn the_peer_of_a_request_is_that_of_its_authority() {
        let is = |host: &str, port, tls| Some((host.to_owned(), port, tls));
        assert_eq!(peer("http://a.test"), is("a.test", 80, false));
        assert_eq!(peer("https://A.test./x?y@z:1"), is("a.test", 443, true));
        assert_eq!(peer("http://a.test:8080/"), is("a.test", 8080, false));
        assert_eq!(peer("http://[::1]:8080/"), is("[::1]", 8080, false));
        assert_eq!(peer("https://127.1/"), is("127.0.0.1", 443, true));
        for url in [
            "http://granted.test@other.test/",
            "http://granted.test:80@other.test/",
            "http://user:secret@a.test/",
            "http://a.test:/",
            "http://a.test:0/",
            "http://a.test:65536/",
            "http://a.test:80:80/",
            "http://[::1]x/",
            "http://[::1]:80:80/",
            "http://:80/",
            "http:///",
            "/",
        ] {
            assert_eq!(peer(url), None, "{url}");
        }
    }
}
