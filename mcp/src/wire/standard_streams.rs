//! The standard streams of this process, read and written without a thread where they are pipes or
//! sockets.
//!
//! A client starts a server with pipes, or with sockets as Node does. Files and terminals take a
//! thread for each read, which costs ten times as much.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream as StdStream;

use rustix::fs::{FileType, fstat};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

/// A stream of bytes to read.
pub(crate) type Input = Box<dyn AsyncRead + Send + Unpin>;
/// A stream of bytes to write.
pub(crate) type Sink = Box<dyn AsyncWrite + Send + Unpin>;

/// Returns stdin and stdout.
///
/// # Errors
///
/// One of them is closed.
pub(crate) fn standard_streams() -> io::Result<(Input, Sink)> {
    let (stdin, stdout) = (io::stdin(), io::stdout());
    let input: Input = match kind(stdin.as_fd())? {
        // Opened anew, so that only this description does not block.
        FileType::Fifo => match pipe::OpenOptions::new().open_receiver("/proc/self/fd/0") {
            Ok(pipe) => Box::new(pipe),
            // Another user's, or no procfs.
            Err(_) => Box::new(tokio::io::stdin()),
        },
        FileType::Socket => Box::new(socket(stdin.as_fd())?),
        _ => Box::new(tokio::io::stdin()),
    };
    let sink: Sink = match kind(stdout.as_fd())? {
        FileType::Fifo => match pipe::OpenOptions::new().open_sender("/proc/self/fd/1") {
            Ok(pipe) => Box::new(pipe),
            Err(_) => Box::new(tokio::io::stdout()),
        },
        FileType::Socket => Box::new(socket(stdout.as_fd())?),
        _ => Box::new(tokio::io::stdout()),
    };
    Ok((input, sink))
}

fn kind(stream: BorrowedFd<'_>) -> io::Result<FileType> {
    Ok(FileType::from_raw_mode(fstat(stream)?.st_mode))
}

/// A socket has one description, whose mode the peer does not share.
fn socket(stream: BorrowedFd<'_>) -> io::Result<UnixStream> {
    let stream = StdStream::from(stream.try_clone_to_owned()?);
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}
