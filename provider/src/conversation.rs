//! A conversation and a request, independent of any provider.
//!
//! This module knows no wire format: each provider's module turns a [`ModelRequest`] into its own JSON
//! and its own stream into an [`ModelAnswer`].

use std::time::Duration;

use serde_json::Value;

use crate::{AnswerSettings, AnswerShape, Image, Provider, RequestFailure};

/// A message of one side.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// The side that the message is from.
    pub role: Role,
    /// The parts, in their order.
    pub parts: Vec<Part>,
}

/// A side of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The user, and the tools that were called.
    User,
    /// The model.
    Model,
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// Text.
    Text {
        /// The text itself.
        text: String,
        /// Data that its provider expects back with the text.
        blob: Option<Blob>,
    },
    /// A call of a tool; in messages of the model only.
    Call(ModelCall),
    /// The result of a call; in messages of the user only.
    Result(CallResult),
    /// An image; in messages of the user only.
    Image(Image),
    /// Data that only its own provider reads, at its position among the other parts.
    Blob(Blob),
}

impl Part {
    /// Creates a part of plain text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into(), blob: None }
    }
}

impl From<String> for Part {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

/// A call of a tool, as the model requested it.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelCall {
    /// The id that the result refers to. It is unique in its conversation, even if the provider's
    /// ids are not.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// The arguments as the model wrote them: usually JSON, but possibly any text.
    pub arguments: String,
    /// Data that its provider expects back with the call.
    pub blob: Option<Blob>,
}

/// The result of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct CallResult {
    /// The [`ModelCall::id`] of the call.
    pub id: String,
    /// The [`ModelCall::name`] of the call.
    pub name: String,
    /// The text that the model reads: an envelope in JSON.
    pub content: String,
    /// True if the call failed (`tool_success` is false).
    pub is_error: bool,
    /// The images of the result, in their order.
    pub images: Vec<Image>,
}

/// Data that a provider sent and expects back: signatures of thoughts, reasoning items.
///
/// It is sent back unchanged to the model that wrote it, and omitted for any other model. Models
/// refuse data that they cannot read, and models that do not reason refuse all of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Blob {
    /// The provider that reads it.
    pub provider: Provider,
    /// The model that wrote it, by its name in the request ([`ModelRequest::model`]).
    pub model: String,
    /// The data itself.
    pub value: Value,
}

impl Blob {
    /// Returns whether it is sent back with a request to this model of this provider.
    #[must_use]
    pub fn is_for(&self, provider: Provider, model: &str) -> bool {
        self.provider == provider && self.model == model
    }
}

/// A request to a model.
#[derive(Clone, Copy, Debug)]
pub struct ModelRequest<'a> {
    /// The provider's name of the model.
    pub model: &'a str,
    /// The blocks of the system prompt; none of them is empty.
    pub system: &'a [String],
    /// The conversation. It begins with the user's side, and the sides alternate.
    pub messages: &'a [Message],
    /// The member `tools` of [`crate::TranslatedTools::value`], translated for the same provider.
    pub tools: &'a Value,
    /// The maximum number of tokens of the answer, if the caller sets one.
    pub max_output: Option<u32>,
    /// The settings of the answer, checked for the same provider.
    pub settings: AnswerSettings,
    /// The shape that the answer must have, translated for the same provider.
    pub shape: Option<&'a AnswerShape>,
}

impl<'a> ModelRequest<'a> {
    /// Returns all images, of prompts and of results.
    pub(crate) fn images(&self) -> impl Iterator<Item = &'a Image> + use<'a> {
        let parts = self.messages.iter().flat_map(|message| &message.parts);
        parts.flat_map(|part| match part {
            Part::Image(image) => std::slice::from_ref(image),
            Part::Result(result) => &result.images,
            Part::Text { .. } | Part::Call(_) | Part::Blob(_) => &[],
        })
    }
}

impl Default for ModelRequest<'_> {
    /// Returns a request for an answer with the provider's defaults, without a model and messages.
    fn default() -> Self {
        const NO_TOOLS: &Value = &Value::Null;
        Self {
            model: "",
            system: &[],
            messages: &[],
            tools: NO_TOOLS,
            max_output: None,
            settings: AnswerSettings::default(),
            shape: None,
        }
    }
}

/// An event while an answer arrives.
#[derive(Debug)]
pub enum AnswerEvent<'a> {
    /// A further piece of text. The pieces make up the text parts of the answer.
    Text(&'a str),
    /// The model is thinking, which some providers report. The text is a further piece of its
    /// thoughts, or empty if the provider does not send them. It is not part of the answer.
    Thinking(&'a str),
    /// The model began to call this tool. The call itself is part of the answer.
    Call(&'a str),
    /// An attempt failed before any text was reported, or after a call began. The next attempt
    /// follows after the wait. Everything that was reported of the failed attempt is void.
    Retry {
        /// The attempt that failed, counted from 1.
        attempt: u32,
        /// The wait before the next attempt.
        wait: Duration,
        /// The failure of the attempt.
        failure: &'a RequestFailure,
    },
}

/// A complete answer.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelAnswer {
    /// The parts of the answer. If the model did not end the answer itself ([`StopReason::Finished`]),
    /// the parts contain no calls, since calls may be incomplete.
    pub parts: Vec<Part>,
    /// The reason why the answer ended.
    pub stop: StopReason,
    /// The number of tokens used.
    pub usage: TokenUsage,
}

impl ModelAnswer {
    /// Removes the calls of an answer that the model did not end itself.
    pub(crate) fn without_broken_calls(mut self) -> Self {
        if self.stop != StopReason::Finished {
            self.parts.retain(|part| !matches!(part, Part::Call(_)));
        }
        self
    }
}

/// The reason why an answer ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The model had no more to say, or waits for the results of its calls.
    Finished,
    /// The limit on the length of an answer was reached.
    Length,
    /// The model's window was full before the answer ended, as some providers report it. The
    /// conversation leaves no room for a whole answer.
    Window,
    /// The provider or the model refused, with the reason if it gave one.
    Refused(String),
}

/// The tokens of a request and its answer, as far as the provider reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenUsage {
    /// The tokens of the request, those read from a cache and written to it included.
    pub input: Option<u64>,
    /// The tokens of the answer, thoughts included.
    pub output: Option<u64>,
    /// The tokens of the request that were read from a cache.
    pub cached: Option<u64>,
    /// The tokens of the request that were written to a cache, which some providers charge for.
    pub cache_written: Option<u64>,
    /// The tokens of the answer that are thoughts.
    pub reasoning: Option<u64>,
}
