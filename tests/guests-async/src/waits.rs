//! Waits that are begun, and awaited for a short time or not at all.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;

use wasip3::clocks::monotonic_clock::wait_for;

/// The longest wait of [`within`], in nanoseconds.
const PATIENCE: u64 = 1_000_000;

/// A wait after its first poll. The host continues with it until it is dropped.
pub(crate) enum Wait<F: Future> {
    Done(F::Output),
    /// The wait goes on as long as this value lives.
    Pending(#[allow(dead_code, reason = "it is kept, and dropped")] Pin<Box<F>>),
}

impl<F: Future> Wait<F> {
    pub(crate) fn is_pending(&self) -> bool {
        matches!(self, Self::Pending(_))
    }
}

/// Begins a wait.
pub(crate) async fn begin<F: Future>(future: F) -> Wait<F> {
    let mut future = Box::pin(future);
    match poll_once(future.as_mut()).await {
        Some(done) => Wait::Done(done),
        None => Wait::Pending(future),
    }
}

/// Polls a future once. Returns its output, if it does not wait.
pub(crate) async fn poll_once<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// Awaits a future for a short time. After that, the future is dropped.
pub(crate) async fn within<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut patience = pin!(wait_for(PATIENCE));
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending => patience.as_mut().poll(context).map(|()| None),
    })
    .await
}
