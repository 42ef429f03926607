//! A host that runs while the test does something else, and the time limit of every host in tests.

use std::fmt::Debug;
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::{Host, Ran};
use crate::wait::{TIMEOUT, eventually};

/// The time limit of a child, which hangs if it reaches it. A wait that began with the child fails
/// first, and reports what it waited for.
const LIFETIME: Duration = TIMEOUT.saturating_mul(2);

/// A thread that kills a child after [`LIFETIME`], so that the test can report it.
pub(super) struct Deadline(Sender<()>);

impl Deadline {
    pub(super) fn with(child: &Child) -> Self {
        let pid = Pid::from_child(child);
        let (sender, ended) = channel::<()>();
        thread::spawn(move || {
            if ended.recv_timeout(LIFETIME) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                // The test expects an exit code and reports the signal instead.
                let _ = kill_process(pid, Signal::KILL);
            }
        });
        Self(sender)
    }

    pub(super) fn end(self) {
        drop(self.0);
    }
}

/// A running host, its stdin open and silent.
pub struct Running {
    child: Child,
    shown: String,
    deadline: Deadline,
    /// The part of stderr that was read so far.
    stderr: Vec<u8>,
    /// The thread that reads the rest of stderr.
    reader: Option<JoinHandle<Vec<u8>>>,
}

impl Host {
    /// Starts `ikigai ARGS` and does not wait for it. It leads its own process group, so that a
    /// signal reaches no other process.
    pub fn start<S: AsRef<std::ffi::OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Running {
        let mut command = self.command();
        command.args(args);
        Running::start(&mut command)
    }
}

impl Running {
    /// Starts `command` with pipes for all three streams.
    pub fn start(command: &mut Command) -> Self {
        let shown = format!("{command:?}");
        let child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot run {shown}: {error}"));
        let deadline = Deadline::with(&child);
        Self { child, shown, deadline, stderr: Vec::new(), reader: None }
    }

    /// Reads stderr from now on, so that a host that logs a lot neither waits for a reader nor
    /// drops unread lines.
    pub fn keep_reading_stderr(&mut self) {
        let mut pipe = self.child.stderr.take().expect("a pipe");
        self.reader = Some(thread::spawn(move || {
            let mut rest = Vec::new();
            pipe.read_to_end(&mut rest).expect("read");
            rest
        }));
    }

    /// Takes stdin and stdout, for a test that writes and reads while the host runs.
    pub fn take_pipes(&mut self) -> (ChildStdin, ChildStdout) {
        let (stdin, stdout) = (self.child.stdin.take(), self.child.stdout.take());
        (stdin.expect("a pipe"), stdout.expect("a pipe"))
    }

    /// Sends a signal to the host's process only.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("the host is there");
    }

    /// Waits until `path` exists: a file that a tool creates once it runs.
    #[track_caller]
    pub fn wait_for(&mut self, path: &Path) {
        self.wait_until(&format!("`{}` exists", path.display()), || path.exists());
    }

    /// Waits until `holds` returns true, while the host runs.
    #[track_caller]
    pub fn wait_until(&mut self, what: &str, holds: impl Fn() -> bool) {
        self.wait_for_state(what, holds, |held| *held);
    }

    /// Waits until `holds` returns true for the state that `look` returns, while the host runs.
    #[track_caller]
    fn wait_for_state<S: Debug>(
        &mut self,
        what: &str,
        look: impl Fn() -> S,
        holds: impl Fn(&S) -> bool,
    ) {
        let Self { child, shown, .. } = self;
        let (state, status) = eventually(
            &format!("{what} ({shown})"),
            || (look(), child.try_wait().expect("waited for")),
            |(state, status)| holds(state) || status.is_some(),
        );
        assert!(holds(&state), "{shown} ended before {what}: {status:?}, last seen: {state:?}");
    }

    /// Waits until stderr contains `text`.
    #[track_caller]
    pub fn wait_for_stderr(&mut self, text: &str) {
        while !String::from_utf8_lossy(&self.stderr).contains(text) {
            self.read_stderr(text);
        }
    }

    /// Waits for a line of stderr that begins with `start`, and returns the rest of it.
    #[track_caller]
    pub fn line_of_stderr(&mut self, start: &str) -> String {
        loop {
            let printed = String::from_utf8_lossy(&self.stderr);
            // The last line may be incomplete.
            let lines = printed.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
            if let Some(rest) = lines.into_iter().find_map(|line| line.strip_prefix(start)) {
                return rest.to_owned();
            }
            self.read_stderr(start);
        }
    }

    /// Reads the next part of stderr. The test is waiting for `text`.
    #[track_caller]
    fn read_stderr(&mut self, text: &str) {
        let stderr = self.child.stderr.as_mut().expect("a pipe");
        let mut part = [0; 1024];
        let read = stderr.read(&mut part).expect("read");
        let printed = String::from_utf8_lossy(&self.stderr);
        assert!(read > 0, "{} ended without `{text}` on stderr:\n{printed}", self.shown);
        self.stderr.extend_from_slice(&part[..read]);
    }

    /// Returns the CPU time that the host has used so far, in ticks of its clock.
    #[must_use]
    pub fn processor_ticks(&self) -> u64 {
        processor_ticks(self.child.id())
    }

    /// Waits until the host has used `ticks` more ticks of CPU time. A guest that spins shows no
    /// other sign outside.
    #[track_caller]
    pub fn wait_until_busy(&mut self, ticks: u64) {
        let pid = self.child.id();
        let what = format!("{ticks} ticks were used");
        self.wait_for_state(&what, || processor_ticks(pid), |used| *used >= ticks);
    }

    /// Waits until the host catches a signal, because before that the signal would kill it.
    #[track_caller]
    pub fn wait_until_it_catches(&mut self, signal: Signal) {
        let bit = 1_u64 << (signal.as_raw() - 1);
        let path = format!("/proc/{}/status", self.child.id());
        self.wait_until("its handler of the signal", || {
            let status = std::fs::read_to_string(&path).unwrap_or_default();
            let line = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
            line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
                .is_some_and(|caught| caught & bit != 0)
        });
    }

    /// Returns the most memory that the host's own process has had resident so far, in bytes.
    #[must_use]
    pub fn peak_memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse().ok());
        kibibytes.unwrap_or(0_u64) << 10
    }

    /// Waits for the host's end, and kills it as soon as it has more than `most` bytes resident. A
    /// guest that takes memory without end must not exhaust the machine.
    #[track_caller]
    pub fn wait_within(mut self, most: u64) -> Ran {
        let mut peak = 0;
        while self.child.try_wait().expect("waited for").is_none() {
            peak = peak.max(self.peak_memory());
            if peak > most {
                self.signal(Signal::KILL);
                let ran = self.wait();
                panic!("the host had {} MiB, more than {} MiB\n{ran}", peak >> 20, most >> 20);
            }
            thread::sleep(Duration::from_millis(2));
        }
        self.wait()
    }

    /// Waits for the host's end. Its stdin stays open until then.
    pub fn wait(mut self) -> Ran {
        let stdin = self.child.stdin.take();
        let mut output = self.child.wait_with_output().expect("the output of a child");
        if let Some(reader) = self.reader {
            output.stderr = reader.join().expect("no panic");
        }
        output.stderr.splice(..0, self.stderr);
        drop(stdin);
        self.deadline.end();
        Ran { shown: self.shown, directory: None, output }
    }
}

/// Returns the CPU time that a process has used so far, in ticks of its clock.
fn processor_ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    // The name is in parentheses and may contain spaces; utime and stime are the 14th and 15th
    // fields (proc_pid_stat(5)).
    let stat = stat.unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11);
    fields.take(2).filter_map(|field| field.parse::<u64>().ok()).sum()
}
