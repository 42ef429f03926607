//! Namespaces for the tool, if this process may make them.
//!
//! When the init of a PID namespace ends, the kernel kills every process in it. No other
//! mechanism works against every process, no matter what it does. Owns the kinds of namespaces,
//! the start of such an init, its wait for work, and the bound on the numbers of the namespace;
//! not the work itself.

use std::ffi::{c_int, c_void};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::process::{
    Pid, PidfdFlags, Signal, getpid, kill_process, pidfd_open, set_parent_process_death_signal,
};

use super::clone::{Stack, clone};
use super::{process_tree, reaper, signals};
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

    /// Returns its mechanism in reports.
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

/// The flags for an unconfined tool. A user namespace is left out: it would give any user the
/// right to the others, but break programs with setuid.
pub(super) const OF_ANY_TOOL: c_int = Namespace::Pid.flag() | Namespace::Mount.flag();

/// The flags for every sandboxed tool. The network namespace is left out, since a tool may be
/// granted the host's network.
pub(super) const OF_A_SANDBOX: c_int = OF_ANY_TOOL | Namespace::Ipc.flag() | Namespace::Uts.flag();

/// The interval at which this process checks whether an init that does not get ready has ended.
const LOOK: Duration = Duration::from_millis(20);

/// The time that the init has to end a call after the host is gone or asks for the end.
const LONGEST_END: Duration = Duration::from_secs(3);

/// The init of a new PID namespace, which waits for its work.
///
/// It shares this process's memory and descriptors, so neither is copied. It acts in place of
/// this process: one of the two is always asleep. Killing this process kills the namespace.
/// Dropping this value kills the init, which is reaped with every other child.
pub(super) struct Init {
    pid: Pid,
    /// Readable when there is work.
    gate: OwnedFd,
    order: &'static TaskSlot,
    /// The mounts of this process's namespace. The init has a copy of them.
    mounts: Option<File>,
    /// The socket of the host.
    control: OwnedFd,
    /// The pidfd of the init. `None` before Linux 5.3.
    ended: Option<OwnedFd>,
    /// The pidfd of this process. The init ends with this process.
    _own: Option<OwnedFd>,
}

/// The slot in which an init finds its work. It stays for as long as this process lives, as a
/// [`Stack`] does.
type TaskSlot = AtomicPtr<InitTask>;

/// The work of an init.
struct InitTask {
    run: extern "C" fn(*mut c_void),
    argument: *mut c_void,
}

/// The data with which an init begins.
struct Birth<'a, F> {
    prepare: Option<F>,
    prepared: io::Result<()>,
    ready: BorrowedFd<'a>,
    gate: BorrowedFd<'a>,
    control: BorrowedFd<'a>,
    own: Option<BorrowedFd<'a>>,
    order: &'static TaskSlot,
}

impl Init {
    /// Starts the init of a new PID namespace, and of the other namespaces of `flags`. Returns
    /// when the init has done `prepare`, or `None` if it was killed. The init ends with this
    /// process and with the host, whose socket is `control`.
    ///
    /// # Errors
    ///
    /// Fails if `prepare` fails, or the kernel does not make these namespaces.
    ///
    /// # Safety
    ///
    /// The calling process has one thread, and uses nothing of this after a fork.
    pub(super) unsafe fn start(
        flags: c_int,
        control: BorrowedFd<'_>,
        prepare: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<Option<Self>> {
        // Only pages that are used take memory.
        let stack = Stack::new(1 << 20)?;
        let (ready, gate) = (event()?, event()?);
        // Without `/proc`, the namespaces cannot serve a plan that comes later.
        let mounts = File::open("/proc/self/mountinfo").ok();
        // Linux before 5.3 has no pidfd.
        let own = pidfd_open(getpid(), PidfdFlags::empty()).ok();
        let order: &'static TaskSlot = Box::leak(Box::default());
        let mut birth = Birth {
            prepare: Some(prepare),
            prepared: Ok(()),
            ready: ready.as_fd(),
            gate: gate.as_fd(),
            control,
            own: own.as_ref().map(AsFd::as_fd),
            order,
        };
        let flags = flags | libc::CLONE_NEWPID | libc::CLONE_VM | libc::CLONE_FILES;
        let control = control.try_clone_to_owned()?;
        // SAFETY: until the init is ready, this process only makes system calls that touch no
        // memory of the init. After that the init waits in a system call. A panic in `init`
        // aborts instead of unwinding. `birth` outlives the wait, and the stack outlives the
        // init.
        let pid = unsafe { clone(flags, &stack, entry_of(&birth), (&raw mut birth).cast()) }?;
        let timeout = Timespec::try_from(LOOK).unwrap_or_default();
        while !is_readable(&ready, PollFlags::IN, Some(&timeout)) {
            if reaper::has_ended(pid) {
                return Ok(None);
            }
        }
        birth.prepared?;
        let ended = pidfd_open(pid, PidfdFlags::empty()).ok();
        Ok(Some(Self { pid, gate, order, mounts, control, ended, _own: own }))
    }

    /// Returns the file that shows a change of the mounts of this process's namespace. It
    /// becomes readable out of band, once for each process that polls it (proc_pid_mounts(5)).
    pub(super) fn mounts(&self) -> Option<BorrowedFd<'_>> {
        self.mounts.as_ref().map(AsFd::as_fd)
    }

    /// Returns whether the init can still do its work, and its mounts are those of this process.
    pub(super) fn is_good(&self) -> bool {
        let changed = |mounts| is_readable(mounts, PollFlags::PRI, Some(&Timespec::default()));
        self.mounts().is_some_and(|mounts| !changed(mounts)) && !reaper::has_ended(self.pid)
    }

    /// Has the init do `work`, and returns when the PID namespace is gone. Returns `None` if the
    /// init was killed.
    ///
    /// # Safety
    ///
    /// As for [`start`](Self::start). The calling process has nothing to do until `work` is
    /// done.
    pub(super) unsafe fn run<R>(mut self, work: impl FnOnce() -> R) -> Option<R> {
        // It is not needed any more, and shows the machine's own namespaces. The pidfd stays
        // open: an init that does not wait yet would take a closed one for the end of this
        // process.
        self.mounts = None;
        let mut work = InitWork { work: Some(work), result: None };
        let mut task = InitTask { run: worker_of(&work), argument: (&raw mut work).cast() };
        self.order.store(&raw mut task, Ordering::Release);
        // Another process may have stopped the init. The kernel sends no signal for input that a
        // read waits for.
        let _ = kill_process(self.pid, Signal::CONT);
        // The counter cannot be full, and an init that is gone is noticed below.
        let _ = rustix::io::write(&self.gate, &1_u64.to_ne_bytes());
        self.end_in_time();
        reaper::wait_for(self.pid);
        // The other processes, which were killed before.
        reaper::wait_for_all();
        work.result
    }
}

impl Init {
    /// Returns when the init has ended. Kills it and everything below it if it has not ended
    /// some time after the host is gone or asked for the end. It may wait in the kernel for a
    /// lock that a thread of the tool holds. There it checks nothing, and no signal reaches it.
    /// Without a pidfd, this returns at once.
    fn end_in_time(&self) {
        let Some(ended) = &self.ended else { return };
        let hung_up = PollFd::new(&self.control, PollFlags::RDHUP);
        let mut either = [PollFd::new(ended, PollFlags::IN), hung_up];
        while poll(&mut either, None) == Err(Errno::INTR) {}
        let time = Timespec::try_from(LONGEST_END).unwrap_or_default();
        if is_readable(ended, PollFlags::IN, Some(&time)) {
            return;
        }
        // The init does not run any more from here on, so this process has the memory to itself.
        let _ = kill_process(self.pid, Signal::KILL);
        let time = Timespec::try_from(LOOK).unwrap_or_default();
        while !is_readable(ended, PollFlags::IN, Some(&time)) {
            // The next turn kills the processes that are left.
            let _ = process_tree::kill_descendants(getpid(), Instant::now());
        }
    }
}

impl Drop for Init {
    fn drop(&mut self) {
        // It may have ended, and its number is not reused before it is reaped.
        if !reaper::has_ended(self.pid) {
            let _ = kill_process(self.pid, Signal::KILL);
        }
    }
}

fn event() -> io::Result<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::CLOEXEC)?)
}

/// Waits for `events`, and returns whether they came.
fn is_readable(file: impl AsFd, events: PollFlags, timeout: Option<&Timespec>) -> bool {
    let mut waited = [PollFd::new(&file, events)];
    loop {
        match poll(&mut waited, timeout) {
            Err(Errno::INTR) => {}
            ready => return ready.is_ok_and(|ready| ready > 0),
        }
    }
}

/// Makes this kind of namespace separately, in a user namespace, to learn whether it can be
/// made.
///
/// # Safety
///
/// As for [`Init::start`].
pub(super) unsafe fn possible(namespace: Namespace) -> io::Result<()> {
    extern "C" fn end(_: *mut c_void) -> c_int {
        0
    }
    let stack = Stack::new(64 << 10)?;
    let made = namespace.flag() | Namespace::User.flag();
    let flags = made | libc::CLONE_VM | libc::CLONE_VFORK;
    // SAFETY: this process is suspended until the child ends, which does nothing.
    unsafe { clone(flags, &stack, end, std::ptr::null_mut()) }?;
    reaper::wait_for_all();
    Ok(())
}

/// Returns the entry for this type of `Birth`.
fn entry_of<F: FnOnce() -> io::Result<()>>(
    _: &Birth<'_, F>,
) -> extern "C" fn(*mut c_void) -> c_int {
    init::<F>
}

extern "C" fn init<F: FnOnce() -> io::Result<()>>(argument: *mut c_void) -> c_int {
    // SAFETY: `start` passes a pointer to its own `Birth`, and waits until this is ready.
    let birth = unsafe { &mut *argument.cast::<Birth<'_, F>>() };
    let (ready, gate, order) = (birth.ready, birth.gate, birth.order);
    let (control, own) = (birth.control, birth.own);
    // If the supervisor died before this, its pidfd shows it.
    let bound = set_parent_process_death_signal(Some(Signal::KILL)).map_err(io::Error::from);
    birth.prepared = bound.and_then(|()| birth.prepare.take().map_or(Ok(()), |prepare| prepare()));
    let is_ready = birth.prepared.is_ok();
    // From here on the supervisor uses the memory, and this process uses only its own stack.
    // rustix makes system calls without the `errno` that both share.
    let told = rustix::io::write(ready, &1_u64.to_ne_bytes());
    if !is_ready || told.is_err() || !is_let_in(gate, control, own) {
        return 0;
    }
    // SAFETY: the supervisor puts its own task there before it opens the gate, and sleeps from
    // then on.
    if let Some(InitTask { run, argument }) = unsafe { order.load(Ordering::Acquire).as_ref() } {
        run(*argument);
    }
    0
}

/// Waits until the gate is open. Returns false if the host or the supervisor ends before that.
fn is_let_in(
    gate: BorrowedFd<'_>,
    control: BorrowedFd<'_>,
    supervisor: Option<BorrowedFd<'_>>,
) -> bool {
    loop {
        let open = PollFd::from_borrowed_fd(gate, PollFlags::IN);
        // Only the end of the socket counts, not data that the host sends.
        let host = PollFd::from_borrowed_fd(control, PollFlags::empty());
        let supervisor = supervisor.map(|it| PollFd::from_borrowed_fd(it, PollFlags::IN));
        // Without a pidfd the gate is polled twice.
        let mut waited = [open.clone(), host, supervisor.unwrap_or(open)];
        match poll(&mut waited, None) {
            Err(Errno::INTR) => {}
            Err(_) => return false,
            Ok(_) if waited[0].revents().contains(PollFlags::IN) => return true,
            Ok(_) => return false,
        }
    }
}

struct InitWork<F, R> {
    work: Option<F>,
    result: Option<R>,
}

/// Returns the function for this type of work.
fn worker_of<F: FnOnce() -> R, R>(_: &InitWork<F, R>) -> extern "C" fn(*mut c_void) {
    do_work::<F, R>
}

extern "C" fn do_work<F: FnOnce() -> R, R>(argument: *mut c_void) {
    // SAFETY: `run` passes a pointer to its own `InitWork`, and sleeps until this ends.
    let work = unsafe { &mut *argument.cast::<InitWork<F, R>>() };
    if let Some(run) = work.work.take() {
        // The signals that the supervisor blocks for its loop, which this process runs now.
        signals::block();
        work.result = Some(run());
    }
}

/// Mounts a `/proc` with the processes of this PID namespace, visible only in its mount
/// namespace. New mounts of the host still arrive; mounts of the tool end with it.
pub(super) fn mount_proc() -> io::Result<()> {
    mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount(c"proc", c"/proc", c"proc", flags, None)?;
    Ok(())
}

/// The lowest number that the kernel reuses after it has used all numbers (`RESERVED_PIDS` of
/// kernel/pid.c). Only the first processes get lower numbers.
const RESERVED: u64 = 300;

/// The first kernel with a `pid_max` for each PID namespace. An older kernel has one for the
/// whole machine, and the machine's root would set that from within any namespace.
const BOUNDS_NAMESPACES: (u32, u32) = (6, 14);

/// Bounds the processes and threads of this PID namespace to `most`, without its init, for as
/// long as the namespace lasts. The kernel then has no number for one more.
///
/// For the init, with all capabilities in its namespace and any `/proc`.
pub(super) fn bound_processes(most: u64) -> io::Result<()> {
    if !kernel_is_since(BOUNDS_NAMESPACES) {
        let why = "before Linux 6.14 the whole machine has one `pid_max`";
        return Err(io::Error::new(io::ErrorKind::Unsupported, why));
    }
    // The next number is the lowest one that is reused. Lower numbers are never used, and need
    // not be counted.
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
