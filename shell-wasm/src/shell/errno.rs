//! WASI's error codes in the words of the C library, which is what commands print.

use std::io::{Error, ErrorKind};

use wasip2::filesystem::types::ErrorCode;

/// A failure while a path is resolved. `not-permitted` is how WASI says that a link
/// leads out of the directory; the interpreter then follows the link itself and
/// finds out where it leads. Only for a kind that may come from a link does it.
pub(super) fn of_path(code: ErrorCode) -> Error {
    match code {
        ErrorCode::NotPermitted => Error::other("Permission denied"),
        other => strerror(other),
    }
}

/// A failure of what is open already: no path that leads out.
pub(super) fn of_open_file(code: ErrorCode) -> Error {
    strerror(code)
}

/// What lies outside of the granted directories, for those who ask: whether there is
/// something is not told.
pub(super) fn missing() -> Error {
    strerror(ErrorCode::NoEntry)
}

/// What lies outside of the granted directories, for those who would write there.
pub(super) fn outside() -> Error {
    strerror(ErrorCode::Access)
}

pub(super) fn strerror(code: ErrorCode) -> Error {
    let (kind, text) = match code {
        ErrorCode::NoEntry => (ErrorKind::NotFound, "No such file or directory"),
        ErrorCode::Access => (ErrorKind::PermissionDenied, "Permission denied"),
        ErrorCode::NotPermitted => (ErrorKind::PermissionDenied, "Operation not permitted"),
        ErrorCode::ReadOnly => (ErrorKind::PermissionDenied, "Read-only file system"),
        ErrorCode::Exist => (ErrorKind::AlreadyExists, "File exists"),
        ErrorCode::IsDirectory => (ErrorKind::IsADirectory, "Is a directory"),
        ErrorCode::NotDirectory => (ErrorKind::NotADirectory, "Not a directory"),
        ErrorCode::NotEmpty => (ErrorKind::DirectoryNotEmpty, "Directory not empty"),
        ErrorCode::Loop => (ErrorKind::Other, "Too many levels of symbolic links"),
        ErrorCode::NameTooLong => (ErrorKind::InvalidFilename, "File name too long"),
        ErrorCode::CrossDevice => (ErrorKind::CrossesDevices, "Invalid cross-device link"),
        ErrorCode::Busy => (ErrorKind::ResourceBusy, "Device or resource busy"),
        ErrorCode::Invalid => (ErrorKind::InvalidInput, "Invalid argument"),
        ErrorCode::FileTooLarge => (ErrorKind::FileTooLarge, "File too large"),
        ErrorCode::InsufficientSpace => (ErrorKind::StorageFull, "No space left on device"),
        ErrorCode::Quota => (ErrorKind::QuotaExceeded, "Disk quota exceeded"),
        ErrorCode::InsufficientMemory => (ErrorKind::OutOfMemory, "Cannot allocate memory"),
        ErrorCode::Unsupported => (ErrorKind::Unsupported, "Operation not supported"),
        ErrorCode::TooManyLinks => (ErrorKind::TooManyLinks, "Too many links"),
        ErrorCode::Io => (ErrorKind::Other, "Input/output error"),
        other => return Error::other(other.message()),
    };
    Error::new(kind, text)
}
