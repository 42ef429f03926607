//! The wire formats, with a module for each provider: a request as JSON, and the events of an
//! answer.
//!
//! The modules know no connections: [`crate::client`] sends and receives the bytes.

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
use crate::{AnswerEvent, FailureKind, ModelAnswer, ModelRequest, Provider, RequestFailure};

/// The name of the shape of an answer, which OpenAI requires.
const SHAPE_NAME: &str = "answer";

/// The callback for events of an answer.
pub(crate) type OnAnswerEvent<'a> = &'a mut (dyn for<'e> FnMut(AnswerEvent<'e>) + Send);

/// A request that can be sent by POST to an address below the base URL.
#[derive(Debug)]
pub(crate) struct PostRequest {
    /// The segments that are added to the path of the base URL, not percent-encoded.
    pub(crate) path: Vec<String>,
    /// The query, without the question mark.
    pub(crate) query: Option<&'static str>,
    /// The body, which is JSON.
    pub(crate) body: Vec<u8>,
}

/// The progress of an answer after an event. If there are several events, the greatest progress
/// counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Flow {
    /// The event was a keep-alive.
    Idle,
    /// The answer continues.
    More,
    /// The answer is complete. Only its usage may follow, or nothing at all.
    Whole,
    /// The event was the last one.
    Done,
}

/// A reader of the events of an answer.
pub(crate) trait StreamReader: Send {
    /// Reads an event. No event follows the one that returned [`Flow::Done`].
    ///
    /// # Errors
    ///
    /// Fails if the event reports a failure, or contradicts earlier events.
    fn event(
        &mut self,
        event: &SseEvent,
        on_event: OnAnswerEvent<'_>,
    ) -> Result<Flow, RequestFailure>;

    /// Returns the answer, once the stream has ended. `ends_whole` is true if the stream ended
    /// after an event and not within one. For providers without a last event, this is the only sign
    /// of a complete answer.
    ///
    /// # Errors
    ///
    /// Fails with [`FailureKind::Cut`] if the answer is not complete.
    fn finish(self: Box<Self>, ends_whole: bool) -> Result<ModelAnswer, RequestFailure>;
}

/// Returns the request in the provider's form. `is_own_site` is true if it goes to the provider
/// itself and not to another server with the same interface.
pub(crate) fn outgoing(
    provider: Provider,
    request: &ModelRequest<'_>,
    is_own_site: bool,
) -> PostRequest {
    match provider {
        Provider::OpenAi => openai::outgoing(request),
        Provider::OpenAiChat => openai_chat::outgoing(request, is_own_site),
        Provider::Anthropic => anthropic::outgoing(request),
        Provider::Google => google::outgoing(request),
    }
}

/// Returns the reader of the answer to the request.
pub(crate) fn stream_reader(
    provider: Provider,
    request: &ModelRequest<'_>,
) -> Box<dyn StreamReader> {
    let (ids, model) = (ids::CallIds::from_messages(request.messages), request.model.to_owned());
    match provider {
        Provider::OpenAi => Box::new(openai::OpenAiStream::new(ids, model)),
        Provider::OpenAiChat => Box::new(openai_chat::ChatStream::new(ids, model)),
        Provider::Anthropic => Box::new(anthropic::AnthropicStream::new(ids, model)),
        Provider::Google => Box::new(google::GoogleStream::new(ids, model)),
    }
}

/// Returns whether the member `tools` has any tools; some providers refuse an empty list.
fn has_tools(tools: &Value) -> bool {
    tools.as_array().is_some_and(|tools| !tools.is_empty())
}

fn to_json(body: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(body).expect("bodies have strings for keys, and nothing in them fails")
}

/// Parses the data of an event.
fn from_json<T: DeserializeOwned>(provider: Provider, data: &str) -> Result<T, RequestFailure> {
    serde_json::from_str(data).map_err(|error| malformed(provider, format!("an event: {error}")))
}

/// Returns the failure of a response that contradicts the documentation, or itself.
fn malformed(provider: Provider, detail: impl Into<String>) -> RequestFailure {
    RequestFailure::new(provider, FailureKind::Malformed).with_detail(detail)
}

#[cfg(test)]
mod tests;
