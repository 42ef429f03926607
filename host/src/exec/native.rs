//! The native lane: an executable, run under a supervisor of its own.
//!
//! Owns what a native call is made of: the host's side ([`call`], [`helper`],
//! [`streams`], [`host_socket`]), the supervisor's side ([`supervisor`]), and what they say to each
//! other ([`plan`]). Does not decide what a tool may touch.
//!
//! The host never forks: the cost of a fork follows its resident memory. It spawns
//! its own executable as the supervisor (posix_spawn, hence no `pre_exec`, no
//! working directory, no user or group on the `Command`), and the supervisor,
//! which is small and has one thread, does the rest. Every descriptor of the host
//! is close-on-exec and stays so; those that a tool gets travel over a socket.

#[cfg(target_os = "linux")]
mod call;
#[cfg(target_os = "linux")]
mod descent;
#[cfg(target_os = "linux")]
mod helper;
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
pub mod supervisor;

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};

use serde::Serialize;
use tokio::sync::OnceCell;

use crate::exec::level::{Layer, Level};
use crate::exec::{Call, Lane, Outcome};
#[cfg(target_os = "linux")]
#[doc(hidden)]
pub use plan::{Without, fuzzing};

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

/// The executable that supervises native calls: the host's own, whose `main`
/// hands over to [`supervisor::main`] when it is asked to.
#[derive(Clone, Debug)]
pub struct Supervisor {
    path: Arc<Path>,
    #[cfg(target_os = "linux")]
    without: plan::Without,
    /// Shared by every clone.
    machine: Arc<OnceCell<Machine>>,
}

/// What this machine can do for a sandboxed native tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Machine {
    /// What would hold for a tool that is granted nothing.
    pub level: Level,
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
    /// The executable of this process, also when its file was replaced meanwhile.
    #[must_use]
    pub fn of_this_process() -> Self {
        static OWN: LazyLock<Supervisor> =
            LazyLock::new(|| Supervisor::at(Path::new("/proc/self/exe")));
        OWN.clone()
    }

    /// Another build of the host, by its absolute path; for programs that only embed
    /// the library.
    #[must_use]
    pub fn at(path: impl Into<Arc<Path>>) -> Self {
        Self {
            path: path.into(),
            #[cfg(target_os = "linux")]
            without: plan::Without::default(),
            machine: Arc::default(),
        }
    }

    /// What this machine can do for a sandboxed tool. Found out once, by going through
    /// every layer without a tool, and remembered by this supervisor and its clones;
    /// that of this process has clones only. Must be polled on a tokio runtime.
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
        Self { level: Level::nothing("native tools run on Linux only"), layers: Vec::new() }
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
impl Lane for NativeProgram {
    fn run(&self, call: Call) -> Pin<Box<dyn Future<Output = Outcome> + Send>> {
        Box::pin(call::Running::new(self.path.clone(), self.supervisor.clone(), call))
    }
}

#[cfg(not(target_os = "linux"))]
impl Lane for NativeProgram {
    fn run(&self, _: Call) -> Pin<Box<dyn Future<Output = Outcome> + Send>> {
        let reason = "native tools run on Linux only: elsewhere nothing would end what they start";
        Box::pin(std::future::ready(Outcome::not_started(reason)))
    }
}
