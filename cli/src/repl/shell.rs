//! `!COMMAND`: the user's own command, in the workspace, with the user's shell and rights.
//!
//! It is not a call: no policy decides about it, no sandbox confines it, and the audit log does not
//! record it. Its output goes to the screen, and with the next prompt to the model.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, ExitStatus};

use ikigai_terminal::{Screen, sanitize};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::variables::ProgramVariable;

/// The shell if none is set.
const SHELL: &str = "/bin/sh";

/// The bytes that are kept of the beginning of an output, and of its end. Together they are about
/// as long as a tool's result for the model.
const KEPT: usize = 15_000;

/// The most bytes that a pipe contains when the command has ended.
const PIPE: usize = 64 * 1024;

/// Returns the command in a line, if it is one for the shell.
pub(super) fn command(line: &str) -> Option<&str> {
    line.trim().strip_prefix('!').map(str::trim)
}

/// A command that has ended.
#[derive(Debug)]
pub(super) struct Ran {
    command: String,
    output: TruncatedOutput,
    status: ExitStatus,
}

impl Ran {
    /// Returns the end of the command in words.
    pub(super) fn end(&self) -> String {
        match (self.status.code(), self.status.signal()) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(signal)) => format!("ended by signal {signal}"),
            (None, None) => self.status.to_string(),
        }
    }

    /// Returns the text for the model.
    pub(super) fn text(&self) -> String {
        let Self { command, output, .. } = self;
        let output = output.text();
        let output = if output.is_empty() { "(no output)" } else { &output };
        format!("The user ran `{command}` in a shell ({}):\n\n{output}\n", self.end())
    }
}

/// Runs a command with the terminal for its stdin, and shows its output as it comes. Ctrl-C reaches
/// the command directly, since it is in the foreground with this process. `end` ends it.
///
/// # Errors
///
/// Fails if the shell cannot be started, or if the terminal cannot be written to.
pub(super) async fn run(
    command: &str,
    workspace: &Path,
    screen: &Screen,
    end: &CancellationToken,
) -> io::Result<Ran> {
    // Ctrl-\ is also meant for the command.
    let _quit = signal(SignalKind::quit())?;
    let (mut child, mut reader) = start(command, workspace)?;
    let pid = Pid::from_child(&child);
    let mut status = tokio::task::spawn_blocking(move || child.wait());
    let mut output = TruncatedOutput::default();
    let mut decoder = Decoder::default();
    let mut buffer = vec![0; PIPE];
    let mut is_open = true;
    let status = loop {
        tokio::select! {
            biased;
            () = end.cancelled() => {
                // The command may have ended on its own. A signal that it can ignore would delay
                // the end of this program.
                let _ = kill_process(pid, Signal::KILL);
                break (&mut status).await;
            }
            // Check this before the pipe: processes that the command left behind may still write to
            // it.
            status = &mut status => break status,
            read = reader.read(&mut buffer), if is_open => {
                let read = read?;
                is_open = read > 0;
                output.push(&buffer[..read]);
                screen.print(&decoder.push(&buffer[..read]))?;
            }
        }
    };
    // The rest in the pipe fits into the buffer. An empty pipe is an error here.
    if let Ok(read) = rustix::io::read(&reader, &mut buffer[..]) {
        output.push(&buffer[..read]);
        screen.print(&decoder.push(&buffer[..read]))?;
    }
    screen.end_text()?;
    let status = status.map_err(io::Error::other)??;
    Ok(Ran { command: command.to_owned(), output, status })
}

/// Starts the command. stdout and stderr share one pipe, which preserves their order.
#[allow(clippy::disallowed_methods, reason = "a command of the person, and not a tool")]
fn start(command: &str, workspace: &Path) -> io::Result<(Child, Receiver)> {
    let shell = ProgramVariable::Shell.value().filter(|shell| !shell.is_empty());
    let (reader, writer) = io::pipe()?;
    let child = std::process::Command::new(shell.unwrap_or(OsString::from(SHELL)))
        .arg("-c")
        .arg(command)
        .current_dir(workspace)
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .spawn()?;
    Ok((child, Receiver::from_owned_fd(OwnedFd::from(reader))?))
}

/// The beginning and the end of an output.
#[derive(Debug, Default)]
struct TruncatedOutput {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    dropped: usize,
}

impl TruncatedOutput {
    fn push(&mut self, bytes: &[u8]) {
        let (head, rest) = bytes.split_at(bytes.len().min(KEPT - self.head.len()));
        self.head.extend(head);
        self.tail.extend(rest);
        let excess = self.tail.len().saturating_sub(KEPT);
        self.tail.drain(..excess);
        self.dropped += excess;
    }

    /// Returns the output as text without control characters, with a note in place of the dropped
    /// part.
    fn text(&self) -> String {
        let tail: Vec<u8> = self.tail.iter().copied().collect();
        let text = if self.dropped == 0 {
            String::from_utf8_lossy(&[&self.head[..], &tail].concat()).into_owned()
        } else {
            let (head, tail) =
                (String::from_utf8_lossy(&self.head), String::from_utf8_lossy(&tail));
            format!("{head}\n[... {} bytes of output were cut here ...]\n{tail}", self.dropped)
        };
        sanitize(text.trim_end()).into_owned()
    }
}

/// Text that comes in pieces, which may end in the middle of a character.
#[derive(Debug, Default)]
struct Decoder(Vec<u8>);

impl Decoder {
    fn push(&mut self, bytes: &[u8]) -> String {
        let mut all = std::mem::take(&mut self.0);
        all.extend(bytes);
        let is_begun = |count: &usize| {
            let end = &all[all.len() - count..];
            std::str::from_utf8(end)
                .is_err_and(|error| error.error_len().is_none() && error.valid_up_to() == 0)
        };
        let begun = (1..=all.len().min(3)).find(is_begun).unwrap_or_default();
        self.0 = all.split_off(all.len() - begun);
        String::from_utf8_lossy(&all).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_with_an_exclamation_mark_is_for_the_shell() {
        assert_eq!(command("  ! git  status "), Some("git  status"));
        assert_eq!(command("!"), Some(""));
        assert_eq!(command("help!"), None);
    }

    #[test]
    fn the_middle_of_a_long_output_is_cut() {
        let mut output = TruncatedOutput::default();
        for piece in [&[b'a'; KEPT + 10][..], &[b'b'; KEPT][..], b"end\n"] {
            output.push(piece);
        }
        let text = output.text();
        let (head, tail) =
            text.split_once("\n[... 14 bytes of output were cut here ...]\n").expect("a note");
        assert_eq!(head, "a".repeat(KEPT));
        assert!(tail.starts_with("bbb") && tail.ends_with("bend"), "{tail}");
        let mut short = TruncatedOutput::default();
        short.push("wört\x1b[2J\n".as_bytes());
        assert_eq!(short.text(), "wört␛[2J");
    }

    #[test]
    fn a_character_may_come_in_two_pieces() {
        let mut decoder = Decoder::default();
        let bytes = "a世b".as_bytes();
        let pieces: String = bytes.chunks(2).map(|piece| decoder.push(piece)).collect();
        assert_eq!(pieces, "a世b");
        assert_eq!(decoder.push(b"\xffc"), "\u{fffd}c");
    }
}
