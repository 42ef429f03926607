//! A command of the user that prints a token.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use ikigai_protocol::written_out;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::sync::Mutex;

use crate::user_command::{CommandEnv, CommandGate};

/// The time limit of the command.
const TIME: Duration = Duration::from_secs(10);

/// The interval at which a command is polled that has closed its outputs but not ended yet.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// The most bytes that the command may print.
const LARGEST: usize = 64 << 10;

/// The most characters of its stderr that are repeated.
const WORDS: usize = 300;

/// A command, and the token that it printed last.
pub(super) struct TokenCommand {
    /// The program and its arguments.
    words: Vec<OsString>,
    gate: CommandGate,
    token: Mutex<Option<String>>,
}

impl TokenCommand {
    pub(super) fn new(program: PathBuf, args: Vec<OsString>, gate: CommandGate) -> Self {
        let words = std::iter::once(program.into_os_string()).chain(args).collect();
        Self { words, gate, token: Mutex::default() }
    }

    /// Returns a token other than `refused`; `None` if the command prints the refused token again.
    /// The command runs once for all concurrent callers. Its token is reused until it is refused.
    pub(super) async fn token(&self, refused: Option<&str>) -> Result<Option<String>, String> {
        let mut token = self.token.lock().await;
        if let Some(token) = token.as_deref().filter(|token| Some(*token) != refused) {
            return Ok(Some(token.to_owned()));
        }
        let (words, gate) = (self.words.clone(), self.gate.clone());
        let printed = tokio::task::spawn_blocking(move || {
            let env = gate.env(&words)?;
            printed(&words, env, TIME)
        });
        let printed = printed.await.map_err(|error| error.to_string())??;
        *token = Some(printed.clone());
        Ok(Some(printed).filter(|printed| Some(printed.as_str()) != refused))
    }
}

/// Runs a command to its end, and returns the token that it printed.
fn printed(words: &[OsString], env: CommandEnv, time: Duration) -> Result<String, String> {
    let (program, args) = words.split_first().ok_or("the command is empty")?;
    let name = program.display();
    // The directory of a tool or a workspace must not influence what the command finds.
    #[allow(clippy::disallowed_methods, reason = "no tool: a command of the user's own definition")]
    let started = Command::new(program)
        .args(args)
        .env_clear()
        .envs(env)
        .current_dir("/")
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = started.map_err(|error| format!("`{name}` cannot be started: {error}"))?;
    let (mut stdout, mut stderr) = (CommandOutput::default(), CommandOutput::default());
    let ended = watch(&mut child, &mut stdout, &mut stderr, Instant::now() + time);
    if !matches!(ended, Ok(Some(_))) {
        end(&mut child).map_err(|error| format!("`{name}` cannot be ended: {error}"))?;
    }
    let status = match ended.map_err(|error| format!("`{name}` cannot be heard: {error}"))? {
        Some(status) => status,
        None if stdout.is_full() => {
            return Err(format!("`{name}` printed more than {} KiB", LARGEST >> 10));
        }
        None => return Err(format!("`{name}` was still running after {} s", time.as_secs())),
    };
    let text = String::from_utf8_lossy(&stdout.bytes);
    let token = text.trim();
    if !status.success() {
        return Err(format!("`{name}` failed ({status}){}", complaint(&stderr, token)));
    }
    // RFC 6750, section 2.1, allows only such tokens. Further text cannot be part of a token.
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(format!(
            "`{name}` did not print a token; expected one line without spaces on its stdout{}",
            complaint(&stderr, token)
        ));
    }
    Ok(token.to_owned())
}

/// An output of the command.
#[derive(Default)]
struct CommandOutput {
    bytes: Vec<u8>,
    has_ended: bool,
}

impl CommandOutput {
    fn is_full(&self) -> bool {
        self.bytes.len() > LARGEST
    }

    /// Reads the bytes that are available: at most the content of a pipe, so that a constant writer
    /// cannot keep this busy.
    fn take(&mut self, from: &mut impl Read) -> io::Result<()> {
        let mut piece = [0; 4096];
        for _ in 0..2 * LARGEST / piece.len() {
            match from.read(&mut piece) {
                Ok(0) => {
                    self.has_ended = true;
                    return Ok(());
                }
                Ok(_) if self.is_full() => {}
                Ok(count) => self.bytes.extend_from_slice(&piece[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Reads the outputs of a command until it ends. Returns `None` if it takes too long or prints too
/// much. Its child processes may keep the outputs open, so this does not wait for their end.
fn watch(
    child: &mut Child,
    stdout: &mut CommandOutput,
    stderr: &mut CommandOutput,
    deadline: Instant,
) -> io::Result<Option<ExitStatus>> {
    let pipes = child.stdout.take().zip(child.stderr.take());
    let (mut out, mut err) = pipes.ok_or(io::ErrorKind::BrokenPipe)?;
    for fd in [out.as_fd(), err.as_fd()] {
        fcntl_setfl(fd, fcntl_getfl(fd)? | OFlags::NONBLOCK)?;
    }
    loop {
        // Check this before the reads. If the command has ended, it has printed everything.
        let status = child.try_wait()?;
        stdout.take(&mut out)?;
        stderr.take(&mut err)?;
        if stdout.is_full() {
            return Ok(None);
        }
        if status.is_some() {
            return Ok(status);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        let mut open = Vec::with_capacity(2);
        if !stdout.has_ended {
            open.push(PollFd::new(&out, PollFlags::IN));
        }
        if !stderr.has_ended {
            open.push(PollFd::new(&err, PollFlags::IN));
        }
        let wait = Timespec::try_from(left.min(BETWEEN_LOOKS)).map_err(io::Error::other)?;
        match poll(&mut open, Some(&wait)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Kills a command and the processes in its group.
fn end(child: &mut Child) -> io::Result<()> {
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    match group.map(|group| kill_process_group(group, Signal::KILL)) {
        None | Some(Ok(()) | Err(rustix::io::Errno::SRCH)) => {}
        Some(Err(error)) => return Err(error.into()),
    }
    child.wait().map(drop)
}

/// Returns the command's stderr after a colon, without its token.
fn complaint(stderr: &CommandOutput, token: &str) -> String {
    let text = String::from_utf8_lossy(&stderr.bytes);
    let text = text.trim();
    let text = if token.is_empty() { text.to_owned() } else { text.replace(token, "…") };
    let Some((start, _)) = text.char_indices().rev().take(WORDS).last() else {
        return String::new();
    };
    format!(": {}", written_out(&text[start..]).replace('\n', " "))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use rustix::process::kill_process;

    use super::*;

    fn shell(script: &str, time: Duration) -> Result<String, String> {
        printed(&["/bin/sh".into(), "-c".into(), script.into()], variables(), time)
    }

    fn variables() -> CommandEnv {
        vec![("PATH".into(), "/usr/bin:/bin".into())]
    }

    fn command(words: &[&str], gate: CommandGate) -> TokenCommand {
        let args = words[1..].iter().map(Into::into).collect();
        TokenCommand::new(words[0].into(), args, gate)
    }

    #[test]
    fn a_token_is_what_the_command_prints() {
        let time = Duration::from_secs(60);
        assert_eq!(shell("echo '  t0ken '", time).as_deref(), Ok("t0ken"));
        assert_eq!(shell("pwd", time).as_deref(), Ok("/"));
        // A process that is left behind keeps the outputs open.
        let left = shell("sleep 600 & echo $!", time).expect("a number");
        let left = Pid::from_raw(left.parse().expect("a number")).expect("a process");
        kill_process(left, Signal::KILL).expect("it runs");
        assert_eq!(shell("yes | head -c 300000 >&2; echo t", time).as_deref(), Ok("t"));
        for (script, expected) in [
            ("exit 3", "exit status: 3"),
            ("echo no key >&2; echo s3cret; exit 1", "no key"),
            ("echo a s3cret >&2; echo s3cret; exit 1", "a …"),
            ("printf 'a\\033[2J' >&2; exit 1", "\\u{1b}"),
            ("true", "did not print a token"),
            ("echo a b", "did not print a token"),
            ("echo a; echo b", "did not print a token"),
            ("yes", "more than 64 KiB"),
        ] {
            let error = shell(script, time).expect_err(script);
            assert!(error.contains(expected) && !error.contains("s3cret"), "{script}: {error}");
        }
        let missing = printed(&["/no/such".into()], Vec::new(), time).expect_err("missing");
        assert!(missing.contains("cannot be started"), "{missing}");
    }

    #[test]
    fn a_command_that_does_not_end_is_killed_with_what_it_started() {
        let scratch = tempfile::tempdir().expect("a directory");
        let pid = scratch.path().join("pid");
        let script = format!("sleep 600 & echo $! > '{}'; wait", pid.display());
        let error = shell(&script, Duration::from_secs(1)).expect_err("late");
        assert!(error.contains("was still running"), "{error}");
        let pid = std::fs::read_to_string(pid).expect("a number").trim().parse().expect("a number");
        let pid = Pid::from_raw(pid).expect("a process");
        // init reaps it, which takes a moment.
        while rustix::process::test_kill_process(pid).is_ok() {
            let state = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
            if state.is_ok_and(|state| state.contains(") Z ")) {
                break;
            }
            std::thread::sleep(BETWEEN_LOOKS);
        }
    }

    #[tokio::test]
    async fn the_command_runs_again_only_for_a_token_that_was_refused() {
        let scratch = tempfile::tempdir().expect("a directory");
        let count = scratch.path().join("count").display().to_string();
        let script = format!("echo x >> '{count}'; echo token-$(wc -l < '{count}')");
        let unchecked = CommandGate::new(|_| Ok(variables()));
        let command = self::command(&["/bin/sh", "-c", &script], unchecked.clone());
        let some = |token: &str| Ok(Some(token.to_owned()));
        assert_eq!(command.token(None).await, some("token-1"));
        assert_eq!(command.token(None).await, some("token-1"));
        assert_eq!(command.token(Some("token-1")).await, some("token-2"));
        // In the meantime another request had the first token refused as well.
        assert_eq!(command.token(Some("token-1")).await, some("token-2"));
        let command = self::command(&["/bin/echo", "same"], unchecked);
        assert_eq!(command.token(None).await, some("same"));
        assert_eq!(command.token(Some("same")).await, Ok(None));
    }

    #[tokio::test]
    async fn the_command_is_checked_before_each_start() {
        let checks = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&checks);
        let gate = CommandGate::new(move |words| match counted.fetch_add(1, Ordering::Relaxed) {
            0 => Ok(vec![("TOKEN".into(), "of-the-check".into())]),
            _ => Err(format!("{} was replaced", words[0].display())),
        });
        let command = self::command(&["/bin/sh", "-c", "echo $TOKEN"], gate);
        let token = "of-the-check".to_owned();
        assert_eq!(command.token(None).await, Ok(Some(token.clone())));
        assert_eq!(command.token(None).await, Ok(Some(token)));
        assert_eq!(checks.load(Ordering::Relaxed), 1);
        let refused = command.token(Some("of-the-check")).await;
        assert_eq!(refused, Err("/bin/sh was replaced".to_owned()));
    }
}
