//! The compilation that nobody waits for: the optimised code of a component whose baseline runs already.
//!
//! A process of its own does it, so that the code is there for the next command when this one has long ended,
//! as `git gc --auto` goes on after the command that began it. It leaves the host's session, is niced as far
//! as that goes, and has the code compiled by the usual process under the usual limits. Owns its start and
//! what it does; [`super::super::cache`] owns the lock that makes it the only one.

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use std::os::unix::process::CommandExt as _;

use ikigai_protocol::Digest;
use rustix::process::{chdir, nice, setsid};
use tokio_util::sync::CancellationToken;

use super::super::cache::Cache;
use super::super::engine::{self, Tier};
use super::{ARGUMENT, Compiler, Task};
use crate::exec::wasm::ComponentError;

/// The niceness of the process: what is left of the processor after everything else (`nice(2)`).
const NICENESS: i32 = 19;

/// Starts the process for the component in `source`, whose contents have this digest. It ends at once if
/// another one is at work for the same cache.
///
/// # Errors
///
/// No program is named that compiles, or it does not start.
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
    Command::new(path)
        .arg0("ikigai")
        .arg(ARGUMENT)
        .arg(<&str>::from(Task::Behind))
        .arg(digest.to_string())
        .arg(cache)
        .env_clear()
        .stdin(Stdio::from(source))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| {
            ComponentError::Unread(format!("`{}` does not start: {error}", path.display()))
        })
}

/// Compiles the component on stdin into the cache in `dir`. Does nothing if another process does it, or has
/// done it, or if it was found that it cannot be done.
///
/// # Errors
///
/// The digest is none, wasmtime does not run here, or the component was not compiled.
pub(super) fn run(digest: &str, dir: &Path) -> Result<(), String> {
    // The host may be in the foreground of a terminal, whose Ctrl-C is not for this one, and in a
    // directory that somebody wants to unmount.
    setsid().and_then(|_| chdir("/")).map_err(|error| error.to_string())?;
    // A container may forbid it.
    let _ = nice(NICENESS);
    let digest: Digest = digest.parse().map_err(|error| format!("{error}"))?;
    let engine = engine::without_pool().map_err(|error| format!("{error:#}"))?;
    let (cache, fingerprint) = (Cache::open(None, Some(dir)), engine::fingerprint(&engine));
    let Some(_lock) = cache.try_lock_compilation(fingerprint, &digest) else { return Ok(()) };
    if !cache.wants_optimised(fingerprint, &digest) {
        return Ok(());
    }
    let source = io::stdin().as_fd().try_clone_to_owned().map_err(|error| error.to_string())?;
    let compiler = Compiler::new(Some(Compiler::OF_THIS_PROCESS.into()));
    let never = CancellationToken::new();
    let code = compiler.compile(File::from(source), &digest, Tier::Optimised, &never);
    let code = code.map_err(|error| {
        // Another attempt would come to the same end, in as much time.
        if error.is_lasting() || matches!(error, ComponentError::TooCostly(_)) {
            cache.note_unoptimised(fingerprint, &digest, &error.to_string());
        }
        error.to_string()
    })?;
    cache.store(&code, fingerprint, &digest, Tier::Optimised);
    Ok(())
}
