//! An answer while its bytes arrive, whoever sends them: bounded, and checked for what is no
//! stream of events at all.

use serde_json::Value;

use crate::sse::{Rest, SseEvent, SseParser};
use crate::wire::refusal::ServerError;
use crate::wire::{Flow, OnEvent, StreamReader};
use crate::{Answer, Failure, FailureKind, Provider};

/// The most bytes of a stream that are read. An answer of a hundred thousand tokens has less
/// than one megabyte; what is larger than this is no answer.
pub(super) const MAX_BYTES: usize = 64 << 20;

/// The bytes of one answer.
pub(crate) struct AnswerReader {
    provider: Provider,
    parser: SseParser,
    stream_reader: Box<dyn StreamReader>,
    read: usize,
    limit: usize,
    has_events: bool,
}

impl AnswerReader {
    /// Nothing came yet.
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

    /// Takes in what came, in pieces of any size. What is no event is a sign of life.
    pub(crate) fn feed(
        &mut self,
        mut bytes: &[u8],
        on_event: OnEvent<'_>,
    ) -> Result<Flow, Failure> {
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

    /// The answer, now that nothing more is read.
    pub(crate) fn finish(self) -> Result<Answer, Failure> {
        let ends_whole = read_rest(self.provider, self.parser.finish(), self.has_events)?;
        self.stream_reader.finish(ends_whole)
    }

    /// Why there is no answer, where reading failed: what the server said of it, if it did.
    pub(super) fn broken_off(self, failure: Failure) -> Failure {
        match read_rest(self.provider, self.parser.finish(), self.has_events) {
            Err(reported) => reported,
            Ok(_) => failure,
        }
    }

    fn failure(&self, kind: FailureKind) -> Failure {
        Failure::new(self.provider, kind)
    }
}

/// Whether a stream ended after an event with nothing left over, or what it says that is no
/// stream. Gemini and some gateways write an error as it is, in the middle of a stream too.
fn read_rest(provider: Provider, rest: Rest, has_events: bool) -> Result<bool, Failure> {
    let malformed = |detail| Failure::new(provider, FailureKind::Malformed).with_detail(detail);
    let Rest { is_cut, strays } = rest;
    if strays.trim_ascii_start().starts_with('<') {
        return Err(malformed(HTML));
    }
    let document: Option<Value> = serde_json::from_str(&strays).ok();
    match document.as_ref().map(ServerError::of) {
        Some(Some(error)) => Err(error.failure(provider, "", 200)),
        Some(None) if !has_events => Err(malformed(DOCUMENT)),
        _ => Ok(!is_cut && strays.is_empty()),
    }
}

/// The error that an event has which is called one. Some gateways leave out the members by which
/// the events of a provider are told apart.
fn error_event(event: &SseEvent) -> Option<ServerError> {
    let data = (event.name == "error").then_some(&event.data)?;
    ServerError::of(&serde_json::from_str(data).ok()?)
}

/// What is said of JSON that is no error: the answer of a server that streams none.
pub(super) const DOCUMENT: &str = "a single document came instead of a stream";

/// What is said of a page for people, which is what wrong addresses and captive networks send.
pub(super) const HTML: &str = "a page of HTML came instead of an answer";

#[cfg(test)]
mod tests;
