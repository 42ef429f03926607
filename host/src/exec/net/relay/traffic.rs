//! The bytes that a call may exchange with its peers, in all of its connections together.
//!
//! Counts the bytes that are read from a peer and written to it. Nothing is passed on once they are
//! used up.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};

/// The bytes of one call: a bound on a tool that fetches or sends without end.
const MOST: u64 = 16 << 30;

/// The refusal of a tool that has used up its bytes, in the record of the call.
pub(super) const SPENT: &str = "bytes beyond 16 GiB";

/// The bytes that a call has left.
#[derive(Debug)]
pub(super) struct Traffic {
    left: AtomicU64,
}

impl Default for Traffic {
    fn default() -> Self {
        Self { left: AtomicU64::new(MOST) }
    }
}

impl Traffic {
    pub(super) fn is_spent(&self) -> bool {
        self.left.load(Ordering::Relaxed) == 0
    }

    /// Fails if nothing is left.
    fn check(&self) -> io::Result<()> {
        let spent = || io::Error::new(io::ErrorKind::QuotaExceeded, "the call has no bytes left");
        if self.is_spent() { Err(spent()) } else { Ok(()) }
    }

    fn take(&self, count: usize) {
        let left = |left: u64| Some(left.saturating_sub(count as u64));
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left).ok();
    }
}

/// A connection to a peer, or one direction of it, whose bytes are counted.
pub(super) struct Metered<S> {
    stream: S,
    traffic: Arc<Traffic>,
}

impl<S> Metered<S> {
    pub(super) fn new(stream: S, traffic: Arc<Traffic>) -> Self {
        Self { stream, traffic }
    }
}

impl Metered<TcpStream> {
    pub(super) fn split(&mut self) -> (Metered<ReadHalf<'_>>, Metered<WriteHalf<'_>>) {
        let (read, write) = self.stream.split();
        let traffic = || Arc::clone(&self.traffic);
        (Metered::new(read, traffic()), Metered::new(write, traffic()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.traffic.check()?;
        let before = into.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, into))?;
        self.traffic.take(into.filled().len() - before);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.traffic.check()?;
        let written = ready!(Pin::new(&mut self.stream).poll_write(context, bytes))?;
        self.traffic.take(written);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
impl Traffic {
    /// Returns a count with this many bytes left.
    pub(super) fn with_limit(left: u64) -> Arc<Self> {
        Arc::new(Self { left: AtomicU64::new(left) })
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn both_directions_of_all_connections_are_counted_together() {
        let traffic = Traffic::with_limit(10);
        let mut read = Metered::new(&b"abcdefgh"[..], Arc::clone(&traffic));
        let mut write = Metered::new(Vec::new(), Arc::clone(&traffic));
        read.read_exact(&mut [0; 4]).await.expect("read");
        write.write_all(b"12345").await.expect("written");
        assert!(!traffic.is_spent());
        // Bytes that are on their way when the last one is used up still arrive.
        write.write_all(b"678").await.expect("written");
        assert!(traffic.is_spent());
        let kind = |result: io::Result<usize>| result.expect_err("spent").kind();
        assert_eq!(kind(read.read(&mut [0; 1]).await), io::ErrorKind::QuotaExceeded);
        assert_eq!(kind(write.write(b"9").await), io::ErrorKind::QuotaExceeded);
        assert_eq!(write.stream, b"12345678");
    }

    #[test]
    fn the_refusal_says_how_many_there_were() {
        assert_eq!(SPENT, format!("bytes beyond {} GiB", MOST >> 30));
    }
}
