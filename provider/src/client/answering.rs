//! An answer while its bytes arrive, whoever sends them: bounded, and checked for what is no
//! stream of events at all.

use crate::sse::SseParser;
use crate::wire::refusal::Told;
use crate::wire::{Flow, Reading, Tell};
use crate::{Answer, Failure, FailureKind, Provider};

/// The most bytes of a stream that are read. An answer of a hundred thousand tokens has less
/// than one megabyte; what is larger than this is no answer.
pub(super) const MAX_BYTES: usize = 64 << 20;

/// How much of what came before any event is kept, to say what it was.
const HEAD_BYTES: usize = 4096;

/// The bytes of one answer.
pub(super) struct Answering {
    provider: Provider,
    parser: SseParser,
    reading: Box<dyn Reading>,
    read: usize,
    limit: usize,
    head: Vec<u8>,
    has_events: bool,
}

impl Answering {
    /// Nothing came yet.
    pub(super) fn new(provider: Provider, reading: Box<dyn Reading>) -> Self {
        Self {
            provider,
            parser: SseParser::default(),
            reading,
            read: 0,
            limit: MAX_BYTES,
            head: Vec::new(),
            has_events: false,
        }
    }

    /// Takes in what came, in pieces of any size.
    pub(super) fn feed(&mut self, bytes: &[u8], tell: Tell<'_>) -> Result<Flow, Failure> {
        self.read += bytes.len();
        if self.read > self.limit {
            return Err(self.failure(FailureKind::TooLarge { limit: self.limit }));
        }
        let events = self
            .parser
            .feed(bytes)
            .map_err(|error| self.failure(FailureKind::Malformed).saying(error.to_string()))?;
        for event in events {
            self.has_events = true;
            if self.reading.event(&event, tell)? == Flow::Done {
                return Ok(Flow::Done);
            }
        }
        if !self.has_events && self.head.len() < HEAD_BYTES {
            self.head.extend_from_slice(&bytes[..bytes.len().min(HEAD_BYTES - self.head.len())]);
        }
        Ok(Flow::More)
    }

    /// The answer, now that nothing more is read.
    pub(super) fn finish(self) -> Result<Answer, Failure> {
        if !self.has_events {
            let head = self.head.trim_ascii_start();
            if head.starts_with(b"<") {
                return Err(self.failure(FailureKind::Malformed).saying(HTML));
            }
            if let Some(told) = serde_json::from_slice(head).ok().as_ref().and_then(Told::of) {
                return Err(told.failure(self.provider, "", 200));
            }
        }
        self.reading.finish()
    }

    fn failure(&self, kind: FailureKind) -> Failure {
        Failure::new(self.provider, kind)
    }
}

/// What is said of a page for people, which is what wrong addresses and captive networks send.
pub(super) const HTML: &str = "a page of HTML came instead of an answer";

#[cfg(test)]
mod tests;
