//! The shell port: the machine's bash, or `sh` if bash is missing, with both outputs on one pipe.
//!
//! The call ends with the shell, not with the pipe. A background process that still has the other
//! end open runs on, and its later output is not waited for.

use std::ffi::OsString;
use std::io::{self, PipeReader, Read as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};

use ikigai_protocol::shell::SHELLS;
use ikigai_tools::ports::Shell;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Access, access};
use rustix::io::Errno;

/// The size of a piece of a command. The kernel takes no argument of 128 KiB (MAX_ARG_STRLEN) or
/// more, but many of them. Pieces are counted in bytes and cut between characters.
const MAX_ARGUMENT_BYTES: usize = 100 << 10;

/// The number of bytes that are read at once: the capacity of a pipe.
const BUFFER_BYTES: usize = 64 << 10;

/// The shell of this machine.
#[derive(Clone, Copy, Debug)]
pub struct NativeShell;

impl Shell for NativeShell {
    fn run(&self, command: &str, output: &mut dyn FnMut(&[u8])) -> Result<i32, String> {
        run(command, output).map_err(|error| match Errno::from_io_error(&error) {
            Some(Errno::TOOBIG) => "the command is longer than this system allows".to_owned(),
            _ => error.to_string(),
        })
    }
}

fn run(command: &str, output: &mut dyn FnMut(&[u8])) -> io::Result<i32> {
    let (reader, writer) = io::pipe()?;
    let (child_ended, ends_with_waiter) = io::pipe()?;
    let child = {
        // The command is dropped with this block, so that this process keeps no write end.
        let program = program();
        let mut shell = Command::new(program);
        shell.args(arguments(program, command)).stdin(Stdio::null());
        shell.stdout(writer.try_clone()?).stderr(writer);
        shell.spawn()?
    };
    std::thread::scope(|scope| {
        let waiter = std::thread::Builder::new()
            .spawn_scoped(scope, move || wait(child, ends_with_waiter))?;
        collect(reader, &child_ended, output)?;
        waiter.join().unwrap_or_else(|_| Err(io::Error::other("the shell was lost")))
    })
    .map(exit_code)
}

/// Returns the first of the shells that this process may run.
fn program() -> &'static str {
    let is_there = |path: &&&str| access(**path, Access::EXEC_OK).is_ok();
    // If no shell can be run, the attempt to run one reports the reason.
    SHELLS.iter().find(is_there).unwrap_or(&"/bin/sh")
}

/// Waits for the shell; dropping the pipe's end notifies the reader.
fn wait(mut child: Child, end: io::PipeWriter) -> io::Result<ExitStatus> {
    let status = child.wait();
    drop(end);
    status
}

/// Returns `-c COMMAND`, or, for a long command, its pieces and a line that joins them. The line
/// first clears the parameters, so the command sees none.
fn arguments(program: &str, command: &str) -> Vec<OsString> {
    if command.len() <= MAX_ARGUMENT_BYTES {
        // A command may begin with a hyphen.
        return ["-c", "--", command].map(OsString::from).to_vec();
    }
    let pieces = pieces(command);
    let parameters: String = (1..=pieces.len()).map(|number| format!("${{{number}}}")).collect();
    let line = format!("eval \"set --;{parameters}\"");
    let mut arguments = ["-c", "--", &line, program].map(OsString::from).to_vec();
    arguments.extend(pieces.into_iter().map(OsString::from));
    arguments
}

fn pieces(mut text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    while !text.is_empty() {
        let (piece, rest) = text.split_at(text.floor_char_boundary(MAX_ARGUMENT_BYTES));
        pieces.push(piece);
        text = rest;
    }
    pieces
}

/// Passes on the output until all write ends of the pipe are closed, or the shell has ended and the
/// rest in the pipe is read.
fn collect(
    mut reader: PipeReader,
    child_ended: &PipeReader,
    output: &mut dyn FnMut(&[u8]),
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    // After the shell's end only the current content of the pipe is read: a background process
    // could write forever.
    let mut left: Option<u64> = None;
    while left != Some(0) {
        let mut fds =
            [PollFd::new(&reader, PollFlags::IN), PollFd::new(child_ended, PollFlags::IN)];
        if left.is_none() {
            match poll(&mut fds, None) {
                Err(Errno::INTR) => continue,
                outcome => outcome?,
            };
            if !fds[1].revents().is_empty() {
                left = Some(rustix::io::ioctl_fionread(&reader)?);
                continue;
            }
        }
        let room = left
            .and_then(|left| usize::try_from(left).ok())
            .unwrap_or(BUFFER_BYTES)
            .min(BUFFER_BYTES);
        match reader.read(&mut buffer[..room]) {
            Ok(0) => return Ok(()),
            Ok(count) => {
                output(&buffer[..count]);
                left = left.map(|left| left.saturating_sub(count as u64));
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn exit_code(status: ExitStatus) -> i32 {
    match (status.code(), status.signal()) {
        (Some(code), _) => code,
        (None, Some(signal)) => 128 + signal,
        (None, None) => 127,
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn ran(command: &str) -> (String, i32) {
        let mut all = Vec::new();
        let code =
            NativeShell.run(command, &mut |piece| all.extend_from_slice(piece)).expect("runs");
        (String::from_utf8_lossy(&all).into_owned(), code)
    }

    #[test]
    fn outputs_share_a_pipe_in_order() {
        assert_eq!(ran("echo a; echo b >&2; echo c; exit 7"), ("a\nb\nc\n".to_owned(), 7));
        assert_eq!(ran("-x").1, 127);
        assert_eq!(ran("echo $0 $#"), (format!("{} 0\n", program()), 0));
    }

    #[test]
    fn a_background_process_does_not_hold_the_call() {
        let started = Instant::now();
        assert_eq!(ran("echo now; sleep 5 & exit 3"), ("now\n".to_owned(), 3));
        assert!(started.elapsed() < Duration::from_secs(3));
        // The background process writes before the shell ends, and continues after that.
        let begun = tempfile::TempDir::new().expect("a directory");
        let begun = begun.path().join("begun");
        let begun = begun.display();
        let (output, code) = ran(&format!(
            "(echo y; : > '{begun}'; exec yes) & until [ -e '{begun}' ]; do sleep 0.01; done"
        ));
        assert!(code == 0 && output.starts_with("y\n"), "{code}: {output:.100}");
    }

    #[test]
    fn signals_and_broken_pipes_are_as_in_a_shell() {
        assert_eq!(ran("kill -TERM $$").1, 143);
        assert_eq!(ran("yes | head -n 1"), ("y\n".to_owned(), 0));
    }

    #[test]
    fn a_long_command_is_run_whole() {
        let long = "é".repeat(300_000);
        let printed = format!("{} 0 {long}\n", program());
        assert_eq!(
            ran(&format!("echo $0 $# '{long}' | wc -c")).0.trim(),
            printed.len().to_string()
        );
        let (_, code) = ran(&format!("exit 4 # '{long}"));
        assert_eq!(code, 4);
    }
}
