//! Writing to stdout and stderr.
//!
//! stdout carries the answer and nothing else; everything else goes to stderr.

use std::io::{IsTerminal as _, Write as _};

use ikigai_terminal::sanitize;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;

use crate::error::CliError;

/// Writes what is for people to stdout, without anything that a terminal would obey: others
/// have put it into names, descriptions and paths, and a pipe often leads to a terminal.
pub(crate) fn print(text: &str) -> Result<(), CliError> {
    print_raw(sanitize(text).as_bytes())
}

/// Writes what is somebody's own text, or for a program, to stdout: as it is, but for a terminal.
pub(crate) fn print_exact(text: &str) -> Result<(), CliError> {
    if std::io::stdout().is_terminal() {
        return print(text);
    }
    print_raw(text.as_bytes())
}

/// Writes a value as indented JSON to stdout.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), CliError> {
    print_exact(&format!("{}\n", serde_json::to_string_pretty(value)?))
}

/// Writes bytes to stdout that a terminal may obey.
pub(crate) fn print_raw(bytes: &[u8]) -> Result<(), CliError> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()?;
    Ok(())
}

/// Writes to stderr. Nothing depends on whether somebody reads it, so it neither
/// waits for a reader nor for a thread that does and holds the standard library's
/// lock. Nothing that a terminal would obey is written, as in [`print`].
pub(crate) fn eprint(text: &str) {
    let text = sanitize(text);
    /// What a pipe that is ready takes without blocking, in bytes: POSIX's PIPE_BUF.
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
