//! Writing to stdout and stderr.
//!
//! stdout carries the answer and nothing else; everything else goes to stderr.

use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;

use ikigai_protocol::written_out;
use ikigai_terminal::{OutputFeatures, Screen, sanitize};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;

use crate::error::{self, CliError};

/// Returns a text for people with every invisible character in its lines written out.
pub(crate) fn visible(text: &str) -> String {
    text.lines().map(written_out).collect::<Vec<_>>().join("\n")
}

/// Writes text for people to stdout, without control characters that a terminal would obey.
/// Names, descriptions and paths may contain them, and a pipe often leads to a terminal.
pub(crate) fn print(text: &str) -> Result<(), CliError> {
    print_raw(sanitize(text).as_bytes())
}

/// Writes text for a program, or text that belongs to the user, to stdout. Writes it unchanged,
/// unless stdout is a terminal.
pub(crate) fn print_exact(text: &str) -> Result<(), CliError> {
    if std::io::stdout().is_terminal() {
        return print(text);
    }
    print_raw(text.as_bytes())
}

/// Writes a value to stdout as indented JSON.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), CliError> {
    print_exact(&format!("{}\n", serde_json::to_string_pretty(value)?))
}

/// Writes bytes to stdout as they are, control characters included.
pub(crate) fn print_raw(bytes: &[u8]) -> Result<(), CliError> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()?;
    Ok(())
}

/// Prints the error of a command, and returns the exit code of this process. A closed stdout is not
/// worth a message.
pub(crate) fn report(error: CliError) -> ExitCode {
    if error.is_broken_pipe() {
        return ExitCode::from(error::FAILED);
    }
    eprint(&error.text());
    ExitCode::from(error.exit)
}

/// Writes text for people to stderr, without control characters as in [`print`].
///
/// Does not block if stderr has no reader. Takes no lock of the standard library, which a blocked
/// thread may hold.
pub(crate) fn eprint(text: &str) {
    let text = sanitize(text);
    /// The bytes that a pipe takes without blocking if it is ready: POSIX's `PIPE_BUF`.
    const READY: usize = 512;
    let timeout = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    let stderr = rustix::stdio::stderr();
    for piece in text.as_bytes().chunks(READY) {
        let ready = poll(&mut [PollFd::new(&stderr, PollFlags::OUT)], Some(&timeout));
        if !ready.is_ok_and(|ready| ready > 0) || rustix::io::write(stderr, piece).is_err() {
            return;
        }
    }
}

/// Returns the screen of stderr.
pub(crate) fn screen_of_stderr() -> Screen {
    Screen::new(std::io::stderr(), OutputFeatures::for_stream(&std::io::stderr()))
}
