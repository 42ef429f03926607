//! The compilation that no call waits for: the optimised code of a component whose baseline runs
//! already.
//!
//! A separate process does it, so that the code is there for the next command when this one has
//! long ended, as `git gc --auto` outlives the command that began it. The process leaves the host's
//! session and is niced as far as possible. It has the usual process compile the code under the
//! usual limits. Owns its start; the process owns its steps, and [`super::super::cache`] the lock
//! that makes it the only one for a cache.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use std::os::unix::process::CommandExt as _;

use ikigai_protocol::Digest;

use super::{Compiler, CompilerTask, PROGRAM};
use crate::exec::wasm::ComponentError;

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
            .arg0(PROGRAM)
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
