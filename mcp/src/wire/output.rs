//! The messages to a peer: one writer, and a bounded backlog.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

/// The maximum backlog: if a peer has left more bytes unread, nothing more is read from it.
const MAX_BACKLOG: usize = 64 << 20;

/// The time within which the peer must read something when a connection ends.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// The time within which the peer must read something when its backlog is full. Otherwise it counts
/// as gone.
const UNREAD: Duration = Duration::from_secs(60);

/// The messages on their way to a peer. Waiting messages are written together.
#[derive(Clone)]
pub(crate) struct OutputQueue(Arc<OutputState>);

struct OutputState {
    waiting: Mutex<Vec<u8>>,
    is_filled: Notify,
    /// The bytes that were accepted but not written yet.
    backlog: AtomicUsize,
    /// Notified whenever the backlog shrinks.
    is_read: Notify,
    /// The time when the peer stopped reading with a full backlog. Stored here because a task that
    /// waits for room may start its wait again and again.
    unread_since: Mutex<Option<Instant>>,
    /// Cancelled when the peer is gone, or when no more may be written.
    closed: CancellationToken,
}

impl OutputQueue {
    /// Returns an output that writes to `stream` in a separate task.
    pub(super) fn new(stream: impl AsyncWrite + Send + Unpin + 'static) -> Self {
        let shared = Arc::new(OutputState {
            waiting: Mutex::default(),
            is_filled: Notify::new(),
            backlog: AtomicUsize::new(0),
            is_read: Notify::new(),
            unread_since: Mutex::default(),
            closed: CancellationToken::new(),
        });
        tokio::spawn(write(Arc::clone(&shared), stream));
        Self(shared)
    }

    /// Appends a message. Returns false if the peer is gone.
    pub(super) fn push(&self, message: &impl Serialize) -> bool {
        if self.0.closed.is_cancelled() {
            return false;
        }
        let mut waiting = self.0.waiting.lock();
        let before = waiting.len();
        if let Err(error) = serde_json::to_writer(&mut *waiting, message) {
            waiting.truncate(before);
            tracing::error!("a message cannot be written as JSON: {error}");
            return true;
        }
        waiting.push(b'\n');
        // Done under the lock, so that the bytes are added before the writer can subtract them.
        self.0.backlog.fetch_add(waiting.len() - before, Ordering::Relaxed);
        self.0.is_filled.notify_one();
        true
    }

    /// Waits until the peer has read enough. Returns false if it is gone.
    pub(super) async fn room(&self) -> bool {
        let has_room = self.falls_to(MAX_BACKLOG, UNREAD).await;
        if !has_room {
            self.0.closed.cancel();
        }
        has_room
    }

    /// Waits until at most `most` bytes are left. Returns false if no byte was written for
    /// `timeout`.
    async fn falls_to(&self, most: usize, timeout: Duration) -> bool {
        loop {
            // Created before the check, so that it notices every later read.
            let read = self.0.is_read.notified();
            if self.0.backlog() <= most {
                return true;
            }
            let since = *self.0.unread_since.lock().get_or_insert_with(Instant::now);
            if timeout_at(since + timeout, read).await.is_err() {
                return false;
            }
        }
    }

    /// Returns whether everything is written.
    pub(super) fn is_drained(&self) -> bool {
        self.0.backlog() == 0
    }

    /// Ends the output. Unwritten messages are lost.
    pub(super) fn abandon(&self) {
        self.0.closed.cancel();
    }

    /// Waits until everything is written, or until the peer is gone or has read nothing for too
    /// long. After that, nothing more is written.
    pub(crate) async fn finish(&self) {
        *self.0.unread_since.lock() = None;
        self.falls_to(0, LAST_WORDS).await;
        self.0.closed.cancel();
    }

    /// Waits until the peer is gone.
    pub(crate) async fn closed(&self) {
        self.0.closed.cancelled().await;
    }
}

impl OutputState {
    fn backlog(&self) -> usize {
        self.backlog.load(Ordering::Relaxed)
    }

    /// Subtracts bytes from the backlog, because they were written or can no longer be read.
    fn take(&self, bytes: usize) {
        self.backlog.fetch_sub(bytes, Ordering::Relaxed);
        *self.unread_since.lock() = None;
        self.is_read.notify_waiters();
    }
}

async fn write(shared: Arc<OutputState>, mut stream: impl AsyncWrite + Unpin) {
    let mut batch = Vec::new();
    loop {
        std::mem::swap(&mut *shared.waiting.lock(), &mut batch);
        if batch.is_empty() {
            tokio::select! {
                () = shared.is_filled.notified() => continue,
                () = shared.closed.cancelled() => return,
            }
        }
        if let Err(error) = write_all(&shared, &mut stream, &batch).await {
            tracing::debug!("the peer reads no more: {error}");
            shared.closed.cancel();
            shared.take(shared.backlog());
            return;
        }
        batch.clear();
        // Memory for one long answer is not kept.
        batch.shrink_to(KEPT);
    }
}

/// Writes a batch, and counts each piece that the peer has taken.
async fn write_all(
    shared: &OutputState,
    stream: &mut (impl AsyncWrite + Unpin),
    mut batch: &[u8],
) -> io::Result<()> {
    while !batch.is_empty() {
        let written = stream.write(batch).await?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        batch = &batch[written..];
        shared.take(written);
    }
    stream.flush().await
}

/// The size of the buffer that is kept for the next messages, in bytes.
const KEPT: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    #[tokio::test]
    async fn a_peer_that_does_not_read_is_noticed_and_waited_for() {
        let (near, mut far) = tokio::io::duplex(1024);
        let output = OutputQueue::new(near);
        let length = MAX_BACKLOG + (8 << 10);
        let text = "x".repeat(length);
        assert!(output.push(&text));
        let mut room = Box::pin(output.room());
        tokio::select! {
            biased;
            _ = &mut room => panic!("nothing was read yet"),
            () = tokio::task::yield_now() => {}
        }
        let mut read = vec![0; length];
        far.read_exact(&mut read).await.expect("readable");
        assert!(room.await);
    }

    #[tokio::test]
    async fn a_peer_that_reads_nothing_is_gone_however_often_room_is_asked_for() {
        let (near, far) = tokio::io::duplex(1024);
        let output = OutputQueue::new(near);
        assert!(output.push(&"x".repeat(MAX_BACKLOG + (8 << 10))));
        // Each message to the peer interrupts the wait.
        let begun = async || {
            assert!(timeout_at(Instant::now(), output.room()).await.is_err());
            output.0.unread_since.lock().expect("a beginning")
        };
        let first = begun().await;
        assert_eq!(begun().await, first);
        *output.0.unread_since.lock() = first.checked_sub(UNREAD);
        assert!(!output.room().await);
        drop(far);
    }

    #[tokio::test]
    async fn a_peer_that_is_gone_is_noticed_and_not_waited_for() {
        let (near, far) = tokio::io::duplex(16);
        let output = OutputQueue::new(near);
        assert!(output.push(&"x".repeat(100)));
        drop(far);
        output.closed().await;
        assert!(!output.push(&"y"));
        output.finish().await;
    }
}
