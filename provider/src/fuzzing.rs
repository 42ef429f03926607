//! The private parsers of this crate, for the fuzz targets: each takes bytes in pieces, as a
//! network delivers them.

use crate::client::AnswerReader;
use crate::sse::SseParser;
use crate::wire::{Flow, outgoing, stream_reader};
use crate::{AnswerEvent, ModelAnswer, ModelRequest, Provider, RequestFailure};

/// The result of parsing server-sent events.
#[derive(Debug, PartialEq, Eq)]
pub struct Events {
    /// The name and the data of each event.
    pub events: Vec<(String, String)>,
    /// The end of the stream: true if it is within an event, and the lines that have no field of
    /// the format. It is an error if a line is not UTF-8.
    pub rest: Result<(bool, String), String>,
}

/// The result of reading a provider's stream.
#[derive(Debug, PartialEq)]
pub struct StreamReading {
    /// The events that were reported, as debug text.
    pub events: Vec<String>,
    /// The answer, or the reason why it is missing.
    pub answer: Result<ModelAnswer, RequestFailure>,
}

/// Parses server-sent events that arrive in these pieces.
pub fn events<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Events {
    let (mut parser, mut events) = (SseParser::default(), Vec::new());
    for mut piece in pieces {
        loop {
            match parser.next(&mut piece) {
                Ok(Some(event)) => events.push((event.name, event.data)),
                Ok(None) => break,
                Err(error) => return Events { events, rest: Err(error.to_string()) },
            }
        }
    }
    let rest = parser.finish();
    Events { events, rest: Ok((rest.is_cut, rest.strays)) }
}

/// Reads the stream that answers `request` and that arrives in these pieces.
pub fn read<'a>(
    provider: Provider,
    request: &ModelRequest<'_>,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> StreamReading {
    let mut answer_reader = AnswerReader::new(provider, stream_reader(provider, request));
    let mut events = Vec::new();
    let mut on_event = |event: AnswerEvent<'_>| events.push(format!("{event:?}"));
    for piece in pieces {
        match answer_reader.feed(piece, &mut on_event) {
            Ok(Flow::Done) => break,
            Ok(_) => {}
            Err(failure) => return StreamReading { events, answer: Err(failure) },
        }
    }
    StreamReading { answer: answer_reader.finish(), events }
}

/// Returns the body of the request to `provider`.
#[must_use]
pub fn body(provider: Provider, request: &ModelRequest<'_>) -> Vec<u8> {
    outgoing(provider, request, true).body
}
