//! A conversation restored from its log.

use std::collections::HashSet;

use ikigai_assets::SessionEvent;
use ikigai_protocol::EnvelopeCode;
use ikigai_provider::{CallResult, Message, ModelCall, Part, TokenUsage};
use serde_json::json;

use super::format::{self, EventFormatError};
use super::{JournalEvent, VERSION};
use crate::conversation::{Conversation, calls};
use crate::images;
use crate::surroundings::TurnSurroundings;
use crate::usage::sum;

/// A conversation as its log describes it.
#[derive(Debug, Default)]
pub struct Replayed {
    conversation: Conversation,
    /// The number of the last event.
    last: u64,
    /// The turn that did not end.
    open: OpenTurn,
    usage: TokenUsage,
    model: Option<(String, String)>,
    surroundings: Option<TurnSurroundings>,
    /// The answer whose calls have no results yet.
    pending: Option<UnansweredCalls>,
    /// True during a turn.
    in_turn: bool,
    /// True during a turn that began with a prompt, and in which nothing was called yet.
    is_fresh: bool,
    /// The ids of the calls in the conversation.
    ids: HashSet<String>,
    /// The number of the event with which each message began.
    begun: Vec<u64>,
    /// The number of the last event with calls.
    called: u64,
}

/// The parts of a turn that its process did not finish.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OpenTurn {
    /// The prompt without an answer, as it was typed.
    pub prompt: Option<String>,
    /// The calls without results. They may have run in part or completely.
    pub calls: Vec<LostCall>,
}

/// A call whose process ended before it did.
#[derive(Clone, Debug, PartialEq)]
pub struct LostCall {
    /// The call.
    pub call: ModelCall,
    /// Its id in the audit log, which has a record of the call if it ended.
    pub audit: Option<String>,
}

/// An answer whose calls have no results yet.
#[derive(Debug)]
struct UnansweredCalls {
    parts: Vec<Part>,
    /// The ids of the calls in the audit log.
    audit: Vec<String>,
}

/// The reason why events do not make a conversation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// A newer program wrote the event.
    #[error(
        "event {seq} (`{kind}`) was written by a newer version of ikigai: its form is {version}, and \
         this program reads up to {VERSION}"
    )]
    Newer {
        /// The number of the event.
        seq: u64,
        /// Its kind.
        kind: String,
        /// The version of its form.
        version: u64,
    },
    /// The event cannot be read.
    #[error("event {seq} (`{kind}`) cannot be read: {reason}")]
    Unreadable {
        /// The number of the event.
        seq: u64,
        /// Its kind.
        kind: String,
        /// The reason.
        reason: String,
    },
    /// The event cannot follow those before it.
    #[error("event {seq} (`{kind}`) cannot follow the events before it")]
    Misplaced {
        /// The number of the event.
        seq: u64,
        /// Its kind.
        kind: String,
    },
    /// Two calls have the same id, so that their results could be confused.
    #[error("event {seq} repeats the id `{id}` of another call")]
    Repeated {
        /// The number of the event.
        seq: u64,
        /// The id.
        id: String,
    },
}

/// Returns the conversation that these events make up: all events of a session, or those up to any
/// one of them.
///
/// Calls without results get results that say that they may have run.
///
/// # Errors
///
/// Fails if the events are not a valid log, or were written by a newer program.
pub fn replay(events: &[SessionEvent]) -> Result<Replayed, ReplayError> {
    let mut replayed = Replayed::default();
    for event in events {
        let read = JournalEvent::read(event)?;
        let called = replayed.pending.is_some().then_some(replayed.called);
        replayed.renumber(event.seq, &read);
        replayed.apply(event.seq, read)?;
        replayed.number(event.seq, called);
        replayed.last = event.seq;
    }
    if replayed.in_turn {
        replayed.open.prompt = replayed.conversation.typed().next_back().map(str::to_owned);
    }
    replayed.settle();
    Ok(replayed)
}

impl JournalEvent {
    /// Reads an event of a session.
    ///
    /// # Errors
    ///
    /// Fails with [`ReplayError::Newer`] and [`ReplayError::Unreadable`].
    pub fn read(event: &SessionEvent) -> Result<Self, ReplayError> {
        let SessionEvent { seq, kind, json, .. } = event;
        let (seq, shown) = (*seq, kind.clone());
        format::read(kind, json).map_err(|error| match error {
            EventFormatError::Newer(version) => ReplayError::Newer { seq, kind: shown, version },
            other => ReplayError::Unreadable { seq, kind: shown, reason: other.to_string() },
        })
    }
}

impl Replayed {
    /// Returns the messages that a model is sent. The first is the user's, and the sides alternate.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        self.conversation.messages()
    }

    /// Returns the messages for a program, as [`Session::transcript`](crate::Session::transcript)
    /// describes them.
    #[must_use]
    pub fn transcript(&self) -> serde_json::Value {
        self.conversation.transcript()
    }

    /// Returns the turn that did not end, if the last one did not.
    #[must_use]
    pub fn open(&self) -> &OpenTurn {
        &self.open
    }

    /// Returns the number of the first event that the model still sees in full, and not as notes.
    /// It also sees the prompt of the turn in which notes were written, which is older.
    #[must_use]
    pub fn seen_from(&self) -> Option<u64> {
        let notes = usize::from(self.notes().is_some());
        self.begun.get(notes).copied()
    }

    /// Returns the last prompt as it was typed, if it was not left out.
    pub(crate) fn last_prompt(&self) -> Option<&str> {
        self.conversation.typed().next_back()
    }

    /// Returns the event for the log that gives the open calls the same results as here.
    pub(crate) fn repair(&self) -> Option<JournalEvent> {
        let results: Vec<CallResult> = self.open.calls.iter().map(may_have_run).collect();
        (!results.is_empty()).then_some(JournalEvent::Results { results })
    }

    /// Returns the number of the last event.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    pub(crate) fn into_conversation(self) -> Conversation {
        self.conversation
    }

    /// Returns the cost of all requests, as far as providers say.
    #[must_use]
    pub fn usage(&self) -> TokenUsage {
        self.usage
    }

    /// Returns the names of the last provider and of its model.
    #[must_use]
    pub fn model(&self) -> Option<(&str, &str)> {
        self.model.as_ref().map(|(provider, name)| (provider.as_str(), name.as_str()))
    }

    /// Returns the surroundings of the last turn, if the log has them.
    pub(crate) fn surroundings(&self) -> Option<&TurnSurroundings> {
        self.surroundings.as_ref()
    }

    /// Returns the notes of a model on messages that it is not sent any more, if there are any.
    #[must_use]
    pub fn notes(&self) -> Option<&str> {
        self.conversation.left_out().map(|left_out| left_out.notes.as_str())
    }

    fn apply(&mut self, seq: u64, event: JournalEvent) -> Result<(), ReplayError> {
        let kind = event.kind();
        let misplaced = || ReplayError::Misplaced { seq, kind: kind.to_owned() };
        match event {
            JournalEvent::Prompt { typed, texts, images } => {
                self.settle();
                self.open = OpenTurn::default();
                let said = images::prompt(images, texts);
                let exchange = self.conversation.begin(&typed, said).map_err(|_| misplaced())?;
                (self.in_turn, self.is_fresh) = (true, exchange.is_fresh());
            }
            JournalEvent::Calls { parts, usage, audit } => {
                self.settle();
                if !self.in_turn || calls(&parts).is_empty() {
                    return Err(misplaced());
                }
                self.take_ids(seq, &parts)?;
                self.usage = sum(self.usage, usage);
                self.pending = Some(UnansweredCalls { parts, audit });
            }
            JournalEvent::Results { results } => {
                let UnansweredCalls { parts, .. } = self.pending.take().ok_or_else(misplaced)?;
                self.append(parts, results);
            }
            JournalEvent::Dropped => {
                (self.pending, self.in_turn) = (None, false);
                self.collect_ids();
            }
            JournalEvent::End { parts, usage, .. } => {
                self.settle();
                let turn = std::mem::take(&mut self.in_turn);
                let exchange = self.conversation.go_on(self.is_fresh).filter(|_| turn);
                exchange.ok_or_else(misplaced)?.end(parts);
                self.usage = sum(self.usage, usage);
                self.open = OpenTurn::default();
            }
            JournalEvent::Spent { usage } => self.usage = sum(self.usage, usage),
            JournalEvent::Cleared => {
                self.conversation.clear();
                (self.pending, self.in_turn) = (None, false);
                self.ids.clear();
            }
            JournalEvent::Model { provider, name } => self.model = Some((provider, name)),
            JournalEvent::Surroundings(surroundings) => self.surroundings = Some(surroundings),
            // If a result is not in the conversation any more, its line is ignored.
            JournalEvent::Shortened { results } => {
                for (id, line) in results {
                    self.conversation.shorten(&id, &line);
                }
            }
            JournalEvent::Summarized { kept, notes, most_typed } => {
                self.conversation.summarize(kept, &notes, most_typed).map_err(|_| misplaced())?;
                self.collect_ids();
            }
        }
        Ok(())
    }

    /// Updates the numbers of the messages for an event that removes some at the beginning, or
    /// whose messages come with a later event.
    fn renumber(&mut self, seq: u64, event: &JournalEvent) {
        match event {
            JournalEvent::Calls { .. } => self.called = seq,
            JournalEvent::Cleared => self.begun.clear(),
            JournalEvent::Summarized { kept, .. } => {
                let first = self.begun.len().saturating_sub(*kept);
                self.begun.splice(..first, [seq]);
            }
            _ => {}
        }
    }

    /// Numbers the messages that an event has added at the end, and forgets those that it removed.
    /// Calls that waited for their results began with the event `called`.
    fn number(&mut self, seq: u64, called: Option<u64>) {
        let length = self.conversation.messages().len();
        self.begun.truncate(length);
        if let Some(called) = called {
            let pair = length.min(self.begun.len() + 2);
            self.begun.resize(pair, called);
        }
        self.begun.resize(length, seq);
    }

    /// Gives the calls without results a result that says that they may have run.
    fn settle(&mut self) {
        let Some(UnansweredCalls { parts, audit }) = self.pending.take() else { return };
        let mut audit = audit.into_iter();
        let lost = |call| LostCall { call, audit: audit.next() };
        let lost: Vec<LostCall> = calls(&parts).into_iter().map(lost).collect();
        let results = lost.iter().map(may_have_run).collect();
        self.append(parts, results);
        self.open.calls = lost;
    }

    fn append(&mut self, parts: Vec<Part>, results: Vec<CallResult>) {
        if let Some(mut exchange) = self.conversation.go_on(self.is_fresh) {
            exchange.append(parts, results);
            self.is_fresh = exchange.is_fresh();
        }
    }

    /// Adds the ids of calls, and refuses an id that another call of the conversation has.
    fn take_ids(&mut self, seq: u64, parts: &[Part]) -> Result<(), ReplayError> {
        for ModelCall { id, .. } in calls(parts) {
            if !self.ids.insert(id.clone()) {
                return Err(ReplayError::Repeated { seq, id });
            }
        }
        Ok(())
    }

    /// Collects the ids anew. An id that has left the conversation may be used again.
    fn collect_ids(&mut self) {
        let messages = self.conversation.messages().iter();
        self.ids = messages.flat_map(|it| calls(&it.parts)).map(|call| call.id).collect();
    }
}

/// Returns the result of a call whose process ended before the call did.
fn may_have_run(LostCall { call, audit }: &LostCall) -> CallResult {
    let audit = audit.as_ref().map(|id| format!(". Its id in the audit log is {id}"));
    let error = format!(
        "ikigai ended while `{}` ran. It may have run, wholly or in part: see what it has changed \
         before you call it again{}",
        call.name,
        audit.unwrap_or_default()
    );
    let code = EnvelopeCode::ToolCrashed.as_str();
    let envelope = json!({ "tool_success": false, "error": error, "error_code": code });
    CallResult {
        id: call.id.clone(),
        name: call.name.clone(),
        content: envelope.to_string(),
        is_error: true,
        images: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use ikigai_host::exec::scrub::SecretValues;
    use ikigai_provider::Image;
    use proptest::prelude::*;

    use super::*;
    use crate::conversation::rules::{call, check, parts, result};
    use crate::images::tests::image;

    fn stored(events: &[JournalEvent]) -> Vec<SessionEvent> {
        let stored = |(at, event): (usize, &JournalEvent)| SessionEvent {
            seq: at as u64 + 1,
            kind: event.kind().to_owned(),
            json: format::write(event, &SecretValues::default()).expect("JSON"),
            begins_turn: event.begins_turn(),
            written_at: SystemTime::UNIX_EPOCH,
        };
        events.iter().enumerate().map(stored).collect()
    }

    fn prompt(text: &str) -> JournalEvent {
        JournalEvent::Prompt {
            typed: text.to_owned(),
            texts: vec![text.to_owned()],
            images: Vec::new(),
        }
    }

    fn called(ids: &[&str]) -> JournalEvent {
        let parts = ids.iter().map(|id| Part::Call(call(id))).collect();
        let usage = TokenUsage { input: Some(10), ..TokenUsage::default() };
        JournalEvent::Calls {
            parts,
            usage,
            audit: ids.iter().map(|id| format!("audit-{id}")).collect(),
        }
    }

    fn ended(text: &str) -> JournalEvent {
        let usage = TokenUsage { input: Some(5), output: Some(1), ..TokenUsage::default() };
        JournalEvent::End { reason: "answered".to_owned(), parts: vec![Part::text(text)], usage }
    }

    fn refused(events: &[JournalEvent]) -> String {
        replay(&stored(events)).expect_err("no conversation").to_string()
    }

    #[test]
    fn a_call_that_was_begun_may_have_run() {
        let events = [prompt("do it"), called(&["1", "2"])];
        let replayed = replay(&stored(&events)).expect("a conversation");
        let open = replayed.open();
        assert_eq!(open.prompt.as_deref(), Some("do it"));
        let ids = |lost: &LostCall| (lost.call.id.clone(), lost.audit.clone());
        let expected = ["1", "2"].map(|id| (id.to_owned(), Some(format!("audit-{id}"))));
        assert_eq!(open.calls.iter().map(ids).collect::<Vec<_>>(), expected);
        let Part::Result(result) = &replayed.messages()[2].parts[1] else { panic!("a result") };
        assert!(result.is_error && result.content.contains("It may have run"), "{result:?}");
        assert!(result.content.contains("`t`"), "{result:?}");
        assert!(result.content.contains("in the audit log is audit-2"), "{result:?}");

        // Repairing the log does not change the conversation.
        let repair = replayed.repair().expect("results");
        let repaired = [&events[..], &[repair]].concat();
        let again = replay(&stored(&repaired)).expect("a conversation");
        assert_eq!(again.messages(), replayed.messages());
        assert_eq!((again.open().calls.len(), again.repair()), (0, None));
    }

    #[test]
    fn a_turn_that_ended_leaves_nothing_open() {
        let results = JournalEvent::Results { results: vec![result("1")] };
        let events = [prompt("do it"), called(&["1"]), results, ended("done")];
        let replayed = replay(&stored(&events)).expect("a conversation");
        assert_eq!(replayed.open(), &OpenTurn::default());
        assert_eq!(replayed.messages().len(), 4);
        assert_eq!(replayed.usage().input, Some(15));
    }

    #[test]
    fn a_prompt_without_an_answer_is_taken_back_as_it_was() {
        let replayed = replay(&stored(&[prompt("a"), ended(" ")])).expect("a conversation");
        assert_eq!(replayed.messages(), []);
        let dropped =
            [prompt("a"), called(&["1"]), JournalEvent::Dropped, prompt("b"), called(&["1"])];
        let replayed = replay(&stored(&dropped)).expect("an id may come again");
        assert_eq!(replayed.messages()[0].parts, [Part::text("a"), Part::text("b")]);
    }

    #[test]
    fn what_the_model_sees_begins_behind_the_notes() {
        let results = |id| JournalEvent::Results { results: vec![result(id)] };
        let mut events = vec![
            prompt("a"),
            called(&["1"]),
            results("1"),
            ended("b"),
            prompt("c"),
            called(&["2"]),
            results("2"),
            ended("d"),
        ];
        let seen_from = |events: &[JournalEvent]| {
            let replayed = replay(&stored(events)).expect("a conversation");
            replayed.seen_from()
        };
        assert_eq!((seen_from(&[]), seen_from(&events)), (None, Some(1)));
        let notes = |kept| JournalEvent::Summarized {
            kept,
            notes: "notes".to_owned(),
            most_typed: 1 << 10,
        };
        // After the second prompt, which stays as the request of the turn.
        events.push(notes(3));
        assert_eq!(seen_from(&events), Some(6), "the calls, and not only their results");
        events.extend([prompt("e"), ended("f"), notes(3)]);
        assert_eq!(seen_from(&events), Some(8));
        events.extend([JournalEvent::Cleared, prompt("g")]);
        assert_eq!(seen_from(&events), Some(14));
        let lost = [prompt("a"), called(&["1"]), prompt("b"), ended("c"), notes(1)];
        assert_eq!(seen_from(&lost), Some(4));
    }

    #[test]
    fn what_is_no_log_is_refused() {
        assert_eq!(refused(&[ended("a")]), "event 1 (`end`) cannot follow the events before it");
        let events = [prompt("a"), ended("b"), called(&["1"])];
        assert_eq!(refused(&events), "event 3 (`calls`) cannot follow the events before it");
        let events = [prompt("a"), called(&["1", "1"])];
        assert_eq!(refused(&events), "event 2 repeats the id `1` of another call");
        let notes = JournalEvent::Summarized { kept: 1, notes: String::new(), most_typed: 0 };
        assert_eq!(refused(&[notes]), "event 1 (`summarized`) cannot follow the events before it");
        let mut newer = stored(&[prompt("a")]);
        newer[0].json = r#"{"v":7}"#.to_owned();
        assert_eq!(
            replay(&newer).expect_err("newer").to_string(),
            "event 1 (`prompt`) was written by a newer version of ikigai: its form is 7, and this \
             program reads up to 1"
        );
    }

    /// A step of a conversation.
    #[derive(Clone, Debug)]
    enum ReplayStep {
        /// A turn with a prompt, with these numbers of calls in each answer, and with its last
        /// answer unless the turn was dropped.
        Turn {
            texts: Vec<String>,
            images: Vec<Image>,
            calls: Vec<usize>,
            end: Option<Vec<Part>>,
        },
        /// A turn that was dropped while calls ran.
        Dropped,
        Cleared,
        Shortened(usize),
        Summarized {
            cut: usize,
            most_typed: usize,
        },
    }

    fn pictures() -> impl Strategy<Value = Vec<Image>> {
        prop::collection::vec("[ab]".prop_map(|name| image(&name, 0)), 0..2)
    }

    fn step() -> impl Strategy<Value = ReplayStep> {
        let texts = prop::collection::vec("[a ]{0,2}", 0..3);
        let calls = prop::collection::vec(1usize..3, 0..4);
        let turn = (texts, pictures(), calls, prop::option::of(parts()))
            .prop_map(|(texts, images, calls, end)| ReplayStep::Turn { texts, images, calls, end });
        prop_oneof![
            8 => turn,
            1 => Just(ReplayStep::Dropped),
            1 => Just(ReplayStep::Cleared),
            2 => (0usize..9).prop_map(ReplayStep::Shortened),
            3 => (0usize..5, 0usize..5)
                .prop_map(|(cut, most_typed)| ReplayStep::Summarized { cut, most_typed }),
        ]
    }

    /// A conversation, and the log that is written of it.
    #[derive(Default)]
    struct LoggedConversation {
        conversation: Conversation,
        events: Vec<JournalEvent>,
        ids: usize,
    }

    impl LoggedConversation {
        fn take(&mut self, step: ReplayStep) {
            let Self { conversation, events, ids } = self;
            let mut parts = |count: usize| {
                let all = *ids + 1..=*ids + count;
                *ids += count;
                all.map(|id| Part::Call(call(&format!("c{id}")))).collect::<Vec<_>>()
            };
            match step {
                ReplayStep::Turn { texts, images, calls: counts, end } => {
                    let said = images::prompt(images.clone(), texts.clone());
                    let Ok(mut exchange) = conversation.begin("typed", said) else {
                        return;
                    };
                    let (typed, shown) = ("typed".to_owned(), images.clone());
                    events.push(JournalEvent::Prompt { typed, texts, images: shown });
                    for count in counts {
                        let parts = parts(count);
                        let result = |call: &ModelCall| CallResult {
                            images: images.clone(),
                            ..result(&call.id)
                        };
                        let results: Vec<_> = calls(&parts).iter().map(result).collect();
                        exchange.append(parts.clone(), results.clone());
                        let (usage, audit) = (TokenUsage::default(), Vec::new());
                        events.push(JournalEvent::Calls { parts, usage, audit });
                        events.push(JournalEvent::Results { results });
                    }
                    if let Some(parts) = end {
                        let (reason, usage) = ("answered".to_owned(), TokenUsage::default());
                        exchange.end(parts.clone());
                        events.push(JournalEvent::End { reason, parts, usage });
                    }
                }
                ReplayStep::Dropped => {
                    drop(conversation.begin("typed", ["a".to_owned()]).expect("a prompt"));
                    events.push(prompt("a"));
                    if let Some(JournalEvent::Prompt { typed, .. }) = events.last_mut() {
                        "typed".clone_into(typed);
                    }
                    let (usage, audit) = (TokenUsage::default(), Vec::new());
                    events.push(JournalEvent::Calls { parts: parts(2), usage, audit });
                    events.push(JournalEvent::Dropped);
                }
                ReplayStep::Cleared => {
                    conversation.clear();
                    events.push(JournalEvent::Cleared);
                }
                ReplayStep::Shortened(id) => {
                    let id = format!("c{id}");
                    if conversation.shorten(&id, "line") {
                        events.push(JournalEvent::Shortened {
                            results: vec![(id, "line".to_owned())],
                        });
                    }
                }
                ReplayStep::Summarized { cut, most_typed } => {
                    let Some(kept) = conversation.cuts().nth(cut) else { return };
                    conversation.summarize(kept, "notes", most_typed).expect("a cut");
                    let notes = "notes".to_owned();
                    events.push(JournalEvent::Summarized { kept, notes, most_typed });
                }
            }
        }
    }

    fn event() -> impl Strategy<Value = JournalEvent> {
        let usage = TokenUsage::default();
        let results = prop::collection::vec("[1-4]".prop_map(|id| result(&id)), 0..3);
        prop_oneof![
            (prop::collection::vec("[a ]{0,2}", 0..3), pictures()).prop_map(|(texts, images)| {
                JournalEvent::Prompt { typed: "typed".to_owned(), texts, images }
            }),
            parts().prop_map(move |parts| JournalEvent::Calls { parts, usage, audit: Vec::new() }),
            results.prop_map(|results| JournalEvent::Results { results }),
            Just(JournalEvent::Dropped),
            parts().prop_map(move |parts| JournalEvent::End {
                reason: String::new(),
                parts,
                usage
            }),
            Just(JournalEvent::Spent { usage }),
            Just(JournalEvent::Cleared),
            "[1-4]".prop_map(|id| JournalEvent::Shortened { results: vec![(id, String::new())] }),
            (0usize..9).prop_map(|kept| {
                JournalEvent::Summarized { kept, notes: String::new(), most_typed: kept }
            }),
        ]
    }

    proptest! {
        #[test]
        fn a_log_makes_the_conversation_that_it_was_written_of(
            steps in prop::collection::vec(step(), 0..8),
        ) {
            let mut talk = LoggedConversation::default();
            for step in steps {
                talk.take(step);
            }
            let all = stored(&talk.events);
            let replayed = replay(&all).expect("a conversation");
            prop_assert_eq!(&replayed.conversation, &talk.conversation);
            for end in 0..all.len() {
                let part = replay(&all[..end]).expect("every beginning is a conversation");
                check(part.messages())?;
            }
        }

        #[test]
        fn any_events_make_a_valid_conversation_or_none(
            events in prop::collection::vec(event(), 0..12),
        ) {
            if let Ok(replayed) = replay(&stored(&events)) {
                check(replayed.messages())?;
            }
        }

        #[test]
        fn any_text_is_an_event_or_none(kind in "[a-z]{0,9}", json in ".{0,40}") {
            let event = SessionEvent {
                seq: 1,
                kind,
                json,
                begins_turn: false,
                written_at: SystemTime::UNIX_EPOCH,
            };
            let _ = JournalEvent::read(&event);
        }
    }
}
