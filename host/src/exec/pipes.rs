//! The host's ends of pipes and sockets whose other end a tool has.
//!
//! The kernel has a lock for each pipe. A tool can hold that lock for as long as it likes: its own
//! `write` sleeps with the lock while a page comes from a disk. A read, a write or a close of the
//! other end waits for the lock, and no signal ends that wait. A read of a message with descriptors
//! can wait as well, because it closes them. So each of these system calls runs on a thread of the
//! runtime's pool. The thread that serves all calls only asks whether an end is ready, which takes
//! no lock.

use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use rustix::io::Errno;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::runtime::Handle;
use tokio::task::{JoinHandle, spawn_blocking};

/// The most bytes of one system call: the capacity of a pipe.
const CHUNK: usize = 64 << 10;

/// An end that is closed on a thread of the pool.
struct PipeEnd<T: Send + Sync + 'static>(Option<Arc<T>>);

impl<T: Send + Sync + 'static> PipeEnd<T> {
    fn new(end: T) -> Self {
        Self(Some(Arc::new(end)))
    }

    /// Returns the end, which is there until this is dropped.
    fn get(&self) -> io::Result<&Arc<T>> {
        self.0.as_ref().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Takes the end out, for a thread of the pool that closes it.
    fn take(&mut self) -> io::Result<Arc<T>> {
        self.0.take().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl<T: Send + Sync + 'static> Drop for PipeEnd<T> {
    fn drop(&mut self) {
        // Without a runtime no call is served that the close could delay.
        if let Some(end) = self.0.take()
            && Handle::try_current().is_ok()
        {
            spawn_blocking(move || drop(end));
        }
    }
}

/// An end that can be read.
pub(super) trait PipeSource: AsFd + Send + Sync + 'static {
    /// Returns whether there may be something to read.
    fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Reads without waiting for the other end to write.
    fn try_read(&self, into: &mut Vec<u8>) -> io::Result<usize>;
}

impl PipeSource for Receiver {
    fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_read_ready(cx)
    }

    fn try_read(&self, into: &mut Vec<u8>) -> io::Result<usize> {
        self.try_read_buf(into)
    }
}

impl PipeSource for UnixStream {
    fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_read_ready(cx)
    }

    fn try_read(&self, into: &mut Vec<u8>) -> io::Result<usize> {
        self.try_read_buf(into)
    }
}

/// The bytes of one `read`, or its error.
type ReadResult = io::Result<Vec<u8>>;

/// An end that is read on threads of the pool. If the future of a read is dropped, the read
/// continues, and the next read gets its bytes.
pub(super) struct ThreadedReader<T: PipeSource> {
    end: PipeEnd<T>,
    under_way: Option<JoinHandle<ReadResult>>,
    /// The bytes that were read but not taken yet.
    left: Bytes,
}

impl<T: PipeSource> ThreadedReader<T> {
    pub(super) fn new(end: T) -> Self {
        Self { end: PipeEnd::new(end), under_way: None, left: Bytes::new() }
    }

    /// Returns the end, for operations that take no lock that the tool can hold.
    pub(super) fn end(&self) -> io::Result<&T> {
        self.end.get().map(|end| &**end)
    }

    /// Returns the bytes that were read or can be read now, even if the runtime has not noticed
    /// them yet, and closes the end.
    pub(super) async fn into_rest(mut self) -> io::Result<Vec<u8>> {
        if let Some(under_way) = &mut self.under_way {
            let read = under_way.await;
            self.under_way = None;
            match read.map_err(io::Error::other)? {
                Ok(bytes) => self.left = bytes.into(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        let (left, end) = (std::mem::take(&mut self.left), self.end.take()?);
        // One job for all of it: each further one may start a thread.
        let rest = spawn_blocking(move || rest_of(&*end, &left));
        rest.await.map_err(io::Error::other)?
    }
}

/// Reads the bytes that are there, and no more: the other end may be written to without end.
/// Returns them after those that are `left`.
fn rest_of(end: &impl AsFd, left: &[u8]) -> io::Result<Vec<u8>> {
    let there = usize::try_from(rustix::io::ioctl_fionread(end)?).unwrap_or(0);
    let length = left.len() + there;
    let mut bytes = Vec::with_capacity(length);
    bytes.extend_from_slice(left);
    while bytes.len() < length {
        match rustix::io::read(end, rustix::buffer::spare_capacity(&mut bytes)) {
            Ok(0) | Err(Errno::AGAIN) => break,
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(bytes)
}

impl<T: PipeSource> AsyncRead for ThreadedReader<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            if !self.left.is_empty() || into.remaining() == 0 {
                let length = self.left.len().min(into.remaining());
                into.put_slice(&self.left.split_to(length));
                return Poll::Ready(Ok(()));
            }
            if let Some(under_way) = &mut self.under_way {
                let read = ready!(Pin::new(under_way).poll(cx));
                self.under_way = None;
                match read.map_err(io::Error::other)? {
                    Ok(bytes) if bytes.is_empty() => return Poll::Ready(Ok(())),
                    Ok(bytes) => self.left = bytes.into(),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Poll::Ready(Err(error)),
                }
                continue;
            }
            let end = Arc::clone(self.end.get()?);
            ready!(end.poll_ready(cx))?;
            self.under_way = Some(spawn_blocking(move || {
                let mut bytes = Vec::with_capacity(CHUNK);
                end.try_read(&mut bytes)?;
                Ok(bytes)
            }));
        }
    }
}

/// The writing end of a pipe, written to on threads of the pool. It takes bytes before they are
/// written; `flush` waits until they are.
pub(super) struct ThreadedWriter {
    end: PipeEnd<Sender>,
    under_way: Option<JoinHandle<io::Result<usize>>>,
    /// The bytes that were taken but not written yet.
    left: Bytes,
}

impl ThreadedWriter {
    pub(super) fn new(end: Sender) -> Self {
        Self { end: PipeEnd::new(end), under_way: None, left: Bytes::new() }
    }

    /// Writes the bytes that were taken.
    fn poll_left(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if let Some(under_way) = &mut self.under_way {
                let written = ready!(Pin::new(under_way).poll(cx));
                self.under_way = None;
                match written.map_err(io::Error::other)? {
                    Ok(length) => self.left.advance(length),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => {
                        self.left.clear();
                        return Poll::Ready(Err(error));
                    }
                }
            }
            if self.left.is_empty() {
                return Poll::Ready(Ok(()));
            }
            let end = Arc::clone(self.end.get()?);
            ready!(end.poll_write_ready(cx))?;
            let bytes = self.left.clone();
            self.under_way = Some(spawn_blocking(move || end.try_write(&bytes)));
        }
    }
}

impl AsyncWrite for ThreadedWriter {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_left(cx))?;
        let length = bytes.len().min(CHUNK);
        self.left = Bytes::copy_from_slice(&bytes[..length]);
        // Begins to write it.
        if let Poll::Ready(Err(error)) = self.poll_left(cx) {
            return Poll::Ready(Err(error));
        }
        Poll::Ready(Ok(length))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_left(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_left(cx))?;
        // Closes it.
        self.end = PipeEnd(None);
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use rustix::pipe::pipe;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    fn ends() -> (ThreadedReader<Receiver>, ThreadedWriter) {
        let (read, write) = pipe().expect("a pipe");
        let reader = Receiver::from_owned_fd(read).expect("registered");
        (
            ThreadedReader::new(reader),
            ThreadedWriter::new(Sender::from_owned_fd(write).expect("registered")),
        )
    }

    #[tokio::test]
    async fn what_is_written_is_read_and_then_the_end() {
        let (mut reader, mut writer) = ends();
        let text: Vec<u8> = (0..300_000_u32).map(|it| it as u8).collect();
        let write = async {
            writer.write_all(&text).await.expect("written");
            writer.flush().await.expect("written");
            drop(writer);
        };
        let mut read = Vec::new();
        let (end, ()) = tokio::join!(reader.read_to_end(&mut read), write);
        assert_eq!(end.expect("read"), text.len());
        assert!(read == text);
    }

    #[tokio::test]
    async fn a_read_that_nobody_waits_for_loses_nothing() {
        let (mut reader, mut writer) = ends();
        let mut byte = [0];
        // The read begins, at the latest when there is something to read.
        for _ in 0..50 {
            tokio::select! {
                biased;
                read = reader.read_exact(&mut byte) => panic!("{read:?}"),
                () = tokio::task::yield_now() => {}
            }
        }
        writer.write_all(b"ab").await.expect("written");
        writer.flush().await.expect("written");
        tokio::select! {
            biased;
            _ = reader.read_exact(&mut byte) => assert_eq!(&byte, b"a"),
            () = tokio::task::yield_now() => {}
        }
        drop(writer);
        let taken = usize::from(byte != [0]);
        let rest = reader.into_rest().await.expect("read");
        assert_eq!(rest, b"ab"[taken..]);
    }

    #[tokio::test]
    async fn a_pipe_without_a_reader_is_an_error_at_the_flush() {
        let (reader, mut writer) = ends();
        drop(reader);
        // The pool may not have closed it yet.
        let error = loop {
            let written = async {
                writer.write_all(b"a").await?;
                writer.flush().await
            };
            if let Err(error) = written.await {
                break error;
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
