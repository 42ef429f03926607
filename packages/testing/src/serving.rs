//! A server on a port of this machine: the part that the registry and the proxies share.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A running server and its state. Dropping it ends it.
pub(crate) struct Serving<S> {
    address: SocketAddr,
    state: Arc<Mutex<S>>,
    task: JoinHandle<()>,
}

impl<S: Send + 'static> Serving<S> {
    /// Starts a server. `state` makes its state from its address, and `serve` answers one
    /// connection.
    pub(crate) async fn start<F>(
        state: impl FnOnce(SocketAddr) -> S,
        serve: impl Fn(TcpStream, Arc<Mutex<S>>) -> F + Send + 'static,
    ) -> io::Result<Self>
    where
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let state = Arc::new(Mutex::new(state(address)));
        let shared = Arc::clone(&state);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // A client that goes away during an answer reports that itself.
                tokio::spawn(serve(stream, Arc::clone(&shared)));
            }
        });
        Ok(Self { address, state, task })
    }
}

impl<S> Serving<S> {
    /// Returns `HOST:PORT`.
    pub(crate) fn host(&self) -> String {
        self.address.to_string()
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, S> {
        self.state.lock()
    }
}

impl<S> Drop for Serving<S> {
    fn drop(&mut self) {
        self.task.abort();
    }
}
