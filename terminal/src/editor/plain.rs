//! Reading lines where nothing but a line can be written.

use std::io::{self, BufRead as _};

use super::Input;
use super::continued::is_continued;
use crate::one_line;
use crate::screen::Screen;

/// A reader of stdin.
#[derive(Debug)]
pub(super) struct Plain {
    prompt: String,
}

impl Plain {
    pub(super) fn new(prompt: String) -> Self {
        Self { prompt: one_line(&prompt) }
    }

    pub(super) fn set_prompt(&mut self, prompt: String) {
        *self = Self::new(prompt);
    }

    pub(super) fn read(&mut self, screen: &Screen) -> io::Result<Input> {
        let mut text = String::new();
        screen.text(&self.prompt)?;
        loop {
            let start = text.len();
            if io::stdin().lock().read_line(&mut text)? == 0 {
                screen.end_text()?;
                return Ok(if text.is_empty() { Input::End } else { Input::Line(text) });
            }
            // The terminal has echoed the end of the line.
            screen.at_line_start();
            let line = text[start..].trim_end_matches(['\r', '\n']);
            let is_whole = !is_continued(line);
            let end = start + line.len() - usize::from(!is_whole);
            text.truncate(end);
            if is_whole {
                return Ok(Input::Line(text));
            }
            text.push('\n');
        }
    }
}
