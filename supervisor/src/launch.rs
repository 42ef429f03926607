//! Starting the tool: from a clone of the supervisor to its exec.
//!
//! Owns what only the tool's process gets. The child shares the supervisor's
//! memory until it execs (as with vfork), so no page table is copied, and a
//! failure is told by writing it where the supervisor reads it.

use std::ffi::{CString, c_char, c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;

use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit, getpid, getrlimit};

use super::cgroup::Cgroups;
use super::request::Request;
use super::signals;
use crate::plan::{DESCRIPTORS, HOST_SOCKET, Step};
use seccompiler::BpfProgram;

/// How often an executable that is still open for writing is tried, and how
/// many nanoseconds are between. Another process that was spawned at that moment may hold the
/// descriptor of whoever just wrote the file, until it execs.
const BUSY_TRIES: u32 = 20;
const BUSY_WAIT: libc::c_long = 5_000_000;

/// Descriptors that a sandboxed tool may open without asking for more.
const OPEN_FILES: u64 = 1024;

/// Those that it may ask for. What waits for many at once takes memory of the kernel for each
/// that no cgroup is charged for.
const MOST_OPEN_FILES: u64 = 4096;

/// `clone3` makes the child in a cgroup: linux/sched.h. The C library's type is too narrow.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// The nice value that is added to a tool's, nice(2): whoever watches it gets the processor
/// first.
const NICENESS: c_int = 5;

/// What only the tool's process is bound by, and all that it starts.
pub(super) struct Restrictions {
    /// The file to execute, if it is another than the plan's.
    pub(super) program: Option<CString>,
    /// A Landlock ruleset.
    pub(super) domain: Option<OwnedFd>,
    /// Empty, if there is none.
    pub(super) filter: BpfProgram,
    /// The kernel's bound on processes and threads.
    pub(super) processes: Option<u64>,
    /// Bounds descriptors and message queues.
    pub(super) sandboxed: bool,
}

impl Restrictions {
    /// Those of an unconfined tool.
    pub(super) fn none() -> Self {
        Self {
            program: None,
            domain: None,
            filter: BpfProgram::new(),
            processes: None,
            sandboxed: false,
        }
    }
}

/// A step that failed, and its `errno`.
pub(super) type Failure = (Step, c_int);

/// The kind of a resource limit, as the C library has it.
#[cfg(target_env = "gnu")]
type Kind = libc::__rlimit_resource_t;
#[cfg(not(target_env = "gnu"))]
type Kind = c_int;

/// All that the child needs, made before it is: it must not allocate.
struct Launch<'a> {
    request: &'a Request,
    restrictions: &'a Restrictions,
    /// The files to write `0` to, each with whether that must succeed.
    tasks: Vec<(c_int, bool)>,
    argv: Vec<*const c_char>,
    envp: Vec<*const c_char>,
    limits: Vec<(Kind, libc::rlimit)>,
    filter: libc::sock_fprog,
    mask: libc::sigset_t,
    parent: Pid,
    /// In memory that the child shares, however it is made.
    failure: *mut Option<Failure>,
}

/// Starts the tool in its groups, and returns when it runs or has failed to.
pub(super) fn start(
    request: &Request,
    cgroups: &Cgroups,
    restrictions: &Restrictions,
) -> Result<Pid, Failure> {
    let shared = Shared::new().map_err(|error| failure(Step::Clone, &error))?;
    let tasks = |born| cgroups.tasks(born).map(|(file, must)| (file.as_raw_fd(), must)).collect();
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
        mask: signals::none(),
        parent: getpid(),
        failure: shared.0,
    };
    // SAFETY: as fork(2): this process has one thread; `child` does not allocate, and ends by
    // exec or exit.
    let born = |group| unsafe { born_in(group, child, (&raw mut launch).cast()) };
    let pid = match cgroups.birthplace().map(born) {
        Some(Err(error)) if cannot_be_born(&error) => None,
        born => born,
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
    let pid = pid.map_err(|error| failure(Step::Clone, &error))?;
    // SAFETY: the mapping is there for as long as this process, and the child, the only
    // other one to write to it, has become the tool or ended.
    match unsafe { shared.0.read() } {
        None => Ok(pid),
        // The corpse is reaped with whatever else there is, at the end of the call.
        Some(failure) => Err(failure),
    }
}

/// Returns whether a child was refused its group, and not its existence: this process is
/// another user than the group's owner, which a tool of root is, a container filters `clone3`,
/// or the kernel is older than 5.7.
fn cannot_be_born(error: &io::Error) -> bool {
    let refusals = [libc::EACCES, libc::EPERM, libc::ENOSYS, libc::EINVAL];
    error.raw_os_error().is_some_and(|errno| refusals.contains(&errno))
}

/// Returns whether the kernel refuses one process more, by a limit that counts this process among
/// those of the tool: where forks that are refused are on their way, there are never quite
/// as many as the limit.
pub(super) fn is_refused() -> bool {
    extern "C" fn end(_: *mut c_void) -> c_int {
        0
    }
    let started = Stack::new(16 << 10).and_then(|stack| {
        // SAFETY: this process is suspended until the child ends, which does nothing.
        unsafe { clone(libc::CLONE_VM | libc::CLONE_VFORK, &stack, end, ptr::null_mut()) }
    });
    match started {
        Ok(child) => {
            let pid = child.as_raw_nonzero().get();
            // SAFETY: a system call on numbers; the status is not asked for. The child has
            // ended, and is this process's own.
            unsafe { libc::waitpid(pid, ptr::null_mut(), libc::__WALL) };
            false
        }
        Err(error) => error.raw_os_error() == Some(libc::EAGAIN),
    }
}

/// The resource limits of the tool's process, and so of each that it starts.
fn limits(
    request: &Request,
    cgroups: &Cgroups,
    restrictions: &Restrictions,
) -> Vec<(Kind, libc::rlimit)> {
    let memory = request.plan.bounds.memory;
    let mut limits = vec![(libc::RLIMIT_DATA, limit(Resource::Data, memory, memory))];
    if let Some(most) = restrictions.processes {
        let most = limit(Resource::Nproc, most, most);
        limits.push((libc::RLIMIT_NPROC, most));
    }
    if restrictions.sandboxed {
        let counted = cgroups.bounds_memory().is_ok();
        let files = limit(Resource::Nofile, OPEN_FILES, MOST_OPEN_FILES);
        limits.push((libc::RLIMIT_NOFILE, files));
        if !counted {
            let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            limits.push((libc::RLIMIT_MSGQUEUE, none));
        }
    }
    limits
}

/// A place for a failure that this process and a child of any kind share. It stays mapped
/// for as long as this process lives, as a [`Stack`] does.
struct Shared(*mut Option<Failure>);

impl Shared {
    fn new() -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        let length = size_of::<Option<Failure>>();
        // SAFETY: a new mapping, at a place of the kernel's choice.
        let place = unsafe { libc::mmap(ptr::null_mut(), length, access, flags, -1, 0) };
        if place == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let place = place.cast::<Option<Failure>>();
        // SAFETY: the mapping is new, large enough, and aligned to a page.
        unsafe { place.write(None) };
        Ok(Self(place))
    }
}

/// A child process that is in `group`, of version 2, from its beginning; otherwise as
/// [`clone`]. It has a copy of this process's memory: there is no other way to give a
/// child a group and, without instructions of one's own, a stack.
///
/// # Safety
///
/// As of fork(2) in a process of one thread; `entry` must not unwind or allocate.
unsafe fn born_in(
    group: BorrowedFd<'_>,
    entry: extern "C" fn(*mut c_void) -> c_int,
    argument: *mut c_void,
) -> io::Result<Pid> {
    // SAFETY: plain numbers, of which zeroes are a value.
    let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
    arguments.flags = (libc::CLONE_VFORK as u64) | CLONE_INTO_CGROUP;
    arguments.exit_signal = libc::SIGCHLD as u64;
    arguments.cgroup = group.as_raw_fd() as u64;
    let size = size_of::<libc::clone_args>();
    // SAFETY: a structure that is read, with its size; the child has a copy of this frame.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw mut arguments, size) };
    if pid == 0 {
        let code = entry(argument);
        // SAFETY: a system call on a number.
        unsafe { libc::_exit(code) };
    }
    let pid = i32::try_from(pid).ok().and_then(|pid| Pid::from_raw(pid.max(0)));
    pid.ok_or_else(io::Error::last_os_error)
}

/// A child process that calls `entry(argument)` on `stack`, and exits with what
/// it returns. Its end is announced by SIGCHLD.
///
/// # Safety
///
/// As clone(2) with `flags` demands; `entry` must not unwind.
pub(super) unsafe fn clone(
    flags: c_int,
    stack: &Stack,
    entry: extern "C" fn(*mut c_void) -> c_int,
    argument: *mut c_void,
) -> io::Result<Pid> {
    // SAFETY: the caller answers for flags, entry and argument; the stack grows down.
    let pid = unsafe { libc::clone(entry, stack.top(), flags | libc::SIGCHLD, argument) };
    Pid::from_raw(pid.max(0)).ok_or_else(io::Error::last_os_error)
}

/// Memory for the stack of a child. It stays mapped for as long as this process
/// lives, which is one call: to unmap it would interrupt every processor that the
/// child ran on, for longer than most of the sandbox takes.
pub(super) struct Stack {
    start: *mut c_void,
    length: usize,
}

impl Stack {
    /// `length` bytes, of which only those that are used are taken; a multiple of
    /// the page size. The lowest page is out of bounds, so that an overflow stops
    /// there.
    pub(super) fn new(length: usize) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK;
        // SAFETY: a new mapping, at a place of the kernel's choice.
        let start = unsafe { libc::mmap(ptr::null_mut(), length, access, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let stack = Self { start, length };
        // SAFETY: the page is part of the mapping just made, and nothing uses it.
        if unsafe { libc::mprotect(start, rustix::param::page_size(), libc::PROT_NONE) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(stack)
    }

    fn top(&self) -> *mut c_void {
        self.start.wrapping_byte_add(self.length)
    }
}

/// Becomes the tool. Runs in the child, on memory that the parent will see again:
/// it makes system calls and nothing else.
extern "C" fn child(argument: *mut c_void) -> c_int {
    // SAFETY: `start` passes a pointer to its own `Launch`, and is suspended meanwhile.
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
    /// The step that failed is returned, its error is left in `errno`.
    fn become_tool(&self) -> Result<Never, Step> {
        let plan = &self.request.plan;
        // SAFETY: system calls on numbers, and on strings and arrays that live in
        // `self` and end with a NUL or a null pointer. No handler is installed that
        // could run in this process.
        unsafe {
            check(libc::setsid(), Step::Bind)?;
            // PDEATHSIG speaks of the thread that cloned; see the invariant of `supervisor`.
            check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL), Step::Bind)?;
            // The supervisor may have died before that was set.
            if libc::getppid() != self.parent.as_raw_nonzero().get() {
                return Err(Step::Bind);
            }
            for (tasks, required) in &self.tasks {
                let entered = libc::write(*tasks, c"0".as_ptr().cast(), 1);
                if *required {
                    check(entered as c_int, Step::Cgroup)?;
                }
            }
            // Fails only where it is as late already as can be.
            let _ = libc::nice(NICENESS);
            for (number, limit) in &self.limits {
                check(libc::setrlimit(*number, limit), Step::Limits)?;
            }
            for (stream, number) in self.request.streams.iter().zip(0..) {
                check(libc::dup2(stream.as_raw_fd(), number), Step::Streams)?;
            }
            self.close_the_rest();
            check(libc::chdir(plan.directory.as_ptr()), Step::Directory)?;
            let mask = &raw const self.mask;
            check(libc::sigprocmask(libc::SIG_SETMASK, mask, ptr::null_mut()), Step::Bind)?;
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
        Err(Step::Exec)
    }

    /// Puts the host socket at its number, open across the exec. Whatever stands there
    /// is the supervisor's own and was needed up to here, so that nothing may come
    /// between this and the exec.
    fn hand_over_host_socket(&self) -> Result<(), Step> {
        let Some(socket) = &self.request.host_socket else { return Ok(()) };
        // SAFETY: system calls on numbers, of which the first is open for as long as `self`.
        unsafe {
            // On the same number `dup2` does nothing, and the exec would close it.
            if socket.as_raw_fd() == HOST_SOCKET {
                return check(libc::fcntl(HOST_SOCKET, libc::F_SETFD, 0), Step::Streams);
            }
            check(libc::dup2(socket.as_raw_fd(), HOST_SOCKET), Step::Streams)
        }
    }

    /// The last that is done: it holds for this process as well.
    fn restrict(&self) -> Result<(), Step> {
        // SAFETY: system calls on numbers, a descriptor that is open for as long as `self`,
        // and a filter that `self.restrictions` owns.
        unsafe {
            if let Some(domain) = &self.restrictions.domain {
                let domain = domain.as_raw_fd();
                let result = libc::syscall(libc::SYS_landlock_restrict_self, domain, 0);
                check(result as c_int, Step::Landlock)?;
            }
            if self.filter.len > 0 {
                let filter = &raw const self.filter;
                let mode = libc::SECCOMP_SET_MODE_FILTER;
                let result = libc::syscall(libc::SYS_seccomp, mode, 0, filter);
                check(result as c_int, Step::Filter)?;
            }
        }
        Ok(())
    }

    /// Marks everything but stdin, stdout and stderr to be closed by the exec, the host
    /// socket as well, which is put at its number later. All
    /// of it is marked already where it was opened; this holds if one is forgotten.
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
    // SAFETY: `wait` is read, and what is left of it is not asked for. `errno` is that
    // of this thread, and is put back to what the exec left there.
    unsafe {
        libc::nanosleep(&raw const wait, ptr::null_mut());
        *libc::__errno_location() = libc::ETXTBSY;
    }
}

fn check(result: c_int, step: Step) -> Result<(), Step> {
    if result < 0 { Err(step) } else { Ok(()) }
}

fn failure(step: Step, error: &io::Error) -> Failure {
    (step, error.raw_os_error().unwrap_or(Errno::IO.raw_os_error()))
}

fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
}

/// A limit, never above what the host itself has. RLIMIT_AS would be wrong for
/// memory: some runtimes reserve far more address space than they use.
fn limit(resource: Resource, now: u64, most: u64) -> libc::rlimit {
    let Rlimit { maximum, .. } = getrlimit(resource);
    let most = maximum.map_or(most, |maximum| maximum.min(most));
    libc::rlimit { rlim_cur: now.min(most), rlim_max: most }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::path::Path;

    use super::*;

    /// Whether this process is in the group of the test, as its exit code.
    extern "C" fn is_inside(_: *mut c_void) -> c_int {
        let mut text = [0_u8; 4096];
        // SAFETY: system calls on a string that ends, and on a place that is large enough.
        let length = unsafe {
            let file = libc::open(c"/proc/self/cgroup".as_ptr(), libc::O_RDONLY);
            libc::read(file, text.as_mut_ptr().cast(), text.len())
        };
        let text = &text[..usize::try_from(length).unwrap_or(0)];
        c_int::from(text.windows(10).any(|name| name == b"born-here-"))
    }

    #[test]
    #[allow(clippy::print_stderr, reason = "a test that leaves something out says so")]
    fn a_child_is_born_in_its_group() {
        let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(Path::new);
        let root = roots.into_iter().find(|root| root.join("cgroup.controllers").exists());
        let group = root.map(|root| root.join(format!("born-here-{}", std::process::id())));
        let Some(group) = group.filter(|group| fs::create_dir(group).is_ok()) else {
            eprintln!("left out: no group of version 2 can be made here");
            return;
        };
        let dir = File::open(&group).expect("opened");
        // SAFETY: the child makes system calls alone.
        let child = unsafe { born_in(std::os::fd::AsFd::as_fd(&dir), is_inside, ptr::null_mut()) };
        let mut status = 0;
        let pid = child.expect("born").as_raw_nonzero().get();
        // SAFETY: the place lives.
        let waited = unsafe { libc::waitpid(pid, &raw mut status, 0) };
        fs::remove_dir(&group).expect("removed");
        assert_eq!((waited, libc::WEXITSTATUS(status)), (pid, 1));
    }
}
