//! The signals of the supervisor: all have their default action. The few that it waits for are
//! read from a descriptor.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr;

/// The signals that the supervisor waits for: the end of a child, and the usual requests to end,
/// on which it ends the call.
const AWAITED: [libc::c_int; 4] = [libc::SIGCHLD, libc::SIGTERM, libc::SIGINT, libc::SIGHUP];

/// The size of the kernel's signal set, in bytes: one bit for each of 64 signals.
const SET_SIZE: usize = 8;

/// Resets the disposition of every signal, no matter what the host had set.
///
/// The tool inherits the dispositions. The most important one is SIGPIPE: it has to kill a tool
/// whose reader is gone, but a Rust program ignores it and passes that on.
pub(super) fn reset() {
    // The kernel's `struct sigaction`, all zeroes: the default action, no flag, an empty mask.
    // The C library is bypassed, since it leaves its own two signals as they were inherited.
    let default = [0_usize; 4];
    for signal in 1..=libc::SIGRTMAX() {
        // SAFETY: a system call on a structure that is large enough, with the size of the
        // kernel's signal set. No handler is installed. SIGKILL and SIGSTOP are refused.
        unsafe {
            let previous = ptr::null_mut::<libc::c_void>();
            libc::syscall(libc::SYS_rt_sigaction, signal, default.as_ptr(), previous, SET_SIZE);
        }
    }
}

/// Blocks the awaited signals and no others.
pub(super) fn block() {
    let awaited = set_of(&AWAITED);
    // SAFETY: `awaited` is an initialised set, and the old one is not asked for. The call fails
    // only for a wrong first argument.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const awaited, ptr::null_mut()) };
}

/// Blocks the awaited signals, and returns the descriptor from which they are read. Each process
/// reads its own signals from it.
pub(super) fn take_over() -> io::Result<OwnedFd> {
    block();
    let awaited = set_of(&AWAITED);
    // SAFETY: `awaited` is an initialised set; -1 asks for a new descriptor.
    let fd =
        unsafe { libc::signalfd(-1, &raw const awaited, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call above made it, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Reads the signals that have arrived, and returns whether one of them asks for the end.
pub(super) fn drain(signals: &OwnedFd) -> io::Result<bool> {
    let mut asked_to_end = false;
    let mut info = [0; size_of::<libc::signalfd_siginfo>()];
    loop {
        match rustix::io::read(signals, &mut info) {
            Ok(length) if length == info.len() => {
                // The number is the first field, 32 bits wide.
                let number = u32::from_ne_bytes([info[0], info[1], info[2], info[3]]);
                asked_to_end |= number != libc::SIGCHLD.cast_unsigned();
            }
            Ok(_) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Err(rustix::io::Errno::AGAIN) => return Ok(asked_to_end),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Returns the mask that blocks nothing.
pub(super) fn empty_mask() -> libc::sigset_t {
    set_of(&[])
}

fn set_of(signals: &[libc::c_int]) -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: the first call initialises the set, which the others are given.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in signals {
            libc::sigaddset(set.as_mut_ptr(), *signal);
        }
        set.assume_init()
    }
}
