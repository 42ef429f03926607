//! The count of the streams that the host has open for a guest of WASI 0.3.
//!
//! A guest may drop the file or the socket of a stream and keep the stream, which then keeps the
//! descriptor of the host. So each such stream counts as a handle until it ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of open streams of a guest.
#[derive(Clone, Default)]
pub(super) struct StreamCount(Arc<AtomicUsize>);

impl StreamCount {
    pub(super) fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Counts one more stream until the value is dropped.
    pub(super) fn enter(&self) -> CountedStream {
        self.0.fetch_add(1, Ordering::Relaxed);
        CountedStream(self.clone())
    }
}

/// A stream that counts.
pub(super) struct CountedStream(StreamCount);

impl Drop for CountedStream {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}
