//! The compilation that no call waits for: the optimised code of a component whose baseline runs
//! already.
//!
//! A separate process does it, so that the code is there for the next command when this one has
//! long ended, as `git gc --auto` outlives the command that began it. The process leaves the host's
//! session and is niced as far as possible. It has the usual process compile the code under the
//! usual limits. Owns its start and its steps; [`super::super::cache`] owns the lock that makes it
//! the only one for a cache.

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use std::os::unix::process::CommandExt as _;

use ikigai_protocol::Digest;
use rustix::process::{chdir, nice, setsid};
use tokio_util::sync::CancellationToken;
use wasmtime::Engine;

use super::super::cache::{ComponentCache, LockTimeouts};
use super::super::engine::{self, Tier};
use super::{ARGUMENT, Compiler, CompilerTask};
use crate::exec::wasm::ComponentError;

/// The niceness of the process: what is left of the processor after everything else (`nice(2)`).
const NICENESS: i32 = 19;

/// The exit code of a process that did nothing, since another one is at work for the same cache.
pub(in crate::exec::wasm) const BUSY: i32 = 16;

/// The value for a process that the kernel ends before all others if memory is short
/// (proc_pid_oom_score_adj(5)).
const FIRST_TO_GO: &str = "1000";

/// The number of attempts to take the right to compile, and the pause after each.
const LOOKS: u32 = 20;
const LOOK: Duration = Duration::from_millis(20);

/// The first descriptor after the standard streams.
const FIRST_OTHER: libc::c_uint = 3;

/// Starts the process for the component in `source`, whose contents have this digest. It ends at
/// once if another one is at work for the same cache.
///
/// # Errors
///
/// Fails if no compiler program is configured, or if it does not start.
#[allow(
    clippy::disallowed_methods,
    reason = "this is no tool: it is the host's own program, which runs nothing of the component"
)]
pub(in crate::exec::wasm) fn start(
    compiler: &Compiler,
    source: File,
    digest: &Digest,
    cache: &Path,
) -> Result<Child, ComponentError> {
    let path = compiler.path()?;
    let start = || -> io::Result<Child> {
        Command::new(path)
            .arg0("ikigai")
            .arg(ARGUMENT)
            .arg(<&str>::from(CompilerTask::Behind))
            .arg(digest.to_string())
            // The process leaves the directory of the host.
            .arg(std::path::absolute(cache)?)
            .env_clear()
            .stdin(Stdio::from(source))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
    };
    start().map_err(|error| {
        ComponentError::Unread(format!("`{}` does not start: {error}", path.display()))
    })
}

/// Compiles the component on stdin into the cache in `dir`. Returns false if another process is at
/// work for that cache.
///
/// # Errors
///
/// Fails if the digest is malformed, the cache cannot be written, wasmtime does not run here, or
/// the component was not compiled.
pub(super) fn run(digest: &str, dir: &Path) -> Result<bool, String> {
    leave_the_host().map_err(|error| error.to_string())?;
    let digest: Digest = digest.parse().map_err(|error| format!("{error}"))?;
    let cache = ComponentCache::open(None, Some(dir));
    let Some(_turn) = turn(&cache).map_err(|error| error.to_string())? else {
        return Ok(false);
    };
    let fingerprint_of = |engine: wasmtime::Result<Engine>| match engine {
        Ok(engine) => Ok((engine::fingerprint(&engine), engine)),
        Err(error) => Err(format!("{error:#}")),
    };
    let (fingerprint, engine) = fingerprint_of(engine::without_pool())?;
    let (of_the_baseline, _) = fingerprint_of(engine::of_the_baseline())?;
    let lock =
        cache.lock_compilation(fingerprint, &digest, LockTimeouts::OF_A_PROCESS_BEHIND, || true);
    let _lock = lock.ok_or("the cache cannot be written")?;
    if cache.load(&engine, fingerprint, &digest).is_none() {
        let source = io::stdin().as_fd().try_clone_to_owned().map_err(|error| error.to_string())?;
        let compiler = Compiler::new(Some(Compiler::OF_THIS_PROCESS.into()));
        let never = CancellationToken::new();
        let code = compiler.compile(File::from(source), &digest, Tier::Optimised, &never);
        let code = code.map_err(|error| {
            cache.note_unoptimised(fingerprint, &digest, &error.to_string());
            error.to_string()
        })?;
        cache.store(&code, fingerprint, &digest).ok_or("the cache cannot be written")?;
    }
    cache.sweep(of_the_baseline, fingerprint);
    Ok(true)
}

/// Takes the right to compile. A host that only looks whether a process has it takes it for a
/// moment.
fn turn(cache: &ComponentCache) -> io::Result<Option<File>> {
    for _ in 0..LOOKS {
        if let Some(turn) = cache.lock_behind()? {
            return Ok(Some(turn));
        }
        std::thread::sleep(LOOK);
    }
    Ok(None)
}

/// Leaves what belongs to the host, which may end. Its session: its Ctrl-C is not for this process.
/// Its directory: the user may want to unmount it. Its descriptors: a program may wait for the last
/// writer to close them. Its priority, for the processor and when the kernel looks for memory.
fn leave_the_host() -> io::Result<()> {
    setsid()?;
    chdir("/")?;
    // SAFETY: nothing in this process has opened a file yet but the standard streams.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, FIRST_OTHER, libc::c_uint::MAX, 0) };
    if closed != 0 {
        tracing::debug!("descriptors of the host stay open: {}", io::Error::last_os_error());
    }
    // A container may forbid either.
    let _ = nice(NICENESS);
    let _ = std::fs::write("/proc/self/oom_score_adj", FIRST_TO_GO);
    Ok(())
}
