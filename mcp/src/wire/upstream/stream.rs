//! The lines of a server, as the transport of the protocol's library.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::service::{RoleClient, RxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, sleep_until};

use super::UpstreamState;
use super::incoming::{ServerMessage, not_modern};
use super::outgoing::OutgoingMessage;
use crate::wire::lines::{InputLine, LineReader};
use crate::wire::output::OutputQueue;

/// The longest line of a server in bytes.
const MAX_LINE: usize = 16 << 20;

/// The number of bytes in invalid lines, a banner for example, after which the connection ends.
const MAX_NOISE: usize = 1 << 20;

/// The most bytes of answers to its own questions that a server may leave unread.
const MAX_UNREAD: usize = 1 << 20;

/// The client's end of a connection over two byte streams, with one message per line.
pub(crate) struct ClientWire<R> {
    lines: LineReader<R>,
    output: OutputQueue,
    upstream: Arc<UpstreamState>,
    /// The time within which a server must answer `server/discover`. Otherwise it is treated as a
    /// server of an older revision.
    silence: Duration,
    /// The end of that time, while it runs.
    patience: Option<Instant>,
    noise: usize,
    unread: usize,
}

impl<R: AsyncRead + Send + Unpin> ClientWire<R> {
    /// Returns a connection that reads from `input` and writes to `output`.
    pub(crate) fn new(
        input: R,
        output: impl AsyncWrite + Send + Unpin + 'static,
        upstream: Arc<UpstreamState>,
        silence: Duration,
    ) -> Self {
        Self {
            lines: LineReader::new(input, MAX_LINE),
            output: OutputQueue::new(output),
            upstream,
            silence,
            patience: None,
            noise: 0,
            unread: 0,
        }
    }

    /// Returns the next message for the library, or the reason why no more will come.
    async fn next(&mut self) -> Result<ServerJsonRpcMessage, String> {
        loop {
            let line = tokio::select! {
                // Lines that the server wrote before its end are still read.
                biased;
                line = self.lines.next() => line,
                () = expired(self.patience) => {
                    self.patience = None;
                    if let Some(message) = self.give_up_discovery() {
                        return Ok(message);
                    }
                    continue;
                }
                () = self.output.closed() => return Err("the server reads no more".to_owned()),
            };
            let text = match line {
                Err(error) => return Err(format!("the server cannot be read: {error}")),
                Ok(None) => return Err("the server closed its stream".to_owned()),
                Ok(Some(InputLine::TooLong)) => {
                    return Err(format!("the server sent a line of more than {MAX_LINE} bytes"));
                }
                Ok(Some(InputLine::Text(text))) => text,
            };
            match ServerMessage::read(&text, &self.upstream) {
                ServerMessage::Message(message) => return Ok(*message),
                ServerMessage::Question(answer) => self.answer(&answer)?,
                ServerMessage::Ignored => {}
                ServerMessage::Noise => self.noise(text.len() + 1)?,
            }
        }
    }

    /// Answers a question of the server.
    fn answer(&mut self, answer: &serde_json::Value) -> Result<(), String> {
        if self.output.is_drained() {
            self.unread = 0;
        }
        self.unread += answer.to_string().len();
        if self.unread > MAX_UNREAD {
            return Err("the server asks without reading the answers".to_owned());
        }
        self.output.push(answer);
        Ok(())
    }

    fn noise(&mut self, bytes: usize) -> Result<(), String> {
        self.noise += bytes;
        if self.noise > MAX_NOISE {
            return Err(format!(
                "the server sent more than {MAX_NOISE} bytes that are not messages"
            ));
        }
        tracing::debug!("a line from the server is not a message");
        Ok(())
    }

    /// Returns an answer on behalf of a silent server.
    fn give_up_discovery(&self) -> Option<ServerJsonRpcMessage> {
        let id = self.upstream.give_up_discovery()?;
        let error = not_modern("the server did not answer `server/discover`");
        Some(JsonRpcMessage::error(error, Some(id)))
    }
}

/// Waits until a moment, or for ever if it is `None`.
async fn expired(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

impl<R: AsyncRead + Send + Unpin> Transport<RoleClient> for ClientWire<R> {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        self.upstream.sent(&message);
        self.patience = self.upstream.is_discovering().then(|| Instant::now() + self.silence);
        let is_open = self.output.push(&OutgoingMessage::from_message(&message));
        std::future::ready(if is_open { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) })
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        match self.next().await {
            Ok(message) => Some(message),
            Err(reason) => {
                self.upstream.end(&reason);
                None
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.output.finish().await;
        Ok(())
    }
}

impl<R> Drop for ClientWire<R> {
    fn drop(&mut self) {
        // Otherwise the writer would keep the stream open to a server that is not used any more.
        self.output.abandon();
    }
}
