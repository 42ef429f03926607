//! The check that a file may be used by a guest: it lies on a file system of files.

use std::os::fd::BorrowedFd;

use ikigai_supervisor::filesystems;

/// Returns whether an open file belongs to a file system of files and is not a device. Returns
/// false if that cannot be found out.
pub(super) fn is_allowed(open: BorrowedFd<'_>) -> bool {
    filesystems::is_device(open).is_ok_and(|device| !device) && is_ordinary(open)
}

/// Returns whether an open file belongs to a file system of files; false if that cannot be found
/// out.
pub(super) fn is_ordinary(open: BorrowedFd<'_>) -> bool {
    filesystems::is_ordinary(open).is_ok_and(|ordinary| ordinary)
}
