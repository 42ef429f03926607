//! The start of the tool, from a clone of the supervisor to its exec.
//!
//! Owns the restrictions of the tool's own process. The child shares the supervisor's memory
//! until it execs (as with vfork), so no page table is copied. It reports a failure by writing
//! it to memory that the supervisor reads.

use std::ffi::{CString, c_char, c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;

use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit, getpid, getrlimit};

use super::cgroup::Cgroups;
use super::clone::{Stack, cannot_clone_into, clone, clone_into};
use super::filter::FilterRights;
use super::kernel_memory::OPEN_FILES_OF_CALL;
use super::listener::{ListenerChannel, NotifyFilter, NotifySelection};
use super::privileges;
use super::request::CallRequest;
use super::signals;
use crate::plan::{DESCRIPTORS, HOST_SOCKET, StartStep};
use seccompiler::BpfProgram;

/// The number of attempts to execute a file that is still open for writing, and the
/// nanoseconds between them. Another process that was spawned at that moment may hold the
/// descriptor of the file's writer until it execs.
const BUSY_TRIES: u32 = 20;
const BUSY_WAIT: libc::c_long = 5_000_000;

/// The fewest and the most descriptors of one process, and the soft limit, which a tool can
/// raise. For a thread that waits for many descriptors at once (poll(2)), the kernel takes 64
/// bytes for each, for which no cgroup is charged.
const FEWEST_OPEN_FILES: u64 = 256;
const MOST_OPEN_FILES: u64 = 4096;
const OPEN_FILES: u64 = 1024;

/// The number of descriptors by which a tool's limit is below its host's. If more of a user's
/// descriptors are in flight than the sender may have open, the kernel refuses to pass any more.
/// A tool can exceed its limit by the descriptors of one message, at most 253 (SCM_MAX_FD), and
/// the host passes a few for each call.
const BELOW_HOST: u64 = 320;

/// The nice value that is added to a tool's, nice(2): its supervisor gets the processor first.
const NICENESS: c_int = 5;

/// The restrictions of the tool's process, and of every process that it starts.
pub(super) struct Restrictions {
    /// The path to execute, if it is not the plan's.
    pub(super) program: Option<CString>,
    /// A Landlock ruleset.
    pub(super) domain: Option<OwnedFd>,
    /// The filter of system calls; empty if the tool has no filter.
    pub(super) filter: BpfProgram,
    /// The value of RLIMIT_NPROC.
    pub(super) processes: Option<u64>,
    /// Set if descriptors and message queues are bounded.
    pub(super) sandboxed: bool,
    /// Set for a tool with its own sockets. The supervisor makes its connections.
    pub(super) own_sockets: Option<OwnSockets>,
}

/// The local sockets of a tool with its own sockets, and its rights if it cannot have them.
pub(super) struct OwnSockets {
    /// The device of the file system that has their files.
    pub(super) files: u64,
    /// The rights without own sockets.
    pub(super) otherwise: FilterRights,
}

impl Restrictions {
    /// Returns the restrictions of an unconfined tool.
    pub(super) fn none() -> Self {
        Self {
            program: None,
            domain: None,
            filter: BpfProgram::new(),
            processes: None,
            sandboxed: false,
            own_sockets: None,
        }
    }
}

/// A step that failed, and the `errno`.
pub(super) type StartFailure = (StartStep, c_int);

/// The type of a resource in the C library.
#[cfg(target_env = "gnu")]
type Kind = libc::__rlimit_resource_t;
#[cfg(not(target_env = "gnu"))]
type Kind = c_int;

/// The data that the child needs. It is made before the child, which must not allocate.
struct Launch<'a> {
    request: &'a CallRequest,
    restrictions: &'a Restrictions,
    /// The files to write `0` to, each with a flag that the write must succeed.
    tasks: Vec<(c_int, bool)>,
    argv: Vec<*const c_char>,
    envp: Vec<*const c_char>,
    limits: Vec<(Kind, libc::rlimit)>,
    filter: libc::sock_fprog,
    /// The filter that has the tool's calls reported.
    watching: Option<NotifyFilter>,
    mask: libc::sigset_t,
    parent: Pid,
    /// In memory that the child shares in either case.
    failure: *mut Option<StartFailure>,
}

/// Starts the tool in its groups, and returns when it runs or has failed to start. `offer`, if
/// given, receives the tool's listener, and says whether the tool is watched.
pub(super) fn start(
    request: &CallRequest,
    cgroups: &Cgroups,
    restrictions: &Restrictions,
    offer: Option<(&ListenerChannel, bool)>,
) -> Result<Pid, StartFailure> {
    let shared = SharedFailure::new().map_err(|error| failure(StartStep::Clone, &error))?;
    let tasks = |cloned_into| {
        cgroups.tasks(cloned_into).map(|(file, must)| (file.as_raw_fd(), must)).collect()
    };
    let program = restrictions.program.as_ref().unwrap_or(&request.plan.program);
    let watching = offer.map(|(offer, is_watched)| {
        let telling =
            NotifySelection { all: is_watched, sockets: restrictions.own_sockets.is_some() };
        offer.installation(program.as_ptr(), telling)
    });
    let mut launch = Launch {
        request,
        restrictions,
        tasks: tasks(true),
        argv: pointers(&request.plan.args),
        envp: pointers(&request.plan.env),
        limits: limits(request, cgroups, restrictions),
        filter: libc::sock_fprog {
            len: restrictions.filter.len() as u16,
            filter: restrictions.filter.as_ptr().cast_mut().cast(),
        },
        watching,
        mask: signals::empty_mask(),
        parent: getpid(),
        failure: shared.0,
    };
    // SAFETY: as fork(2): this process has one thread; `child` does not allocate, and ends by
    // exec or exit.
    let cloned = |group| unsafe { clone_into(group, child, (&raw mut launch).cast()) };
    let pid = match cgroups.clone_target().map(cloned) {
        Some(Err(error)) if cannot_clone_into(&error) => None,
        cloned => cloned,
    };
    let pid = pid.unwrap_or_else(|| {
        launch.tasks = tasks(false);
        let stack = Stack::new(64 << 10)?;
        // SAFETY: the parent is suspended until the child execs or ends, and lives in one
        // thread, so that child and parent never use the shared memory at the same time;
        // `child` does not allocate, unwind or return into the parent's frames, and
        // `launch` and `stack` outlive it.
        unsafe {
            let flags = libc::CLONE_VM | libc::CLONE_VFORK;
            clone(flags, &stack, child, (&raw mut launch).cast())
        }
    });
    let pid = pid.map_err(|error| failure(StartStep::Clone, &error))?;
    // SAFETY: the mapping is there for as long as this process. The child, the only other
    // process that writes to it, has become the tool or ended.
    match unsafe { shared.0.read() } {
        None => Ok(pid),
        // The zombie is reaped with every other child, at the end of the call.
        Some(failure) => Err(failure),
    }
}

/// The share of the user's pending signals and timers that a call may use: one in this many.
const SHARE_OF_SIGNALS: u64 = 8;

/// Returns the resource limits of the tool's process, which every process that it starts
/// inherits.
fn limits(
    request: &CallRequest,
    cgroups: &Cgroups,
    restrictions: &Restrictions,
) -> Vec<(Kind, libc::rlimit)> {
    let memory = request.plan.bounds.memory;
    let counted = cgroups.bounds_memory().is_ok();
    let mut limits = Vec::new();
    // A process that is refused memory may end with any explanation, and the limit behind it
    // stays unseen. A control group reports it.
    if !counted {
        limits.push((libc::RLIMIT_DATA, limit(Resource::Data, memory, memory)));
    }
    if let Some(most) = restrictions.processes {
        let most = limit(Resource::Nproc, most, most);
        limits.push((libc::RLIMIT_NPROC, most));
    }
    if restrictions.sandboxed {
        let own = getrlimit(Resource::Nofile).current;
        let most = most_open_files(request.plan.bounds.processes, own);
        limits.push((libc::RLIMIT_NOFILE, limit(Resource::Nofile, OPEN_FILES, most)));
        // Pending signals and timers also count for the host's user, whose other programs need
        // some.
        if let Some(own) = getrlimit(Resource::Sigpending).current {
            let most = own / SHARE_OF_SIGNALS;
            let most = limit(Resource::Sigpending, most, most);
            limits.push((libc::RLIMIT_SIGPENDING, most));
        }
        // A locked page stays in memory, even if another control group was charged for it.
        let locked = limit(Resource::Memlock, LOCKED, LOCKED);
        limits.push((libc::RLIMIT_MEMLOCK, locked));
        if !counted {
            let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            limits.push((libc::RLIMIT_MSGQUEUE, none));
        }
    }
    limits
}

/// The memory that each process of a sandboxed call may lock, in bytes. A program that locks the
/// memory of a key needs that much.
const LOCKED: u64 = 64 << 10;

/// Returns the maximum number of descriptors in each process of a sandboxed call with this many
/// processes. `own` is the host's limit.
fn most_open_files(processes: u64, own: Option<u64>) -> u64 {
    let share = OPEN_FILES_OF_CALL / processes.max(1);
    let below = own.map_or(MOST_OPEN_FILES, |own| own.saturating_sub(BELOW_HOST));
    share.min(below).clamp(FEWEST_OPEN_FILES, MOST_OPEN_FILES)
}

/// Memory for a failure, shared with a child of either kind. It stays mapped for as long as this
/// process lives, like a [`Stack`].
struct SharedFailure(*mut Option<StartFailure>);

impl SharedFailure {
    fn new() -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        let length = size_of::<Option<StartFailure>>();
        // SAFETY: a new mapping, at a place of the kernel's choice.
        let place = unsafe { libc::mmap(ptr::null_mut(), length, access, flags, -1, 0) };
        if place == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let place = place.cast::<Option<StartFailure>>();
        // SAFETY: the mapping is new, large enough, and aligned to a page.
        unsafe { place.write(None) };
        Ok(Self(place))
    }
}

/// Becomes the tool. Runs in the child, on memory that the parent will see again, so it only
/// makes system calls.
extern "C" fn child(argument: *mut c_void) -> c_int {
    // SAFETY: `start` passes a pointer to its own `Launch`, and is suspended until then.
    let launch = unsafe { &*argument.cast::<Launch<'_>>() };
    let step = match launch.become_tool() {
        Ok(never) => match never {},
        Err(step) => step,
    };
    let errno = io::Error::last_os_error().raw_os_error().unwrap_or(0);
    // SAFETY: the mapping is shared and outlives this process, and the parent reads it only
    // when this process has ended.
    unsafe { launch.failure.write(Some((step, errno))) };
    127
}

enum Never {}

impl Launch<'_> {
    /// Prepares this process and executes the program. Returns the step that failed, whose
    /// error is in `errno`.
    fn become_tool(&self) -> Result<Never, StartStep> {
        let plan = &self.request.plan;
        // SAFETY: system calls on numbers, and on strings and arrays that live in
        // `self` and end with a NUL or a null pointer. No handler is installed that
        // could run in this process.
        unsafe {
            check(libc::setsid(), StartStep::Bind)?;
            // PDEATHSIG follows the thread that cloned; see the invariants of the crate.
            check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL), StartStep::Bind)?;
            // The supervisor may have died before that was set.
            if libc::getppid() != self.parent.as_raw_nonzero().get() {
                return Err(StartStep::Bind);
            }
            for (tasks, required) in &self.tasks {
                let entered = libc::write(*tasks, c"0".as_ptr().cast(), 1);
                if *required {
                    check(entered as c_int, StartStep::Cgroup)?;
                }
            }
            // Fails only if the value is the highest already.
            let _ = libc::nice(NICENESS);
            for (number, limit) in &self.limits {
                check(libc::setrlimit(*number, limit), StartStep::Limits)?;
            }
            for (stream, number) in self.request.streams.iter().zip(0..) {
                check(libc::dup2(stream.as_raw_fd(), number), StartStep::Streams)?;
            }
            self.close_the_rest();
            check(libc::chdir(plan.directory.as_ptr()), StartStep::Directory)?;
            let mask = &raw const self.mask;
            check(libc::sigprocmask(libc::SIG_SETMASK, mask, ptr::null_mut()), StartStep::Bind)?;
            let program = self.restrictions.program.as_ref().unwrap_or(&plan.program);
            self.restrict()?;
            self.hand_over_host_socket()?;
            if plan.kind.probe {
                libc::_exit(0);
            }
            for _ in 0..BUSY_TRIES {
                libc::execve(program.as_ptr(), self.argv.as_ptr(), self.envp.as_ptr());
                if *libc::__errno_location() != libc::ETXTBSY {
                    break;
                }
                pause();
            }
        }
        Err(StartStep::Exec)
    }

    /// Puts the host socket at its number, open across the exec. The descriptor that had the
    /// number belongs to the supervisor and was needed until here, so nothing may come between
    /// this and the exec.
    fn hand_over_host_socket(&self) -> Result<(), StartStep> {
        let Some(socket) = &self.request.host_socket else { return Ok(()) };
        // SAFETY: system calls on numbers, of which the first is open for as long as `self`.
        unsafe {
            // On the same number `dup2` does nothing, and the exec would close it.
            if socket.as_raw_fd() == HOST_SOCKET {
                return check(libc::fcntl(HOST_SOCKET, libc::F_SETFD, 0), StartStep::Streams);
            }
            check(libc::dup2(socket.as_raw_fd(), HOST_SOCKET), StartStep::Streams)
        }
    }

    /// Enters the Landlock domain and installs the filter. Comes last, since both apply to this
    /// process from then on.
    fn restrict(&self) -> Result<(), StartStep> {
        if self.restrictions.own_sockets.is_some() {
            privileges::drop_rest().map_err(|_| StartStep::Bind)?;
        }
        // SAFETY: system calls on numbers, a descriptor that is open for as long as `self`,
        // and a filter that `self.restrictions` owns.
        unsafe {
            if let Some(domain) = &self.restrictions.domain {
                let domain = domain.as_raw_fd();
                let result = libc::syscall(libc::SYS_landlock_restrict_self, domain, 0);
                check(result as c_int, StartStep::Landlock)?;
            }
            // Before the other filter, which refuses all filters that come after it.
            if let Some(watching) = &self.watching {
                check(watching.install(), StartStep::Filter)?;
            }
            if self.filter.len > 0 {
                let filter = &raw const self.filter;
                let mode = libc::SECCOMP_SET_MODE_FILTER;
                let result = libc::syscall(libc::SYS_seccomp, mode, 0, filter);
                check(result as c_int, StartStep::Filter)?;
            }
        }
        Ok(())
    }

    /// Marks every descriptor except stdin, stdout and stderr to be closed by the exec. That
    /// includes the host socket, which is put at its number later. Each descriptor is marked
    /// when it is opened, and this is for a forgotten one.
    fn close_the_rest(&self) {
        const FIRST: libc::c_uint = DESCRIPTORS as libc::c_uint;
        // SAFETY: a system call on numbers. It fails on kernels before 5.11 only.
        unsafe {
            libc::syscall(
                libc::SYS_close_range,
                FIRST,
                libc::c_uint::MAX,
                libc::CLOSE_RANGE_CLOEXEC,
            );
        }
    }
}

fn pause() {
    let wait = libc::timespec { tv_sec: 0, tv_nsec: BUSY_WAIT };
    // SAFETY: `wait` is read, and the remaining time is not asked for. `errno` is this
    // thread's, and gets the value back that the exec left there.
    unsafe {
        libc::nanosleep(&raw const wait, ptr::null_mut());
        *libc::__errno_location() = libc::ETXTBSY;
    }
}

fn check(result: c_int, step: StartStep) -> Result<(), StartStep> {
    if result < 0 { Err(step) } else { Ok(()) }
}

fn failure(step: StartStep, error: &io::Error) -> StartFailure {
    (step, error.raw_os_error().unwrap_or(Errno::IO.raw_os_error()))
}

fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
}

/// Returns a limit that is not above the host's own. RLIMIT_AS would be wrong for memory: some
/// runtimes reserve far more address space than they use.
fn limit(resource: Resource, now: u64, most: u64) -> libc::rlimit {
    let Rlimit { maximum, .. } = getrlimit(resource);
    let most = maximum.map_or(most, |maximum| maximum.min(most));
    libc::rlimit { rlim_cur: now.min(most), rlim_max: most }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processes_of_a_call_share_its_descriptors_and_stay_below_the_host() {
        for (processes, own, most) in [
            (256, Some(16_384), 1024),
            (256, None, 1024),
            (256, Some(1024), 704),
            (1, Some(1 << 20), 4096),
            (0, None, 4096),
            (10_000, Some(16_384), 256),
            (256, Some(300), 256),
        ] {
            assert_eq!(most_open_files(processes, own), most, "{processes} {own:?}");
        }
    }
}
