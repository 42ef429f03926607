//! The steps of the process that compiles optimised code which no call waits for.

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::time::Duration;

use ikigai_protocol::Digest;
use rustix::process::{chdir, nice, setsid};
use tokio_util::sync::CancellationToken;

use super::super::super::cache::{ComponentCache, LockTimeouts};
use super::super::super::code_version;
use super::super::super::engine::{self, EngineKind, Tier};
use super::super::Compiler;

/// The path of this process's executable, even if its file was replaced since the start.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// The niceness of the process: what is left of the processor after everything else (`nice(2)`).
const NICENESS: i32 = 19;

/// The value for a process that the kernel ends before all others if memory is short
/// (proc_pid_oom_score_adj(5)).
const FIRST_TO_GO: &str = "1000";

/// The number of attempts to take the right to compile, and the pause after each.
const LOOKS: u32 = 20;
const LOOK: Duration = Duration::from_millis(20);

/// The first descriptor after the standard streams.
const FIRST_OTHER: libc::c_uint = 3;

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
    let fingerprint = code_version::fingerprint(Tier::Optimised, EngineKind::Sequential);
    let lock =
        cache.lock_compilation(fingerprint, &digest, LockTimeouts::OF_A_PROCESS_BEHIND, || true);
    let _lock = lock.ok_or("the cache cannot be written")?;
    if !is_optimised(&cache, &digest)? {
        let source = io::stdin().as_fd().try_clone_to_owned().map_err(|error| error.to_string())?;
        let compiler = Compiler::new(Some(OWN_PROGRAM.into()));
        let never = CancellationToken::new();
        let code = compiler.compile(File::from(source), &digest, Tier::Optimised, &never);
        let code = code.map_err(|error| {
            cache.note_unoptimised(fingerprint, &digest, &error.to_string());
            error.to_string()
        })?;
        let own = code_version::fingerprint(Tier::Optimised, code.engine);
        cache.store(&code.file, own, &digest).ok_or("the cache cannot be written")?;
    }
    for kind in EngineKind::ALL {
        let of_tier = |tier| code_version::fingerprint(tier, kind);
        cache.sweep(of_tier(Tier::Baseline), of_tier(Tier::Optimised));
    }
    Ok(true)
}

/// Returns whether the cache has optimised code of a component that is intact.
fn is_optimised(cache: &ComponentCache, digest: &Digest) -> Result<bool, String> {
    for kind in EngineKind::ALL {
        let fingerprint = code_version::fingerprint(Tier::Optimised, kind);
        if !cache.holds(fingerprint, digest) {
            continue;
        }
        let engine = engine::without_pool(kind).map_err(|error| format!("{error:#}"))?;
        if cache.load(&engine, fingerprint, digest).is_some() {
            return Ok(true);
        }
    }
    Ok(false)
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
