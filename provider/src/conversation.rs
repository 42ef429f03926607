//! A conversation, in words that belong to no provider, and one request of it.
//!
//! Knows no wire format: each provider's module turns a [`Request`] into its own JSON and
//! its own stream into an [`Answer`].

use std::time::Duration;

use serde_json::Value;

use crate::{Failure, Provider};

/// What one side said, in one go.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Which side.
    pub role: Role,
    /// In their order.
    pub parts: Vec<Part>,
}

/// A side of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The person, and the tools that were called.
    User,
    /// The model.
    Model,
}

/// One piece of a message.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// What was written.
    Text {
        /// As it was written.
        text: String,
        /// What its provider wants back with it.
        blob: Option<Blob>,
    },
    /// A tool that the model asks for; in messages of the model only.
    Call(Call),
    /// What came of a call; in messages of the user only.
    Result(CallResult),
    /// Something that only its own provider reads, at its place among the others.
    Blob(Blob),
}

impl Part {
    /// Plain text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into(), blob: None }
    }
}

/// A call as a model asked for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// What the result refers to; unique in its conversation, whatever the provider sent.
    pub id: String,
    /// The tool.
    pub name: String,
    /// What the model wrote as arguments; JSON as a rule, and it may be anything.
    pub arguments: String,
    /// What its provider wants back with it.
    pub blob: Option<Blob>,
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct CallResult {
    /// [`Call::id`].
    pub id: String,
    /// [`Call::name`].
    pub name: String,
    /// What the model reads: an envelope in JSON.
    pub content: String,
    /// Whether the call failed as a call (`tool_success` is false).
    pub is_error: bool,
}

/// What one provider sent to have it back: signatures of thoughts, reasoning items.
///
/// It goes back as it came, to the model that wrote it. To another it is left out: models refuse
/// what they cannot read, and those that do not reason refuse all of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Blob {
    /// Who reads it.
    pub provider: Provider,
    /// Who wrote it, by the name under which the model was asked for ([`Request::model`]).
    pub model: String,
    /// As it came.
    pub value: Value,
}

impl Blob {
    /// Whether it goes back with a request to this model of this provider.
    #[must_use]
    pub fn is_for(&self, provider: Provider, model: &str) -> bool {
        self.provider == provider && self.model == model
    }
}

/// One request: everything that the model is to know.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The model, by the provider's name for it.
    pub model: &'a str,
    /// What comes before the conversation, each a block of its own; none is empty.
    pub system: &'a [String],
    /// The conversation, which begins with the user's side; sides alternate.
    pub messages: &'a [Message],
    /// The member `tools` of [`crate::Tools::value`], translated for the same provider.
    pub tools: &'a Value,
    /// The most tokens of the answer, where the caller wants a bound of its own.
    pub max_output: Option<u32>,
}

/// What happens while an answer arrives.
#[derive(Debug)]
pub enum Event<'a> {
    /// A further piece of text; pieces make up the text parts of the answer.
    Text(&'a str),
    /// The model thinks, which some providers tell; what it thinks is not told.
    Thinking,
    /// The model began to ask for this tool; the call itself is part of the answer.
    Call(&'a str),
    /// An attempt failed before anything was shown; the next follows after the wait.
    Retry {
        /// The attempt that failed, counted from 1.
        attempt: u32,
        /// How long until the next.
        wait: Duration,
        /// Why it failed.
        failure: &'a Failure,
    },
}

/// A whole answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// What the model said and asks for. Where the answer was cut off by the limit on its
    /// length ([`Stop::Length`]) or refused ([`Stop::Refused`]) no call is among them: none is
    /// known to be whole.
    pub parts: Vec<Part>,
    /// Why it ended.
    pub stop: Stop,
    /// What it cost.
    pub usage: Usage,
}

impl Answer {
    /// Without the calls of an answer that ended before the model had ended it.
    pub(crate) fn without_broken_calls(mut self) -> Self {
        if self.stop != Stop::Finished {
            self.parts.retain(|part| !matches!(part, Part::Call(_)));
        }
        self
    }
}

/// Why an answer ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The model had no more to say, or waits for the results of its calls.
    Finished,
    /// The limit on the length of an answer.
    Length,
    /// The provider or the model refused; what it gave as the reason, where it gave one.
    Refused(String),
}

/// What a request cost, in tokens, as far as the provider says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Of the request, what was read from a cache included.
    pub input: Option<u64>,
    /// Of the answer, thoughts included.
    pub output: Option<u64>,
    /// What of the request was read from a cache.
    pub cached: Option<u64>,
}
