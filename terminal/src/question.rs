//! A question that the user answers with one key: its texts, its answer, and the queue in which it
//! waits.
//!
//! A program asks such a question before it lets something happen. [`QuestionSender`] asks while an
//! [editor](crate::Editor) runs; [`ask`] asks without an editor.
//!
//! **Invariant:** a key that was typed before the keys of the question were shown never answers it,
//! and neither does a paste: `QuestionState` owns that rule. Keys that do not answer stay in the editor.
//!
//! **Invariant:** no other text has the marks of a question. [`sanitize`](crate::sanitize) replaces
//! the characters of its frame in every foreign text, and nothing else is written in reverse video.

mod alone;
mod asking;
mod queue;
mod reading;
pub(crate) mod rows;

pub use self::alone::ask;
pub(crate) use self::asking::{QuestionLine, QuestionState, Took};
pub(crate) use self::queue::PendingQuestion;
pub use self::queue::{QuestionHandle, QuestionSender};
pub(crate) use self::reading::{QuestionContext, read};

/// A question that the user answers with one key. Its texts may be foreign, and are written out.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct KeyQuestion {
    /// The question in one sentence, which is the first line.
    pub text: String,
    /// The facts below it on which the user decides.
    pub facts: Facts,
    /// Further facts, which are shown after the key `?`.
    pub details: Facts,
    /// The keys that answer, each with its meaning.
    pub choices: Vec<(char, String)>,
    /// The key with which the user begins a text for the model, and its meaning. A text also
    /// declines.
    pub telling: Option<(char, String)>,
    /// The key that is shown after all the others, and its meaning.
    pub last: Option<(char, String)>,
}

/// The facts of a question.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Facts {
    /// The facts, each a name and a text.
    pub named: Vec<(String, String)>,
    /// The lines of a change, marked `-` and `+`.
    pub change: Vec<String>,
}

impl Facts {
    /// Returns these facts without a change.
    #[must_use]
    pub fn new(named: Vec<(String, String)>) -> Self {
        Self { named, change: Vec::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.named.is_empty() && self.change.is_empty()
    }

    pub(crate) fn extend(&mut self, further: Self) {
        self.named.extend(further.named);
        self.change.extend(further.change);
    }
}

/// The key that shows the details of a question.
pub(crate) const DETAILS: char = '?';

/// The answer to a [`KeyQuestion`].
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum KeyReply {
    /// A key of the question.
    Key(char),
    /// The text after the key `telling`.
    Told(String),
    /// Enter, Esc, `n` if it has no other meaning, or the end of the input.
    Declined,
    /// No answer for five minutes.
    Silence,
}
