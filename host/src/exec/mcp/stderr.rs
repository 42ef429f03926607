//! The stderr of a server. Its end is kept while the server runs.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use crate::exec::output::{Captured, Sink};
use crate::limits::STDERR_KEPT;

/// The end of what a server has written to stderr so far.
#[derive(Clone, Default)]
pub(super) struct Stderr(Arc<Mutex<StderrTail>>);

#[derive(Default)]
struct StderrTail {
    bytes: VecDeque<u8>,
    total: u64,
}

impl Stderr {
    /// Returns the sink that the process writes to.
    pub(super) fn sink(&self) -> Sink {
        Sink::Forward(self.0.clone())
    }

    /// Returns the bytes that are kept.
    pub(super) fn kept(&self) -> Captured {
        let tail = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Captured { bytes: tail.bytes.iter().copied().collect(), total: tail.total }
    }
}

impl Write for StderrTail {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.total += bytes.len() as u64;
        let kept = &bytes[bytes.len().saturating_sub(STDERR_KEPT)..];
        let overflow = (self.bytes.len() + kept.len()).saturating_sub(STDERR_KEPT);
        self.bytes.drain(..overflow);
        self.bytes.extend(kept);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_kept_and_the_rest_is_counted() {
        let stderr = Stderr::default();
        let Sink::Forward(sink) = stderr.sink() else { panic!("no forward") };
        for byte in *b"abc" {
            let piece = vec![byte; STDERR_KEPT];
            sink.lock().expect("not poisoned").write_all(&piece).expect("written");
        }
        sink.lock().expect("not poisoned").write_all(b"end").expect("written");
        let kept = stderr.kept();
        assert_eq!(kept.total, 3 * STDERR_KEPT as u64 + 3);
        assert_eq!(kept.bytes.len(), STDERR_KEPT);
        assert!(kept.bytes.starts_with(b"ccc") && kept.bytes.ends_with(b"cend"));
    }
}
