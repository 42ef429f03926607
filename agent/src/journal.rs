//! The log of a kept conversation. Events are only appended, and [`replay`] restores the
//! conversation from them.
//!
//! Owns the events and their form as JSON (`format`), the rules by which they make up a
//! conversation (`replay`), and the time at which each is written (`keeper`). `ikigai-assets`
//! stores the rows, and reads none of their content.
//!
//! **Invariant:** every prefix of a log makes a conversation that is valid for every provider, so
//! that a process may die at any write. A call is in the log before it runs, and its result is in
//! the log when the whole round has ended. A call without a result gets one that says that the call
//! may have run.

mod format;
mod keeper;
mod replay;

use ikigai_provider::{CallResult, Image, Part, TokenUsage};

use crate::surroundings::TurnSurroundings;

pub use format::VERSION;
pub use keeper::owner;
pub(crate) use keeper::{JournalWriter, Resumption, fork, lease, secrets};
pub use replay::{LostCall, OpenTurn, ReplayError, Replayed, replay};

/// An event of a conversation.
#[derive(Clone, Debug, PartialEq)]
pub enum JournalEvent {
    /// A turn began. Without a text and an image, the model was asked to continue.
    Prompt {
        /// The user's own words.
        typed: String,
        /// The texts that the model is sent: the user's words, in which the text of each mention
        /// replaces it, and the text that was attached.
        texts: Vec<String>,
        /// The images that the model is sent with them.
        images: Vec<Image>,
    },
    /// The model called tools. Written before they run.
    Calls {
        /// The parts of the answer, the calls among them.
        parts: Vec<Part>,
        /// The cost of the request.
        usage: TokenUsage,
        /// The ids in the audit log of the calls that run, in their order.
        audit: Vec<String>,
    },
    /// The calls of the event before ended.
    Results {
        /// The result of each call.
        results: Vec<CallResult>,
    },
    /// The calls of the event before were abandoned with their turn. The conversation continues
    /// without them.
    Dropped,
    /// A turn ended. If the model neither said nor called anything, its prompt was discarded.
    End {
        /// The way in which it ended, a word such as `answered`.
        reason: String,
        /// The parts of the model's last answer.
        parts: Vec<Part>,
        /// The cost of its request, and of requests outside the conversation since the end of the
        /// turn before.
        usage: TokenUsage,
    },
    /// A request outside the conversation was answered after the last turn.
    Spent {
        /// Its cost.
        usage: TokenUsage,
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
    Surroundings(TurnSurroundings),
    /// Results became one line each. The events of the results still have all of their text.
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

impl JournalEvent {
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
