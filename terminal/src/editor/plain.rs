//! Line reading on a terminal that cannot move its cursor.

use std::io::{self, BufRead as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::ahead::TypeAhead;
use super::continued::is_continued;
use super::modes::{self, HeldTerminal};
use super::{EditorEvent, WorkKey};
use crate::one_line;
use crate::question::{self, QuestionContext, QuestionSender};
use crate::screen::Screen;

/// The interval at which a watch checks whether it should end.
const LOOK: Duration = Duration::from_millis(20);

/// A reader of stdin.
#[derive(Debug)]
pub(super) struct Plain {
    prompt: String,
    asked: VisiblePrompt,
    /// The keys that were typed while a question was asked, and did not answer it.
    ahead: TypeAhead,
}

/// The prompt on the screen while a line is read.
#[derive(Clone, Debug, Default)]
pub(super) struct VisiblePrompt(Arc<Mutex<Option<String>>>);

impl VisiblePrompt {
    /// Writes lines and repeats the prompt below them, so that the user knows that ikigai still
    /// expects a line.
    pub(super) fn print(&self, text: &str, screen: &Screen) -> io::Result<()> {
        let prompt = self.0.lock();
        screen.line(text)?;
        prompt.as_deref().map_or(Ok(()), |prompt| screen.text(prompt))
    }

    fn ask(&self, prompt: &str, screen: &Screen) -> io::Result<()> {
        *self.0.lock() = Some(prompt.to_owned());
        screen.text(prompt)
    }
}

impl Plain {
    pub(super) fn new(prompt: &str) -> Self {
        Self {
            prompt: one_line(prompt),
            asked: VisiblePrompt::default(),
            ahead: TypeAhead::default(),
        }
    }

    pub(super) fn set_prompt(&mut self, prompt: &str) {
        self.prompt = one_line(prompt);
    }

    pub(super) fn asked(&self) -> VisiblePrompt {
        self.asked.clone()
    }

    /// Asks the questions of `asker`, until `stop` is set. The terminal echoes typed text itself,
    /// except during a question.
    pub(super) fn watch(
        &mut self,
        screen: &Screen,
        asker: &QuestionSender,
        stop: &AtomicBool,
        on_key: &dyn Fn(WorkKey),
    ) -> io::Result<()> {
        while !stop.load(Ordering::Relaxed) {
            let Some(pending) = asker.wait(LOOK) else { continue };
            let held = HeldTerminal::begin()?;
            let modes = held.modes();
            let is_over = || stop.load(Ordering::Relaxed) || pending.is_void();
            let ahead = Some(&mut self.ahead);
            let (is_over, on_stop) = (&is_over, None);
            let work = QuestionContext { screen, modes: &modes, ahead, is_over, on_key, on_stop };
            let given = question::read(&pending.question, work)?;
            drop(held);
            if let Some(given) = given {
                pending.answer(given);
            }
        }
        Ok(())
    }

    /// Makes one line of the text that was typed while a question was asked.
    pub(super) fn take_back(&mut self) {
        self.ahead.take_back();
    }

    /// Reads the next line together with its continuation lines. It begins with the text that was
    /// typed while a question was asked.
    pub(super) fn read(&mut self, screen: &Screen) -> io::Result<EditorEvent> {
        if let Some(input) = self.ahead.next() {
            return Ok(input);
        }
        let mut text = self.ahead.take_draft();
        self.asked.ask(&format!("{}{text}", self.prompt), screen)?;
        while let Some(line) = self.line(screen)? {
            text.push_str(&line);
            if !is_continued(&line) {
                return Ok(EditorEvent::Line(text));
            }
            text.pop();
            text.push('\n');
        }
        Ok(if text.is_empty() { EditorEvent::End } else { EditorEvent::Line(text) })
    }

    /// Reads an answer; keys that were typed before are discarded.
    pub(super) fn read_answer(
        &mut self,
        question: &str,
        screen: &Screen,
    ) -> io::Result<EditorEvent> {
        modes::discard_unread()?;
        self.asked.ask(&one_line(question), screen)?;
        Ok(self.line(screen)?.map_or(EditorEvent::End, EditorEvent::Line))
    }

    /// Reads an answer that the terminal does not show; keys that were typed before are discarded.
    pub(super) fn read_secret(
        &mut self,
        question: &str,
        screen: &Screen,
    ) -> io::Result<EditorEvent> {
        let hidden = modes::hide_typing()?;
        let read = self.read_answer(question, screen);
        drop(hidden);
        // The terminal has not echoed the end of the line either.
        screen.line("")?;
        read
    }

    /// Reads a line without its end; `None` at the end of the input.
    fn line(&mut self, screen: &Screen) -> io::Result<Option<String>> {
        let mut line = String::new();
        let read = io::stdin().lock().read_line(&mut line);
        *self.asked.0.lock() = None;
        if read? == 0 {
            screen.end_text()?;
            return Ok(None);
        }
        // The terminal has echoed the end of the line.
        screen.at_line_start();
        line.truncate(line.trim_end_matches(['\r', '\n']).len());
        Ok(Some(line))
    }
}
