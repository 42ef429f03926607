//! Lines of a bounded length.

use std::io;

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// The space that is reserved before each read, in bytes.
const READ_AT_ONCE: usize = 64 << 10;

/// One line from the peer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum InputLine {
    /// A line without its newline.
    Text(Bytes),
    /// A line that is too long. It is reported as soon as it exceeds the limit, and the rest of it
    /// is skipped.
    TooLong,
}

/// The lines of a stream. The last line needs no newline.
pub(super) struct LineReader<R> {
    input: R,
    /// The longest line in bytes.
    most: usize,
    buffer: BytesMut,
    /// The length of the part of the buffer that is known to contain no newline.
    searched: usize,
    /// True while the rest of a line is skipped that was reported as too long.
    is_skipping: bool,
    has_ended: bool,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    pub(super) fn new(input: R, most: usize) -> Self {
        let buffer = BytesMut::new();
        Self { input, most, buffer, searched: 0, is_skipping: false, has_ended: false }
    }

    /// Returns the next line, or `None` at the end. Dropping the future loses no data.
    pub(super) async fn next(&mut self) -> io::Result<Option<InputLine>> {
        loop {
            if let Some(line) = self.take() {
                return Ok(Some(line));
            }
            if self.has_ended {
                return Ok(self.rest());
            }
            self.buffer.reserve(READ_AT_ONCE);
            self.has_ended = self.input.read_buf(&mut self.buffer).await? == 0;
        }
    }

    /// Takes a complete line from the buffer.
    fn take(&mut self) -> Option<InputLine> {
        loop {
            let newline = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n');
            let Some(length) = newline.map(|it| self.searched + it) else {
                return self.take_none();
            };
            let line = self.split_to(length);
            self.buffer.advance(1);
            self.searched = 0;
            if !std::mem::take(&mut self.is_skipping) {
                let is_too_long = line.len() > self.most;
                return Some(if is_too_long { InputLine::TooLong } else { InputLine::Text(line) });
            }
        }
    }

    /// Takes `length` bytes from the beginning of the buffer.
    fn split_to(&mut self, length: usize) -> Bytes {
        if length <= READ_AT_ONCE {
            // Copied, so that the next lines are read into the same memory.
            let line = Bytes::copy_from_slice(&self.buffer[..length]);
            self.buffer.advance(length);
            return line;
        }
        let line = self.buffer.split_to(length).freeze();
        // The bytes that follow must not keep the memory of a long line alive.
        self.buffer = BytesMut::from(&self.buffer[..]);
        line
    }

    /// Records that the buffer contains no newline, and drops its content if it is too long for a
    /// line.
    fn take_none(&mut self) -> Option<InputLine> {
        self.searched = self.buffer.len();
        if !self.is_skipping && self.searched <= self.most {
            return None;
        }
        self.buffer = BytesMut::new();
        self.searched = 0;
        (!std::mem::replace(&mut self.is_skipping, true)).then_some(InputLine::TooLong)
    }

    fn rest(&mut self) -> Option<InputLine> {
        self.searched = 0;
        let rest = self.buffer.split().freeze();
        (!rest.is_empty()).then_some(InputLine::Text(rest))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use tokio::io::ReadBuf;

    use super::*;

    /// Returns one piece per read, and is not ready in between.
    struct Pieces {
        pieces: VecDeque<Vec<u8>>,
        is_ready: bool,
    }

    impl AsyncRead for Pieces {
        fn poll_read(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            into: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            self.is_ready = !self.is_ready;
            if !self.is_ready {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            if let Some(mut piece) = self.pieces.pop_front() {
                let rest = piece.split_off(piece.len().min(into.remaining()));
                into.put_slice(&piece);
                if !rest.is_empty() {
                    self.pieces.push_front(rest);
                }
            }
            Poll::Ready(Ok(()))
        }
    }

    /// The longest line of the tests in bytes.
    const MOST: usize = 1 << 20;

    async fn all(pieces: impl IntoIterator<Item = Vec<u8>>) -> Vec<InputLine> {
        let pieces = pieces.into_iter().collect();
        let mut lines = LineReader::new(Pieces { pieces, is_ready: false }, MOST);
        let mut found = Vec::new();
        loop {
            // Dropped at each pause, as in a server that also waits for other events.
            let polled = tokio::select! {
                biased;
                line = lines.next() => line.expect("readable"),
                () = std::future::ready(()) => continue,
            };
            match polled {
                Some(line) => found.push(line),
                None => return found,
            }
        }
    }

    #[tokio::test]
    async fn lines_are_those_of_the_stream_however_it_is_cut() {
        let text = b"one\n\ntwo\r\nthree";
        let expected: Vec<InputLine> =
            ["one", "", "two\r", "three"].map(|line| InputLine::Text(line.into())).into();
        for size in 1..=text.len() {
            assert_eq!(all(text.chunks(size).map(<[u8]>::to_vec)).await, expected, "{size}");
        }
    }

    #[tokio::test]
    async fn a_long_line_is_skipped_and_the_next_is_read() {
        for longer in [1, READ_AT_ONCE, 3 * READ_AT_ONCE] {
            let long = vec![b'x'; MOST + longer];
            let after = b"\nnext\n".to_vec();
            let expected = [InputLine::TooLong, InputLine::Text("next".into())];
            assert_eq!(all([long.clone(), after]).await, expected, "{longer}");
            assert_eq!(all([long]).await, [InputLine::TooLong], "{longer}");
        }
        let longest = vec![b'x'; MOST];
        let lines = all([longest.clone(), b"\n".to_vec()]).await;
        assert_eq!(lines, [InputLine::Text(longest.into())]);
    }

    #[tokio::test]
    async fn a_line_without_an_end_is_reported_before_it_ends() {
        let pieces = [vec![b'x'; MOST + 1]].into();
        let mut lines = LineReader::new(Pieces { pieces, is_ready: false }.chain(Endless), MOST);
        assert_eq!(lines.next().await.expect("readable"), Some(InputLine::TooLong));
    }

    /// A stream that is never ready again.
    struct Endless;

    impl AsyncRead for Endless {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }
}
