//! The process of a supervisor, waiting or in a call: a child of the host, and a socket to it.
//!
//! Owns the promise that no such child is left running or unreaped, however a call ends. Knows
//! nothing of tools.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, recvmsg, sendmsg, shutdown,
};
use rustix::process::{Pid, PidfdFlags, Resource, Signal, getrlimit, kill_process, pidfd_open};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::UnixStream;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use ikigai_supervisor::plan::{self, Confinement, DESCRIPTORS, LISTENER, SupervisorReport};
use ikigai_supervisor::process_tree;

/// The time that a supervisor has to end after it was asked to.
pub(super) const GRACE: Duration = Duration::from_secs(1);

/// The time between two looks at a supervisor without a pidfd.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// The largest report that is read: well above the size of the paths in a watched tool's report, in
/// which each byte may take six.
const MAX_REPORT: usize = 1 << 20;

/// The memory for a report that is not watched, which is then read at once.
const USUAL_REPORT: usize = 1 << 10;

/// A supervisor that waits for its plan. Dropping it ends it.
#[derive(Debug)]
pub(super) struct WaitingSupervisor {
    /// Missing once it is taken or reaped.
    child: Option<Child>,
    /// Its pidfd. Missing if the kernel has no pidfds.
    ended: Option<OwnedFd>,
    /// The supervisor ends when this is closed. Missing once it is taken.
    control: Option<std::os::unix::net::UnixStream>,
}

impl WaitingSupervisor {
    /// Starts the supervisor at `executable` for a call of this kind. Its own errors go to
    /// `stderr`, or nowhere, until it has a plan, and to the tool's stderr then.
    #[allow(clippy::disallowed_methods, reason = "this is where native processes are spawned")]
    pub(super) fn start(
        executable: &Path,
        confinement: Confinement,
        stderr: Option<BorrowedFd<'_>>,
    ) -> io::Result<Self> {
        if !executable.is_absolute() {
            // The standard library forks if it has to look a name up.
            let reason = format!("`{}` is not an absolute path", executable.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        }
        let (own, its) = std::os::unix::net::UnixStream::pair()?;
        own.set_nonblocking(true)?;
        let stderr = match stderr {
            Some(stderr) => Stdio::from(stderr.try_clone_to_owned()?),
            None => Stdio::null(),
        };
        // Nothing here makes the standard library fork instead of posix_spawn. The environment
        // is empty because any process of the same user can read it.
        let child = Command::new(executable)
            .arg0("ikigai-supervisor")
            .arg(confinement.as_str())
            .env_clear()
            .stdin(Stdio::from(OwnedFd::from(its)))
            .stdout(Stdio::null())
            .stderr(stderr)
            .spawn()?;
        let ended = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())
            .inspect_err(|error| tracing::debug!(%error, "no descriptor for a supervisor's end"));
        Ok(Self { child: Some(child), ended: ended.ok(), control: Some(own) })
    }

    /// Returns whether it has ended, for example because another program killed it.
    pub(super) fn has_ended(&mut self) -> bool {
        self.child.as_mut().is_none_or(|child| child.try_wait().is_ok_and(|it| it.is_some()))
    }

    /// Asks it to end.
    pub(super) fn ask_to_end(&mut self) {
        self.control = None;
    }

    /// Returns it as the supervisor of a call of this runtime.
    pub(super) fn into_process(mut self) -> io::Result<SupervisorProcess> {
        let control = self.control.take().map(UnixStream::from_std).transpose()?;
        let ended = self.ended.take().and_then(|fd| {
            // SAFETY: an `OwnedFd` is one open descriptor, the same one for as long as it
            // lives, and the `AsyncFd` owns it.
            let registered = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) };
            registered
                .inspect_err(|error| tracing::debug!(%error, "a supervisor's end is waited for"))
                .ok()
        });
        let (child, received) = (self.child.take(), Vec::with_capacity(USUAL_REPORT));
        Ok(SupervisorProcess { child, ended, control, listener: None, received })
    }
}

impl Drop for WaitingSupervisor {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        // It has started no tool yet, and ends on its own, with the control groups that it made.
        self.ask_to_end();
        let has_ended = self.ended.as_ref().is_some_and(|ended| ends_within(ended, GRACE));
        if !has_ended && let Err(error) = child.kill() {
            tracing::debug!(%error, "a waiting supervisor could not be killed");
        }
        if let Err(error) = child.wait() {
            tracing::warn!(%error, "a waiting supervisor could not be reaped");
        }
    }
}

/// The supervisor of one call.
pub(super) struct SupervisorProcess {
    /// Missing once it is reaped.
    child: Option<Child>,
    /// Its pidfd, which is readable once it has ended. Missing if the kernel has no pidfds.
    ended: Option<AsyncFd<OwnedFd>>,
    /// Missing once the host has closed it.
    control: Option<UnixStream>,
    /// The channel to the task that waits for the listener of the tool's network.
    listener: Option<oneshot::Sender<OwnedFd>>,
    received: Vec<u8>,
}

impl SupervisorProcess {
    fn pid(&self) -> Option<Pid> {
        self.child.as_ref().map(Pid::from_child)
    }

    /// Sends the plan, the tool's stdin, stdout and stderr, and its end of the host socket, if it
    /// has one. After an error the supervisor still waits for the rest, unless it has ended.
    pub(super) async fn send(
        &mut self,
        plan: &[u8],
        streams: [BorrowedFd<'_>; DESCRIPTORS],
        host_socket: Option<BorrowedFd<'_>>,
    ) -> io::Result<()> {
        let Some(control) = &mut self.control else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        let descriptors: Vec<BorrowedFd<'_>> = streams.into_iter().chain(host_socket).collect();
        // The descriptors are sent with the first bytes, however many those are.
        let sent = control
            .async_io(Interest::WRITABLE, || {
                let mut space =
                    [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS + 1))];
                let mut ancillary = SendAncillaryBuffer::new(&mut space);
                ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
                Ok(sendmsg(&control, &[IoSlice::new(plan)], &mut ancillary, SendFlags::NOSIGNAL)?)
            })
            .await
            .map_err(explained)?;
        // Another program may have stopped the supervisor in reserve. The kernel continues it at
        // input, but only if the supervisor has asked for that, and only for input that no read
        // waits for. Sent when the input is there, this signal also drops the stop signals that
        // came before it.
        if let Some(pid) = self.child.as_ref().map(Pid::from_child)
            && let Err(error) = kill_process(pid, Signal::CONT)
        {
            tracing::debug!(%error, "a supervisor could not be continued");
        }
        control.write_all(&plan[sent..]).await
    }

    /// Tells the supervisor the time that the tool has now, from its start. If the supervisor has
    /// ended, the task that waits for its report notices that.
    pub(super) async fn give_time(&mut self, time: Duration) {
        let Some(control) = &mut self.control else { return };
        if let Err(error) = control.write_all(&plan::time_message(time)).await {
            tracing::debug!(%error, "a supervisor was gone when its tool was given more time");
        }
    }

    /// Returns the listener of the tool's network, which comes before the report. It does not come
    /// if the tool has no such network.
    pub(super) fn listener(&mut self) -> oneshot::Receiver<OwnedFd> {
        let (sender, receiver) = oneshot::channel();
        self.listener = Some(sender);
        receiver
    }

    /// Waits for the supervisor's report. Returns nothing if it ended without one. The future may
    /// be dropped and this called again.
    pub(super) async fn report(&mut self) -> io::Result<Option<SupervisorReport>> {
        let Some(control) = &mut self.control else { return Ok(None) };
        if self.listener.is_some() {
            let first = control.async_io(Interest::READABLE, || first(control)).await;
            let first = match first {
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => None,
                first => first?,
            };
            // The receiver is gone if the call is over.
            let waiting = self.listener.take();
            match first {
                None => return Ok(None),
                Some((LISTENER, Some(listener))) => {
                    drop(waiting.map(|waiting| waiting.send(listener)));
                }
                Some((byte, _)) => self.received.push(byte),
            }
        }
        while !self.received.ends_with(b"\n") {
            if self.received.len() > MAX_REPORT {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "the report has no end"));
            }
            match control.read_buf(&mut self.received).await {
                Ok(0) => return Ok(None),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(Some(SupervisorReport::decode(&self.received)?))
    }

    /// Asks the supervisor to end the call. It still reports.
    pub(super) fn ask_to_end(&self) {
        if let Some(control) = &self.control
            && let Err(error) = shutdown(control, Shutdown::Write)
        {
            tracing::debug!(%error, "a supervisor was gone when it was asked to end");
        }
    }

    /// Kills the supervisor and its process tree.
    pub(super) async fn kill(&mut self) {
        let Some(pid) = self.pid() else { return };
        // The child is not reaped before this is over, so its number is not given again.
        if let Err(error) = spawn_blocking(move || kill_tree(pid)).await {
            tracing::warn!(%error, "the processes of a supervisor could not be killed");
        }
        self.kill_itself();
    }

    fn kill_itself(&mut self) {
        if let Some(Err(error)) = self.child.as_mut().map(Child::kill) {
            tracing::warn!(%error, "a supervisor could not be killed");
        }
    }

    /// Waits for the end of a supervisor that was asked to end or has ended.
    pub(super) async fn reap(&mut self) -> io::Result<Option<ExitStatus>> {
        self.control = None;
        if let Some(ended) = &self.ended {
            let _ready = ended.readable().await?;
            let Some(child) = &mut self.child else { return Ok(None) };
            let status = child.wait()?;
            self.child = None;
            return Ok(Some(status));
        }
        // The child stays in `self` during the wait, so that it can be killed.
        let Some(child) = &mut self.child else { return Ok(None) };
        let status = loop {
            match child.try_wait()? {
                Some(status) => break status,
                None => sleep(LOOK_AGAIN).await,
            }
        };
        self.child = None;
        Ok(Some(status))
    }
}

/// Adds an explanation to the error of a message with descriptors, if the system's own text does
/// not explain it.
fn explained(error: io::Error) -> io::Error {
    if error.raw_os_error() != Some(libc::ETOOMANYREFS) {
        return error;
    }
    let most =
        getrlimit(Resource::Nofile).current.map_or("unlimited".to_owned(), |it| it.to_string());
    io::Error::other(format!(
        "programs of this user are passing more open files to each other than `ulimit -n` allows \
         ikigai ({most}); end the program that holds them, or raise `ulimit -n` for ikigai"
    ))
}

/// Waits for the end of a supervisor by its pidfd for at most `timeout`, and returns whether it
/// came. Blocks.
fn ends_within(ended: impl AsFd, timeout: Duration) -> bool {
    let mut fds = [PollFd::new(&ended, PollFlags::IN)];
    let timeout = Timespec::try_from(timeout).unwrap_or_default();
    poll(&mut fds, Some(&timeout)).is_ok_and(|ready| ready > 0)
}

/// Receives the first byte that a supervisor sends, and the descriptor that may come with it;
/// nothing at the end.
fn first(control: &UnixStream) -> io::Result<Option<(u8, Option<OwnedFd>)>> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut byte)];
    let received = recvmsg(control, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let descriptor = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut received) => received.next(),
        _ => None,
    });
    Ok((received.bytes > 0).then_some((byte[0], descriptor)))
}

impl Drop for SupervisorProcess {
    /// Reaps the supervisor if a runtime is shut down during a call or right after one; every other
    /// end of a call has reaped it. Blocks for as long as the supervisor takes to kill its tool and
    /// to end.
    fn drop(&mut self) {
        let Some(pid) = self.pid() else { return };
        self.control = None;
        let ended = self.ended.as_ref();
        if !ended.is_some_and(|ended| ends_within(ended.get_ref(), GRACE)) {
            kill_tree(pid);
            self.kill_itself();
        }
        if let Some(Err(error)) = self.child.as_mut().map(Child::wait) {
            tracing::warn!(%error, "a supervisor could not be reaped");
        }
    }
}

/// Kills the process tree below `root`, for at most [`GRACE`]. Blocks.
fn kill_tree(root: Pid) {
    match process_tree::kill_descendants(root, Instant::now() + GRACE) {
        Ok(0) => {}
        Ok(count) => tracing::warn!(count, "processes of a tool could not be killed"),
        Err(error) => tracing::warn!(%error, "the processes of a supervisor cannot be listed"),
    }
}
