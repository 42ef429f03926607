//! The lines of a client on stdin and stdout, as the transport of the protocol's library.
//!
//! Owns every bound on a connection's lines: their length, the number and the size of requests in
//! flight, and the answers that the client has not read yet. The arguments of a call are cut out of
//! their line, and travel with the message as the bytes that the client wrote. The library would
//! copy them into a tree of a hundred times their size, and lose digits of numbers.
//!
//! This file has the server's end of a connection; `upstream` has the client's.

mod lines;
mod members;
mod message;
mod output;
mod requests;
mod standard_streams;
mod upstream;

use std::io;

use rmcp::model::{ErrorData, RequestId, ServerJsonRpcMessage};
use rmcp::service::{RoleServer, RxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

pub(crate) use message::{MalformedMessage, MessageBody, RawArguments, answered, cancelled};
pub(crate) use requests::{RequestAdmission, RequestIds};
pub(crate) use standard_streams::{StandardStreams, standard_streams};
pub use upstream::CallProgress;

/// The readers of this module for the fuzz targets.
pub(crate) mod fuzzing {
    pub use super::message::fuzzing::{FuzzedLine, line};
    pub use super::upstream::fuzzing::{Heard, Traces, server_message};
}

pub(crate) use upstream::{
    ClientWire, ExtensionRequest, FORM, InputAnswers, MAX_MESSAGE, OutgoingMessage, PendingForm,
    ServerMessage, UpstreamState, not_modern, plain,
};

use lines::{InputLine, LineReader};
use message::ReceivedLine;
use output::OutputQueue;

/// The longest line of a client in bytes. An argument of 4 MiB fits, however JSON escapes it,
/// together with the message around it.
const MAX_LINE: usize = 24 << 20;

/// The number of invalid lines that are answered. Later ones are only counted, because the peer
/// does not speak the protocol.
const GARBAGE_ANSWERED: u64 = 16;

/// A connection over two byte streams, with one message per line.
pub(crate) struct Wire<R> {
    lines: LineReader<R>,
    output: OutputQueue,
    requests: RequestIds,
    /// True once the library accepts notifications. An earlier notification would end the service.
    is_open: bool,
    garbage: u64,
    has_ended: CancellationToken,
}

impl<R: AsyncRead + Send + Unpin> Wire<R> {
    /// Returns a connection that reads from `input` and writes to `output`. It cancels `has_ended`
    /// at the end of the input.
    pub(crate) fn new(
        input: R,
        output: impl AsyncWrite + Send + Unpin + 'static,
        has_ended: CancellationToken,
    ) -> Self {
        Self {
            lines: LineReader::new(input, MAX_LINE),
            output: OutputQueue::new(output),
            requests: RequestIds::default(),
            is_open: false,
            garbage: 0,
            has_ended,
        }
    }

    /// Returns a handle that notices the end of the output.
    pub(crate) fn output(&self) -> OutputQueue {
        self.output.clone()
    }

    /// Returns the next message for the library, or `None` at the end of the input. Invalid lines
    /// are answered here.
    async fn next(&mut self) -> io::Result<Option<RxJsonRpcMessage<RoleServer>>> {
        loop {
            // No more requests are read from a client that does not read its answers.
            if !self.output.room().await {
                return Ok(None);
            }
            let line = match self.lines.next().await? {
                None => return Ok(None),
                Some(InputLine::TooLong) => {
                    self.refuse(message::too_long(), None);
                    continue;
                }
                Some(InputLine::Text(line)) if line.iter().all(u8::is_ascii_whitespace) => continue,
                Some(InputLine::Text(line)) => line,
            };
            match ReceivedLine::parse(&line) {
                ReceivedLine::Refused { error, id } => {
                    // With an id in use, the client would take the error for the answer to that
                    // request.
                    let id = id.filter(|id| self.requests.taken(id).is_none());
                    self.refuse(error, id);
                }
                ReceivedLine::Request { message, id } => match self.requests.begin(id) {
                    RequestAdmission::Begun => {
                        self.is_open |= message::opens(&message);
                        return Ok(Some(message));
                    }
                    RequestAdmission::Busy(id, error) => self.refuse(error, Some(id)),
                    RequestAdmission::Refused(error) => self.refuse(error, None),
                },
                ReceivedLine::Other { message, cancels } => {
                    if !self.is_open {
                        tracing::debug!("a notification before the first request was dropped");
                        continue;
                    }
                    if let Some(id) = cancels {
                        self.requests.cancel(id);
                    }
                    return Ok(Some(message));
                }
            }
        }
    }

    /// Answers an invalid line.
    fn refuse(&mut self, error: ErrorData, id: Option<RequestId>) {
        self.garbage += 1;
        if id.is_some() || self.garbage <= GARBAGE_ANSWERED {
            self.output.push(&ServerJsonRpcMessage::error(error, id));
        } else if self.garbage == GARBAGE_ANSWERED + 1 {
            tracing::warn!("the client keeps sending lines that are not messages: {error}");
        }
    }
}

impl<R: AsyncRead + Send + Unpin> Transport<RoleServer> for Wire<R> {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        if let Some(id) = answered(&message) {
            self.requests.end(id);
        }
        let is_open = self.output.push(&message);
        std::future::ready(if is_open { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) })
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        let message = self.next().await.unwrap_or_else(|error| {
            tracing::warn!("the client's messages cannot be read: {error}");
            None
        });
        if message.is_none() {
            self.has_ended.cancel();
        }
        message
    }

    async fn close(&mut self) -> io::Result<()> {
        if self.garbage > GARBAGE_ANSWERED {
            tracing::warn!("{} lines of the client were not messages", self.garbage);
        }
        self.output.finish().await;
        Ok(())
    }
}
