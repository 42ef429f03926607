//! The native lane: an executable, run under a supervisor of its own.
//!
//! Owns the host's side of a native call ([`call`], [`supervisor_process`], [`streams`],
//! [`host_socket`]); the other side is the program of [`ikigai_supervisor`]. Does not decide
//! what a tool may touch.
//!
//! The host never forks: the cost of a fork follows its resident memory. It spawns
//! the supervisor (posix_spawn, hence no `pre_exec`, no
//! working directory, no user or group on the `Command`), which is small and has one
//! thread, and does the rest. Every descriptor of the host
//! is close-on-exec and stays so; those that a tool gets travel over a socket.

#[cfg(target_os = "linux")]
mod call;
#[cfg(target_os = "linux")]
mod host_socket;
#[cfg(target_os = "linux")]
mod plan;
#[cfg(target_os = "linux")]
mod probe;
#[cfg(target_os = "linux")]
mod refusal;
#[cfg(target_os = "linux")]
mod streams;
#[cfg(target_os = "linux")]
mod supervisor_process;

use std::future::Future;
#[cfg(target_os = "linux")]
use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
#[cfg(target_os = "linux")]
use std::sync::OnceLock;

#[cfg(target_os = "linux")]
use rustix::fs::{Mode, OFlags};
use serde::Serialize;
use tokio::sync::OnceCell;

use crate::exec::{Call, Executor, Outcome};
use ikigai_supervisor::isolation::{Isolation, Layer};
#[cfg(target_os = "linux")]
#[doc(hidden)]
pub use ikigai_supervisor::plan::Without;

/// From here on, a file that may not grow further (`ulimit -f`) is an error to the host
/// and its components, and not the end of the process. Native tools have the usual
/// disposition of the signal again.
#[cfg(unix)]
pub fn outlive_file_size_limit() {
    // SAFETY: SIG_IGN installs no handler.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// An executable file.
///
/// Its calls must be polled on a tokio runtime with I/O and time. Peak memory in
/// their usage has a floor of some megabytes: the kernel counts a program from
/// the peak of the process that became it.
#[derive(Clone, Debug)]
pub struct NativeProgram {
    path: Arc<Path>,
    supervisor: Supervisor,
}

/// The program that supervises native calls.
#[derive(Clone, Debug)]
pub struct Supervisor {
    path: Option<Arc<Path>>,
    /// The file, from the first call on: it stays of the version of this process when the
    /// installation is replaced meanwhile. Shared by every clone.
    #[cfg(target_os = "linux")]
    opened: Arc<OnceLock<OwnedFd>>,
    #[cfg(target_os = "linux")]
    without: Without,
    /// Shared by every clone.
    machine: Arc<OnceCell<Machine>>,
}

/// What this machine can do for a sandboxed native tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Machine {
    /// What would hold for a tool that is granted nothing.
    #[serde(rename = "level")]
    pub isolation: Isolation,
    /// What that is made of; empty where nothing could be found out.
    pub layers: Vec<Layer>,
}

/// What [`Supervisor::machine`] depends on, for whoever keeps the answer.
#[must_use]
pub fn surroundings() -> String {
    #[cfg(target_os = "linux")]
    return probe::surroundings();
    #[cfg(not(target_os = "linux"))]
    return String::new();
}

impl Supervisor {
    /// Returns the supervisor at an absolute path. Without one every native call is refused.
    #[must_use]
    pub fn new(path: Option<PathBuf>) -> Self {
        Self {
            path: path.map(Into::into),
            #[cfg(target_os = "linux")]
            opened: Arc::default(),
            #[cfg(target_os = "linux")]
            without: Without::default(),
            machine: Arc::default(),
        }
    }

    /// The file to execute.
    #[cfg(target_os = "linux")]
    fn executable(&self) -> io::Result<PathBuf> {
        let open = || {
            let path = self.path.as_ref().ok_or_else(|| {
                io::Error::new(io::ErrorKind::NotFound, "no program is named for it")
            })?;
            let flags = OFlags::PATH | OFlags::CLOEXEC;
            rustix::fs::open(&**path, flags, Mode::empty()).map_err(|errno| {
                let error = io::Error::from(errno);
                let reason = format!("`{}`: {error}; install ikigai again", path.display());
                io::Error::new(error.kind(), reason)
            })
        };
        let opened = match self.opened.get() {
            Some(opened) => opened,
            None => {
                let opened = open()?;
                self.opened.get_or_init(|| opened)
            }
        };
        // The number means the same in the child, whose descriptors are a copy.
        Ok(format!("/proc/self/fd/{}", opened.as_raw_fd()).into())
    }

    /// What this machine can do for a sandboxed tool. Found out once, by going through
    /// every layer without a tool, and remembered by this supervisor and its clones.
    /// Must be polled on a tokio runtime.
    pub async fn machine(&self) -> Machine {
        #[cfg(target_os = "linux")]
        let found = self.machine.get_or_init(|| probe::machine(self)).await;
        #[cfg(not(target_os = "linux"))]
        let found = self.machine.get_or_init(|| async { Machine::elsewhere() }).await;
        found.clone()
    }

    /// One that leaves layers of the sandbox out, as if this machine did not have them: for
    /// tests of what is made of the others. It is reported as it is, and `require` refuses it.
    #[cfg(target_os = "linux")]
    #[doc(hidden)]
    #[must_use]
    pub fn without(mut self, layers: Without) -> Self {
        self.without = layers;
        self.machine = Arc::default();
        self
    }
}

#[cfg(not(target_os = "linux"))]
impl Machine {
    fn elsewhere() -> Self {
        Self { isolation: Isolation::none("native tools run on Linux only"), layers: Vec::new() }
    }
}

impl NativeProgram {
    /// The executable at `path`, which is absolute.
    #[must_use]
    pub fn new(path: impl Into<Arc<Path>>, supervisor: Supervisor) -> Self {
        Self { path: path.into(), supervisor }
    }

    /// The executable.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(target_os = "linux")]
impl Executor for NativeProgram {
    fn run(&self, call: Call) -> Pin<Box<dyn Future<Output = Outcome> + Send>> {
        Box::pin(call::Running::new(self.path.clone(), self.supervisor.clone(), call))
    }
}

#[cfg(not(target_os = "linux"))]
impl Executor for NativeProgram {
    fn run(&self, _: Call) -> Pin<Box<dyn Future<Output = Outcome> + Send>> {
        let reason = "native tools run on Linux only: elsewhere nothing would end what they start";
        Box::pin(std::future::ready(Outcome::not_started(reason)))
    }
}
