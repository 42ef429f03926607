//! The mapping of WASI's error codes to the file port's errors.

use std::io;

use ikigai_tools::ports::FsError;
use wasip2::filesystem::types::ErrorCode;

/// Returns the port's error for an error while a path is resolved. WASI reports `not-permitted` for
/// a `..` or a link that leads out of the directory.
pub(crate) fn meaning(code: ErrorCode) -> FsError {
    match code {
        ErrorCode::NoEntry => FsError::NotFound,
        ErrorCode::Access | ErrorCode::ReadOnly => FsError::Denied,
        ErrorCode::NotPermitted => FsError::Outside,
        ErrorCode::IsDirectory | ErrorCode::NoSuchDevice => FsError::NotRegular,
        ErrorCode::InsufficientSpace | ErrorCode::Quota => FsError::NoSpace,
        ErrorCode::InsufficientMemory => FsError::NoMemory,
        _ => FsError::Other,
    }
}

/// Returns the port's error for an operation on an open file.
pub(crate) fn io_error(code: ErrorCode) -> io::Error {
    match code {
        ErrorCode::InsufficientMemory => io::ErrorKind::OutOfMemory.into(),
        ErrorCode::IsDirectory => io::ErrorKind::IsADirectory.into(),
        other => io::Error::other(other.name()),
    }
}
