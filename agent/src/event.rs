//! The events of a turn, for the program that displays them.

use std::time::Duration;

use ikigai_host::limits::Deadline;
use ikigai_provider::{Image, ModelCall, RequestFailure, TokenUsage};

use crate::called::FinishedCall;
use crate::compaction::Compacted;
use crate::offer::CrowdedOut;

/// A function that is called with each event of a turn.
pub type OnEvent<'a> = &'a mut (dyn for<'e> FnMut(TurnEvent<'e>) + Send);

/// An event of a turn.
#[derive(Debug)]
pub enum TurnEvent<'a> {
    /// A warning for the user that stops nothing.
    Warning(&'a str),
    /// The prompt is sent with this image.
    Image(&'a Image),
    /// The request has no room for some tools.
    CrowdedOut(&'a CrowdedOut),
    /// A further piece of the model's text.
    Text(&'a str),
    /// The model is thinking. The text is a further piece of its thoughts, or empty if the provider
    /// does not send them.
    Thinking(&'a str),
    /// The model began to ask for this tool; nothing runs yet.
    Asking(&'a str),
    /// A call will run. There is one such event for each call of an answer, in the order of the
    /// calls, before any of them runs.
    Calling(Calling<'a>),
    /// A call begins to run; some wait for others. Its deadline can be extended.
    Running(Calling<'a>, &'a Deadline),
    /// A call has ended. Calls end in any order.
    Called(&'a FinishedCall),
    /// A request failed and is sent again after the wait.
    Retry {
        /// The attempt that failed, counted from 1.
        attempt: u32,
        /// The time until the next attempt.
        wait: Duration,
        /// The reason why it failed.
        failure: &'a RequestFailure,
    },
    /// A request was answered, at this cost.
    Answered(TokenUsage),
    /// The conversation was compacted before a request.
    Compacted(Compacted),
}

/// A call that has not ended.
#[derive(Clone, Copy, Debug)]
pub struct Calling<'a> {
    /// The id of the call, unique in the conversation.
    pub id: &'a str,
    /// The name of the tool.
    pub name: &'a str,
    /// The arguments as the model wrote them, usually JSON.
    pub arguments: &'a str,
}

impl<'a> From<&'a ModelCall> for Calling<'a> {
    fn from(ModelCall { id, name, arguments, .. }: &'a ModelCall) -> Self {
        Self { id, name, arguments }
    }
}
