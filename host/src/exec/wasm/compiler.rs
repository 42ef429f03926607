//! Compilation in a separate process.
//!
//! A component decides how much time and memory its compilation takes: a few bytes can stand for a
//! great many instances. So the host starts a program that compiles, `ikigai-compiler`. It compiles
//! one component under limits that the kernel enforces, and returns the code in a file without a
//! name. The host itself has no compiler, unless the feature `compiler` adds one.
//! Owns the limits, the process and the meaning of its end. [`super::cache`] owns the code that is kept, and
//! `behind` the compilation that a host does not wait for.

pub(super) mod behind;
#[cfg(feature = "compiler")]
mod binary;
#[cfg(feature = "compiler")]
pub(super) mod code;
pub(super) mod exit;
mod limits;
#[cfg(feature = "compiler")]
mod measure;
#[cfg(feature = "compiler")]
mod process;

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};

use ikigai_protocol::Digest;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use strum::{EnumString, IntoStaticStr};
use tokio_util::sync::CancellationToken;

use super::ComponentError;
use super::engine::{EngineKind, Tier};
use limits::{CompilerLimits, Inherited};

pub use limits::Excess;
#[cfg(feature = "compiler")]
pub use process::main;

/// The name of the program that compiles.
const PROGRAM: &str = "ikigai-compiler";

/// The smallest component: its header (the component model's binary format).
const EMPTY: &[u8] = b"\0asm\x0d\0\x01\0";

/// The interval at which a compilation is checked for its cancellation and its deadline.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The longest reason that is read from the compiling process, in bytes.
const MAX_REASON: u64 = 4 << 10;

/// The program that compiles: `ikigai-compiler`, or another whose `main` calls `main` of this
/// module.
#[derive(Clone, Debug)]
pub struct Compiler {
    path: Option<Arc<Path>>,
    /// The factor for limits on processor time.
    patience: u64,
}

/// Compiled code, in a file without a name, and the engine that runs it.
pub(super) struct CompiledCode {
    pub(super) file: File,
    pub(super) engine: EngineKind,
}

/// The factor for an installer, which compiles components that it trusts. An emulator of another
/// processor took more for the built-in shell than the 54 s that a call allows.
const OF_AN_INSTALLER: u64 = 60;

impl Compiler {
    /// Returns the compiler at an absolute path. It must be of this library's version, because the
    /// code of another engine does not load. Without a path, nothing is compiled.
    #[must_use]
    pub fn new(path: Option<PathBuf>) -> Self {
        Self { path: path.map(Into::into), patience: 1 }
    }

    /// Returns this compiler with the patience of an installer.
    #[must_use]
    pub(crate) fn for_an_installer(self) -> Self {
        Self { patience: OF_AN_INSTALLER, ..self }
    }

    /// Compiles the component in `source`, whose contents have this digest, and returns its code
    /// of this tier. Blocks; the calling thread must not end before this does.
    ///
    /// # Errors
    ///
    /// See [`ComponentError`].
    pub(super) fn compile(
        &self,
        source: File,
        digest: &Digest,
        tier: Tier,
        cancel: &CancellationToken,
    ) -> Result<CompiledCode, ComponentError> {
        self.run(CompilerTask::from(tier), source, digest, cancel)
    }

    /// Compiles the smallest component, to find out whether components compile to this tier here.
    pub(super) fn check(&self, tier: Tier) -> Result<(), ComponentError> {
        let mut source =
            nameless_file().map_err(|error| ComponentError::Unread(error.to_string()))?;
        let written = source.write_all(EMPTY).and_then(|()| source.rewind());
        written.map_err(|error| ComponentError::Unread(error.to_string()))?;
        let digest = Digest::from_bytes(EMPTY);
        self.compile(source, &digest, tier, &CancellationToken::new()).map(drop)
    }

    fn path(&self) -> Result<&Path, ComponentError> {
        self.path.as_deref().ok_or_else(|| {
            let reason = "it is in no cache, and no program is named that compiles";
            ComponentError::Unread(reason.to_owned())
        })
    }

    fn run(
        &self,
        task: CompilerTask,
        source: File,
        digest: &Digest,
        cancel: &CancellationToken,
    ) -> Result<CompiledCode, ComponentError> {
        let failed = |error: io::Error| ComponentError::Unread(error.to_string());
        let path = self.path()?;
        let mut limits = CompilerLimits::for_task(source.metadata().map_err(failed)?.len(), task);
        limits.processor *= self.patience;
        let code = nameless_file().map_err(failed)?;
        let mut process =
            Compiling::start(path, task, source, &code, digest, limits).map_err(|error| {
                ComponentError::Unread(format!("`{}` does not start: {error}", path.display()))
            })?;
        let reason = process.watch(limits.wall_clock(), cancel).map_err(failed)?;
        match reason {
            Over::Cancelled => Err(ComponentError::Unread("nobody waits for it any more".into())),
            Over::Late => {
                Err(ComponentError::TooCostly(Excess::WallClock(limits.wall_clock().as_secs())))
            }
            Over::Ended(status, reason) => {
                let engine = verdict(status, reason, limits, Inherited::below(limits))?;
                Ok(CompiledCode { file: code, engine })
            }
        }
    }
}

/// Returns a file that goes away with its last descriptor. It is in memory. If the kernel or a
/// sandbox refuses that, it is in the directory for temporary files.
fn nameless_file() -> io::Result<File> {
    match memfd_create("ikigai-compiled", MemfdFlags::CLOEXEC) {
        Ok(memory) => Ok(File::from(memory)),
        Err(_) => tempfile::tempfile(),
    }
}

/// The task of a process that compiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
enum CompilerTask {
    /// Writes the baseline code of a component or a core module.
    Baseline,
    /// Writes the optimised code of a component or a core module.
    Optimised,
    /// Has the optimised code written into a cache. Continues even if the host that asked for it
    /// ends.
    Behind,
}

impl From<Tier> for CompilerTask {
    fn from(tier: Tier) -> Self {
        match tier {
            Tier::Baseline => Self::Baseline,
            Tier::Optimised => Self::Optimised,
        }
    }
}

/// A process that compiles. It is killed and reaped when this is dropped.
struct Compiling {
    child: Child,
    /// False once it is reaped.
    running: bool,
}

/// Returns the number of threads that compile: one for each core, and no more than 8, since each
/// takes some of the memory, which is limited.
fn threads() -> usize {
    const MOST: usize = 8;
    std::thread::available_parallelism().map_or(1, usize::from).min(MOST)
}

/// The end of a compilation.
enum Over {
    /// The process ended, with this status and this text on stderr.
    Ended(ExitStatus, String),
    Cancelled,
    Late,
}

impl Compiling {
    #[allow(
        clippy::disallowed_methods,
        reason = "this is no tool: it is the host's own program, which reads the component and \
                  runs nothing of it"
    )]
    fn start(
        program: &Path,
        task: CompilerTask,
        source: File,
        code: &File,
        digest: &Digest,
        limits: CompilerLimits,
    ) -> io::Result<Self> {
        let child = Command::new(program)
            .arg0(PROGRAM)
            .arg(<&str>::from(task))
            .arg(digest.to_string())
            .args([limits.processor, limits.memory, limits.code].map(|limit| limit.to_string()))
            .arg(std::process::id().to_string())
            .env_clear()
            .env("RAYON_NUM_THREADS", threads().to_string())
            .stdin(Stdio::from(source))
            .stdout(Stdio::from(code.try_clone()?))
            .stderr(Stdio::piped())
            .spawn()?;
        Ok(Self { child, running: true })
    }

    /// Waits until the process has ended, is cancelled or is late.
    fn watch(&mut self, wall_clock: Duration, cancel: &CancellationToken) -> io::Result<Over> {
        let deadline = Instant::now() + wall_clock;
        let stderr = self.child.stderr.take().map(OwnedFd::from).map(File::from);
        let mut stderr = stderr.ok_or(io::ErrorKind::BrokenPipe)?;
        let mut reason = Vec::new();
        loop {
            if cancel.is_cancelled() {
                return Ok(Over::Cancelled);
            }
            if Instant::now() >= deadline {
                return Ok(Over::Late);
            }
            if !is_readable(&stderr)? {
                continue;
            }
            let mut part = [0; 1024];
            match stderr.read(&mut part) {
                Ok(0) => break,
                Ok(read) if (reason.len() as u64) < MAX_REASON => {
                    reason.extend_from_slice(&part[..read]);
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        // Only the end of the process closes its end of the pipe.
        let status = self.child.wait()?;
        self.running = false;
        Ok(Over::Ended(status, String::from_utf8_lossy(&reason).trim_end().to_owned()))
    }
}

impl Drop for Compiling {
    fn drop(&mut self) {
        if !self.running {
            return;
        }
        if let Err(error) = self.child.kill().and_then(|()| self.child.wait()) {
            tracing::warn!("a compilation could not be ended: {error}");
        }
    }
}

/// Waits for something to read, for one [`POLL_INTERVAL`] at most.
fn is_readable(file: &File) -> io::Result<bool> {
    let timeout = Timespec::try_from(POLL_INTERVAL).map_err(io::Error::other)?;
    match poll(&mut [PollFd::new(file, PollFlags::IN)], Some(&timeout)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Returns the result of a compilation, the engine that the code is for, from the end of its
/// process, which has the `inherited` limits as well.
fn verdict(
    status: ExitStatus,
    reason: String,
    limits: CompilerLimits,
    inherited: Inherited,
) -> Result<EngineKind, ComponentError> {
    let ended_by = |own: Option<String>, excess| match own {
        Some(limit) => ComponentError::Unread(format!(
            "compiling it takes more than ikigai may use here, {limit}; raise that limit and try again"
        )),
        None => ComponentError::TooCostly(excess),
    };
    let memory = || ended_by(inherited.memory.clone(), Excess::Memory(limits.memory));
    let code = || ended_by(inherited.code.clone(), Excess::Code(limits.code));
    match (status.code(), status.signal()) {
        (Some(exit::DONE), _) => Ok(EngineKind::Sequential),
        (Some(exit::DONE_CONCURRENT), _) => Ok(EngineKind::Concurrent),
        (Some(exit::INVALID), _) => Err(ComponentError::Invalid(reason)),
        (Some(exit::USES_ASYNC), _) => Err(ComponentError::UsesAsync(reason)),
        (Some(exit::NO_PROGRAM), _) => Err(ComponentError::CoreModule(reason)),
        (Some(exit::FAILED), _) => Err(ComponentError::Unread(reason)),
        (Some(exit::NO_MEMORY), _) => Err(memory()),
        (Some(exit::TOO_MUCH_CODE), _) | (_, Some(libc::SIGXFSZ)) => Err(code()),
        (_, Some(libc::SIGXCPU)) => {
            Err(ended_by(inherited.processor.clone(), Excess::Processor(limits.processor)))
        }
        // The standard library aborts a process whose allocation fails.
        (_, Some(libc::SIGABRT)) if reason.contains("memory allocation of ") => Err(memory()),
        // The machine has no more threads for its user. The component is not the cause.
        _ if reason.contains("ThreadPoolBuildError") => {
            Err(ComponentError::Unread("its compiler could not start its threads".to_owned()))
        }
        // The kernel kills at the hard limit, which may be the lower one.
        (_, Some(libc::SIGKILL)) if inherited.processor.is_some() => {
            Err(ended_by(inherited.processor.clone(), Excess::Processor(limits.processor)))
        }
        // A user killed it, or the kernel did because the machine has no memory left: another
        // attempt may succeed.
        (_, Some(libc::SIGKILL | libc::SIGTERM)) => {
            Err(ComponentError::Unread("its compilation was killed".to_owned()))
        }
        _ => {
            let last = reason.lines().last().unwrap_or_default();
            Err(ComponentError::Invalid(format!("the compiler itself failed ({status}): {last}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the result of a process that ended with this wait status.
    fn judged(raw: i32, reason: &str) -> Result<EngineKind, ComponentError> {
        judged_under(raw, reason, Inherited::default())
    }

    fn judged_under(
        raw: i32,
        reason: &str,
        inherited: Inherited,
    ) -> Result<EngineKind, ComponentError> {
        let limits = CompilerLimits::for_task(1, CompilerTask::Optimised);
        verdict(ExitStatus::from_raw(raw), reason.to_owned(), limits, inherited)
    }

    #[test]
    fn the_end_of_a_compilation_says_what_became_of_it() {
        let code = |code: i32| code << 8;
        let too_costly = |raw, reason: &str| match judged(raw, reason) {
            Err(ComponentError::TooCostly(excess)) => Some(excess),
            _ => None,
        };
        let engine = |exit| judged(code(exit), "").ok();
        assert_eq!(engine(exit::DONE), Some(EngineKind::Sequential));
        assert_eq!(engine(exit::DONE_CONCURRENT), Some(EngineKind::Concurrent));
        let limits = CompilerLimits::for_task(1, CompilerTask::Optimised);
        assert_eq!(too_costly(libc::SIGXCPU, ""), Some(Excess::Processor(limits.processor)));
        let memory = Some(Excess::Memory(limits.memory));
        assert_eq!(too_costly(code(exit::NO_MEMORY), ""), memory);
        assert_eq!(too_costly(libc::SIGABRT, "memory allocation of 8 bytes failed"), memory);
        let large = Some(Excess::Code(limits.code));
        assert_eq!(too_costly(code(exit::TOO_MUCH_CODE), ""), large);

        // A limit that ikigai was started with is not the component's fault.
        let some = |limit: &str| Some(limit.to_owned());
        let inherited = Inherited {
            processor: some("ulimit -t"),
            memory: some("ulimit -v"),
            code: some("ulimit -f"),
        };
        for (raw, reason, limit) in [
            (libc::SIGXCPU, "", "ulimit -t"),
            (libc::SIGKILL, "", "ulimit -t"),
            (code(exit::NO_MEMORY), "", "ulimit -v"),
            (libc::SIGABRT, "memory allocation of 8 bytes failed", "ulimit -v"),
            (code(exit::TOO_MUCH_CODE), "", "ulimit -f"),
            (libc::SIGXFSZ, "", "ulimit -f"),
        ] {
            let error = judged_under(raw, reason, inherited.clone()).expect_err("ended");
            assert!(!error.is_lasting() && error.to_string().contains(limit), "{error}");
        }

        // A component's own fault is lasting; a fault of the machine is not.
        let lasts = |raw, reason: &str| judged(raw, reason).expect_err("ended").is_lasting();
        assert!(lasts(code(exit::INVALID), "no"));
        assert!(lasts(code(101), "a bug") && lasts(libc::SIGSEGV, ""));
        assert!(!lasts(code(exit::FAILED), "no disk") && !lasts(libc::SIGKILL, ""));
        assert!(!lasts(code(101), "ThreadPoolBuildError { .. }"));
    }
}
