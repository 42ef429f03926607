//! The log of a kept conversation: events that are only appended, and from which [`replay`] makes
//! the conversation again.
//!
//! Owns the events and their form as JSON (`format`), the rules by which they make up a conversation
//! (`replay`), and the moment at which each is written (`keeper`). The rows are those of
//! `ikigai-assets`, which reads none of this.
//!
//! **Invariant:** every beginning of a log makes a conversation that is valid for every provider,
//! so that a process may die at any write. A call is in the log before it runs, and its results
//! are when the whole round has ended. A call without a result gets one that says that it may have
//! run.

mod format;
mod keeper;
mod replay;

use ikigai_provider::{CallResult, Image, Part, Usage};

use crate::surroundings::Surroundings;

pub use format::VERSION;
pub use keeper::owner;
pub(crate) use keeper::{Keeper, Resumption, fork, lease, secrets};
pub use replay::{LostCall, OpenTurn, ReplayError, Replayed, replay};

/// An event of a conversation.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A turn began, or the model was asked to go on if there is neither a text nor an image.
    Prompt {
        /// The words that the person typed.
        typed: String,
        /// The texts that the model is sent: those words with the text of what they mention, and
        /// what was handed over with them.
        texts: Vec<String>,
        /// The images that the model is sent with them.
        images: Vec<Image>,
    },
    /// The model called tools. Written before they run.
    Calls {
        /// The parts of the answer, the calls among them.
        parts: Vec<Part>,
        /// The cost of the request.
        usage: Usage,
        /// The ids that the calls have in the audit log, in their order, as far as they run.
        audit: Vec<String>,
    },
    /// The calls of the event before ended.
    Results {
        /// The result of each call.
        results: Vec<CallResult>,
    },
    /// The calls of the event before were given up with their turn. The conversation goes on
    /// without them.
    Dropped,
    /// A turn ended. If the model said and called nothing, its prompt was taken back.
    End {
        /// The way in which it ended, a word such as `answered`.
        reason: String,
        /// The parts of the model's last word.
        parts: Vec<Part>,
        /// The cost of its request, and of requests beside the conversation since the end of the turn
        /// before.
        usage: Usage,
    },
    /// A request beside the conversation was answered after the last turn.
    Spent {
        /// Its cost.
        usage: Usage,
    },
    /// All messages were removed.
    Cleared,
    /// The next requests go to this model.
    Model {
        /// The name of the provider.
        provider: String,
        /// The provider's name for the model.
        name: String,
    },
    /// The next turns have these surroundings.
    Surroundings(Surroundings),
    /// Results became a line each. The whole of each is in its own event.
    Shortened {
        /// The id of each call, with the line.
        results: Vec<(String, String)>,
    },
    /// All but the last messages became notes.
    Summarized {
        /// The messages that stayed.
        kept: usize,
        /// The notes.
        notes: String,
        /// The most bytes of prompts that stayed as they were typed.
        most_typed: usize,
    },
}

impl Event {
    /// Returns the word under which the event is kept.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Prompt { .. } => "prompt",
            Self::Calls { .. } => "calls",
            Self::Results { .. } => "results",
            Self::Dropped => "dropped",
            Self::End { .. } => "end",
            Self::Spent { .. } => "spent",
            Self::Cleared => "cleared",
            Self::Model { .. } => "model",
            Self::Surroundings(_) => "surroundings",
            Self::Shortened { .. } => "shortened",
            Self::Summarized { .. } => "summarized",
        }
    }

    /// Returns whether a turn begins with the event.
    #[must_use]
    pub fn begins_turn(&self) -> bool {
        matches!(self, Self::Prompt { texts, images, .. }
            if !images.is_empty() || texts.iter().any(|text| !text.trim().is_empty()))
    }
}
