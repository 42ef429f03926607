//! The command of an author, which compiles the tool. It is no tool and has no limits: it runs as if
//! its author had typed it.

use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use ikigai_supply::Build;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio_util::sync::CancellationToken;

use crate::error::CliError;

/// The time that an interrupted command has for removing what is half-written.
const GRACE: Duration = Duration::from_secs(2);

/// The end of a command.
#[derive(Debug)]
pub(super) enum Ended {
    /// It ended by itself.
    With(ExitStatus),
    /// It was interrupted, and nothing of its process group is left.
    Interrupted,
}

/// Runs the command in a directory. Its output goes to stderr, since stdout is for the answer of
/// this program. `cancel` ends it, and with it what it started.
pub(super) async fn run(
    build: &Build,
    directory: &Path,
    cancel: &CancellationToken,
) -> Result<Ended, CliError> {
    let child = start(build, directory)
        .with_context(|| format!("cannot start the command in `{}`", directory.display()))
        .map_err(CliError::failed)?;
    Ok(watch(child, cancel).await?)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the command of an author in the project, and no tool"
)]
fn start(build: &Build, directory: &Path) -> io::Result<Child> {
    Command::new("/bin/sh")
        .args(["-c", &build.command])
        .current_dir(directory)
        .envs(&build.env)
        // A signal reaches what the command started as well.
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(io::stderr().as_fd().try_clone_to_owned()?)
        .spawn()
}

async fn watch(mut child: Child, cancel: &CancellationToken) -> io::Result<Ended> {
    let pid = Pid::from_child(&child);
    // The process is not reaped here: until then no other group can have its number.
    let mut ended = tokio::task::spawn_blocking(move || wait_for(pid));
    let is_cancelled = tokio::select! {
        biased;
        ended = &mut ended => {
            ended.map_err(io::Error::other)??;
            false
        }
        () = cancel.cancelled() => true,
    };
    if is_cancelled {
        signal(pid, Signal::TERM)?;
        let in_time = tokio::time::timeout(GRACE, &mut ended).await;
        signal(pid, Signal::KILL)?;
        let ended = match in_time {
            Ok(ended) => ended,
            Err(_) => ended.await,
        };
        ended.map_err(io::Error::other)??;
    }
    let status = child.wait()?;
    Ok(if is_cancelled { Ended::Interrupted } else { Ended::With(status) })
}

/// Waits until a process has ended, and leaves it to be reaped.
fn wait_for(pid: Pid) -> io::Result<()> {
    loop {
        match waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Sends a signal to a process group that may have ended already.
fn signal(group: Pid, signal: Signal) -> io::Result<()> {
    match kill_process_group(group, signal) {
        // macOS refuses it for a group of none but ended processes.
        Ok(()) | Err(Errno::SRCH | Errno::PERM) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}
