//! The host's ends of a tool's stdin, stdout and stderr.
//!
//! All three move at once, so that no order of reading and writing that a tool
//! may choose can block it for good.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use bytes::Bytes;
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use crate::exec::Stdin;
use crate::exec::output::{Pipe, PipeError, Sink};
use ikigai_supervisor::plan::DESCRIPTORS;

/// How much is read at a time: what a pipe holds.
const CHUNK: usize = 64 << 10;

/// The host's ends.
pub(super) struct Streams {
    /// None where the tool has the host's own stdin.
    pub(super) stdin: Option<Sender>,
    pub(super) stdout: Receiver,
    pub(super) stderr: Receiver,
}

/// What the streams of a call are told, and tell.
#[derive(Clone, Default)]
pub(super) struct Signals {
    /// The tool has ended: what it wrote is there, and more is not waited for.
    pub(super) ended: CancellationToken,
    /// The host ended the call: nobody waits any more for what is passed on.
    pub(super) abandoned: CancellationToken,
    /// The tool wrote more than it may.
    pub(super) flooded: CancellationToken,
}

impl Streams {
    /// The host's ends, and the tool's: its stdin, stdout and stderr.
    pub(super) fn open(stdin: &Stdin) -> io::Result<(Self, [OwnedFd; DESCRIPTORS])> {
        let (stdin, tool_stdin) = match stdin {
            Stdin::Inherit => (None, io::stdin().as_fd().try_clone_to_owned()?),
            Stdin::Bytes(_) => {
                let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
                (Some(Sender::from_owned_fd(write)?), read)
            }
        };
        let (stdout, tool_stdout) = pipe_with(PipeFlags::CLOEXEC)?;
        let (stderr, tool_stderr) = pipe_with(PipeFlags::CLOEXEC)?;
        let streams = Self {
            stdin,
            stdout: Receiver::from_owned_fd(stdout)?,
            stderr: Receiver::from_owned_fd(stderr)?,
        };
        Ok((streams, [tool_stdin, tool_stdout, tool_stderr]))
    }
}

/// Writes `bytes`, then EOF. A tool that does not read them is no error.
pub(super) async fn feed(to: Option<Sender>, bytes: Bytes, signals: &Signals) {
    let Some(mut to) = to else { return };
    tokio::select! {
        biased;
        written = to.write_all(&bytes) => match written {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            Err(error) => tracing::warn!(%error, "a tool's stdin broke"),
        },
        () = signals.ended.cancelled() => {}
    }
}

/// Takes all that the tool writes, until nobody can write any more or the tool
/// has ended. Then what is in the pipe is taken, and nothing is waited for: a
/// process that could not be ended may hold the other end.
pub(super) async fn pump(mut from: Receiver, sink: &Sink, into: &Pipe, signals: &Signals) {
    let mut chunk = Vec::with_capacity(CHUNK);
    let mut left = None;
    loop {
        chunk.clear();
        let read = match left {
            Some(left) => read_now(&from, &mut chunk, left),
            None => tokio::select! {
                biased;
                () = signals.ended.cancelled() => {
                    left = Some(rustix::io::ioctl_fionread(&from).unwrap_or(0));
                    continue;
                }
                read = from.read_buf(&mut chunk) => read,
            },
        };
        match read {
            Ok(0) => return,
            Ok(length) => left = left.map(|left| left.saturating_sub(length as u64)),
            Err(error) => {
                tracing::warn!(%error, "a tool's output broke");
                return;
            }
        }
        match deliver(&mut chunk, sink, into, signals).await {
            Ok(true) => {}
            Ok(false) => return,
            Err(PipeError::Full) => return signals.flooded.cancel(),
            Err(PipeError::Broken(error)) => {
                // From here on the tool sees a closed pipe, as it would without a host
                // in between.
                tracing::debug!(%error, "a tool's output could not be passed on");
                return;
            }
        }
    }
}

/// Reads what is there, of the `left` bytes that were there when the tool ended.
fn read_now(from: &Receiver, chunk: &mut Vec<u8>, left: u64) -> io::Result<usize> {
    if left == 0 {
        return Ok(0);
    }
    // Not through tokio, which may not have heard yet that there is something.
    match rustix::io::read(from, rustix::buffer::spare_capacity(chunk)) {
        Ok(length) => Ok(length),
        Err(rustix::io::Errno::AGAIN) => Ok(0),
        Err(error) => Err(error.into()),
    }
}

/// Hands `chunk` on; false if nobody waits for it any more.
async fn deliver(
    chunk: &mut Vec<u8>,
    sink: &Sink,
    into: &Pipe,
    signals: &Signals,
) -> Result<bool, PipeError> {
    match sink {
        Sink::Head | Sink::Tail(_) => into.write(chunk).map(|()| true),
        // Whoever reads the host's output may be slow, or stop reading: that must not
        // keep a worker of the runtime, nor a call beyond its end.
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
