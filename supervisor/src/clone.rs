//! Child processes: made by `clone` with a new stack, or by `clone3` in a control group.
//!
//! Owns the two system calls and the stacks. The caller decides what a child does.

use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use rustix::process::Pid;

/// `clone3` makes the child in a cgroup: linux/sched.h. The C library's type is too narrow.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// Makes a child process that calls `entry(argument)` on `stack`, and exits with the result.
/// SIGCHLD announces its end.
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
    // SAFETY: the caller vouches for flags, entry and argument; the stack grows down.
    let pid = unsafe { libc::clone(entry, stack.top(), flags | libc::SIGCHLD, argument) };
    Pid::from_raw(pid.max(0)).ok_or_else(io::Error::last_os_error)
}

/// Makes a child process that is in the control group `group`, of version 2, from its beginning;
/// otherwise like [`clone`]. The child has a copy of this process's memory: without assembly, no
/// other way gives a child both a group and a stack.
///
/// # Safety
///
/// As for fork(2) in a process of one thread; `entry` must not unwind or allocate.
pub(super) unsafe fn clone_into(
    group: BorrowedFd<'_>,
    entry: extern "C" fn(*mut c_void) -> c_int,
    argument: *mut c_void,
) -> io::Result<Pid> {
    // SAFETY: plain numbers, for which zeroes are a value.
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

/// Returns whether the kernel refused the child its group, and the child could be made without
/// it. Three causes are possible: another user owns the group, as for a tool of root; a
/// container filters `clone3`; or the kernel is older than 5.7.
pub(super) fn cannot_clone_into(error: &io::Error) -> bool {
    let refusals = [libc::EACCES, libc::EPERM, libc::ENOSYS, libc::EINVAL];
    error.raw_os_error().is_some_and(|errno| refusals.contains(&errno))
}

/// Returns whether the kernel refuses one more process, by a limit that counts this process
/// among the tool's. The number of the tool's processes is not enough to tell: while forks are
/// being refused, it stays a little below the limit.
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

/// Memory for the stack of a child. It stays mapped for as long as this process lives, which is
/// one call. Unmapping it would interrupt every processor that the child ran on, and take longer
/// than most steps of the sandbox.
pub(super) struct Stack {
    start: *mut c_void,
    length: usize,
}

impl Stack {
    /// Maps `length` bytes, a multiple of the page size. Only pages that are used take memory.
    /// The lowest page is not accessible, so an overflow stops there.
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

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::path::Path;

    use super::*;

    /// Returns whether this process is in the group of the test, as its exit code.
    extern "C" fn is_inside(_: *mut c_void) -> c_int {
        let mut text = [0_u8; 4096];
        // SAFETY: system calls on a string that ends, and on a place that is large enough.
        let length = unsafe {
            let file = libc::open(c"/proc/self/cgroup".as_ptr(), libc::O_RDONLY);
            libc::read(file, text.as_mut_ptr().cast(), text.len())
        };
        let text = &text[..usize::try_from(length).unwrap_or(0)];
        c_int::from(text.windows(11).any(|name| name == b"clone-into-"))
    }

    #[test]
    #[allow(clippy::print_stderr, reason = "a test that leaves something out says so")]
    fn a_child_is_in_its_group_from_the_beginning() {
        let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(Path::new);
        let root = roots.into_iter().find(|root| root.join("cgroup.controllers").exists());
        let group = root.map(|root| root.join(format!("clone-into-{}", std::process::id())));
        let Some(group) = group.filter(|group| fs::create_dir(group).is_ok()) else {
            eprintln!("left out: no group of version 2 can be made here");
            return;
        };
        let dir = File::open(&group).expect("opened");
        // SAFETY: the child only makes system calls.
        let child =
            unsafe { clone_into(std::os::fd::AsFd::as_fd(&dir), is_inside, ptr::null_mut()) };
        let mut status = 0;
        let pid = child.expect("cloned").as_raw_nonzero().get();
        // SAFETY: the place lives.
        let waited = unsafe { libc::waitpid(pid, &raw mut status, 0) };
        fs::remove_dir(&group).expect("removed");
        assert_eq!((waited, libc::WEXITSTATUS(status)), (pid, 1));
    }
}
