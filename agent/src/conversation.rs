//! The messages of a conversation, and the only operations that change them.
//!
//! Owns the rules that every provider demands of a conversation. Knows nothing about tools, hosts
//! and networks.
//!
//! **Invariant:** after each operation
//!
//! - the sides alternate, and the first message is the user's;
//! - each message says or asks for something;
//! - only the model calls. Each call has its result in the message after it, in the order of the
//!   calls, and no result is there without its call.
//!
//! The model is asked only through an [`ModelTurn`]. While an exchange exists, the last message is
//! the user's.

mod compacted;
#[cfg(test)]
pub(crate) mod rules;
mod said;
mod transcript;

use std::slice;

use ikigai_provider::{CallResult, Message, ModelCall, Part, Role};
use serde_json::Value;

pub(super) use compacted::OmittedMessages;
pub(super) use said::Utterance;

/// The messages of a conversation, oldest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Conversation {
    messages: Vec<Message>,
    /// The prompts that are among the messages, oldest first.
    prompts: Vec<PromptEntry>,
    /// The text at the beginning of the first message for messages that were left out.
    left_out: Option<OmittedMessages>,
}

/// A prompt among the messages. It ends with its message.
#[derive(Clone, Debug, PartialEq)]
struct PromptEntry {
    /// The index of its message.
    message: usize,
    /// The index of its first part.
    part: usize,
    /// The user's own words, without the texts that they mention.
    typed: String,
}

/// The error for a prompt without a text, if the model has nothing else to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EmptyPrompt;

/// A turn of a conversation in which the model is to speak.
///
/// If it is dropped, everything that was appended stays, including the prompt.
#[derive(Debug)]
#[must_use = "the prompt stays without an answer"]
pub(super) struct ModelTurn<'a> {
    conversation: &'a mut Conversation,
    /// True if the turn began with a prompt, and the model has not called anything since. Then the
    /// prompt may be discarded.
    is_fresh: bool,
}

impl Conversation {
    pub(super) fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Returns all messages as JSON for programs.
    pub(super) fn transcript(&self) -> Value {
        transcript::to_json(&self.messages)
    }

    /// Returns the number of turns, with those that were left out.
    pub(super) fn turns(&self) -> usize {
        let left_out = self.left_out.as_ref().map_or(0, |it| it.typed.len() + it.untold);
        left_out + self.prompts.len()
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Begins a turn with a prompt: its images, and its texts that are not blank. `typed` has only
    /// the user's own words.
    ///
    /// If the last message is the user's, because a turn failed or was dropped, the prompt is added
    /// to it. In that case the prompt may be empty, which asks the model to continue.
    ///
    /// # Errors
    ///
    /// Fails with [`EmptyPrompt`] if there is nothing to answer. The conversation has not changed.
    pub(super) fn begin(
        &mut self,
        typed: &str,
        said: impl IntoIterator<Item: Into<Part>>,
    ) -> Result<ModelTurn<'_>, EmptyPrompt> {
        let said = said.into_iter().map(Into::into);
        let parts: Vec<Part> = said.filter(|part| !is_silent(slice::from_ref(part))).collect();
        let has_prompt = !parts.is_empty();
        let last = self.messages.last_mut().filter(|last| last.role == Role::User);
        if last.is_none() && !has_prompt {
            return Err(EmptyPrompt);
        }
        let part = last.as_ref().map_or(0, |last| last.parts.len());
        match last {
            Some(last) => last.parts.extend(parts),
            None => self.messages.push(Message { role: Role::User, parts }),
        }
        if has_prompt {
            let message = self.messages.len() - 1;
            self.prompts.push(PromptEntry { message, part, typed: typed.to_owned() });
        }
        Ok(ModelTurn { conversation: self, is_fresh: has_prompt })
    }

    /// Continues a turn whose last message is the user's. `is_fresh` is true if the turn began with
    /// a prompt, and the model has not called anything since.
    pub(super) fn go_on(&mut self, is_fresh: bool) -> Option<ModelTurn<'_>> {
        let is_open = self.messages.last().is_some_and(|last| last.role == Role::User);
        is_open.then_some(ModelTurn { conversation: self, is_fresh })
    }

    /// Removes the last prompt, which ends the conversation.
    fn take_back(&mut self) {
        let Some(PromptEntry { message, part, .. }) = self.prompts.pop() else { return };
        self.messages.truncate(message + 1);
        let Some(last) = self.messages.last_mut() else { return };
        last.parts.truncate(part);
        if last.parts.is_empty() {
            self.messages.pop();
        }
    }
}

impl ModelTurn<'_> {
    /// Returns the messages that the model is sent.
    pub(super) fn messages(&self) -> &[Message] {
        &self.conversation.messages
    }

    /// Returns the conversation, to make room in it. The last message stays the user's.
    pub(super) fn conversation(&mut self) -> &mut Conversation {
        self.conversation
    }

    /// Returns whether the turn began with a prompt, and the model has not called anything since.
    pub(super) fn is_fresh(&self) -> bool {
        self.is_fresh
    }

    /// Appends an answer together with the results of its calls, after which the model may be
    /// asked again.
    ///
    /// A result belongs to the call with its id. Calls without a result and results without a call
    /// are left out. If no pair is left, the answer is not appended.
    pub(super) fn append(&mut self, answer: Vec<Part>, results: Vec<CallResult>) {
        let mut results: Vec<Option<CallResult>> = results.into_iter().map(Some).collect();
        let mut take = |call: &ModelCall| {
            let is_its = |result: &CallResult| result.id == call.id;
            results.iter_mut().find(|result| result.as_ref().is_some_and(is_its))?.take()
        };
        let mut matched = Vec::new();
        let answer = answer.into_iter().filter(|part| match part {
            Part::Call(call) => {
                take(call).map(|result| matched.push(Part::Result(result))).is_some()
            }
            Part::Result(_) | Part::Image(_) => false,
            Part::Text { .. } | Part::Blob(_) => true,
        });
        let answer: Vec<Part> = answer.collect();
        if matched.is_empty() {
            return;
        }
        self.is_fresh = false;
        self.conversation.messages.push(Message { role: Role::Model, parts: answer });
        self.conversation.messages.push(Message { role: Role::User, parts: matched });
    }

    /// Ends the turn with the model's last answer. Calls in it are left out, since they have no
    /// results.
    ///
    /// An answer that says nothing is not appended. Then the prompt is discarded, unless the model
    /// has called something since.
    pub(super) fn end(self, mut answer: Vec<Part>) {
        answer.retain(|part| matches!(part, Part::Text { .. } | Part::Blob(_)));
        if !is_silent(&answer) {
            self.conversation.messages.push(Message { role: Role::Model, parts: answer });
        } else if self.is_fresh {
            self.conversation.take_back();
        }
    }
}

/// Returns the calls of an answer, in their order.
pub(super) fn calls(answer: &[Part]) -> Vec<ModelCall> {
    let call = |part: &Part| match part {
        Part::Call(call) => Some(call.clone()),
        Part::Text { .. } | Part::Result(_) | Part::Image(_) | Part::Blob(_) => None,
    };
    answer.iter().filter_map(call).collect()
}

/// Returns the text of an answer.
pub(super) fn text(answer: &[Part]) -> String {
    let text = |part: &Part| match part {
        Part::Text { text, .. } => Some(text.clone()),
        Part::Call(_) | Part::Result(_) | Part::Image(_) | Part::Blob(_) => None,
    };
    answer.iter().filter_map(text).collect()
}

/// Returns whether parts neither say nor ask for anything.
pub(super) fn is_silent(parts: &[Part]) -> bool {
    parts.iter().all(|part| match part {
        Part::Text { text, .. } => text.trim().is_empty(),
        Part::Blob(_) => true,
        Part::Call(_) | Part::Result(_) | Part::Image(_) => false,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::compacted::NoSuchCut;
    use super::rules::{call, check, parts, result};
    use super::*;

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(ToString::to_string).collect()
    }

    fn message(role: Role, parts: Vec<Part>) -> Message {
        Message { role, parts }
    }

    /// A conversation in which a tool was called and the turn then failed.
    fn failed_after_a_call() -> Conversation {
        let mut conversation = Conversation::default();
        let mut exchange = conversation.begin("typed", texts(&["a"])).expect("a prompt");
        exchange.append(vec![Part::Call(call("1"))], vec![result("1")]);
        exchange.end(Vec::new());
        conversation
    }

    #[test]
    fn a_prompt_that_nobody_answered_is_taken_back() {
        let mut conversation = Conversation::default();
        conversation.begin("typed", texts(&["a", " ", "b"])).expect("a prompt").end(Vec::new());
        assert_eq!(conversation.messages(), []);

        let mut conversation = failed_after_a_call();
        let before = conversation.clone();
        assert_eq!(before.messages().len(), 3, "what was done stays");
        conversation.begin("typed", texts(&["b"])).expect("a prompt").end(vec![Part::text(" ")]);
        assert_eq!(conversation, before);
    }

    #[test]
    fn a_prompt_after_a_failure_is_added_to_the_results() {
        let mut conversation = failed_after_a_call();
        let exchange = conversation.begin("typed", texts(&["go on"])).expect("a prompt");
        let last = message(Role::User, vec![Part::Result(result("1")), Part::text("go on")]);
        assert_eq!(exchange.messages().last(), Some(&last));
        exchange.end(vec![Part::text("done")]);
        assert_eq!(conversation.messages().len(), 4);
    }

    #[test]
    fn a_prompt_stays_where_its_turn_is_dropped() {
        let mut conversation = Conversation::default();
        drop(conversation.begin("typed", texts(&["a"])).expect("a prompt"));
        assert_eq!(conversation.messages(), [message(Role::User, vec![Part::text("a")])]);
        conversation.begin("typed", texts(&["b"])).expect("a prompt").end(Vec::new());
        assert_eq!(conversation.messages(), [message(Role::User, vec![Part::text("a")])]);
    }

    #[test]
    fn an_empty_prompt_is_one_only_where_the_model_may_go_on() {
        let mut conversation = Conversation::default();
        assert_eq!(conversation.begin("typed", texts(&["\n"])).err(), Some(EmptyPrompt));
        assert_eq!(conversation.messages(), []);
        conversation = failed_after_a_call();
        conversation.begin("typed", texts(&[])).expect("results").end(vec![Part::text("done")]);
        assert_eq!(conversation.begin("typed", texts(&[])).err(), Some(EmptyPrompt));
    }

    #[test]
    fn calls_and_results_enter_in_pairs() {
        let mut conversation = Conversation::default();
        let mut exchange = conversation.begin("typed", texts(&["a"])).expect("a prompt");
        let answer = ["1", "2", "3"].map(|id| Part::Call(call(id)));
        exchange.append(answer.to_vec(), ["9", "3", "1"].map(result).to_vec());
        let pairs = ["1", "3"];
        assert_eq!(
            exchange.messages()[1..],
            [
                message(Role::Model, pairs.map(|id| Part::Call(call(id))).to_vec()),
                message(Role::User, pairs.map(|id| Part::Result(result(id))).to_vec()),
            ]
        );
    }

    /// One operation on a conversation.
    #[derive(Clone, Debug)]
    enum Operation {
        Clear,
        Shorten {
            id: String,
        },
        /// A cut, by its index.
        Summarize {
            cut: usize,
            most_typed: usize,
        },
        Turn {
            texts: Vec<String>,
            appended: Vec<(Vec<Part>, Vec<CallResult>)>,
            end: Option<Vec<Part>>,
        },
    }

    fn operation() -> impl Strategy<Value = Operation> {
        let results = prop::collection::vec("[1-4]".prop_map(|id| result(&id)), 0..5);
        let turn = (
            prop::collection::vec("[a ]{0,2}", 0..3),
            prop::collection::vec((parts(), results), 0..3),
            prop::option::of(parts()),
        );
        let turn = turn.prop_map(|(texts, appended, end)| Operation::Turn { texts, appended, end });
        let shorten = "[1-4]".prop_map(|id| Operation::Shorten { id });
        let summarize = (0..9usize, 0..9usize)
            .prop_map(|(cut, most_typed)| Operation::Summarize { cut, most_typed });
        prop_oneof![1 => Just(Operation::Clear), 2 => shorten, 3 => summarize, 9 => turn]
    }

    /// Leaves out the messages before a cut, and checks that the other messages did not change.
    fn summarize(
        conversation: &mut Conversation,
        cut: usize,
        most_typed: usize,
    ) -> Result<(), TestCaseError> {
        let Some(kept) = conversation.cuts().nth(cut) else {
            prop_assert_eq!(conversation.clone().summarize(0, "notes", 0), Err(NoSuchCut));
            return Ok(());
        };
        let before = conversation.messages().to_vec();
        let prompts: Vec<String> = conversation.typed().map(str::to_owned).collect();
        prop_assert_eq!(conversation.summarize(kept, "notes", most_typed), Ok(()));
        let after = conversation.messages();
        prop_assert_eq!(&after[1..], &before[before.len() - kept..]);
        let left: Vec<&str> = conversation.typed().collect();
        prop_assert!(prompts.iter().map(String::as_str).collect::<Vec<_>>().ends_with(&left));
        let typed = &conversation.left_out().expect("notes").typed;
        prop_assert!(typed.iter().map(String::len).sum::<usize>() <= most_typed);
        Ok(())
    }

    /// Carries out one operation, and checks the conversation at each step of it.
    fn run(conversation: &mut Conversation, operation: Operation) -> Result<(), TestCaseError> {
        let (texts, appended, end) = match operation {
            Operation::Turn { texts, appended, end } => (texts, appended, end),
            Operation::Clear => {
                conversation.clear();
                return Ok(());
            }
            Operation::Shorten { id } => {
                conversation.shorten(&id, "line");
                return Ok(());
            }
            Operation::Summarize { cut, most_typed } => {
                return summarize(conversation, cut, most_typed);
            }
        };
        let before = conversation.clone();
        let Ok(mut exchange) = conversation.begin("typed", texts) else {
            prop_assert_eq!(&*conversation, &before);
            return Ok(());
        };
        let prompted = exchange.messages().to_vec();
        for (answer, results) in appended {
            check(exchange.messages())?;
            prop_assert_eq!(exchange.messages().last().map(|last| last.role), Some(Role::User));
            exchange.append(answer, results);
        }
        check(exchange.messages())?;
        let appended = exchange.messages().to_vec();
        prop_assert_eq!(appended.last().map(|last| last.role), Some(Role::User));
        prop_assert!(appended.starts_with(&prompted));
        let Some(end) = end else { return Ok(()) };
        exchange.end(end);
        let after = conversation.messages();
        let is_answered = after.last().is_some_and(|last| last.role == Role::Model);
        if is_answered && after.len() > appended.len() {
            prop_assert_eq!(&after[..appended.len()], &*appended);
        } else if appended.len() > prompted.len() {
            prop_assert_eq!(after, &*appended);
        } else {
            prop_assert_eq!(&*conversation, &before);
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn no_sequence_of_operations_makes_a_conversation_invalid(
            operations in prop::collection::vec(operation(), 0..8),
        ) {
            let mut conversation = Conversation::default();
            for operation in operations {
                run(&mut conversation, operation)?;
                check(conversation.messages())?;
            }
        }
    }
}
