//! What crosses the wire, for each provider in a module of its own: a request as JSON, and
//! the events of its answer read one by one.
//!
//! No connection is known here: bytes come from and go to [`crate::client`].

mod anthropic;
mod arguments;
mod google;
mod ids;
mod names;
mod openai;
mod openai_chat;
pub(crate) mod refusal;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::sse::SseEvent;
use crate::{Answer, Event, Failure, FailureKind, Provider, Request};

/// Who is told of what arrives.
pub(crate) type OnEvent<'a> = &'a mut (dyn for<'e> FnMut(Event<'e>) + Send);

/// A request, ready to be sent by POST to an address below the base URL.
#[derive(Debug)]
pub(crate) struct Outgoing {
    /// What is added to the path of the base URL, not percent-encoded.
    pub(crate) path: Vec<String>,
    /// What is added after the path, without the question mark.
    pub(crate) query: Option<&'static str>,
    /// JSON.
    pub(crate) body: Vec<u8>,
}

/// Whether an answer goes on; of several, the last in this order counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Flow {
    /// A sign of life, which is no piece of the answer. Read on.
    Idle,
    /// Read on.
    More,
    /// The answer is whole. What follows says at most what it cost, and may never come.
    Whole,
    /// That was the terminal event.
    Done,
}

/// An answer while it arrives.
pub(crate) trait StreamReader: Send {
    /// Takes in one event. None comes after the one that was [`Flow::Done`].
    ///
    /// # Errors
    ///
    /// The event tells of a failure, or contradicts what came before it.
    fn event(&mut self, event: &SseEvent, on_event: OnEvent<'_>) -> Result<Flow, Failure>;

    /// The answer, once the stream has ended. `ends_whole` says that it ended after an event
    /// and not within one; where no event is the last one by what it says, nothing else tells
    /// that the answer is whole.
    ///
    /// # Errors
    ///
    /// [`FailureKind::Cut`]: what says that the answer is whole did not come.
    fn finish(self: Box<Self>, ends_whole: bool) -> Result<Answer, Failure>;
}

/// The request in the provider's form. `is_own_site` says that it goes to the provider itself
/// and not to another server that speaks the same.
pub(crate) fn outgoing(provider: Provider, request: &Request<'_>, is_own_site: bool) -> Outgoing {
    match provider {
        Provider::OpenAi => openai::outgoing(request),
        Provider::OpenAiChat => openai_chat::outgoing(request, is_own_site),
        Provider::Anthropic => anthropic::outgoing(request),
        Provider::Google => google::outgoing(request),
    }
}

/// What reads the answer to the request.
pub(crate) fn stream_reader(provider: Provider, request: &Request<'_>) -> Box<dyn StreamReader> {
    let (ids, model) = (ids::Ids::of(request.messages), request.model.to_owned());
    match provider {
        Provider::OpenAi => Box::new(openai::Stream::new(ids, model)),
        Provider::OpenAiChat => Box::new(openai_chat::Stream::new(ids, model)),
        Provider::Anthropic => Box::new(anthropic::Stream::new(ids, model)),
        Provider::Google => Box::new(google::Stream::new(ids, model)),
    }
}

/// Whether there is anything in the member `tools`; an empty list is refused by some.
fn has_tools(tools: &Value) -> bool {
    tools.as_array().is_some_and(|tools| !tools.is_empty())
}

/// A body as it is sent.
fn to_json(body: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(body).expect("bodies have strings for keys, and nothing in them fails")
}

/// The data of an event as what the provider documents.
fn from_json<T: DeserializeOwned>(provider: Provider, data: &str) -> Result<T, Failure> {
    serde_json::from_str(data).map_err(|error| malformed(provider, format!("an event: {error}")))
}

/// What came contradicts the documentation, or itself.
fn malformed(provider: Provider, detail: impl Into<String>) -> Failure {
    Failure::new(provider, FailureKind::Malformed).with_detail(detail)
}

#[cfg(test)]
mod tests;
