//! What WASI's error codes mean to a tool.

use std::io;

use ikigai_tools::ports::FsError;
use wasip2::filesystem::types::ErrorCode;

/// The meaning of an error while a path is resolved. `not-permitted` is how WASI
/// says that `..` or a link leads out of the directory.
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

/// The same for an operation on what is open already.
pub(crate) fn io_error(code: ErrorCode) -> io::Error {
    match code {
        ErrorCode::InsufficientMemory => io::ErrorKind::OutOfMemory.into(),
        ErrorCode::IsDirectory => io::ErrorKind::IsADirectory.into(),
        other => io::Error::other(other.name()),
    }
}
