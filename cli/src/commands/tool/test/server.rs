//! The server of a case: HTTP on a loopback port that the system picks, with the answers of the
//! case.
//!
//! Checks only the method and the path of a request. A request that the case has no answer for gets
//! 404, and fails the case.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::cases::Route;

/// A server that ends when it is dropped.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    /// The requests without an answer, as `METHOD PATH`.
    unexpected: Arc<Mutex<Vec<String>>>,
    _accepting: JoinSet<()>,
}

impl Server {
    /// Starts a server with these answers.
    ///
    /// # Errors
    ///
    /// Fails if the system gives no port.
    pub(super) async fn start(routes: Vec<Route>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let unexpected = Arc::default();
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(listener, Arc::new(routes), Arc::clone(&unexpected)));
        Ok(Self { address, unexpected, _accepting: accepting })
    }

    /// Returns the requests that the case has no answer for, as `METHOD PATH`.
    pub(super) fn unexpected(&self) -> Vec<String> {
        self.unexpected.lock().clone()
    }
}

/// Serves each connection until this future is dropped, which also ends the connections.
async fn accept(
    listener: TcpListener,
    routes: Arc<Vec<Route>>,
    unexpected: Arc<Mutex<Vec<String>>>,
) {
    let mut connections = JoinSet::new();
    // Accepting fails if this process has no descriptor left. Then the tool's request fails.
    while let Ok((stream, _)) = listener.accept().await {
        let (routes, unexpected) = (Arc::clone(&routes), Arc::clone(&unexpected));
        let service = service_fn(move |request| {
            let response = answer(&routes, &unexpected, &request);
            async { Ok::<_, Infallible>(response) }
        });
        connections.spawn(async move {
            // A tool may close the connection in the middle of an answer.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

fn answer(
    routes: &[Route],
    unexpected: &Mutex<Vec<String>>,
    request: &Request<Incoming>,
) -> Response<Full<Bytes>> {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let method = request.method().as_str();
    let Some(route) = routes.iter().find(|it| it.path == path && it.method == method) else {
        let asked = format!("{method} {path}");
        let mut response = Response::new(format!("the case has no answer for {asked}\n").into());
        *response.status_mut() = StatusCode::NOT_FOUND;
        unexpected.lock().push(asked);
        return response;
    };
    let mut builder = Response::builder().status(route.status);
    for (name, value) in &route.headers {
        builder = builder.header(name, value);
    }
    // The parts were checked when the case was read.
    builder.body(route.body.clone().into()).unwrap_or_default()
}
