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
    /// The number of characters of a call's arguments that are sent at once.
    pub(crate) fragment: usize,
    pub(crate) content_type: String,
    /// True if each of Google's responses has the reason why the answer ended.
    pub(crate) always_ends: bool,
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
