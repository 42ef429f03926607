//! A proxy in front of a registry that counts the round trips of a client which sends several
//! requests at once.
//!
//! It holds each request back until the expected number of requests has arrived, and passes them on
//! together. So the count does not depend on time: a client that sends fewer at once is blocked
//! until a limit, after which the test has failed.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::BufReader;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::http::{Reply, request};
use crate::proxy::forward;
use crate::serving::Serving;

/// The longest time that a request is held back. It is shorter than clients wait.
const MOST: Duration = Duration::from_secs(20);

/// A proxy on a port of this machine. Dropping it ends it.
pub struct Waves(Serving<State>);

struct State {
    upstream: String,
    width: usize,
    /// The paths of the requests that are held back, and the channels that release them.
    held: Vec<(String, oneshot::Sender<()>)>,
    passed: Vec<Vec<String>>,
}

impl Waves {
    /// Starts a proxy in front of `HOST:PORT` that passes on `width` requests at once.
    ///
    /// # Errors
    ///
    /// Fails if no port is free.
    pub async fn start(upstream: &str, width: usize) -> io::Result<Self> {
        let upstream = upstream.to_owned();
        let state = |_| State { upstream, width, held: Vec::new(), passed: Vec::new() };
        Ok(Self(Serving::start(state, serve).await?))
    }

    /// Returns `HOST:PORT`.
    #[must_use]
    pub fn host(&self) -> String {
        self.0.host()
    }

    /// Returns the paths of the requests that were passed on, by wave. Each wave is sorted.
    #[must_use]
    pub fn passed(&self) -> Vec<Vec<String>> {
        self.0.state().passed.clone()
    }
}

impl State {
    /// Holds a request back. The last request of a wave releases the wave.
    fn hold(&mut self, path: String) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        self.held.push((path, sender));
        if self.held.len() == self.width {
            let (mut paths, waiting): (Vec<_>, Vec<_>) = self.held.drain(..).unzip();
            paths.sort();
            self.passed.push(paths);
            for sender in waiting {
                // A request whose client went away is ignored.
                let _ = sender.send(());
            }
        }
        receiver
    }
}

async fn serve(mut stream: TcpStream, state: Arc<Mutex<State>>) -> io::Result<()> {
    let (reader, mut writer) = stream.split();
    let Some(asked) = request(&mut BufReader::new(reader)).await? else { return Ok(()) };
    let passed = state.lock().hold(asked.path.clone());
    let is_passed = timeout(MOST, passed).await.is_ok_and(|it| it.is_ok());
    let upstream = state.lock().upstream.clone();
    let reply = if is_passed {
        forward(&upstream, &asked, true).await?
    } else {
        Reply::new(400, "text/plain", "fewer are asked at once than there are to ask")
    };
    reply.write(&mut writer, &asked.method).await
}
