//! Namespaces for the tool, where the right to make them is there.
//!
//! When the init of a PID namespace ends, the kernel ends everything in it:
//! the only way by which nothing escapes, whatever it does. Owns how such an init
//! is started, and what the namespace has room for; not what the init does.

use std::ffi::{c_int, c_void};
use std::fs;
use std::io;

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::process::{Signal, set_parent_process_death_signal};

use super::launch::{Stack, clone};
use super::reaper;

/// What an unconfined tool gets. There is no user namespace, which would give anyone
/// the right to the others but break programs with setuid.
pub(super) const OF_ANY_TOOL: c_int = libc::CLONE_NEWPID | libc::CLONE_NEWNS;

/// What a sandboxed tool gets, beside the network namespace, which it may be
/// granted to do without.
pub(super) const OF_A_SANDBOX: c_int = OF_ANY_TOOL | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS;

/// What became of the attempt.
pub(super) enum Made<R> {
    /// The work was done in the namespaces, which are gone.
    Ended(R),
    /// The init was killed over its work.
    Killed,
    /// There are no such namespaces to be had.
    Refused(io::Error),
}

/// Runs `work` as the init of a new PID namespace, with whatever else is new by
/// `flags`, and returns when the namespace is gone.
///
/// The init shares this process's memory, and this process sleeps until it has
/// ended (as with vfork): no page is copied, and to kill this process is to kill
/// the namespace.
///
/// # Safety
///
/// The calling process has one thread. It has nothing to do until `work` is done.
pub(super) unsafe fn enter<R>(flags: c_int, work: impl FnOnce(Option<io::Error>) -> R) -> Made<R> {
    // Pages are taken as they are used.
    let stack = match Stack::new(1 << 20) {
        Ok(stack) => stack,
        Err(error) => return Made::Refused(error),
    };
    let mut work = Work { work: Some(work), result: None };
    let flags = flags | libc::CLONE_NEWPID | libc::CLONE_VM | libc::CLONE_VFORK;
    // SAFETY: this process is suspended until the child ends, so that the memory they
    // share is used by one of them at a time; a panic in `init` aborts instead of
    // unwinding; `work` and `stack` outlive the child.
    let init = unsafe { clone(flags, &stack, init_of(&work), (&raw mut work).cast()) };
    if let Err(error) = init {
        return Made::Refused(error);
    }
    // Its status says no more than `result`.
    reaper::wait_for_all();
    work.result.map_or(Made::Killed, Made::Ended)
}

/// Whether namespaces of this kind alone can be made.
///
/// # Safety
///
/// As of [`enter`].
pub(super) unsafe fn possible(flags: c_int) -> io::Result<()> {
    extern "C" fn end(_: *mut c_void) -> c_int {
        0
    }
    let stack = Stack::new(64 << 10)?;
    let flags = flags | libc::CLONE_VM | libc::CLONE_VFORK;
    // SAFETY: as in `enter`; the child does nothing.
    unsafe { clone(flags, &stack, end, std::ptr::null_mut()) }?;
    reaper::wait_for_all();
    Ok(())
}

struct Work<F, R> {
    work: Option<F>,
    result: Option<R>,
}

/// The entry for this type of work.
fn init_of<F, R>(_: &Work<F, R>) -> extern "C" fn(*mut c_void) -> c_int
where
    F: FnOnce(Option<io::Error>) -> R,
{
    init::<F, R>
}

extern "C" fn init<F, R>(argument: *mut c_void) -> c_int
where
    F: FnOnce(Option<io::Error>) -> R,
{
    // SAFETY: `enter` passes a pointer to its own `Work`, and is suspended meanwhile.
    let work = unsafe { &mut *argument.cast::<Work<F, R>>() };
    // Where the supervisor died before this, the control socket is the other sign.
    let bound = set_parent_process_death_signal(Some(Signal::KILL));
    if let Some(run) = work.work.take() {
        work.result = Some(run(bound.err().map(Into::into)));
    }
    0
}

/// Shows the processes of this namespace in `/proc`, to it alone. Mounts of the
/// host still arrive; what the tool mounts goes with it.
pub(super) fn mount_proc() -> io::Result<()> {
    mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount(c"proc", c"/proc", c"proc", flags, None)?;
    Ok(())
}

/// The first number that is given again once all were given (`RESERVED_PIDS` of
/// kernel/pid.c): numbers below it are for the first processes alone.
const RESERVED: u64 = 300;

/// The first kernel with a `pid_max` for each PID namespace. An older one has one for the whole
/// machine, which the machine's root sets from within any namespace.
const BOUNDS_NAMESPACES: (u32, u32) = (6, 14);

/// Bounds the processes and threads of this PID namespace, beside its init and for as
/// long as it lasts: the kernel has no number for one more than `most`.
///
/// For the init, with every right in its namespace and the `/proc` of any.
pub(super) fn bound_processes(most: u64) -> io::Result<()> {
    if !kernel_is_since(BOUNDS_NAMESPACES) {
        let why = "before Linux 6.14 one `pid_max` is the whole machine's";
        return Err(io::Error::new(io::ErrorKind::Unsupported, why));
    }
    // The next number is the first one that is given again, so that those below are not
    // given at all, and would not have to be counted.
    fs::write("/proc/sys/kernel/ns_last_pid", (RESERVED - 1).to_string())?;
    fs::write("/proc/sys/kernel/pid_max", most.saturating_add(RESERVED).to_string())
}

/// Returns whether the running kernel is of `version` or later.
pub(super) fn kernel_is_since(version: (u32, u32)) -> bool {
    version_of(&rustix::system::uname().release().to_string_lossy()) >= Some(version)
}

/// The first two numbers of a kernel's release.
fn version_of(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|it: char| !it.is_ascii_digit()).map(str::parse::<u32>);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_told_apart_by_both_numbers_of_their_version() {
        assert_eq!(version_of("6.1.0-56-cloud-amd64"), Some((6, 1)));
        assert_eq!(version_of("6.14-rc1"), Some((6, 14)));
        assert!(version_of("6.14.0") >= Some(BOUNDS_NAMESPACES));
        assert!(version_of("7.0.1") >= Some(BOUNDS_NAMESPACES));
        // Not as a decimal fraction.
        assert!(version_of("6.2.0") < Some(BOUNDS_NAMESPACES));
        assert!(version_of("unknown") < Some(BOUNDS_NAMESPACES), "an unknown one is an old one");
    }
}
