//! A terminal that does not show what is typed.

use std::io;
use std::os::fd::AsFd as _;

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use crate::look::Look;

/// Keeps what is typed on stdin from being shown, until it is dropped: it would land in
/// the middle of what is written meanwhile. It is not lost, and Ctrl-C works.
#[must_use = "what is typed is hidden as long as this lives"]
#[derive(Debug)]
pub struct Quiet {
    before: Option<Termios>,
}

impl Quiet {
    /// Hides what is typed, if stdin is a terminal that can do more than show lines.
    ///
    /// # Errors
    ///
    /// If the terminal refuses.
    pub fn begin(look: Look) -> io::Result<Self> {
        if !look.live {
            // Lines are read as the terminal has them, and it shows them.
            return Ok(Self { before: None });
        }
        let stdin = io::stdin();
        let Ok(before) = tcgetattr(stdin.as_fd()) else { return Ok(Self { before: None }) };
        let mut quiet = before.clone();
        quiet.local_modes.remove(LocalModes::ECHO);
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
