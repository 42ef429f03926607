//! A proxy in front of a registry that counts the round trips of a client which asks several things at
//! once.
//!
//! It holds each request back until as many are there as the client has things to ask, and passes them
//! on together. So what it counts is no matter of time: a client that asks fewer at once waits for
//! ever, but for a limit after which the test has failed.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::BufReader;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::http::{Reply, request};
use crate::proxy::forward;
use crate::serving::{Serving, lock};

/// The longest time that a request is held back, shorter than clients wait.
const MOST: Duration = Duration::from_secs(20);

/// A proxy on a port of this machine. Dropping it ends it.
pub struct Waves(Serving<State>);

struct State {
    upstream: String,
    width: usize,
    /// The paths of the requests that are held back, and who waits for each.
    held: Vec<(String, oneshot::Sender<()>)>,
    passed: Vec<Vec<String>>,
}

impl Waves {
    /// Starts a proxy in front of `HOST:PORT` that passes on so many requests at once.
    ///
    /// # Errors
    ///
    /// There is no port.
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

    /// Returns the paths of the requests that were passed on, by the wave, each sorted.
    #[must_use]
    pub fn passed(&self) -> Vec<Vec<String>> {
        self.0.state().passed.clone()
    }
}

impl State {
    /// Holds a request back, and passes all on if it is the last of its wave.
    fn hold(&mut self, path: String) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        self.held.push((path, sender));
        if self.held.len() == self.width {
            let (mut paths, waiting): (Vec<_>, Vec<_>) = self.held.drain(..).unzip();
            paths.sort();
            self.passed.push(paths);
            for sender in waiting {
                // One that went away is not waited for.
                let _ = sender.send(());
            }
        }
        receiver
    }
}

async fn serve(mut stream: TcpStream, state: Arc<Mutex<State>>) -> io::Result<()> {
    let (reader, mut writer) = stream.split();
    let Some(asked) = request(&mut BufReader::new(reader)).await? else { return Ok(()) };
    let passed = lock(&state).hold(asked.path.clone());
    let is_passed = timeout(MOST, passed).await.is_ok_and(|it| it.is_ok());
    let upstream = lock(&state).upstream.clone();
    let reply = if is_passed {
        forward(&upstream, &asked, true).await?
    } else {
        Reply::new(400, "text/plain", "fewer are asked at once than there are to ask")
    };
    reply.write(&mut writer, &asked.method).await
}
