//! A server over HTTP: its connections, and its end.
//!
//! Owns the bounds on the time and the size of a request's headers, and on the time in which a
//! client must read an answer. The bounds on connections are in `connections`. `endpoint` answers a
//! request. Each other module contains one check. The library implements the protocol over HTTP.

mod access;
mod admission;
mod body;
mod connections;
mod cors;
mod endpoint;
mod expiry;
mod oauth;
mod principal;
mod reply;
mod sessions;
mod settings;
mod tls;
mod unread;

use std::convert::Infallible;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

pub use access::{ClientAccess, InvalidToken, SharedToken};
pub use admission::InvalidAdmission;
pub use oauth::{InvalidOAuth, OAuth};
pub use principal::{AccessScope, Principal};
pub use settings::{HttpBounds, HttpSettings};
pub use tls::{Tls, TlsError};

/// The readers of this module for the fuzz targets.
pub(crate) mod fuzzing {
    pub use super::oauth::fuzzing::{FuzzIssuer, ISSUER, RESOURCE, keys};
}

use super::questions::ServerQuestions;
use super::{ServeError, ServerIdentity};
use crate::offer::Offer;
use connections::{AdmittedConnection, HttpConnections};
use endpoint::Endpoint;
use unread::Unread;

/// The maximum size of a request's headers in bytes.
const MAX_HEADERS: usize = 16 << 10;

/// The pause after a connection could not be accepted. The most likely reason is that no file
/// descriptors are left.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// The time in which answers must be sent when the server ends.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// The most connections that the kernel queues until they are accepted.
const BACKLOG: u32 = 1024;

/// Listens at an address for [`serve_http`].
///
/// # Errors
///
/// Fails if the server cannot listen at the address.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Allows a restarted server to bind at once, while the kernel still remembers old connections.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// The answer to a connection for which the server has no room.
const FULL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// Serves clients over HTTP, at the path `/mcp`, until `cancel` is cancelled. `offers` returns the
/// offer for a principal. It is called for every session, and for every request without a session.
/// When the future resolves, no call is running.
///
/// # Errors
///
/// Fails if the system has no source of randomness for the key of the questions.
pub async fn serve_http<O: Offer>(
    listener: TcpListener,
    offers: impl Fn(&Principal) -> Arc<O> + Send + Sync + 'static,
    server: ServerIdentity,
    settings: HttpSettings,
    cancel: CancellationToken,
) -> Result<(), ServeError> {
    let questions = ServerQuestions::new().map_err(ServeError::Random)?;
    // Answers are still sent after all calls have ended.
    let stop = CancellationToken::new();
    let bounds = settings.bounds;
    let tls = settings.tls.as_ref().map(Tls::acceptor);
    let endpoint = Endpoint::new(offers, server, settings, questions, stop.clone());
    let connections = HttpConnections::new(bounds);
    let mut tasks = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = cancel.cancelled() => break,
            Some(_) = tasks.join_next() => continue,
            accepted = accept(&listener) => accepted,
        };
        let (stream, peer) = match accepted {
            Ok((stream, address)) => (stream, address.ip()),
            Err(error) => {
                tracing::warn!("a connection was not accepted: {error}");
                cancel.run_until_cancelled(tokio::time::sleep(ACCEPT_AGAIN)).await;
                continue;
            }
        };
        let admitted = tokio::select! {
            biased;
            () = cancel.cancelled() => break,
            admitted = connections.admit(peer) => admitted,
        };
        let Some(connection) = admitted else {
            refuse(stream, tls.is_some());
            continue;
        };
        let (endpoint, tls, stop) = (Arc::clone(&endpoint), tls.clone(), stop.clone());
        tasks.spawn(async move {
            let connection = Arc::new(connection);
            tokio::select! {
                () = connection.closed().cancelled() => {
                    tracing::debug!("a connection without a token made room for another");
                }
                () = connection.is_unknown_for_too_long() => {
                    tracing::debug!("a connection had no token in time");
                }
                () = serve(stream, tls, (endpoint, Arc::clone(&connection)), bounds, stop) => {}
            }
        });
    }
    drop(listener);
    endpoint.end_calls(LAST_WORDS).await;
    stop.cancel();
    let sent = async { while tasks.join_next().await.is_some() {} };
    if tokio::time::timeout(LAST_WORDS, sent).await.is_err() {
        tasks.shutdown().await;
    }
    Ok(())
}

/// The endpoint that answers requests, and the connection that they come from.
type Service<O> = (Arc<Endpoint<O>>, Arc<AdmittedConnection>);

/// Serves one connection, over TLS if the server has a certificate.
async fn serve<O: Offer>(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    service: Service<O>,
    bounds: HttpBounds,
    stop: CancellationToken,
) {
    let Some(tls) = tls else { return requests(stream, service, bounds, stop).await };
    match tls.accept(stream).await {
        Ok(stream) => requests(stream, service, bounds, stop).await,
        Err(error) => tracing::debug!("TLS was not agreed on: {error}"),
    }
}

/// Serves the requests of one connection, until the client closes it or `stop` is cancelled.
async fn requests<O: Offer>(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    (endpoint, own): Service<O>,
    bounds: HttpBounds,
    stop: CancellationToken,
) {
    let service = service_fn(move |request| {
        let answer = Arc::clone(&endpoint).answer(request, Arc::clone(&own));
        async { Ok::<_, Infallible>(answer.await) }
    });
    let connection = Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(bounds.headers_within)
        .max_header_size(MAX_HEADERS)
        .serve_connection(TokioIo::new(Unread::new(stream, bounds.read_within)), service);
    let mut connection = pin!(connection);
    let served = tokio::select! {
        served = connection.as_mut() => served,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        tracing::debug!("a connection ended early: {error}");
    }
}

/// Accepts a connection. Disables Nagle's algorithm, because the answer to a call in a session is
/// two writes, and the second would wait for the acknowledgement of the first, mostly 40 ms.
async fn accept(listener: &TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
    let (stream, peer) = listener.accept().await?;
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!("the answers of a connection may wait for acknowledgements: {error}");
    }
    Ok((stream, peer))
}

/// Answers a connection for which the server has no room. A TLS peer would not understand the
/// answer.
fn refuse(stream: TcpStream, is_tls: bool) {
    if is_tls {
        return;
    }
    // It does not matter if the peer gets the answer, because the connection is closed in any case.
    // The write does not block, because the answer fits into the buffer of a new connection.
    let told =
        stream.into_std().and_then(|mut stream| -> io::Result<()> { stream.write_all(FULL) });
    if let Err(error) = told {
        tracing::debug!("a connection without room was closed: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_written_to_a_client_waits_for_no_acknowledgement() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (client, accepted) = tokio::join!(TcpStream::connect(address), accept(&listener));
        let (stream, peer) = accepted.expect("accepted");
        assert!(stream.nodelay().expect("an option"));
        assert_eq!(peer, client.expect("connected").local_addr().expect("an address"));
    }
}
