//! The body of a request, sent in pieces, so that it is known when the last one was taken.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, sleep_until};

/// The bytes of a piece.
const PIECE: usize = 64 << 10;

/// A body whose progress is watched.
pub(super) struct Watched {
    rest: Bytes,
    activity: Activity,
}

/// The time at which a piece was taken last.
#[derive(Clone)]
pub(super) struct Activity(Arc<Mutex<Instant>>);

impl Watched {
    pub(super) fn new(bytes: Bytes) -> Self {
        Self { rest: bytes, activity: Activity(Arc::new(Mutex::new(Instant::now()))) }
    }

    pub(super) fn activity(&self) -> Activity {
        self.activity.clone()
    }
}

impl Activity {
    /// Waits until nothing happened for that long.
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
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Body for Watched {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        *self.activity.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
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
