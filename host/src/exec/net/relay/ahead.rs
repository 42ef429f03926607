//! A stream, with its bytes that were read and not used yet.

use std::io;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// The most that is read ahead, in bytes: the longest head, and the longest first message of TLS.
pub(super) const MOST: usize = 64 << 10;

/// The room for a read, in bytes.
const CHUNK: usize = 16 << 10;

/// A stream, with its bytes that were read ahead.
pub(super) struct BufferedStream<S> {
    pub(super) stream: S,
    bytes: BytesMut,
}

impl<S: AsyncRead + Unpin> BufferedStream<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, bytes: BytesMut::new() }
    }

    /// Returns a stream with these bytes as the ones that were read ahead.
    pub(super) fn with(stream: S, bytes: Vec<u8>) -> Self {
        Self { stream, bytes: BytesMut::from(&bytes[..]) }
    }

    /// Returns the bytes that were read ahead.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Reads some more bytes ahead. Returns their number, 0 at the end of the stream.
    ///
    /// # Errors
    ///
    /// Fails if [`MOST`] bytes were read ahead already.
    pub(super) async fn more(&mut self) -> io::Result<usize> {
        let room = MOST.saturating_sub(self.bytes.len());
        if room == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "too much before its end"));
        }
        self.bytes.reserve(CHUNK.min(room));
        let mut limited = (&mut self.stream).take(room as u64);
        limited.read_buf(&mut self.bytes).await
    }

    /// Reads until `count` bytes were read ahead. Returns all bytes that were read ahead.
    ///
    /// # Errors
    ///
    /// Fails if the stream ends before.
    pub(super) async fn at_least(&mut self, count: usize) -> io::Result<&[u8]> {
        while self.bytes.len() < count {
            if self.more().await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(&self.bytes)
    }

    /// Takes `count` of the bytes that were read ahead, or all if there are fewer.
    pub(super) fn take(&mut self, count: usize) -> Vec<u8> {
        // Without a copy of the rest: a tool may send many short lines.
        self.bytes.split_to(count.min(self.bytes.len())).to_vec()
    }

    /// Returns the next bytes, at most `most` of them; empty at the end of the stream.
    pub(super) async fn some(&mut self, most: u64) -> io::Result<Vec<u8>> {
        if self.bytes.is_empty() && self.more().await? == 0 {
            return Ok(Vec::new());
        }
        Ok(self.take(usize::try_from(most).unwrap_or(usize::MAX)))
    }

    /// Takes a line without its end, which is CR and LF.
    ///
    /// # Errors
    ///
    /// Fails if the line is longer than `most`, or has another end.
    pub(super) async fn line(&mut self, most: usize) -> io::Result<Vec<u8>> {
        let malformed = || io::Error::new(io::ErrorKind::InvalidData, "a line is malformed");
        loop {
            if let Some(end) = self.bytes.iter().position(|byte| *byte == b'\n') {
                let mut line = self.take(end + 1);
                let is_whole = line.ends_with(b"\r\n") && line.len() <= most;
                line.truncate(end.saturating_sub(1));
                return if is_whole && !line.contains(&b'\r') {
                    Ok(line)
                } else {
                    Err(malformed())
                };
            }
            if self.bytes.len() > most {
                return Err(malformed());
            }
            if self.more().await? == 0 {
                return Err(malformed());
            }
        }
    }

    /// Reads to the end of the stream and discards all bytes.
    pub(super) async fn drain(&mut self) -> io::Result<()> {
        self.bytes.clear();
        while self.more().await? > 0 {
            self.bytes.clear();
        }
        Ok(())
    }
}
