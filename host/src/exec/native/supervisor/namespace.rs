//! A PID namespace for the tool, where the privilege for one is there.
//!
//! When the init of a PID namespace ends, the kernel ends everything in it:
//! the only way by which nothing escapes, whatever it does. There is no user
//! namespace, which would give anyone the privilege but break programs with setuid.

use std::ffi::{c_int, c_void};
use std::io;
use std::process::ExitCode;

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::process::{Signal, set_parent_process_death_signal};

use super::launch::{Stack, clone};
use super::reaper::{self, Children};

/// What became of the attempt.
pub(super) enum Made {
    /// The work was done in a namespace, which is gone.
    Ended(ExitCode),
    /// There is no namespace to be had.
    Refused(io::Error),
}

/// Runs `work` as the init of a new PID namespace, with a `/proc` of its own, and
/// returns when the namespace is gone. `work` gets notes on what did not succeed.
///
/// The init shares this process's memory, and this process sleeps until it has
/// ended (as with vfork): no page is copied, and to kill this process is to kill
/// the namespace.
///
/// # Safety
///
/// The calling process has one thread. It has nothing to do until `work` is done.
pub(super) unsafe fn enter(work: impl FnOnce(Vec<String>) -> ExitCode) -> Made {
    // Pages are taken as they are used.
    let stack = match Stack::new(1 << 20) {
        Ok(stack) => stack,
        Err(error) => return Made::Refused(error),
    };
    let mut work = Work { work: Some(work), code: ExitCode::FAILURE };
    let flags = libc::CLONE_NEWPID | libc::CLONE_NEWNS | libc::CLONE_VM | libc::CLONE_VFORK;
    // SAFETY: this process is suspended until the child ends, so that the memory they
    // share is used by one of them at a time; a panic in `init` aborts instead of
    // unwinding; `work` and `stack` outlive the child.
    let init = unsafe { clone(flags, &stack, init_of(&work), (&raw mut work).cast()) };
    if let Err(error) = init {
        return Made::Refused(error);
    }
    // The init is this process's only child. Its status says no more than `code`.
    while !matches!(reaper::wait_for_one(), Ok(Children::Ended(_) | Children::None) | Err(_)) {}
    Made::Ended(work.code)
}

struct Work<F> {
    work: Option<F>,
    code: ExitCode,
}

/// The entry for this type of work.
fn init_of<F: FnOnce(Vec<String>) -> ExitCode>(_: &Work<F>) -> extern "C" fn(*mut c_void) -> c_int {
    init::<F>
}

extern "C" fn init<F: FnOnce(Vec<String>) -> ExitCode>(argument: *mut c_void) -> c_int {
    // SAFETY: `enter` passes a pointer to its own `Work`, and is suspended meanwhile.
    let work = unsafe { &mut *argument.cast::<Work<F>>() };
    let mut notes = Vec::new();
    // Where the supervisor died before this, the control socket is the other sign.
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        notes.push(format!("the namespace may outlive the supervisor: {error}"));
    }
    if let Err(error) = mount_proc() {
        notes.push(format!("no `/proc` of the PID namespace: {error}"));
    }
    if let Some(run) = work.work.take() {
        work.code = run(notes);
    }
    0
}

/// Shows the processes of this namespace in `/proc`, to it alone. Mounts of the
/// host still arrive; what the tool mounts goes with it.
fn mount_proc() -> io::Result<()> {
    mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount(c"proc", c"/proc", c"proc", flags, None)?;
    Ok(())
}
