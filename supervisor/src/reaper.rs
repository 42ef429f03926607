//! The exit status of children.
//!
//! Owns the reaping. Ends nothing.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use crate::plan::ToolEnd;

/// A child that has ended.
pub(super) struct ChildExit {
    pub(super) pid: Pid,
    pub(super) end: ToolEnd,
    /// The largest resident set among the child and the children that it reaped, in bytes.
    pub(super) peak_memory: u64,
}

/// The state of the children.
pub(super) enum Children {
    /// A child has ended.
    Ended(ChildExit),
    /// Children are left, and none has ended.
    Running,
    /// No child is left.
    None,
}

/// Reaps a child that has ended, without waiting.
pub(super) fn poll() -> io::Result<Children> {
    wait(libc::WNOHANG)
}

/// Waits for a child to end, and reaps it.
pub(super) fn wait_for_one() -> io::Result<Children> {
    wait(0)
}

/// Waits until this child has ended, and reaps it.
pub(super) fn wait_for(pid: Pid) {
    loop {
        // SAFETY: a system call on numbers; the status is not asked for.
        let reaped =
            unsafe { libc::waitpid(pid.as_raw_nonzero().get(), ptr::null_mut(), libc::__WALL) };
        if reaped > 0 || io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) {
            return;
        }
    }
}

/// Returns whether this child has ended. It is not reaped.
pub(super) fn has_ended(pid: Pid) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    // A child that was reaped is gone, so `waitid` fails for it.
    !matches!(waitid(WaitId::Pid(pid), options), Ok(None))
}

/// Waits until no child is left. All of them have ended, or are about to.
pub(super) fn wait_for_all() {
    while matches!(wait_for_one(), Ok(Children::Ended(_) | Children::Running)) {}
}

fn wait(options: libc::c_int) -> io::Result<Children> {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: both places are on this stack and large enough; rusage is plain numbers, so zeroes
    // are a value of it. `__WALL` finds children no matter which signal announces their end.
    let (pid, usage) = unsafe {
        let pid = libc::wait4(-1, &raw mut status, options | libc::__WALL, usage.as_mut_ptr());
        (pid, usage.assume_init())
    };
    if let Some(pid) = Pid::from_raw(pid.max(0)) {
        let end = if libc::WIFSIGNALED(status) {
            ToolEnd::Signal(libc::WTERMSIG(status))
        } else {
            ToolEnd::Code(libc::WEXITSTATUS(status))
        };
        let peak_memory = u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024;
        return Ok(Children::Ended(ChildExit { pid, end, peak_memory }));
    }
    if pid == 0 {
        return Ok(Children::Running);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::ECHILD) => Ok(Children::None),
        Some(libc::EINTR) => Ok(Children::Running),
        _ => Err(error),
    }
}

/// Returns the peak of this process's own resident set, in bytes.
pub(super) fn own_peak() -> u64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the place is on this stack and large enough, and zeroes are a value of it.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024
}
