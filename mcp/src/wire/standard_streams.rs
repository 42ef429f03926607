//! The standard streams of this process. Pipes and sockets are read and written without a thread.
//!
//! A client starts a server with pipes, or with sockets as Node does. Files and terminals need a
//! thread for each read, which costs ten times as much.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream as StdStream;
use std::pin::Pin;

use rustix::fs::{FileType, fstat};
use tokio::io::{AsyncRead, AsyncWrite, Interest};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

/// Stdin and stdout.
pub(crate) struct StandardStreams {
    pub(crate) input: Box<dyn AsyncRead + Send + Unpin>,
    pub(crate) output: Box<dyn AsyncWrite + Send + Unpin>,
    /// Resolves when the output has no reader any more. For some streams only a write can detect
    /// that, and then it never resolves.
    pub(crate) closed: Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// Returns stdin and stdout.
///
/// # Errors
///
/// Fails if one of them is closed.
pub(crate) fn standard_streams() -> io::Result<StandardStreams> {
    let (stdin, stdout) = (io::stdin(), io::stdout());
    let input: Box<dyn AsyncRead + Send + Unpin> = match kind(stdin.as_fd())? {
        // Reopened, so that only this file description is nonblocking.
        FileType::Fifo => match pipe::OpenOptions::new().open_receiver("/proc/self/fd/0") {
            Ok(pipe) => Box::new(pipe),
            // The pipe belongs to another user, or procfs is not mounted.
            Err(_) => Box::new(tokio::io::stdin()),
        },
        FileType::Socket => Box::new(socket(stdin.as_fd())?),
        _ => Box::new(tokio::io::stdin()),
    };
    let sender = || pipe::OpenOptions::new().open_sender("/proc/self/fd/1");
    Ok(match kind(stdout.as_fd())? {
        FileType::Fifo => match (sender(), sender()) {
            (Ok(pipe), Ok(watched)) => StandardStreams {
                input,
                output: Box::new(pipe),
                closed: Box::pin(async move {
                    // A pipe without a reader reports an error state.
                    if watched.ready(Interest::ERROR).await.is_err() {
                        std::future::pending::<()>().await;
                    }
                }),
            },
            _ => StandardStreams::without_notice(input, tokio::io::stdout()),
        },
        FileType::Socket => StandardStreams::without_notice(input, socket(stdout.as_fd())?),
        _ => StandardStreams::without_notice(input, tokio::io::stdout()),
    })
}

impl StandardStreams {
    /// Returns streams whose end is detected only by a write.
    fn without_notice(
        input: Box<dyn AsyncRead + Send + Unpin>,
        output: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        Self { input, output: Box::new(output), closed: Box::pin(std::future::pending()) }
    }
}

fn kind(stream: BorrowedFd<'_>) -> io::Result<FileType> {
    Ok(FileType::from_raw_mode(fstat(stream)?.st_mode))
}

/// Sets the socket to nonblocking. The peer does not share this file description.
fn socket(stream: BorrowedFd<'_>) -> io::Result<UnixStream> {
    let stream = StdStream::from(stream.try_clone_to_owned()?);
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}
