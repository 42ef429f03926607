//! The error numbers of preview 1, and the failures of the host that become one.

use wasmtime::component::ResourceTableError;
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;
use wasmtime_wasi::p2::{FsError, StreamError};

/// An error number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Errno {
    Acces = 2,
    Again = 6,
    Already = 7,
    Badf = 8,
    Busy = 10,
    Deadlk = 16,
    Dquot = 19,
    Exist = 20,
    Fault = 21,
    Fbig = 22,
    Ilseq = 25,
    Inprogress = 26,
    Intr = 27,
    Inval = 28,
    Io = 29,
    Isdir = 31,
    Loop = 32,
    Mfile = 33,
    Mlink = 34,
    Msgsize = 35,
    Nametoolong = 37,
    Nodev = 43,
    Noent = 44,
    Nolck = 46,
    Nomem = 48,
    Nospc = 51,
    Notdir = 54,
    Notempty = 55,
    Notrecoverable = 56,
    Notsock = 57,
    Notsup = 58,
    Notty = 59,
    Nxio = 60,
    Overflow = 61,
    Perm = 63,
    Pipe = 64,
    Rofs = 69,
    Spipe = 70,
    Txtbsy = 74,
    Xdev = 75,
}

/// The reason that a call of a module did not succeed.
#[derive(Debug)]
pub(super) enum CallError {
    /// The module gets this number.
    Errno(Errno),
    /// The module ends here.
    Trap(wasmtime::Error),
}

/// The result of a call of a module.
pub(super) type CallResult<T = ()> = Result<T, CallError>;

impl From<Errno> for CallError {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

impl From<wasmtime::Error> for CallError {
    fn from(error: wasmtime::Error) -> Self {
        Self::Trap(error)
    }
}

impl From<ResourceTableError> for CallError {
    fn from(error: ResourceTableError) -> Self {
        Self::Trap(error.into())
    }
}

impl From<ErrorCode> for CallError {
    fn from(code: ErrorCode) -> Self {
        Self::Errno(code.into())
    }
}

impl From<FsError> for CallError {
    fn from(error: FsError) -> Self {
        error.downcast().map_or_else(Self::Trap, Self::from)
    }
}

impl From<std::io::Error> for CallError {
    fn from(error: std::io::Error) -> Self {
        ErrorCode::from(error).into()
    }
}

impl From<StreamError> for CallError {
    fn from(error: StreamError) -> Self {
        match error {
            StreamError::Closed => Self::Errno(Errno::Pipe),
            StreamError::LastOperationFailed(error) => match error.downcast::<std::io::Error>() {
                Ok(error) => error.into(),
                Err(_) => Self::Errno(Errno::Io),
            },
            StreamError::Trap(error) => Self::Trap(error),
        }
    }
}

impl From<ErrorCode> for Errno {
    fn from(code: ErrorCode) -> Self {
        match code {
            ErrorCode::Access => Self::Acces,
            ErrorCode::WouldBlock => Self::Again,
            ErrorCode::Already => Self::Already,
            ErrorCode::BadDescriptor => Self::Badf,
            ErrorCode::Busy => Self::Busy,
            ErrorCode::Deadlock => Self::Deadlk,
            ErrorCode::Quota => Self::Dquot,
            ErrorCode::Exist => Self::Exist,
            ErrorCode::FileTooLarge => Self::Fbig,
            ErrorCode::IllegalByteSequence => Self::Ilseq,
            ErrorCode::InProgress => Self::Inprogress,
            ErrorCode::Interrupted => Self::Intr,
            ErrorCode::Invalid => Self::Inval,
            ErrorCode::Io => Self::Io,
            ErrorCode::IsDirectory => Self::Isdir,
            ErrorCode::Loop => Self::Loop,
            ErrorCode::TooManyLinks => Self::Mlink,
            ErrorCode::MessageSize => Self::Msgsize,
            ErrorCode::NameTooLong => Self::Nametoolong,
            ErrorCode::NoDevice => Self::Nodev,
            ErrorCode::NoEntry => Self::Noent,
            ErrorCode::NoLock => Self::Nolck,
            ErrorCode::InsufficientMemory => Self::Nomem,
            ErrorCode::InsufficientSpace => Self::Nospc,
            ErrorCode::Unsupported => Self::Notsup,
            ErrorCode::NotDirectory => Self::Notdir,
            ErrorCode::NotEmpty => Self::Notempty,
            ErrorCode::NotRecoverable => Self::Notrecoverable,
            ErrorCode::NoTty => Self::Notty,
            ErrorCode::NoSuchDevice => Self::Nxio,
            ErrorCode::Overflow => Self::Overflow,
            ErrorCode::NotPermitted => Self::Perm,
            ErrorCode::Pipe => Self::Pipe,
            ErrorCode::ReadOnly => Self::Rofs,
            ErrorCode::InvalidSeek => Self::Spipe,
            ErrorCode::TextFileBusy => Self::Txtbsy,
            ErrorCode::CrossDevice => Self::Xdev,
        }
    }
}
