//! The host's ends of a tool's stdin, stdout and stderr.
//!
//! All three are served at once, so that no order of reads and writes can block a tool for good.

use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;

use bytes::Bytes;
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use super::inherited_stdin::{self, InheritedStdin};
use super::supervisor_process::GRACE;
use crate::exec::output::{Pipe, PipeError, Sink};
use crate::exec::pipes::{ThreadedReader, ThreadedWriter};
use crate::exec::{Refusals, Stdin};
use crate::policy::Sandbox;
use ikigai_supervisor::plan::DESCRIPTORS;

/// The size of a read: the capacity of a pipe, in bytes.
const CHUNK: usize = 64 << 10;

/// The host's ends of the pipes.
pub(super) struct HostPipes {
    /// `None` if the tool reads the host's own stdin.
    pub(super) stdin: Option<ThreadedWriter>,
    /// `None` if the caller holds the tool's stdout.
    pub(super) stdout: Option<ThreadedReader<Receiver>>,
    pub(super) stderr: ThreadedReader<Receiver>,
    /// Ends when nothing of the host's own stdin is copied any more; `None` if nothing is copied.
    pub(super) copied: Option<oneshot::Receiver<()>>,
}

/// The tool's ends of a stdin and a stdout whose other ends the caller holds, and the refusals that
/// the caller reads while the tool runs.
pub(super) struct ToolPipes {
    pub(super) stdin: OwnedFd,
    pub(super) stdout: OwnedFd,
    pub(super) refusals: Refusals,
}

/// Signals between a call and its streams.
#[derive(Clone, Default)]
pub(super) struct StreamSignals {
    /// The tool has ended: its streams read what is there, and wait for no more.
    pub(super) ended: CancellationToken,
    /// The host ended the call: output that is passed on is dropped.
    pub(super) abandoned: CancellationToken,
    /// The tool wrote more than it may.
    pub(super) flooded: CancellationToken,
}

impl HostPipes {
    /// Opens the pipes that the caller does not hold yet. Returns the host's ends and the tool's
    /// stdin, stdout and stderr.
    pub(super) fn open(
        stdin: &Stdin,
        sandbox: Sandbox,
        held: Option<ToolPipes>,
    ) -> io::Result<(Self, [OwnedFd; DESCRIPTORS])> {
        let (stderr, tool_stderr) = pipe_with(PipeFlags::CLOEXEC)?;
        let stderr = ThreadedReader::new(Receiver::from_owned_fd(stderr)?);
        if let Some(ToolPipes { stdin, stdout, .. }) = held {
            let streams = Self { stdin: None, stdout: None, stderr, copied: None };
            return Ok((streams, [stdin, stdout, tool_stderr]));
        }
        let (stdin, tool_stdin, copied) = match stdin {
            Stdin::Inherit => {
                let InheritedStdin { its, copied } = inherited_stdin::open(sandbox)?;
                (None, its, copied)
            }
            Stdin::Bytes(_) => {
                let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
                (Some(ThreadedWriter::new(Sender::from_owned_fd(write)?)), read, None)
            }
        };
        let (stdout, tool_stdout) = pipe_with(PipeFlags::CLOEXEC)?;
        let stdout = Some(ThreadedReader::new(Receiver::from_owned_fd(stdout)?));
        let streams = Self { stdin, stdout, stderr, copied };
        Ok((streams, [tool_stdin, tool_stdout, tool_stderr]))
    }
}

/// Writes `bytes`, then EOF. A tool need not read them.
pub(super) async fn feed(to: Option<ThreadedWriter>, bytes: Bytes, signals: &StreamSignals) {
    let Some(mut to) = to else { return };
    let write = async {
        to.write_all(&bytes).await?;
        to.flush().await
    };
    tokio::select! {
        biased;
        written = write => match written {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            Err(error) => tracing::warn!(%error, "a tool's stdin broke"),
        },
        () = signals.ended.cancelled() => {}
    }
}

/// Waits until what the tool read of the host's own stdin is taken out of it, so that the next
/// program continues there. A process that could not be ended may hold the tool's end.
pub(super) async fn settle(copied: Option<oneshot::Receiver<()>>) {
    if let Some(copied) = copied
        && tokio::time::timeout(GRACE, copied).await.is_err()
    {
        tracing::debug!("a process still holds a tool's stdin");
    }
}

/// Reads everything that the tool writes, until the pipe is closed or the tool has ended. After
/// its end the rest in the pipe is read without waiting: a process that could not be ended may
/// hold the other end.
pub(super) async fn pump(
    from: Option<ThreadedReader<Receiver>>,
    sink: &Sink,
    into: &Pipe,
    signals: &StreamSignals,
) {
    let Some(mut from) = from else { return };
    let mut chunk = Vec::with_capacity(CHUNK);
    loop {
        chunk.clear();
        let read = tokio::select! {
            biased;
            () = signals.ended.cancelled() => break,
            read = from.read_buf(&mut chunk) => read,
        };
        match read {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(%error, "a tool's output broke");
                return;
            }
        }
        if !pass_on(&mut chunk, sink, into, signals).await {
            return;
        }
    }
    match in_time(from.into_rest()).await {
        Ok(rest) if rest.is_empty() => {}
        Ok(mut rest) => {
            pass_on(&mut rest, sink, into, signals).await;
        }
        Err(error) if error.kind() == io::ErrorKind::TimedOut => {
            tracing::debug!(%error, "a process prevents the read of a tool's output");
        }
        Err(error) => tracing::warn!(%error, "a tool's output broke"),
    }
}

/// Waits for a read after the end of a tool. A process that could not be ended may prevent the read
/// from ending.
async fn in_time<T>(read: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let read = tokio::time::timeout(GRACE, read).await;
    read.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Passes `chunk` on. Returns false if nothing more of the output is wanted.
async fn pass_on(chunk: &mut Vec<u8>, sink: &Sink, into: &Pipe, signals: &StreamSignals) -> bool {
    match deliver(chunk, sink, into, signals).await {
        Ok(is_wanted) => is_wanted,
        Err(PipeError::Full) => {
            signals.flooded.cancel();
            false
        }
        Err(PipeError::Broken(error)) => {
            // The tool sees a closed pipe from here on, as it would without the host.
            tracing::debug!(%error, "a tool's output could not be passed on");
            false
        }
    }
}

/// Passes `chunk` on. Returns false if the call has been abandoned.
async fn deliver(
    chunk: &mut Vec<u8>,
    sink: &Sink,
    into: &Pipe,
    signals: &StreamSignals,
) -> Result<bool, PipeError> {
    match sink {
        Sink::Head | Sink::Tail(_) => into.write(chunk).map(|()| true),
        // A reader of the host's output may be slow or stop: that must block neither a worker
        // of the runtime nor the call beyond its end.
        Sink::Forward(_) => {
            let (bytes, pipe) = (std::mem::take(chunk), into.clone());
            let write = spawn_blocking(move || (pipe.write(&bytes), bytes));
            tokio::select! {
                biased;
                written = write => {
                    let (written, bytes) =
                        written.map_err(|error| PipeError::Broken(io::Error::other(error)))?;
                    *chunk = bytes;
                    written.map(|()| true)
                }
                () = signals.abandoned.cancelled() => Ok(false),
            }
        }
    }
}
