//! The native executor: runs each executable under its own supervisor.
//!
//! Owns the host's side of a native call: the plan, the process of the supervisor, the streams
//! and the host socket. The other side is the program of [`ikigai_supervisor`]. Does not decide
//! what a tool may touch.
//!
//! The host never forks: the cost of a fork follows its resident memory. It spawns the
//! supervisor (by posix_spawn, hence no `pre_exec`, no working directory, no user or group on
//! the `Command`), which is small, has one thread, and does the rest. Every descriptor of the
//! host is close-on-exec and stays so; the descriptors of a tool are sent over a socket.

#[cfg(target_os = "linux")]
mod call;
#[cfg(target_os = "linux")]
mod guarded;
#[cfg(target_os = "linux")]
mod hidden;
#[cfg(target_os = "linux")]
mod hidden_search;
#[cfg(target_os = "linux")]
mod host_socket;
#[cfg(target_os = "linux")]
mod inherited_stdin;
#[cfg(target_os = "linux")]
mod missing_files;
#[cfg(target_os = "linux")]
mod open_grant;
#[cfg(target_os = "linux")]
mod own_loopback;
#[cfg(target_os = "linux")]
mod plan;
#[cfg(target_os = "linux")]
mod probe;
#[cfg(target_os = "linux")]
mod refusal;
#[cfg(target_os = "linux")]
mod reserve;
#[cfg(target_os = "linux")]
mod secrets;
#[cfg(target_os = "linux")]
mod set_aside;
#[cfg(target_os = "linux")]
mod streams;
#[cfg(target_os = "linux")]
mod supervisor_process;
#[cfg(target_os = "linux")]
mod unresolved;
#[cfg(target_os = "linux")]
mod watched;

use std::future::Future;
#[cfg(target_os = "linux")]
use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
#[cfg(target_os = "linux")]
use std::sync::{Mutex, OnceLock};

#[cfg(target_os = "linux")]
use rustix::fs::{Mode, OFlags};
use serde::Serialize;
use tokio::sync::OnceCell;
#[cfg(target_os = "linux")]
use tokio_util::sync::CancellationToken;

#[cfg(target_os = "linux")]
use self::guarded::Guarded;
#[cfg(target_os = "linux")]
use self::reserve::Reserve;
#[cfg(target_os = "linux")]
use self::supervisor_process::SupervisorProcess;
#[cfg(target_os = "linux")]
use crate::exec::Refusals;
#[cfg(target_os = "linux")]
use crate::exec::net::SharedNetwork;
use crate::exec::{Call, Executor, Outcome};
use crate::policy::{Grant, RemedyHints, Sandbox};
use ikigai_supervisor::isolation::{Isolation, SandboxLayer};
#[cfg(target_os = "linux")]
use ikigai_supervisor::plan::Confinement;
#[cfg(target_os = "linux")]
#[doc(hidden)]
pub use ikigai_supervisor::plan::{AccessKind as SeenAccess, ObservedAccesses, OmittedLayers};
#[cfg(target_os = "linux")]
pub(in crate::exec) use unresolved::peers as unresolved_peers;

/// Sets the signal dispositions of this process, regardless of those that its parent left.
///
/// SIGXFSZ is ignored: a write past `ulimit -f` then fails in the host and its components, and does
/// not end the process. Native tools get the default disposition of the signal back. SIGCHLD is not
/// ignored: otherwise the kernel would reap the supervisors, and the host could not wait for their
/// ends.
#[cfg(unix)]
#[doc(hidden)]
pub fn settle_signals() {
    // SAFETY: neither disposition installs a handler.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
    }
}

/// Returns whether this process ignores the signal with this number. `nohup` starts a program so
/// for SIGHUP.
#[cfg(unix)]
#[doc(hidden)]
#[must_use]
pub fn ignores(signal: i32) -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: the call changes nothing, and writes what is set. An action of zeros is a valid one.
    let action = unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr());
        action.assume_init()
    };
    action.sa_sigaction == libc::SIG_IGN
}

/// Returns whether a path that the grant lets a native tool write stays as it is nevertheless,
/// because other programs execute it. A call of a server does not set aside new files.
///
/// # Errors
///
/// Fails if a place cannot be examined, so that no call would start. The text says why.
#[cfg(target_os = "linux")]
#[doc(hidden)]
pub fn keeps_place(grant: &Grant, path: &Path, sets_aside: bool) -> Result<bool, String> {
    let ended = CancellationToken::new();
    Ok(grant.reserved.guards()
        && Guarded::find(grant, sets_aside, &ended, None)?.keeps(path, sets_aside))
}

/// Returns false, because no native tool runs in a sandbox here.
///
/// # Errors
///
/// Never fails.
#[cfg(not(target_os = "linux"))]
#[doc(hidden)]
pub fn keeps_place(_: &Grant, _: &Path, _: bool) -> Result<bool, String> {
    Ok(false)
}

/// An executable file.
///
/// Its calls must be polled on a tokio runtime with I/O and time. The peak memory in their usage
/// has a floor of some megabytes: the kernel starts to count at the peak of the process that
/// became the program.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct NativeProgram {
    path: Arc<Path>,
    supervisor: Supervisor,
}

/// The program that supervises native calls.
#[derive(Clone, Debug)]
pub struct Supervisor {
    path: Option<Arc<Path>>,
    /// The file, opened at the first call, so that this process keeps its own version when the
    /// installation is replaced. Shared by every clone. `None` if each call opens the file that has
    /// the name then.
    #[cfg(target_os = "linux")]
    opened: Option<Arc<OnceLock<OwnedFd>>>,
    #[cfg(target_os = "linux")]
    without: OmittedLayers,
    /// The accesses of the last call, if every call is watched.
    #[cfg(target_os = "linux")]
    shown: Option<Arc<Mutex<ObservedAccesses>>>,
    /// One reserve for each kind of call. Shared by every clone.
    #[cfg(target_os = "linux")]
    reserves: Arc<[Reserve; 2]>,
    /// The sentences that say what to do if a call is not started.
    #[cfg(target_os = "linux")]
    hints: RemedyHints,
    /// The directory in which running calls are noted for the user's other processes. `None` if they
    /// are not.
    #[cfg(target_os = "linux")]
    calls: Option<Arc<Path>>,
    /// The network of tools whose grant names peers. Shared by every clone.
    #[cfg(target_os = "linux")]
    network: Arc<SharedNetwork>,
    /// The answer of [`Self::machine`]. Shared by every clone.
    machine: Arc<OnceCell<MachineSandbox>>,
}

/// The sandbox that this machine gives to native tools: [`Host::machine`](crate::Host::machine).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MachineSandbox {
    /// The guarantees that would apply to a tool that is granted nothing.
    #[serde(rename = "level")]
    pub isolation: Isolation,
    /// The layers that enforce them, each with advice if it is missing; empty if they could not be
    /// found out.
    pub layers: Vec<SandboxLayer>,
}

/// Returns everything that the answer of [`Supervisor::machine`] depends on, as a key under which
/// the answer can be kept.
pub(crate) fn surroundings() -> String {
    #[cfg(target_os = "linux")]
    return probe::surroundings();
    #[cfg(not(target_os = "linux"))]
    return String::new();
}

impl Supervisor {
    /// Returns the supervisor at an absolute path. Without a path every native call is refused.
    ///
    /// Up to `in_reserve` processes wait for the next call in a sandbox, once a scan found a native
    /// tool or there was such a call. As many wait for the next call without a sandbox, once there
    /// was one.
    #[must_use]
    pub fn new(path: Option<PathBuf>, in_reserve: usize) -> Self {
        #[cfg(not(target_os = "linux"))]
        let _ = in_reserve;
        Self {
            path: path.map(Into::into),
            #[cfg(target_os = "linux")]
            opened: Some(Arc::default()),
            #[cfg(target_os = "linux")]
            without: OmittedLayers::default(),
            #[cfg(target_os = "linux")]
            shown: None,
            #[cfg(target_os = "linux")]
            reserves: Arc::new(
                [Confinement::Sandboxed, Confinement::Unconfined]
                    .map(|confinement| Reserve::new(confinement, in_reserve)),
            ),
            #[cfg(target_os = "linux")]
            hints: RemedyHints::default(),
            #[cfg(target_os = "linux")]
            calls: None,
            #[cfg(target_os = "linux")]
            network: Arc::default(),
            machine: Arc::default(),
        }
    }

    /// Sets the sentences that say what to do if a call is not started.
    #[cfg(target_os = "linux")]
    pub(crate) fn with_hints(self, hints: RemedyHints) -> Self {
        Self { hints, ..self }
    }

    /// Does nothing: no call is started.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn with_hints(self, _: RemedyHints) -> Self {
        self
    }

    /// Sets the directory in which running calls are noted for the user's other processes.
    #[cfg(target_os = "linux")]
    pub(crate) fn with_calls(self, calls: Option<PathBuf>) -> Self {
        Self { calls: calls.map(Into::into), ..self }
    }

    /// Does nothing: no call is started.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn with_calls(self, _: Option<PathBuf>) -> Self {
        self
    }

    #[cfg(target_os = "linux")]
    fn calls(&self) -> Option<Arc<Path>> {
        self.calls.clone()
    }

    /// Returns the supervisor that lies at a path when a call starts. Unlike others it may be a
    /// script, so that tests can change the supervisor's surroundings.
    #[cfg(target_os = "linux")]
    #[doc(hidden)]
    #[must_use]
    pub fn by_name(path: PathBuf) -> Self {
        Self { opened: None, ..Self::new(Some(path), 0) }
    }

    /// Replaces the operating system's network for tools whose grant names peers.
    #[cfg(target_os = "linux")]
    #[doc(hidden)]
    #[must_use]
    pub fn with_network(self, network: SharedNetwork) -> Self {
        Self { network: Arc::new(network), ..self }
    }

    #[cfg(target_os = "linux")]
    fn network(&self) -> Arc<SharedNetwork> {
        Arc::clone(&self.network)
    }

    /// Returns the path to execute, which leads to the open file.
    #[cfg(target_os = "linux")]
    fn executable(&self) -> io::Result<PathBuf> {
        let open = || {
            let path = self.path.as_ref().ok_or_else(|| {
                io::Error::new(io::ErrorKind::NotFound, "no program is named for it")
            })?;
            let flags = OFlags::PATH | OFlags::CLOEXEC;
            rustix::fs::open(&**path, flags, Mode::empty()).map_err(|errno| {
                let error = io::Error::from(errno);
                let reason = format!("`{}`: {error}; reinstall ikigai", path.display());
                io::Error::new(error.kind(), reason)
            })
        };
        let Some(once) = &self.opened else {
            return Ok(self.path.as_deref().unwrap_or(Path::new("")).to_owned());
        };
        let opened = match once.get() {
            Some(opened) => opened,
            None => {
                let opened = open()?;
                once.get_or_init(|| opened)
            }
        };
        // The child has copies of the descriptors, so the number means the same there.
        Ok(format!("/proc/self/fd/{}", opened.as_raw_fd()).into())
    }

    #[cfg(target_os = "linux")]
    fn reserve(&self, sandbox: Sandbox) -> &Reserve {
        let [sandboxed, unconfined] = &*self.reserves;
        match Confinement::from(sandbox) {
            Confinement::Sandboxed => sandboxed,
            Confinement::Unconfined => unconfined,
        }
    }

    /// Returns a supervisor process for a call on the current runtime. If one has to be started,
    /// its errors go to `stderr`.
    #[cfg(target_os = "linux")]
    fn process(&self, sandbox: Sandbox, stderr: BorrowedFd<'_>) -> io::Result<SupervisorProcess> {
        self.reserve(sandbox).take_or_start(|| self.executable(), stderr)?.into_process()
    }

    /// Starts the processes that the reserve for such calls lacks, on a separate thread.
    #[cfg(target_os = "linux")]
    pub(crate) fn fill_reserve(&self, sandbox: Sandbox) {
        if !self.reserve(sandbox).is_short() {
            return;
        }
        let supervisor = self.clone();
        // Does not use a thread of the runtime: that would panic outside of a runtime, and no call
        // must fail because of the reserve.
        let filled =
            std::thread::Builder::new().name("ikigai-reserve".to_owned()).spawn(move || {
                let reserve = supervisor.reserve(sandbox);
                let filled = supervisor.executable().and_then(|it| reserve.fill(&it));
                if let Err(error) = filled {
                    // If the next call cannot start one either, that call reports it.
                    tracing::debug!(%error, "no supervisor in reserve");
                }
            });
        if let Err(error) = filled {
            tracing::debug!(%error, "no thread to fill the reserve");
        }
    }

    /// Does nothing: no call is started.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn fill_reserve(&self, _: Sandbox) {}

    /// Returns the sandbox of this machine. The first call tries every layer without a tool. This
    /// supervisor and its clones remember the result. Must be polled on a tokio runtime.
    pub async fn machine(&self) -> MachineSandbox {
        #[cfg(target_os = "linux")]
        let found = self.machine.get_or_init(|| probe::machine(self)).await;
        #[cfg(not(target_os = "linux"))]
        let found = self.machine.get_or_init(|| async { MachineSandbox::unsupported() }).await;
        found.clone()
    }

    /// Leaves out layers of the sandbox, as if this machine lacked them, to test the others.
    /// Reports say so, and `require` refuses such a call.
    #[cfg(target_os = "linux")]
    #[doc(hidden)]
    #[must_use]
    pub fn without(mut self, layers: OmittedLayers) -> Self {
        self.without = layers;
        self.machine = Arc::default();
        self
    }

    /// Has every call watched, and stores the accesses of each in `seen`, for tests.
    #[cfg(target_os = "linux")]
    #[doc(hidden)]
    #[must_use]
    pub fn showing(self, seen: Arc<Mutex<ObservedAccesses>>) -> Self {
        Self { shown: Some(seen), ..self }
    }
}

#[cfg(not(target_os = "linux"))]
impl MachineSandbox {
    fn unsupported() -> Self {
        Self { isolation: Isolation::none("native tools run on Linux only"), layers: Vec::new() }
    }
}

impl NativeProgram {
    /// Returns the executable at `path`, which is absolute.
    #[must_use]
    pub fn new(path: impl Into<Arc<Path>>, supervisor: Supervisor) -> Self {
        Self { path: path.into(), supervisor }
    }

    /// Returns the path of the executable.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs the program as a call does, but with these ends of pipes as its stdin and stdout; the
    /// caller holds the other ends. The stdin and stdout of the call are not used. The program's
    /// refused network accesses are noted in `refusals` while it runs.
    #[cfg(target_os = "linux")]
    pub(crate) fn hold(
        &self,
        call: Call,
        [stdin, stdout]: [OwnedFd; 2],
        refusals: Refusals,
    ) -> Pin<Box<dyn Future<Output = Outcome> + Send>> {
        let held = Some(streams::ToolPipes { stdin, stdout, refusals });
        Box::pin(call::NativeCall::new(self.path.clone(), self.supervisor.clone(), call, held))
    }
}

#[cfg(target_os = "linux")]
impl Executor for NativeProgram {
    fn run(&self, call: Call) -> Pin<Box<dyn Future<Output = Outcome> + Send>> {
        Box::pin(call::NativeCall::new(self.path.clone(), self.supervisor.clone(), call, None))
    }
}

#[cfg(not(target_os = "linux"))]
impl Executor for NativeProgram {
    fn run(&self, _: Call) -> Pin<Box<dyn Future<Output = Outcome> + Send>> {
        let reason = "native tools run on Linux only: elsewhere nothing would end what they start";
        Box::pin(std::future::ready(Outcome::not_started(reason)))
    }
}
