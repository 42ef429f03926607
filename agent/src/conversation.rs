//! The messages of a conversation, and the only operations that change them.
//!
//! Owns the rules that every provider demands of a conversation, and knows no tool, no host and
//! no network.
//!
//! **Invariant:** after each operation
//!
//! - the sides alternate, and the first message is the user's;
//! - each message says or asks for something;
//! - only the model calls. Each call has its result in the message after it, in the order of the
//!   calls, and no result is there without its call.
//!
//! The model is asked through an [`Exchange`] alone, and as long as there is one the last message
//! is the user's.

mod transcript;

use ikigai_provider::{Call, CallResult, Message, Part, Role};
use serde_json::Value;

/// The messages of a conversation, oldest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Conversation {
    messages: Vec<Message>,
}

/// A prompt without a text, where there is nothing else that the model could answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EmptyPrompt;

/// A turn of a conversation in which the model is to speak.
///
/// One that is dropped leaves everything that was appended, the prompt included.
#[derive(Debug)]
#[must_use = "the prompt stays without an answer"]
pub(super) struct Exchange<'a> {
    conversation: &'a mut Conversation,
    /// The end of the conversation before the prompt, until the model has called something.
    before: Option<Position>,
}

/// A position between two parts of a conversation.
#[derive(Clone, Copy, Debug)]
struct Position {
    messages: usize,
    /// The parts of the last of these messages.
    parts: usize,
}

impl Conversation {
    /// Returns all messages.
    pub(super) fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Returns all messages as JSON for programs.
    pub(super) fn transcript(&self) -> Value {
        transcript::of(&self.messages)
    }

    /// Removes all messages.
    pub(super) fn clear(&mut self) {
        self.messages.clear();
    }

    /// Begins a turn with a prompt: a part for each text that is not blank.
    ///
    /// Where the user's side spoke last, in a turn that failed or was dropped, the prompt is
    /// added to what it said. There it may be empty, which asks the model to go on.
    ///
    /// # Errors
    ///
    /// [`EmptyPrompt`]. The conversation has not changed.
    pub(super) fn begin(
        &mut self,
        texts: impl IntoIterator<Item = String>,
    ) -> Result<Exchange<'_>, EmptyPrompt> {
        let texts = texts.into_iter().filter(|text| !text.trim().is_empty());
        let prompt: Vec<Part> = texts.map(Part::text).collect();
        let before = self.end();
        match self.messages.last_mut() {
            Some(last) if last.role == Role::User => last.parts.extend(prompt),
            _ if prompt.is_empty() => return Err(EmptyPrompt),
            _ => self.messages.push(Message { role: Role::User, parts: prompt }),
        }
        Ok(Exchange { conversation: self, before: Some(before) })
    }

    fn end(&self) -> Position {
        let parts = self.messages.last().map_or(0, |last| last.parts.len());
        Position { messages: self.messages.len(), parts }
    }

    fn truncate(&mut self, end: Position) {
        self.messages.truncate(end.messages);
        if let Some(last) = self.messages.last_mut() {
            last.parts.truncate(end.parts);
        }
    }
}

impl Exchange<'_> {
    /// Returns the messages that the model is sent.
    pub(super) fn messages(&self) -> &[Message] {
        &self.conversation.messages
    }

    /// Appends an answer together with the results of its calls, after which the model may be
    /// asked again.
    ///
    /// A result belongs to the call with its id. A call without a result is left out, and so is
    /// a result without a call. An answer without a pair of them is not appended.
    pub(super) fn append(&mut self, answer: Vec<Part>, results: Vec<CallResult>) {
        let mut results: Vec<Option<CallResult>> = results.into_iter().map(Some).collect();
        let mut take = |call: &Call| {
            let is_its = |result: &CallResult| result.id == call.id;
            results.iter_mut().find(|result| result.as_ref().is_some_and(is_its))?.take()
        };
        let mut matched = Vec::new();
        let answer = answer.into_iter().filter(|part| match part {
            Part::Call(call) => {
                take(call).map(|result| matched.push(Part::Result(result))).is_some()
            }
            Part::Result(_) => false,
            Part::Text { .. } | Part::Blob(_) => true,
        });
        let answer: Vec<Part> = answer.collect();
        if matched.is_empty() {
            return;
        }
        self.before = None;
        self.conversation.messages.push(Message { role: Role::Model, parts: answer });
        self.conversation.messages.push(Message { role: Role::User, parts: matched });
    }

    /// Ends the turn with the model's last word. Calls in it are left out, since they have no
    /// results.
    ///
    /// An answer that says nothing is not appended. Then the prompt is taken back, unless the
    /// model has called something since.
    pub(super) fn end(self, mut answer: Vec<Part>) {
        answer.retain(|part| !matches!(part, Part::Call(_) | Part::Result(_)));
        if !is_silent(&answer) {
            self.conversation.messages.push(Message { role: Role::Model, parts: answer });
        } else if let Some(before) = self.before {
            self.conversation.truncate(before);
        }
    }
}

/// Returns the calls of an answer, in their order.
pub(super) fn calls(answer: &[Part]) -> Vec<Call> {
    let call = |part: &Part| match part {
        Part::Call(call) => Some(call.clone()),
        Part::Text { .. } | Part::Result(_) | Part::Blob(_) => None,
    };
    answer.iter().filter_map(call).collect()
}

/// Returns whether parts neither say nor ask for anything.
pub(super) fn is_silent(parts: &[Part]) -> bool {
    parts.iter().all(|part| match part {
        Part::Text { text, .. } => text.trim().is_empty(),
        Part::Blob(_) => true,
        Part::Call(_) | Part::Result(_) => false,
    })
}

#[cfg(test)]
mod tests {
    use ikigai_provider::{Blob, Provider};
    use proptest::prelude::*;

    use super::*;

    fn call(id: &str) -> Call {
        Call { id: id.into(), name: "t".into(), arguments: "{}".into(), blob: None }
    }

    fn result(id: &str) -> CallResult {
        CallResult { id: id.into(), name: "t".into(), content: id.into(), is_error: false }
    }

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(ToString::to_string).collect()
    }

    fn message(role: Role, parts: Vec<Part>) -> Message {
        Message { role, parts }
    }

    /// A conversation in which a tool was called and the turn then failed.
    fn failed_after_a_call() -> Conversation {
        let mut conversation = Conversation::default();
        let mut exchange = conversation.begin(texts(&["a"])).expect("a prompt");
        exchange.append(vec![Part::Call(call("1"))], vec![result("1")]);
        exchange.end(Vec::new());
        conversation
    }

    #[test]
    fn a_prompt_that_nobody_answered_is_taken_back() {
        let mut conversation = Conversation::default();
        conversation.begin(texts(&["a", " ", "b"])).expect("a prompt").end(Vec::new());
        assert_eq!(conversation.messages(), []);

        let mut conversation = failed_after_a_call();
        let before = conversation.clone();
        assert_eq!(before.messages().len(), 3, "what was done stays");
        conversation.begin(texts(&["b"])).expect("a prompt").end(vec![Part::text(" ")]);
        assert_eq!(conversation, before);
    }

    #[test]
    fn a_prompt_after_a_failure_is_added_to_the_results() {
        let mut conversation = failed_after_a_call();
        let exchange = conversation.begin(texts(&["go on"])).expect("a prompt");
        let last = message(Role::User, vec![Part::Result(result("1")), Part::text("go on")]);
        assert_eq!(exchange.messages().last(), Some(&last));
        exchange.end(vec![Part::text("done")]);
        assert_eq!(conversation.messages().len(), 4);
    }

    #[test]
    fn a_prompt_stays_where_its_turn_is_dropped() {
        let mut conversation = Conversation::default();
        drop(conversation.begin(texts(&["a"])).expect("a prompt"));
        assert_eq!(conversation.messages(), [message(Role::User, vec![Part::text("a")])]);
        conversation.begin(texts(&["b"])).expect("a prompt").end(Vec::new());
        assert_eq!(conversation.messages(), [message(Role::User, vec![Part::text("a")])]);
    }

    #[test]
    fn an_empty_prompt_is_one_only_where_the_model_may_go_on() {
        let mut conversation = Conversation::default();
        assert_eq!(conversation.begin(texts(&["\n"])).err(), Some(EmptyPrompt));
        assert_eq!(conversation.messages(), []);
        conversation = failed_after_a_call();
        conversation.begin(texts(&[])).expect("results").end(vec![Part::text("done")]);
        assert_eq!(conversation.begin(texts(&[])).err(), Some(EmptyPrompt));
    }

    #[test]
    fn calls_and_results_enter_in_pairs() {
        let mut conversation = Conversation::default();
        let mut exchange = conversation.begin(texts(&["a"])).expect("a prompt");
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
        Turn {
            texts: Vec<String>,
            appended: Vec<(Vec<Part>, Vec<CallResult>)>,
            end: Option<Vec<Part>>,
        },
    }

    fn part() -> impl Strategy<Value = Part> {
        let blob = |value: &str| Blob {
            provider: Provider::Google,
            model: "m".to_owned(),
            value: value.into(),
        };
        prop_oneof![
            "[a ]{0,2}".prop_map(Part::text),
            "[1-4]".prop_map(|id| Part::Call(call(&id))),
            "[1-4]".prop_map(|id| Part::Result(result(&id))),
            "[xy]".prop_map(move |value| Part::Blob(blob(&value))),
        ]
    }

    fn parts() -> impl Strategy<Value = Vec<Part>> {
        prop::collection::vec(part(), 0..5)
    }

    fn operation() -> impl Strategy<Value = Operation> {
        let results = prop::collection::vec("[1-4]".prop_map(|id| result(&id)), 0..5);
        let turn = (
            prop::collection::vec("[a ]{0,2}", 0..3),
            prop::collection::vec((parts(), results), 0..3),
            prop::option::of(parts()),
        );
        let turn = turn.prop_map(|(texts, appended, end)| Operation::Turn { texts, appended, end });
        prop_oneof![1 => Just(Operation::Clear), 9 => turn]
    }

    /// Returns the ids of the calls of a message, and of its results.
    fn ids(message: &Message) -> (Vec<&str>, Vec<&str>) {
        let calls = message.parts.iter().filter_map(|part| match part {
            Part::Call(call) => Some(&*call.id),
            _ => None,
        });
        let results = message.parts.iter().filter_map(|part| match part {
            Part::Result(result) => Some(&*result.id),
            _ => None,
        });
        (calls.collect(), results.collect())
    }

    /// Fails where messages break one of the rules of this module.
    fn check(messages: &[Message]) -> Result<(), TestCaseError> {
        let mut called = Vec::new();
        for (at, message) in messages.iter().enumerate() {
            let role = if at % 2 == 0 { Role::User } else { Role::Model };
            prop_assert_eq!(message.role, role, "message {}", at);
            prop_assert!(!is_silent(&message.parts), "message {} says nothing", at);
            let (calls, results) = ids(message);
            prop_assert_eq!(&results, &called, "message {}", at);
            prop_assert!(role == Role::Model || calls.is_empty(), "message {}", at);
            called = calls;
        }
        prop_assert_eq!(called, Vec::<&str>::new(), "calls without results");
        Ok(())
    }

    /// Carries out one operation, and checks the conversation at each step of it.
    fn run(conversation: &mut Conversation, operation: Operation) -> Result<(), TestCaseError> {
        let Operation::Turn { texts, appended, end } = operation else {
            conversation.clear();
            return Ok(());
        };
        let before = conversation.clone();
        let Ok(mut exchange) = conversation.begin(texts) else {
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
