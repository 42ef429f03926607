//! The decision which key answers a question.
//!
//! This module knows no terminal and no clock: the caller passes events and times.

use std::time::{Duration, Instant};

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::{DETAILS, KeyQuestion, KeyReply};
use crate::editor::TypeAhead;

/// The time without typing before a key counts as an answer: if the user is typing a line when a
/// question comes, those keys are not meant for it.
const PAUSE: Duration = Duration::from_millis(500);

/// The time without a key after which a question is declined.
const SILENCE: Duration = Duration::from_mins(5);

/// The key that declines, unless the question has another meaning for it.
const NO: char = 'n';

/// The most bytes of a text for the model.
const MOST_TOLD: usize = 4_000;

/// A question that waits for its key.
#[derive(Debug)]
pub(crate) struct QuestionState<'a> {
    question: &'a KeyQuestion,
    /// The time before which no key is an answer.
    quiet_until: Instant,
    /// True if the user has paused long enough, so that the next key is meant for the question.
    is_armed: bool,
    last_key: Instant,
    /// The text for the model, once the user has begun to write it.
    told: Option<TypeAhead>,
}

/// The effect of an event on a question.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Took {
    /// The event was the answer.
    Given(KeyReply),
    /// The event changed the text for the model.
    Line,
    /// The event was the key for the details.
    Details,
    /// The event does not answer the question, and belongs to the editor.
    Nothing,
}

/// The last line of a question, as far as this module knows it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum QuestionLine {
    /// No key is an answer yet.
    Waiting,
    /// The keys are answers.
    Keys,
    /// The text for the model that is being written.
    Telling(String),
}

impl<'a> QuestionState<'a> {
    /// Begins with a question that has been shown since `now`.
    pub(crate) fn new(question: &'a KeyQuestion, now: Instant) -> Self {
        let quiet_until = now + PAUSE;
        Self { question, quiet_until, is_armed: false, last_key: now, told: None }
    }

    /// Begins again, for example after the program was stopped and continues.
    pub(crate) fn again(&mut self, now: Instant) {
        *self = Self::new(self.question, now);
    }

    pub(crate) fn shown(&self) -> QuestionLine {
        match &self.told {
            Some(told) => QuestionLine::Telling(told.draft().to_owned()),
            None if self.is_armed => QuestionLine::Keys,
            None => QuestionLine::Waiting,
        }
    }

    /// Records that no key came after `since`. Keys that were typed earlier and are read late
    /// therefore never answer.
    pub(crate) fn idle(&mut self, since: Instant) {
        self.is_armed |= since >= self.quiet_until;
    }

    pub(crate) fn is_silent(&self, now: Instant) -> bool {
        now.duration_since(self.last_key) >= SILENCE
    }

    /// Takes an event. `is_alone` means that no other event came with it: keys that come together
    /// were pasted, or typed before the question.
    pub(crate) fn press(&mut self, event: &Event, now: Instant, is_alone: bool) -> Took {
        let key = match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => Some(*key),
            Event::Paste(_) => None,
            _ => return Took::Nothing,
        };
        self.last_key = now;
        if self.told.is_some() {
            return self.write(event, key, is_alone);
        }
        if self.is_armed
            && is_alone
            && let Some(took) = key.and_then(|key| self.answer(key))
        {
            return took;
        }
        self.is_armed = false;
        self.quiet_until = now + PAUSE;
        Took::Nothing
    }

    fn answer(&mut self, key: KeyEvent) -> Option<Took> {
        if is_decline(key) || is_enter(key) {
            return Some(Took::Given(KeyReply::Declined));
        }
        let KeyEvent { code: KeyCode::Char(c), modifiers, .. } = key else { return None };
        // Some terminals report the Shift key with which it was typed.
        if c == DETAILS && (modifiers - KeyModifiers::SHIFT).is_empty() {
            return (!self.question.details.is_empty()).then_some(Took::Details);
        }
        if !modifiers.is_empty() {
            return None;
        }
        if self.question.telling.as_ref().is_some_and(|(key, _)| *key == c) {
            self.told = Some(TypeAhead::default());
            return Some(Took::Line);
        }
        let mut choices = self.question.choices.iter().chain(&self.question.last);
        let is_choice = choices.any(|(key, _)| *key == c);
        if is_choice {
            return Some(Took::Given(KeyReply::Key(c)));
        }
        (c == NO).then_some(Took::Given(KeyReply::Declined))
    }

    fn write(&mut self, event: &Event, key: Option<KeyEvent>, is_alone: bool) -> Took {
        let Some(told) = &mut self.told else { return Took::Nothing };
        match key {
            Some(key) if is_decline(key) => return Took::Given(KeyReply::Declined),
            Some(key) if is_enter(key) && is_alone => {
                let text = told.take_draft();
                return Took::Given(match text.trim() {
                    "" => KeyReply::Declined,
                    text => KeyReply::Told(text.to_owned()),
                });
            }
            Some(key) if is_enter(key) => {
                told.press(Event::Key(KeyCode::Char(' ').into()));
            }
            _ => {
                told.press(event.clone());
            }
        }
        told.truncate(MOST_TOLD);
        Took::Line
    }
}

fn is_enter(KeyEvent { code, modifiers, .. }: KeyEvent) -> bool {
    // Ctrl-J is the code of an Enter that the terminal has translated.
    let is_translated = code == KeyCode::Char('j') && modifiers == KeyModifiers::CONTROL;
    is_translated || code == KeyCode::Enter
}

/// Returns true for Esc, and for the end of the input.
fn is_decline(KeyEvent { code, modifiers, .. }: KeyEvent) -> bool {
    let is_end = code == KeyCode::Char('d') && modifiers == KeyModifiers::CONTROL;
    is_end || code == KeyCode::Esc
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::question::Facts;

    fn question() -> KeyQuestion {
        KeyQuestion {
            choices: vec![('o', "once".to_owned()), ('d', "deny".to_owned())],
            telling: Some(('t', "tell".to_owned())),
            ..KeyQuestion::default()
        }
    }

    fn key(c: char) -> Event {
        let code = match c {
            '\r' => KeyCode::Enter,
            '\x1b' => KeyCode::Esc,
            c => KeyCode::Char(c),
        };
        Event::Key(code.into())
    }

    fn control(c: char) -> Event {
        Event::Key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL))
    }

    fn later(from: Instant, millis: u64) -> Instant {
        from + Duration::from_millis(millis)
    }

    /// Returns a question whose next key is meant, and the time at which it became so.
    fn armed(question: &KeyQuestion) -> (QuestionState<'_>, Instant) {
        let begun = Instant::now();
        let mut asking = QuestionState::new(question, begun);
        let now = later(begun, 500);
        asking.idle(now);
        assert_eq!(asking.shown(), QuestionLine::Keys);
        (asking, now)
    }

    #[test]
    fn a_key_within_half_a_second_is_no_answer() {
        let question = question();
        let begun = Instant::now();
        let mut asking = QuestionState::new(&question, begun);
        asking.idle(later(begun, 499));
        assert_eq!(asking.shown(), QuestionLine::Waiting);
        for c in ['o', 'd', 't', '\r', '\x1b'] {
            assert_eq!(asking.press(&key(c), later(begun, 499), true), Took::Nothing, "{c:?}");
        }
    }

    #[test]
    fn a_key_that_was_typed_before_and_is_read_late_is_no_answer() {
        let question = question();
        let begun = Instant::now();
        let mut asking = QuestionState::new(&question, begun);
        // It is not known that the key was typed after the pause.
        assert_eq!(asking.press(&key('o'), later(begun, 9_000), true), Took::Nothing);
        asking.idle(later(begun, 9_499));
        assert_eq!(asking.shown(), QuestionLine::Waiting);
        asking.idle(later(begun, 9_500));
        assert_eq!(
            asking.press(&key('o'), later(begun, 9_600), true),
            Took::Given(KeyReply::Key('o'))
        );
    }

    #[test]
    fn a_person_who_types_on_answers_nothing() {
        let question = question();
        let (mut asking, mut now) = armed(&question);
        for c in "hood to do\r".chars() {
            assert_eq!(asking.press(&key(c), now, true), Took::Nothing, "{c:?}");
            asking.idle(later(now, 400));
            now = later(now, 450);
        }
    }

    #[test]
    fn what_comes_together_is_no_answer() {
        let question = question();
        let (mut asking, now) = armed(&question);
        assert_eq!(asking.press(&key('o'), now, false), Took::Nothing);
        // The last of these keys is read separately.
        assert_eq!(asking.press(&key('o'), now, true), Took::Nothing);
        let (mut asking, now) = armed(&question);
        assert_eq!(asking.press(&Event::Paste("o".to_owned()), now, true), Took::Nothing);
        assert_eq!(asking.press(&key('o'), now, true), Took::Nothing);
    }

    #[test]
    fn each_key_has_its_effect() {
        let question = question();
        let cases = [
            (key('o'), Took::Given(KeyReply::Key('o'))),
            (key('d'), Took::Given(KeyReply::Key('d'))),
            (key('\r'), Took::Given(KeyReply::Declined)),
            (key('\x1b'), Took::Given(KeyReply::Declined)),
            (key('n'), Took::Given(KeyReply::Declined)),
            (control('d'), Took::Given(KeyReply::Declined)),
            (control('j'), Took::Given(KeyReply::Declined)),
            (key('O'), Took::Nothing),
            (key('y'), Took::Nothing),
            (control('o'), Took::Nothing),
        ];
        for (event, took) in cases {
            let (mut asking, now) = armed(&question);
            assert_eq!(asking.press(&event, now, true), took, "{event:?}");
        }
        let back = ('n', "back to the question".to_owned());
        let last = KeyQuestion { choices: vec![back], ..KeyQuestion::default() };
        let (mut asking, now) = armed(&last);
        assert_eq!(asking.press(&key('n'), now, true), Took::Given(KeyReply::Key('n')));
        let details = Facts::new(vec![("file".to_owned(), "sha256".to_owned())]);
        let detailed = KeyQuestion { details, ..question.clone() };
        for (question, took) in [(&question, Took::Nothing), (&detailed, Took::Details)] {
            for modifiers in [KeyModifiers::NONE, KeyModifiers::SHIFT] {
                let (mut asking, now) = armed(question);
                let event = Event::Key(KeyEvent::new(KeyCode::Char('?'), modifiers));
                assert_eq!(asking.press(&event, now, true), took, "{modifiers:?}");
            }
        }
        let (mut asking, now) = armed(&question);
        assert_eq!(asking.press(&Event::Resize(3, 3), now, true), Took::Nothing);
        assert_eq!(asking.shown(), QuestionLine::Keys, "a resize is no key");
    }

    #[test]
    fn a_text_is_written_and_told() {
        let question = question();
        let write = |events: &[(Event, bool)]| {
            let (mut asking, now) = armed(&question);
            let took = asking.press(&key('t'), now, true);
            assert_eq!((took, asking.shown()), (Took::Line, QuestionLine::Telling(String::new())));
            let mut last = Took::Line;
            for (event, is_alone) in events {
                assert_eq!(last, Took::Line);
                last = asking.press(event, now, *is_alone);
            }
            last
        };
        let paste = Event::Paste("the\ncopy\x1b".to_owned());
        let written = [(key('u'), false), (key('\r'), false), (paste, true), (key('\r'), true)];
        let told = KeyReply::Told("u the\ncopy␛".to_owned());
        assert_eq!(write(&written), Took::Given(told));
        assert_eq!(write(&[(key('\r'), true)]), Took::Given(KeyReply::Declined));
        assert_eq!(
            write(&[(key('x'), true), (key('\x1b'), true)]),
            Took::Given(KeyReply::Declined)
        );
        let long = Event::Paste("ä".repeat(MOST_TOLD));
        let Took::Given(KeyReply::Told(told)) = write(&[(long, true), (key('\r'), true)]) else {
            panic!("it was told");
        };
        assert_eq!(told.len(), MOST_TOLD);
    }

    #[test]
    fn silence_declines_after_five_minutes_and_a_stop_begins_anew() {
        let question = question();
        let (mut asking, now) = armed(&question);
        assert_eq!(asking.press(&key('x'), now, true), Took::Nothing);
        assert!(!asking.is_silent(now + SILENCE - PAUSE));
        assert!(asking.is_silent(now + SILENCE));
        let (mut asking, now) = armed(&question);
        asking.again(now + SILENCE);
        assert!(!asking.is_silent(now + SILENCE));
        assert_eq!(asking.press(&key('o'), now + SILENCE, true), Took::Nothing);
    }
}
