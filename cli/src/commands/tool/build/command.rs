//! The author's command, which compiles the tool. It is not a tool and has no limits: it runs as if
//! its author had typed it.

use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use ikigai_packages::ProjectBuild;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio_util::sync::CancellationToken;

use crate::error::CliError;

/// The time that an interrupted command has to remove half-written files.
const GRACE: Duration = Duration::from_secs(2);

/// The end of a command.
#[derive(Debug)]
pub(super) enum CommandEnd {
    /// It ended on its own.
    With(ExitStatus),
    /// It was interrupted, and nothing of its process group is left.
    Interrupted,
}

/// Runs the command in a directory. Its output goes to stderr, since stdout is for the answer of
/// this program. `cancel` ends the command and everything that it started.
pub(super) async fn run(
    build: &ProjectBuild,
    directory: &Path,
    cancel: &CancellationToken,
) -> Result<CommandEnd, CliError> {
    let child = start(build, directory)
        .with_context(|| format!("cannot start the command in `{}`", directory.display()))
        .map_err(CliError::failed)?;
    Ok(watch(child, cancel).await?)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the command of an author in the project, and no tool"
)]
fn start(build: &ProjectBuild, directory: &Path) -> io::Result<Child> {
    Command::new("/bin/sh")
        .args(["-c", &build.command])
        .current_dir(directory)
        .envs(&build.env)
        // A signal to the group also reaches the processes that the command started.
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(io::stderr().as_fd().try_clone_to_owned()?)
        .spawn()
}

async fn watch(mut child: Child, cancel: &CancellationToken) -> io::Result<CommandEnd> {
    let pid = Pid::from_child(&child);
    // Do not reap the process here. Until it is reaped, no other group can get its number.
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
    Ok(if is_cancelled { CommandEnd::Interrupted } else { CommandEnd::With(status) })
}

/// Waits until a process has ended, without reaping it.
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
        // macOS returns EPERM for a group that has only ended processes.
        Ok(()) | Err(Errno::SRCH | Errno::PERM) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}
