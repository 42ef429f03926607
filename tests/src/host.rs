//! Runs the host as its users do, in the test's own environment. If a result is unexpected, the
//! message contains everything that is known about the run.

mod running;
mod workshop;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;

use serde_json::Value;
use tempfile::TempDir;

use crate::tiers::{compiled, is_of_the_baseline};
use crate::{leftovers, paths};

use running::Deadline;
pub use running::Running;
pub use workshop::{NOBODY, USER_POLICY, schema};

/// A host with an empty home, workspace and directory of user tools, which are removed with it.
/// None of the machine's own configuration reaches it.
pub struct Host {
    scratch: TempDir,
    program: PathBuf,
    cache: PathBuf,
    env: Vec<(OsString, OsString)>,
    user: Option<u32>,
}

impl Drop for Host {
    fn drop(&mut self) {
        if self.cache.starts_with(self.scratch.path())
            && compiled(&self.cache.join("ikigai")).iter().any(|entry| is_of_the_baseline(entry))
        {
            leftovers::end_compilations(self.scratch.path());
        }
    }
}

impl Host {
    /// Creates a host whose cache of compiled components is its own, and empty.
    #[must_use]
    pub fn new() -> Self {
        Self::within(&std::env::temp_dir())
    }

    /// Does the same below `dir`. A native tool in the sandbox has its own `/tmp`, so it would not
    /// see a host there.
    #[must_use]
    pub fn within(dir: &Path) -> Self {
        let scratch = TempDir::new_in(dir).expect("a temporary directory");
        for name in ["home", "workspace", "user-tools", "tmp"] {
            std::fs::create_dir(scratch.path().join(name)).expect("a directory of the test");
        }
        let cache = scratch.path().join("cache");
        Self { scratch, program: paths::host(), cache, env: Vec::new(), user: None }
    }

    /// Uses a cache of compiled components that outlives the test: components of 15 MB and more
    /// take many seconds to compile.
    #[must_use]
    pub fn with_shared_cache(mut self) -> Self {
        self.cache = paths::shared_scratch().join("cache");
        self
    }

    /// Sets a variable of the host's environment.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Returns the workspace, in which tools work.
    #[must_use]
    pub fn workspace(&self) -> PathBuf {
        self.scratch.path().join("workspace")
    }

    /// Returns the directory of the user's own tools.
    #[must_use]
    pub fn user_tools(&self) -> PathBuf {
        self.scratch.path().join("user-tools")
    }

    /// Returns the home of the host's user.
    #[must_use]
    pub fn home(&self) -> PathBuf {
        self.scratch.path().join("home")
    }

    /// Runs `ikigai ARGS` with nothing on stdin.
    pub fn run<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Ran {
        self.run_with(args, b"")
    }

    /// Runs `ikigai ARGS` with `stdin`.
    pub fn run_with<S: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = S>,
        stdin: &[u8],
    ) -> Ran {
        Ran::from_command(self.command().args(args), stdin)
    }

    /// Returns the host's command with nothing but its environment.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = self.command_of(&self.program);
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        command
    }

    /// Returns a shell that runs `script` with the host's directory and environment. In the script,
    /// `$0` is the host's program.
    #[must_use]
    pub fn shell(&self, script: &str) -> Command {
        let mut shell = self.command_of("sh");
        shell.args(["-c", script]).arg(&self.program);
        shell
    }

    /// Returns the command of another program, with the host's directory and environment.
    #[must_use]
    pub fn command_of(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.workspace())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("LANG", "C.UTF-8")
            .env("HOME", self.home())
            .env("TMPDIR", self.scratch.path().join("tmp"))
            .env("XDG_CACHE_HOME", &self.cache)
            .env("XDG_STATE_HOME", self.scratch.path().join("state"))
            .env("IKIGAI_SYSTEM_TOOLS", paths::tools())
            .env("IKIGAI_USER_TOOLS", self.user_tools())
            .envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }
}

impl Default for Host {
    fn default() -> Self {
        Self::new()
    }
}

/// A program that has ended.
pub struct Ran {
    shown: String,
    directory: Option<PathBuf>,
    output: Output,
}

impl Ran {
    /// Runs `command` to its end with `stdin`.
    pub fn from_command(command: &mut Command, stdin: &[u8]) -> Self {
        let shown = format!("{command:?}");
        let directory = command.get_current_dir().map(Path::to_owned);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot run {shown}: {error}"));
        let mut pipe = child.stdin.take().expect("stdin is a pipe");
        let deadline = Deadline::with(&child);
        let output = thread::scope(|scope| {
            // A program need not read its input.
            scope.spawn(move || drop(pipe.write_all(stdin)));
            child.wait_with_output().expect("the output of a child")
        });
        deadline.end();
        Self { shown, directory, output }
    }

    /// Returns the exit code, or `None` if a signal ended the program.
    #[must_use]
    pub fn code(&self) -> Option<i32> {
        self.output.status.code()
    }

    /// Returns stdout as text.
    #[must_use]
    pub fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }

    /// Returns stderr as text.
    #[must_use]
    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    /// Fails the test unless the program exited with `code`.
    #[track_caller]
    pub fn expect_code(self, code: i32) -> Self {
        assert_eq!(self.code(), Some(code), "exit code\n{self}");
        self
    }

    /// Returns stdout, which must be one JSON value.
    #[track_caller]
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.output.stdout)
            .unwrap_or_else(|error| panic!("stdout is not JSON: {error}\n{self}"))
    }
}

impl fmt::Display for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "command: {}", self.shown)?;
        if let Some(directory) = &self.directory {
            writeln!(f, "directory: {}", directory.display())?;
            if let Ok(entries) = std::fs::read_dir(directory) {
                let names = entries.flatten().map(|entry| entry.file_name());
                writeln!(f, "holds: {:?}", names.collect::<Vec<_>>())?;
            }
        }
        writeln!(f, "status: {}", self.output.status)?;
        writeln!(f, "stdout: {}", self.stdout())?;
        write!(f, "stderr: {}", self.stderr())
    }
}
