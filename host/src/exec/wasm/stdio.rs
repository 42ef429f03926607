//! The standard streams of a guest.
//!
//! wasmtime's own memory pipes fail at their capacity with an error that looks to the guest like
//! a closed pipe and to the host like a crash. These streams end the call, and the [`Pipe`]
//! knows that it was full.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use wasmtime_wasi::async_trait;
use wasmtime_wasi::cli::{IsTerminal, StdinStream, StdoutStream};
use wasmtime_wasi::p2::{InputStream, OutputStream, Pollable, StreamError, StreamResult};

use crate::exec::output::{Pipe, PipeError};

/// The largest write of a guest, in bytes. A guest can make the host allocate this much at once.
pub(super) const WRITE_PERMIT: usize = 1 << 20;

/// The end of a guest whose output is too long.
pub(super) const FULL: &str = "stdout exceeded its limit";

/// The largest read of a guest, in bytes.
const READ_CHUNK: usize = 1 << 20;

/// The stdin of a guest: bytes that were there before it started, then EOF.
#[derive(Clone)]
pub(super) struct GuestStdin(Arc<Mutex<Bytes>>);

impl GuestStdin {
    pub(super) fn new(bytes: Bytes) -> Self {
        Self(Arc::new(Mutex::new(bytes)))
    }

    fn take(&self, size: usize) -> Bytes {
        let mut rest = self.0.lock();
        let size = size.min(READ_CHUNK).min(rest.len());
        rest.split_to(size)
    }

    fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }
}

impl IsTerminal for GuestStdin {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdinStream for GuestStdin {
    fn p2_stream(&self) -> Box<dyn InputStream> {
        Box::new(self.clone())
    }

    fn async_stream(&self) -> Box<dyn AsyncRead + Send + Sync> {
        Box::new(self.clone())
    }
}

#[async_trait]
impl Pollable for GuestStdin {
    async fn ready(&mut self) {}
}

#[async_trait]
impl InputStream for GuestStdin {
    fn read(&mut self, size: usize) -> StreamResult<Bytes> {
        if self.is_empty() { Err(StreamError::Closed) } else { Ok(self.take(size)) }
    }
}

impl AsyncRead for GuestStdin {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let bytes = self.take(buffer.remaining());
        buffer.put_slice(&bytes);
        Poll::Ready(Ok(()))
    }
}

/// The stdout or stderr of a guest, written to a [`Pipe`].
#[derive(Clone)]
pub(super) struct GuestOutput(pub(super) Pipe);

impl IsTerminal for GuestOutput {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for GuestOutput {
    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }

    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }
}

#[async_trait]
impl Pollable for GuestOutput {
    async fn ready(&mut self) {}
}

#[async_trait]
impl OutputStream for GuestOutput {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.0.write(&bytes).map_err(|error| match error {
            PipeError::Full => StreamError::trap(FULL),
            PipeError::Broken(_) => StreamError::Closed,
        })
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(WRITE_PERMIT)
    }
}

impl AsyncWrite for GuestOutput {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(match self.0.write(bytes) {
            Ok(()) => Ok(bytes.len()),
            Err(PipeError::Full) => Err(io::ErrorKind::QuotaExceeded.into()),
            Err(PipeError::Broken(error)) => Err(error),
        })
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
