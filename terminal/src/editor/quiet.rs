//! The terminal between two lines that are read.

use std::io;
use std::os::fd::AsFd as _;

use rustix::termios::{InputModes, LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

/// Holds what is typed while nobody reads: it is not shown, because it would land in the
/// middle of what is written meanwhile, and the terminal makes nothing else of it: by the time it is
/// read, Ctrl-D would be a zero byte and Enter a line feed. Ctrl-C is a signal still.
/// Dropped, it puts the terminal back.
#[must_use = "what is typed is held as long as this lives"]
#[derive(Debug)]
pub(super) struct Quiet {
    before: Option<Termios>,
}

impl Quiet {
    /// Begins, if stdin is a terminal.
    ///
    /// # Errors
    ///
    /// If the terminal refuses.
    pub(super) fn begin() -> io::Result<Self> {
        let stdin = io::stdin();
        let Ok(before) = tcgetattr(stdin.as_fd()) else { return Ok(Self { before: None }) };
        let mut quiet = before.clone();
        quiet.input_modes.remove(InputModes::ICRNL);
        quiet.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON);
        tcsetattr(stdin.as_fd(), OptionalActions::Now, &quiet)?;
        Ok(Self { before: Some(before) })
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // A terminal that is gone has nothing to be put back.
            let _ = tcsetattr(io::stdin().as_fd(), OptionalActions::Now, before);
        }
    }
}
