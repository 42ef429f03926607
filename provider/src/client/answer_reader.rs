//! The bytes of an answer, read as they arrive. The reader limits their size, and recognises
//! responses that are not event streams. It knows nothing about networks.

use serde_json::Value;

use crate::sse::{SseEvent, SseParser, StreamEnd};
use crate::wire::refusal::ServerError;
use crate::wire::{Flow, OnAnswerEvent, StreamReader};
use crate::{FailureKind, ModelAnswer, Provider, RequestFailure};

/// The maximum size of a stream, in bytes. An answer of a hundred thousand tokens has less than one
/// megabyte.
pub(super) const MAX_BYTES: usize = 64 << 20;

/// The reader of one answer.
pub(crate) struct AnswerReader {
    provider: Provider,
    parser: SseParser,
    stream_reader: Box<dyn StreamReader>,
    read: usize,
    limit: usize,
    has_events: bool,
}

impl AnswerReader {
    /// Creates a reader that has read nothing.
    pub(crate) fn new(provider: Provider, stream_reader: Box<dyn StreamReader>) -> Self {
        Self {
            provider,
            parser: SseParser::default(),
            stream_reader,
            read: 0,
            limit: MAX_BYTES,
            has_events: false,
        }
    }

    /// Reads bytes, in pieces of any size. Bytes without an event count as a keep-alive.
    pub(crate) fn feed(
        &mut self,
        mut bytes: &[u8],
        on_event: OnAnswerEvent<'_>,
    ) -> Result<Flow, RequestFailure> {
        self.read += bytes.len();
        if self.read > self.limit {
            return Err(self.failure(FailureKind::TooLarge { limit: self.limit }));
        }
        let mut flow = Flow::Idle;
        while let Some(event) = self
            .parser
            .next(&mut bytes)
            .map_err(|error| self.failure(FailureKind::Malformed).with_detail(error.to_string()))?
        {
            self.has_events = true;
            if let Some(error) = error_event(&event) {
                return Err(error.failure(self.provider, "", 200));
            }
            flow = flow.max(self.stream_reader.event(&event, on_event)?);
            if flow == Flow::Done {
                break;
            }
        }
        Ok(flow)
    }

    /// Returns the answer, after the last byte was read.
    pub(crate) fn finish(self) -> Result<ModelAnswer, RequestFailure> {
        let ends_whole = read_rest(self.provider, self.parser.finish(), self.has_events)?;
        self.stream_reader.finish(ends_whole)
    }

    /// Returns the reason why reading broke off: the server's error if it sent one, and otherwise
    /// `failure`.
    pub(super) fn broken_off(self, failure: RequestFailure) -> RequestFailure {
        match read_rest(self.provider, self.parser.finish(), self.has_events) {
            Err(reported) => reported,
            Ok(_) => failure,
        }
    }

    fn failure(&self, kind: FailureKind) -> RequestFailure {
        RequestFailure::new(self.provider, kind)
    }
}

/// Returns whether the stream ended after an event, with nothing left over.
///
/// # Errors
///
/// Fails if the rest is an error or a document. Gemini and some gateways send an error without an
/// event, even in the middle of a stream.
fn read_rest(
    provider: Provider,
    rest: StreamEnd,
    has_events: bool,
) -> Result<bool, RequestFailure> {
    let malformed =
        |detail| RequestFailure::new(provider, FailureKind::Malformed).with_detail(detail);
    let StreamEnd { is_cut, strays } = rest;
    if strays.trim_ascii_start().starts_with('<') {
        return Err(malformed(HTML));
    }
    let document: Option<Value> = serde_json::from_str(&strays).ok();
    match document.as_ref().map(ServerError::from_value) {
        Some(Some(error)) => Err(error.failure(provider, "", 200)),
        Some(None) if !has_events => Err(malformed(DOCUMENT)),
        _ => Ok(!is_cut && strays.is_empty()),
    }
}

/// Returns the error in an event named `error`. Some gateways omit the members that distinguish the
/// events of a provider.
fn error_event(event: &SseEvent) -> Option<ServerError> {
    let data = (event.name == "error").then_some(&event.data)?;
    ServerError::from_value(&serde_json::from_str(data).ok()?)
}

/// The message for a JSON document without an error: the server does not stream.
pub(super) const DOCUMENT: &str = "the answer is a single document instead of a stream";

/// The message for an HTML page, which wrong addresses and captive networks send.
pub(super) const HTML: &str = "the answer is an HTML page";

#[cfg(test)]
mod tests;
