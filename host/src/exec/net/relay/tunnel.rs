//! A tunnel: the bytes of a connection, in both directions, until both have ended or nothing comes
//! any more.
//!
//! TLS is not opened. A tunnel to a name whose first bytes are TLS is for the server of that name:
//! many servers share one address, and only one of them was granted.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use url::Host;

use super::ahead::{Ahead, MOST};
use super::hello::{self, Seen};
use super::{HEAD_TIME, IDLE, Peer, Reach};

/// The size of a read, in bytes.
const CHUNK: usize = 16 << 10;

/// Passes bytes on until both sides have ended.
pub(super) async fn run(
    mut client: Ahead<TcpStream>,
    mut server: TcpStream,
    peer: &Peer,
    reach: &Reach,
) -> io::Result<()> {
    let pulse = Pulse::default();
    let taken = client.take(usize::MAX);
    let (reader, mut to_client) = client.stream.split();
    let mut reader = Ahead::with(reader, taken);
    let (mut from_server, mut to_server) = server.split();
    let up = async {
        // Servers of some protocols speak first.
        pulse.within(reader.at_least(1)).await.or_else(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => Ok(&[][..]),
            _ => Err(error),
        })?;
        timeout(HEAD_TIME, judge(&mut reader, peer, reach)).await??;
        pulse.within(to_server.write_all(&reader.take(usize::MAX))).await?;
        copy(&mut reader.stream, &mut to_server, &pulse).await
    };
    let down = copy(&mut from_server, &mut to_client, &pulse);
    tokio::try_join!(up, down).map(drop)
}

/// Refuses a first message of TLS that is for a server which this tunnel does not lead to.
async fn judge(
    client: &mut Ahead<impl AsyncRead + Unpin>,
    peer: &Peer,
    reach: &Reach,
) -> io::Result<()> {
    let refused = |what: String| {
        reach.deny(what);
        Err(io::Error::new(io::ErrorKind::PermissionDenied, "the tunnel is for another server"))
    };
    let seen = loop {
        match hello::look(client.bytes()) {
            // A stream that has ended sends no such message.
            Seen::Less(1) => return Ok(()),
            Seen::Less(needed) if needed > MOST => break Seen::Malformed,
            Seen::Less(needed) => match client.at_least(needed).await {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    let is_tls = client.bytes().first() == Some(&hello::HANDSHAKE);
                    break if is_tls { Seen::Malformed } else { Seen::Other };
                }
                Err(error) => return Err(error),
            },
            seen => break seen,
        }
    };
    match (&peer.host, seen) {
        (_, Seen::Other) => Ok(()),
        (Host::Domain(name), Seen::Hello(Some(server))) if *name == server => Ok(()),
        (Host::Domain(_), Seen::Hello(None)) => {
            refused(format!("{peer} (TLS without the name of a server)"))
        }
        (Host::Domain(name), Seen::Hello(Some(server))) => {
            refused(format!("{server}:{} (TLS in a tunnel to {name})", peer.port))
        }
        (_, Seen::Hello(None)) => Ok(()),
        (address, Seen::Hello(Some(server))) => {
            if server == address.to_string() || reach.names(&server, peer.port) {
                return Ok(());
            }
            refused(format!("{server}:{} (TLS in a tunnel to {address})", peer.port))
        }
        (_, Seen::Malformed | Seen::Less(_)) => refused(format!("{peer} (malformed TLS)")),
    }
}

/// Copies one direction, and ends the other side's reading with it.
async fn copy(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    pulse: &Pulse,
) -> io::Result<()> {
    let mut bytes = vec![0; CHUNK];
    loop {
        let length = pulse.within(from.read(&mut bytes)).await?;
        if length == 0 {
            return to.shutdown().await;
        }
        pulse.within(to.write_all(&bytes[..length])).await?;
    }
}

/// The last sign of life of a connection, in either direction.
pub(super) struct Pulse(Mutex<Instant>);

impl Default for Pulse {
    fn default() -> Self {
        Self(Mutex::new(Instant::now()))
    }
}

impl Pulse {
    /// Waits for an operation of one direction, unless both have been quiet for [`IDLE`].
    pub(super) async fn within<T>(
        &self,
        operation: impl Future<Output = io::Result<T>>,
    ) -> io::Result<T> {
        let mut operation = pin!(operation);
        loop {
            let quiet = self.lock().elapsed();
            let Some(left) = IDLE.checked_sub(quiet).filter(|left| !left.is_zero()) else {
                return Err(io::ErrorKind::TimedOut.into());
            };
            if let Ok(done) = timeout(left, &mut operation).await {
                *self.lock() = Instant::now();
                return done;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Instant> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
