//! A question while no editor has the terminal.

use std::io;

use super::{KeyQuestion, KeyReply, QuestionContext, read};
use crate::editor::{HeldTerminal, PASTE};
use crate::screen::Screen;

/// Asks `question` at the terminal of stdin, and blocks until the user answers. If `is_over`
/// returns true before that, returns without an answer. Other output of `screen` waits in the
/// meantime.
///
/// Call this only while no [editor](crate::Editor) exists, and from one thread at a time. Keys that
/// do not answer are lost. Ctrl-Z stops the program, which asks again when it is continued. When
/// this returns, and while the program is stopped, the terminal is in its earlier state.
///
/// # Errors
///
/// Fails if the terminal cannot be read from or written to.
pub fn ask(
    screen: &Screen,
    question: &KeyQuestion,
    is_over: &dyn Fn() -> bool,
) -> io::Result<Option<KeyReply>> {
    if is_over() {
        return Ok(None);
    }
    let held = HeldTerminal::begin_asking()?;
    let modes = held.modes();
    let is_live = screen.look().live;
    if is_live {
        screen.control(PASTE.0)?;
    }
    let stop = || {
        if is_live {
            // The shell writes in the row of the keys, so clear it.
            screen.control("\r\x1b[J")?;
            screen.control(PASTE.1)?;
        }
        held.stop()?;
        if is_live { screen.control(PASTE.0) } else { Ok(()) }
    };
    let on_stop: Option<&dyn Fn() -> io::Result<()>> = Some(&stop);
    let work =
        QuestionContext { screen, modes: &modes, ahead: None, is_over, on_key: &|_| {}, on_stop };
    let given = read(question, work);
    if is_live {
        screen.control(PASTE.1)?;
    }
    given
}
