//! A question where no editor has the terminal.

use std::io;

use super::{Given, Question, Work, read};
use crate::editor::{Held, PASTE};
use crate::screen::Screen;

/// Asks `question` at the terminal of stdin, and blocks until there is an answer, or until `is_over`
/// returns true: then there is none. Other output of `screen` waits meanwhile.
///
/// To be called where no [editor](crate::Editor) is, and by one thread at a time. Keys that are no
/// answer are lost. When this returns, the terminal is as it was before.
///
/// # Errors
///
/// Returns an error if the terminal cannot be read from or written to.
pub fn ask(
    screen: &Screen,
    question: &Question,
    is_over: &dyn Fn() -> bool,
) -> io::Result<Option<Given>> {
    if is_over() {
        return Ok(None);
    }
    let held = Held::begin()?;
    let modes = held.modes();
    let is_live = screen.look().live;
    if is_live {
        screen.control(PASTE.0)?;
    }
    let given =
        read(question, Work { screen, modes: &modes, ahead: None, is_over, on_key: &|_| {} });
    if is_live {
        screen.control(PASTE.1)?;
    }
    given
}
