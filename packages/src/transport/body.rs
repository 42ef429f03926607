//! The body of a request. It is sent in pieces, so that the time of the last progress is known.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

/// The size of a piece in bytes.
const PIECE: usize = 64 << 10;

/// A body that records its progress.
pub(super) struct WatchedBody {
    rest: Bytes,
    activity: Activity,
}

/// The time at which the last piece was taken.
#[derive(Clone)]
pub(super) struct Activity(Arc<Mutex<Instant>>);

impl WatchedBody {
    pub(super) fn new(bytes: Bytes) -> Self {
        Self { rest: bytes, activity: Activity(Arc::new(Mutex::new(Instant::now()))) }
    }

    pub(super) fn activity(&self) -> Activity {
        self.activity.clone()
    }
}

impl Activity {
    /// Waits until the body has made no progress for `longest`.
    pub(super) async fn silence(&self, longest: Duration) {
        loop {
            let end = self.last() + longest;
            if end <= Instant::now() {
                return;
            }
            sleep_until(end).await;
        }
    }

    fn last(&self) -> Instant {
        *self.0.lock()
    }
}

impl Body for WatchedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        *self.activity.0.lock() = Instant::now();
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        let length = self.rest.len().min(PIECE);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(length)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}
