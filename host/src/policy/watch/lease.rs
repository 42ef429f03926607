//! Leases on files, by which the kernel tells that nobody has one open for writing.

use std::fs::File;
use std::os::fd::AsRawFd as _;

/// The commands of fcntl(2) that the crate `libc` does not name for this target, by asm-generic/fcntl.h.
const F_SETSIG: libc::c_int = 10;
const F_SETOWN_EX: libc::c_int = 15;

/// A single thread, as the addressee of a signal, by the same file.
const F_OWNER_TID: libc::c_int = 0;

/// Returns whether the kernel grants a lease on a file that is open for reading. It grants none while somebody
/// has the file open for writing, on the file of another user unless this is root, and on some file systems.
///
/// The lease is given back at once: whoever opens the file for writing has to wait for that.
pub(in super::super) fn is_granted(file: &File) -> bool {
    let fd = file.as_raw_fd();
    let owner = [F_OWNER_TID, rustix::thread::gettid().as_raw_nonzero().get()];
    let succeeds = |result: libc::c_int| result >= 0;
    // To whoever holds a lease that somebody waits for the kernel sends SIGIO otherwise, which ends a process.
    // SIGURG does nothing, and this thread waits for nothing that it would interrupt.
    // SAFETY: the descriptor is open. The second command reads two numbers, the others take one.
    unsafe {
        succeeds(libc::fcntl(fd, F_SETSIG, libc::SIGURG))
            && succeeds(libc::fcntl(fd, F_SETOWN_EX, owner.as_ptr()))
            && succeeds(libc::fcntl(fd, libc::F_SETLEASE, libc::F_RDLCK))
            && succeeds(libc::fcntl(fd, libc::F_SETLEASE, libc::F_UNLCK))
    }
}
