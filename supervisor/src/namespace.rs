//! Namespaces for the tool, where this process may make them.
//!
//! When the init of a PID namespace ends, the kernel kills every process in it: no other way
//! lets nothing escape, whatever it does. Owns the kinds of namespaces, the start of such an
//! init, and the bound on the numbers of the namespace; not what the init does.

use std::ffi::{c_int, c_void};
use std::fs;
use std::io;

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::process::{Signal, set_parent_process_death_signal};

use super::clone::{Stack, clone};
use super::reaper;
use crate::isolation::Mechanism;

/// A kind of namespace that a sandbox consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Namespace {
    User,
    Mount,
    Pid,
    Network,
    Ipc,
    Uts,
}

impl Namespace {
    /// All of them, in the order of reports.
    pub(super) const ALL: [Self; 6] =
        [Self::User, Self::Mount, Self::Pid, Self::Network, Self::Ipc, Self::Uts];

    /// Returns the flag of clone(2) that makes it.
    pub(super) const fn flag(self) -> c_int {
        match self {
            Self::User => libc::CLONE_NEWUSER,
            Self::Mount => libc::CLONE_NEWNS,
            Self::Pid => libc::CLONE_NEWPID,
            Self::Network => libc::CLONE_NEWNET,
            Self::Ipc => libc::CLONE_NEWIPC,
            Self::Uts => libc::CLONE_NEWUTS,
        }
    }

    /// Returns the mechanism that it is in reports.
    pub(super) fn mechanism(self) -> Mechanism {
        match self {
            Self::User => Mechanism::UserNamespace,
            Self::Mount => Mechanism::MountNamespace,
            Self::Pid => Mechanism::PidNamespace,
            Self::Network => Mechanism::NetworkNamespace,
            Self::Ipc => Mechanism::IpcNamespace,
            Self::Uts => Mechanism::UtsNamespace,
        }
    }
}

/// The flags for an unconfined tool. There is no user namespace, which would give any user
/// the right to the others but break programs with setuid.
pub(super) const OF_ANY_TOOL: c_int = Namespace::Pid.flag() | Namespace::Mount.flag();

/// The flags for every sandboxed tool. The network namespace is left out, since a tool may be
/// granted the host's network.
pub(super) const OF_A_SANDBOX: c_int = OF_ANY_TOOL | Namespace::Ipc.flag() | Namespace::Uts.flag();

/// The result of an attempt to run work in new namespaces.
pub(super) enum Entered<R> {
    /// The work was done in the namespaces, which are gone.
    Ended(R),
    /// The init was killed during its work.
    Killed,
    /// The kernel refused to make the namespaces.
    Refused(io::Error),
}

/// Runs `work` as the init of a new PID namespace, and of the other namespaces of `flags`, and
/// returns when the PID namespace is gone.
///
/// The init shares this process's memory, and this process sleeps until it has
/// ended (as with vfork): no page is copied, and to kill this process is to kill
/// the namespace.
///
/// # Safety
///
/// The calling process has one thread. It has nothing to do until `work` is done.
pub(super) unsafe fn enter<R>(
    flags: c_int,
    work: impl FnOnce(Option<io::Error>) -> R,
) -> Entered<R> {
    // Only pages that are used take memory.
    let stack = match Stack::new(1 << 20) {
        Ok(stack) => stack,
        Err(error) => return Entered::Refused(error),
    };
    let mut work = Work { work: Some(work), result: None };
    let flags = flags | libc::CLONE_NEWPID | libc::CLONE_VM | libc::CLONE_VFORK;
    // SAFETY: this process is suspended until the child ends, so that the memory they
    // share is used by one of them at a time; a panic in `init` aborts instead of
    // unwinding; `work` and `stack` outlive the child.
    let init = unsafe { clone(flags, &stack, init_of(&work), (&raw mut work).cast()) };
    if let Err(error) = init {
        return Entered::Refused(error);
    }
    // Its exit status adds nothing to `result`.
    reaper::wait_for_all();
    work.result.map_or(Entered::Killed, Entered::Ended)
}

/// Returns whether this kind of namespace can be made by itself, in a user namespace.
///
/// # Safety
///
/// As of [`enter`].
pub(super) unsafe fn possible(namespace: Namespace) -> io::Result<()> {
    extern "C" fn end(_: *mut c_void) -> c_int {
        0
    }
    let stack = Stack::new(64 << 10)?;
    let made = namespace.flag() | Namespace::User.flag();
    let flags = made | libc::CLONE_VM | libc::CLONE_VFORK;
    // SAFETY: as in `enter`; the child does nothing.
    unsafe { clone(flags, &stack, end, std::ptr::null_mut()) }?;
    reaper::wait_for_all();
    Ok(())
}

struct Work<F, R> {
    work: Option<F>,
    result: Option<R>,
}

/// Returns the entry for this type of work.
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
    // If the supervisor died before this, the end of the control socket shows it.
    let bound = set_parent_process_death_signal(Some(Signal::KILL));
    if let Some(run) = work.work.take() {
        work.result = Some(run(bound.err().map(Into::into)));
    }
    0
}

/// Mounts a `/proc` with the processes of this PID namespace, seen in its mount namespace
/// alone. New mounts of the host still arrive; mounts of the tool end with it.
pub(super) fn mount_proc() -> io::Result<()> {
    mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount(c"proc", c"/proc", c"proc", flags, None)?;
    Ok(())
}

/// The lowest number that the kernel gives again once all were given (`RESERVED_PIDS` of
/// kernel/pid.c). Lower numbers go to the first processes alone.
const RESERVED: u64 = 300;

/// The first kernel with a `pid_max` for each PID namespace. An older kernel has one for the
/// whole machine, which the machine's root would set from within any namespace.
const BOUNDS_NAMESPACES: (u32, u32) = (6, 14);

/// Bounds the processes and threads of this PID namespace, without its init and for as long
/// as it lasts: the kernel has no number for one more than `most`.
///
/// For the init, with all capabilities in its namespace and any `/proc`.
pub(super) fn bound_processes(most: u64) -> io::Result<()> {
    if !kernel_is_since(BOUNDS_NAMESPACES) {
        let why = "before Linux 6.14 the whole machine has one `pid_max`";
        return Err(io::Error::new(io::ErrorKind::Unsupported, why));
    }
    // The next number is the lowest one that is given again. Those below it are never given,
    // and need not be counted.
    fs::write("/proc/sys/kernel/ns_last_pid", (RESERVED - 1).to_string())?;
    fs::write("/proc/sys/kernel/pid_max", most.saturating_add(RESERVED).to_string())
}

/// Returns whether the running kernel is of `version` or later.
pub(super) fn kernel_is_since(version: (u32, u32)) -> bool {
    version_of(&rustix::system::uname().release().to_string_lossy()) >= Some(version)
}

/// Reads the first two numbers of a kernel's release.
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
