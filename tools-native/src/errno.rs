//! The mapping of the operating system's errors to the file port's errors.

use std::io;

use ikigai_tools::ports::FsError;
use rustix::io::Errno;

/// Returns the port's error for an error number.
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

/// Returns the port's error for an error of `std` or `cap-std`. The latter reports a path that
/// leads out of a directory as a refusal without a system call.
pub(crate) fn meaning_of(error: &io::Error) -> FsError {
    match Errno::from_io_error(error) {
        Some(errno) => meaning(errno),
        None if error.kind() == io::ErrorKind::PermissionDenied => FsError::Outside,
        None if error.kind() == io::ErrorKind::NotFound => FsError::NotFound,
        None => FsError::Other,
    }
}
