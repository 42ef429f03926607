//! The output streams of a program: collected up to a limit, or passed on.
//!
//! Both executors write through `Pipe`, which owns the limit, the count and the tail.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, PoisonError};

use parking_lot::Mutex;

/// A stream of the host that a program's output is passed on to.
pub type Forward = Arc<std::sync::Mutex<dyn Write + Send>>;

/// The destination of one output stream of a program.
#[derive(Clone)]
pub enum Sink {
    /// Keeps its start, up to the limit; one byte more ends the call.
    Head,
    /// Keeps this many bytes of its end, and counts the rest.
    Tail(usize),
    /// Passes the output on as it comes. Exceeding the limit ends the call.
    Forward(Forward),
}

/// The part of a stream that was kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// The bytes that were kept.
    pub bytes: Vec<u8>,
    /// The length of the whole stream, in bytes.
    pub total: u64,
}

impl Captured {
    /// Returns the first line and the last two as one, or nothing if the stream is empty. Python
    /// prints the message below its trace, Go above it. Node prints it between a line of the source
    /// and the trace, so a line that names an error is returned instead.
    pub(crate) fn complaint(&self) -> String {
        const CHARACTERS: usize = 200;

        let text = String::from_utf8_lossy(&self.bytes);
        let lines: Vec<String> = text
            .lines()
            .map(|line| line.trim().chars().take(CHARACTERS).collect::<String>())
            .filter(|line| !line.is_empty())
            .collect();
        // The last two are shown anyway.
        let above = &lines[..lines.len().saturating_sub(2)];
        if let Some(message) = above.iter().skip(1).find(|line| names_error(line)) {
            return message.clone();
        }
        match &lines[..] {
            [first, _, .., before, last] => format!("{first} / … / {before} / {last}"),
            lines => lines.join(" / "),
        }
    }
}

/// Returns whether a line is the message of an exception: `TypeError: …`, `Error [CODE]: …`.
fn names_error(line: &str) -> bool {
    let Some((kind, _)) = line.split_once(": ") else { return false };
    let kind = kind.split_once(" [").map_or(kind, |(kind, _)| kind);
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$');
    kind.chars().all(is_name) && (kind.ends_with("Error") || kind.ends_with("Exception"))
}

/// The reason that a write was refused.
#[derive(Debug)]
pub(crate) enum PipeError {
    /// The limit on output is reached.
    Full,
    /// The stream that the output is passed on to failed.
    Broken(io::Error),
}

/// One output stream of one call.
#[derive(Clone)]
pub(crate) struct Pipe {
    state: Arc<Mutex<PipeState>>,
    sink: Sink,
    limit: u64,
}

#[derive(Default)]
struct PipeState {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
    full: bool,
}

impl Pipe {
    /// Returns a stream that takes `limit` bytes. [`Sink::Tail`] has no limit.
    pub(crate) fn new(sink: Sink, limit: u64) -> Self {
        Self { state: Arc::default(), sink, limit }
    }

    /// Returns a stream that never ends a call, such as stderr.
    pub(crate) fn unlimited(sink: Sink) -> Self {
        Self::new(sink, u64::MAX)
    }

    /// Takes bytes from the program: all of them, or those that still fit.
    ///
    /// # Errors
    ///
    /// Fails if the limit is exceeded, or if the stream behind [`Sink::Forward`] failed.
    pub(crate) fn write(&self, bytes: &[u8]) -> Result<(), PipeError> {
        let mut state = self.state.lock();
        if let Sink::Tail(kept) = self.sink {
            state.total += bytes.len() as u64;
            state.push_tail(bytes, kept);
            return Ok(());
        }
        let room = self.limit.saturating_sub(state.total);
        let fitting = usize::try_from(room).unwrap_or(usize::MAX).min(bytes.len());
        state.total += bytes.len() as u64;
        state.full |= fitting < bytes.len();
        let full = state.full;
        match &self.sink {
            Sink::Forward(stream) => {
                // The reader of the stream may block the write for good. The count stays available.
                drop(state);
                let mut stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
                stream.write_all(&bytes[..fitting]).map_err(PipeError::Broken)?;
                stream.flush().map_err(PipeError::Broken)?;
            }
            Sink::Head | Sink::Tail(_) => state.head.extend_from_slice(&bytes[..fitting]),
        }
        if full { Err(PipeError::Full) } else { Ok(()) }
    }

    /// Returns whether the program wrote more than the limit.
    pub(crate) fn is_full(&self) -> bool {
        self.state.lock().full
    }

    /// Takes what was kept so far. Later writes start anew.
    pub(crate) fn take(&self) -> Captured {
        let mut state = self.state.lock();
        let state = std::mem::take(&mut *state);
        let bytes = match self.sink {
            Sink::Tail(_) => Vec::from(state.tail),
            Sink::Head | Sink::Forward(_) => state.head,
        };
        Captured { bytes, total: state.total }
    }
}

impl PipeState {
    fn push_tail(&mut self, bytes: &[u8], kept: usize) {
        let bytes = &bytes[bytes.len().saturating_sub(kept)..];
        let overflow = (self.tail.len() + bytes.len()).saturating_sub(kept);
        self.tail.drain(..overflow);
        self.tail.extend(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_takes_exactly_its_limit() {
        let pipe = Pipe::new(Sink::Head, 4);
        assert!(pipe.write(b"ab").is_ok() && pipe.write(b"cd").is_ok() && !pipe.is_full());
        assert!(matches!(pipe.write(b"e"), Err(PipeError::Full)));
        assert!(pipe.is_full());
        assert_eq!(pipe.take(), Captured { bytes: b"abcd".to_vec(), total: 5 });
    }

    #[test]
    fn the_tail_keeps_the_end_and_counts_the_rest() {
        let pipe = Pipe::new(Sink::Tail(3), 0);
        for chunk in [&b"a"[..], b"bcdef", b"", b"gh"] {
            pipe.write(chunk).expect("a tail has no limit");
        }
        assert_eq!(pipe.take(), Captured { bytes: b"fgh".to_vec(), total: 8 });
    }

    #[test]
    fn forwarded_bytes_arrive_up_to_the_limit() {
        let stream = Arc::new(std::sync::Mutex::new(Vec::new()));
        let pipe = Pipe::new(Sink::Forward(stream.clone()), 3);
        assert!(matches!(pipe.write(b"abcd"), Err(PipeError::Full)));
        assert_eq!(*stream.lock().expect("not poisoned"), b"abc");
    }

    #[test]
    fn a_complaint_has_the_message_above_and_below_a_trace() {
        for (text, expected) in [
            ("", ""),
            ("\n one \n\ntwo\nthree\n", "one / two / three"),
            (
                "panic: boom\n\ngoroutine 1:\nmain.main()\n\t/main.go:3\n",
                "panic: boom / … / main.main() / /main.go:3",
            ),
            (
                "node:internal/modules/cjs/loader:1210\n  throw err;\n  ^\n\n\
                 Error: Cannot find module '/a/b.js'\n    at Module._load (node:internal)\n    \
                 at node:internal/main {\n  code: 'MODULE_NOT_FOUND',\n  requireStack: []\n}\n\n\
                 Node.js v20.20.2\n",
                "Error: Cannot find module '/a/b.js'",
            ),
            (
                "node:internal/process:100\n    throw new TypeError(\"x: y\")\n    ^\n\n\
                 Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'zod'\n    at a\n    at b\n\n\
                 Node.js v22.1.0\n",
                "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'zod'",
            ),
            (
                "Traceback (most recent call last):\n  File \"a.py\", line 1\n    import zod\n\
                 ModuleNotFoundError: No module named 'zod'\n",
                "Traceback (most recent call last): / … / import zod / ModuleNotFoundError: No \
                 module named 'zod'",
            ),
        ] {
            let captured = Captured { bytes: text.into(), total: text.len() as u64 };
            assert_eq!(captured.complaint(), expected);
        }
        let long = Captured { bytes: vec![b'y'; 1000], total: 1000 };
        assert_eq!(long.complaint().len(), 200);
    }
}
