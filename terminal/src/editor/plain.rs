//! Line reading on a terminal that cannot move its cursor.

use std::io::{self, BufRead as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Input;
use super::continued::is_continued;
use super::modes;
use crate::one_line;
use crate::screen::Screen;

/// A reader of stdin.
#[derive(Debug)]
pub(super) struct Plain {
    prompt: String,
    asked: Asked,
}

/// The prompt on the screen while a line is read.
#[derive(Clone, Debug, Default)]
pub(super) struct Asked(Arc<Mutex<Option<String>>>);

impl Asked {
    /// Writes lines and repeats the prompt below them, so that the user knows that its line is
    /// still expected.
    pub(super) fn print(&self, text: &str, screen: &Screen) -> io::Result<()> {
        let prompt = self.lock();
        screen.line(text)?;
        prompt.as_deref().map_or(Ok(()), |prompt| screen.text(prompt))
    }

    fn ask(&self, prompt: &str, screen: &Screen) -> io::Result<()> {
        *self.lock() = Some(prompt.to_owned());
        screen.text(prompt)
    }

    fn lock(&self) -> MutexGuard<'_, Option<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Plain {
    pub(super) fn new(prompt: &str) -> Self {
        Self { prompt: one_line(prompt), asked: Asked::default() }
    }

    pub(super) fn set_prompt(&mut self, prompt: &str) {
        self.prompt = one_line(prompt);
    }

    pub(super) fn asked(&self) -> Asked {
        self.asked.clone()
    }

    /// Reads the next line together with its continuation lines.
    pub(super) fn read(&mut self, screen: &Screen) -> io::Result<Input> {
        let mut text = String::new();
        self.asked.ask(&self.prompt, screen)?;
        while let Some(line) = self.line(screen)? {
            text.push_str(&line);
            if !is_continued(&line) {
                return Ok(Input::Line(text));
            }
            text.pop();
            text.push('\n');
        }
        Ok(if text.is_empty() { Input::End } else { Input::Line(text) })
    }

    /// Reads an answer; keys that were typed before are discarded.
    pub(super) fn read_answer(&mut self, question: &str, screen: &Screen) -> io::Result<Input> {
        modes::discard_unread()?;
        self.asked.ask(&one_line(question), screen)?;
        Ok(self.line(screen)?.map_or(Input::End, Input::Line))
    }

    /// Reads an answer that the terminal does not show; keys that were typed before are discarded.
    pub(super) fn read_secret(&mut self, question: &str, screen: &Screen) -> io::Result<Input> {
        let hidden = modes::hide_typing()?;
        let read = self.read_answer(question, screen);
        drop(hidden);
        // Nor has it shown the end of the line.
        screen.line("")?;
        read
    }

    /// Reads a line without its end; `None` at the end of the input.
    fn line(&mut self, screen: &Screen) -> io::Result<Option<String>> {
        let mut line = String::new();
        let read = io::stdin().lock().read_line(&mut line);
        *self.asked.lock() = None;
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
