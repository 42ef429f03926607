//! The content of a streamed answer, before it has the form of a vendor.

use serde_json::Value;

use crate::{Gate, Trouble};

/// A streamed answer.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) pieces: Vec<Piece>,
    pub(crate) ending: Ending,
    pub(crate) input: u64,
    pub(crate) output: u64,
    pub(crate) cached: u64,
    pub(crate) cache_written: u64,
    /// The number of characters of a call's arguments that are sent at once.
    pub(crate) fragment: usize,
    pub(crate) content_type: String,
    /// True if each of Google's responses has the reason why the answer ended.
    pub(crate) always_ends: bool,
}

impl Answer {
    pub(crate) fn has_thought(&self) -> bool {
        let mut pieces = self.pieces.iter();
        pieces.any(|piece| matches!(piece, Piece::Thinking(_) | Piece::HiddenThinking))
    }

    /// Returns the tokens of the answer that are thoughts: half of them if there is a thought.
    pub(crate) fn thoughts(&self) -> u64 {
        if self.has_thought() { self.output / 2 } else { 0 }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Piece {
    Text(String),
    Thinking(String),
    HiddenThinking,
    Call { id: Option<String>, name: String, arguments: String },
    Ping,
    UnknownEvent,
    Event(Value),
    Error { trouble: Trouble, is_other_form: bool },
    Bytes(Vec<u8>),
    InvalidUtf8,
    Stall(Gate),
}

/// The end of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Finished,
    Length,
    Refused(String),
    Word(String),
    Missing,
}
