//! WASI's error codes in the words of the C library, which commands print.

use std::io::{Error, ErrorKind};

use wasip2::filesystem::types::ErrorCode;

/// Returns the error for a failure while a path is resolved. WASI reports `not-permitted` for a
/// link that leads out of the directory; the interpreter then follows the link itself and finds its
/// target. It does so only for a kind of error that a link can cause.
pub(super) fn of_path(code: ErrorCode) -> Error {
    match code {
        ErrorCode::NotPermitted => Error::other("Permission denied"),
        other => strerror(other),
    }
}

/// Returns the error for a failure on an open file, which no path can cause.
pub(super) fn of_open_file(code: ErrorCode) -> Error {
    strerror(code)
}

/// Returns the error for reading outside of the granted directories. It does not reveal whether a
/// file exists there.
pub(super) fn missing() -> Error {
    strerror(ErrorCode::NoEntry)
}

/// Returns the error for writing outside of the granted directories.
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
