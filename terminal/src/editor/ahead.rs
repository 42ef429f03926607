//! Typing while the program works: lines that wait for their turn, and the line that is not ended.
//!
//! Only the end of the line can be edited. When the editor reads again, it has everything that was
//! typed, and all keys work.
//!
//! **Invariant:** text that is typed after a line that asks for a secret never becomes a line. Such
//! a line stays in the queue until it is read, and keys are discarded in the meantime.

use std::collections::VecDeque;

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use unicode_segmentation::UnicodeSegmentation as _;

use super::continued::is_continued;
use super::keys;
use super::{EditorEvent, WorkKey};

/// The lines that were typed while the editor did not read.
#[derive(Debug, Default)]
pub(crate) struct TypeAhead {
    queued: VecDeque<EditorEvent>,
    draft: String,
    /// The first words of lines that ask for a secret.
    asks_for_secret: Vec<String>,
}

/// The effect of a key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Pressed {
    /// The lines may have changed.
    Typed,
    /// The key is for the work, and changes no line.
    Key(WorkKey),
}

impl TypeAhead {
    pub(crate) fn new(asks_for_secret: Vec<String>) -> Self {
        Self { asks_for_secret, ..Self::default() }
    }

    /// Takes a key or a paste.
    pub(crate) fn press(&mut self, event: Event) -> Pressed {
        match event {
            Event::Paste(_) if self.is_closed() => {}
            Event::Paste(text) => self.draft.push_str(&keys::pasted(&text)),
            Event::Key(key) if key.kind != KeyEventKind::Release => return self.key(key),
            _ => {}
        }
        Pressed::Typed
    }

    fn key(&mut self, KeyEvent { code, modifiers, .. }: KeyEvent) -> Pressed {
        let is_alt = modifiers.contains(KeyModifiers::ALT);
        match code {
            KeyCode::Esc => return Pressed::Key(WorkKey::Interrupt),
            KeyCode::Char('t') if modifiers == KeyModifiers::CONTROL => {
                return Pressed::Key(WorkKey::MoreTime);
            }
            KeyCode::Up => self.take_last(),
            _ if self.is_closed() => {}
            KeyCode::Enter if is_alt => self.draft.push('\n'),
            KeyCode::Enter => self.end_line(),
            KeyCode::Backspace if is_alt => self.delete_word(),
            KeyCode::Backspace => self.delete_character(),
            KeyCode::Char(c) if modifiers.contains(KeyModifiers::CONTROL) => self.control(c),
            KeyCode::Char(c) if !is_alt => self.draft.push(c),
            _ => {}
        }
        Pressed::Typed
    }

    /// Returns whether a line that asks for a secret is waiting.
    fn is_closed(&self) -> bool {
        self.queued.iter().any(|input| self.asks(input))
    }

    fn asks(&self, input: &EditorEvent) -> bool {
        let EditorEvent::Line(line) = input else { return false };
        let first = line.split_whitespace().next();
        first.is_some_and(|first| self.asks_for_secret.iter().any(|word| word == first))
    }

    fn control(&mut self, c: char) {
        match c {
            'd' if self.draft.is_empty() => self.queued.push_back(EditorEvent::End),
            'h' => self.delete_character(),
            // The code of an Enter that the terminal has translated.
            'j' => self.end_line(),
            'u' => self.draft.clear(),
            'w' => self.delete_word(),
            _ => {}
        }
    }

    fn end_line(&mut self) {
        if is_continued(&self.draft) {
            self.draft.pop();
            self.draft.push('\n');
            return;
        }
        let line = std::mem::take(&mut self.draft);
        if !line.trim().is_empty() {
            self.queued.push_back(EditorEvent::Line(line));
        }
    }

    fn delete_character(&mut self) {
        let last = self.draft.grapheme_indices(true).next_back();
        self.draft.truncate(last.map_or(0, |(at, _)| at));
    }

    fn delete_word(&mut self) {
        let words = self.draft.trim_end();
        let start = words.rfind(char::is_whitespace);
        let start = start.map_or(0, |at| words.ceil_char_boundary(at + 1));
        self.draft.truncate(start);
    }

    /// Moves the line that was queued last back to the cursor.
    fn take_last(&mut self) {
        // An end of the input that is queued is removed too.
        if self.draft.is_empty()
            && let Some(EditorEvent::Line(line)) = self.queued.pop_back()
        {
            self.draft = line;
        }
    }

    /// Returns the waiting lines, as the user sees them.
    pub(crate) fn queued(&self) -> Vec<String> {
        let shown = |input: &EditorEvent| match input {
            EditorEvent::Line(line) if self.asks(input) => {
                format!("{line} (it asks after this; keys are ignored until then)")
            }
            EditorEvent::Line(line) => line.clone(),
            _ => "Ctrl-D".to_owned(),
        };
        self.queued.iter().map(shown).collect()
    }

    pub(crate) fn draft(&self) -> &str {
        &self.draft
    }

    /// Cuts the line that is not ended to at most `bytes` bytes.
    pub(crate) fn truncate(&mut self, bytes: usize) {
        self.draft.truncate(self.draft.floor_char_boundary(bytes));
    }

    pub(crate) fn next(&mut self) -> Option<EditorEvent> {
        self.queued.pop_front()
    }

    /// Returns the line that is not ended, and removes it.
    pub(crate) fn take_draft(&mut self) -> String {
        std::mem::take(&mut self.draft)
    }

    /// Makes one text of all lines, so that the user sees it before anything is read. Lines that
    /// ask for a secret stay: as a text, they would be followed by the secret.
    pub(crate) fn take_back(&mut self) {
        let queued = std::mem::take(&mut self.queued);
        let (asking, others): (VecDeque<_>, VecDeque<_>) =
            queued.into_iter().partition(|input| self.asks(input));
        self.queued = asking;
        let lines = others.into_iter().filter_map(|input| match input {
            EditorEvent::Line(line) => Some(line),
            _ => None,
        });
        let draft = std::mem::take(&mut self.draft);
        let lines: Vec<String> = lines.chain(Some(draft).filter(|it| !it.is_empty())).collect();
        self.draft = lines.join("\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(ahead: &mut TypeAhead, code: KeyCode, modifiers: KeyModifiers) -> Pressed {
        ahead.press(Event::Key(KeyEvent::new(code, modifiers)))
    }

    fn typed(text: &str) -> TypeAhead {
        let mut ahead = TypeAhead::default();
        for c in text.chars() {
            let code = if c == '\r' { KeyCode::Enter } else { KeyCode::Char(c) };
            assert_eq!(press(&mut ahead, code, KeyModifiers::NONE), Pressed::Typed);
        }
        ahead
    }

    #[test]
    fn lines_wait_in_their_order() {
        let mut ahead = typed("one\r\r  \rtwo\\\rthree\rdraft");
        assert_eq!(ahead.queued(), ["one", "two\nthree"]);
        assert_eq!(ahead.draft(), "draft");
        assert_eq!(ahead.next(), Some(EditorEvent::Line("one".to_owned())));
        assert_eq!(ahead.next(), Some(EditorEvent::Line("two\nthree".to_owned())));
        assert_eq!(ahead.next(), None);
        assert_eq!(ahead.take_draft(), "draft");
        assert_eq!(ahead.take_draft(), "");
    }

    #[test]
    fn the_end_of_a_line_is_edited() {
        let mut ahead = typed("fix the  wörld 世e\u{301}");
        press(&mut ahead, KeyCode::Backspace, KeyModifiers::NONE);
        assert_eq!(ahead.draft(), "fix the  wörld 世");
        press(&mut ahead, KeyCode::Char('w'), KeyModifiers::CONTROL);
        press(&mut ahead, KeyCode::Backspace, KeyModifiers::ALT);
        assert_eq!(ahead.draft(), "fix the  ");
        press(&mut ahead, KeyCode::Char('u'), KeyModifiers::CONTROL);
        assert_eq!(ahead.draft(), "");
        press(&mut ahead, KeyCode::Backspace, KeyModifiers::NONE);
        press(&mut ahead, KeyCode::Char('w'), KeyModifiers::CONTROL);
        press(&mut ahead, KeyCode::Char('q'), KeyModifiers::CONTROL);
        assert_eq!(ahead.draft(), "");
    }

    #[test]
    fn a_paste_ends_no_line_and_is_harmless() {
        let mut ahead = TypeAhead::default();
        ahead.press(Event::Paste("a\r\nb\x1b[2J\r".to_owned()));
        assert_eq!((ahead.draft(), ahead.queued().len()), ("a\nb␛[2J\n", 0));
    }

    #[test]
    fn what_waits_comes_back_as_one_text() {
        let mut ahead = typed("one\rtwo\r");
        press(&mut ahead, KeyCode::Char('d'), KeyModifiers::CONTROL);
        assert_eq!(ahead.queued(), ["one", "two", "Ctrl-D"]);
        ahead.take_back();
        assert_eq!((ahead.queued().len(), ahead.draft()), (0, "one\ntwo"));
    }

    #[test]
    fn the_last_line_is_taken_for_editing_and_no_draft_is_lost_for_it() {
        let mut ahead = typed("one\rtwo\r");
        press(&mut ahead, KeyCode::Up, KeyModifiers::NONE);
        assert_eq!((ahead.queued(), ahead.draft()), (vec!["one".to_owned()], "two"));
        press(&mut ahead, KeyCode::Up, KeyModifiers::NONE);
        assert_eq!((ahead.queued().len(), ahead.draft()), (1, "two"));
    }

    #[test]
    fn nothing_is_taken_behind_a_line_that_asks_for_a_secret() {
        let mut ahead = TypeAhead::new(vec!["/key".to_owned()]);
        let enter = |ahead: &mut TypeAhead, text: &str| {
            text.chars().for_each(|c| {
                press(ahead, KeyCode::Char(c), KeyModifiers::NONE);
            });
            press(ahead, KeyCode::Enter, KeyModifiers::NONE);
        };
        enter(&mut ahead, "/keys");
        enter(&mut ahead, "one");
        enter(&mut ahead, " /key openai");
        enter(&mut ahead, "s3cret");
        ahead.press(Event::Paste("s3cret".to_owned()));
        press(&mut ahead, KeyCode::Char('d'), KeyModifiers::CONTROL);
        assert_eq!((ahead.queued().len(), ahead.draft()), (3, ""));
        let escape = press(&mut ahead, KeyCode::Esc, KeyModifiers::NONE);
        assert_eq!(escape, Pressed::Key(WorkKey::Interrupt));

        ahead.take_back();
        assert_eq!(ahead.draft(), "/keys\none");
        enter(&mut ahead, "s3cret");
        assert_eq!(ahead.next(), Some(EditorEvent::Line(" /key openai".to_owned())));
        assert_eq!((ahead.next(), ahead.take_draft().as_str()), (None, "/keys\none"));
        enter(&mut ahead, "two");
        assert_eq!(ahead.queued(), ["two"]);
    }

    #[test]
    fn a_line_that_asks_for_a_secret_can_be_taken_back_to_go_on_typing() {
        let mut ahead = TypeAhead::new(vec!["/key".to_owned()]);
        for c in "/key\rx".chars() {
            let code = if c == '\r' { KeyCode::Enter } else { KeyCode::Char(c) };
            press(&mut ahead, code, KeyModifiers::NONE);
        }
        press(&mut ahead, KeyCode::Up, KeyModifiers::NONE);
        assert_eq!((ahead.queued().len(), ahead.draft()), (0, "/key"));
    }

    #[test]
    fn the_keys_of_the_work_change_no_line() {
        let mut ahead = typed("one");
        let key = |ahead: &mut TypeAhead, code, modifiers| match press(ahead, code, modifiers) {
            Pressed::Key(key) => key,
            Pressed::Typed => panic!("it was typed: {code:?}"),
        };
        assert_eq!(key(&mut ahead, KeyCode::Esc, KeyModifiers::NONE), WorkKey::Interrupt);
        let more = key(&mut ahead, KeyCode::Char('t'), KeyModifiers::CONTROL);
        assert_eq!(more, WorkKey::MoreTime);
        assert_eq!(ahead.draft(), "one");
    }
}
