//! What the operating system's errors mean to a tool.

use std::io;

use ikigai_tools::ports::FsError;
use rustix::io::Errno;

/// The meaning of an error number.
pub(crate) fn meaning(errno: Errno) -> FsError {
    match errno {
        Errno::NOENT => FsError::NotFound,
        Errno::ACCESS | Errno::PERM | Errno::ROFS => FsError::Denied,
        Errno::ISDIR | Errno::NXIO => FsError::NotRegular,
        Errno::NOSPC | Errno::DQUOT => FsError::NoSpace,
        Errno::NOMEM => FsError::NoMemory,
        _ => FsError::Other,
    }
}

/// The same for an error of `std` or `cap-std`. The latter reports a path that
/// leads out of a directory as a refusal that no system call made.
pub(crate) fn meaning_of(error: &io::Error) -> FsError {
    match Errno::from_io_error(error) {
        Some(errno) => meaning(errno),
        None if error.kind() == io::ErrorKind::PermissionDenied => FsError::Outside,
        None if error.kind() == io::ErrorKind::NotFound => FsError::NotFound,
        None => FsError::Other,
    }
}
