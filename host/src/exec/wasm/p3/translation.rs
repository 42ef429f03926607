//! The types of `wasi:filesystem` and `wasi:sockets` in both versions.

use wasmtime_wasi::p2::bindings::clocks::wall_clock::Datetime;
use wasmtime_wasi::p2::bindings::filesystem::types as old;
use wasmtime_wasi::p2::bindings::sockets::network as old_network;
use wasmtime_wasi::p2::{FsError, FsResult};
use wasmtime_wasi::p3::bindings::clocks::system_clock::Instant;
use wasmtime_wasi::p3::bindings::filesystem::types as new;
use wasmtime_wasi::p3::bindings::sockets::types as new_sockets;

/// Returns a result as a guest gets it; an error of the host itself is a trap.
pub(super) fn answer<T>(result: FsResult<T>) -> wasmtime::Result<(Result<T, new::ErrorCode>,)> {
    Ok((match result {
        Ok(value) => Ok(value),
        Err(error) => Err(to_error_code(error)?),
    },))
}

/// Returns the code of an error; an error of the host itself is a trap.
pub(super) fn to_error_code(error: FsError) -> wasmtime::Result<new::ErrorCode> {
    error.downcast().map(error_code)
}

/// Translates the codes, which have the same names.
pub(super) fn error_code(code: old::ErrorCode) -> new::ErrorCode {
    macro_rules! same {
        ($($name:ident),*) => {
            match code {
                $(old::ErrorCode::$name => new::ErrorCode::$name,)*
                old::ErrorCode::WouldBlock => new::ErrorCode::Other(Some("would block".into())),
            }
        };
    }
    same!(
        Access,
        Already,
        BadDescriptor,
        Busy,
        Deadlock,
        Quota,
        Exist,
        FileTooLarge,
        IllegalByteSequence,
        InProgress,
        Interrupted,
        Invalid,
        Io,
        IsDirectory,
        Loop,
        TooManyLinks,
        MessageSize,
        NameTooLong,
        NoDevice,
        NoEntry,
        NoLock,
        InsufficientMemory,
        InsufficientSpace,
        NotDirectory,
        NotEmpty,
        NotRecoverable,
        Unsupported,
        NoTty,
        NoSuchDevice,
        Overflow,
        NotPermitted,
        Pipe,
        ReadOnly,
        InvalidSeek,
        TextFileBusy,
        CrossDevice
    )
}

/// Translates flags, which have the same names.
macro_rules! flags {
    ($from:expr, $old:ty, $new:ty, $($name:ident),*) => {{
        let mut flags = <$old>::empty();
        $(if $from.contains(<$new>::$name) {
            flags |= <$old>::$name;
        })*
        flags
    }};
}

pub(super) fn path_flags(flags: new::PathFlags) -> old::PathFlags {
    flags!(flags, old::PathFlags, new::PathFlags, SYMLINK_FOLLOW)
}

pub(super) fn open_flags(flags: new::OpenFlags) -> old::OpenFlags {
    flags!(flags, old::OpenFlags, new::OpenFlags, CREATE, DIRECTORY, EXCLUSIVE, TRUNCATE)
}

pub(super) fn descriptor_flags(flags: new::DescriptorFlags) -> old::DescriptorFlags {
    flags!(
        flags,
        old::DescriptorFlags,
        new::DescriptorFlags,
        READ,
        WRITE,
        FILE_INTEGRITY_SYNC,
        DATA_INTEGRITY_SYNC,
        REQUESTED_WRITE_SYNC,
        MUTATE_DIRECTORY
    )
}

pub(super) fn descriptor_type(kind: old::DescriptorType) -> new::DescriptorType {
    match kind {
        old::DescriptorType::Unknown => new::DescriptorType::Other(None),
        old::DescriptorType::BlockDevice => new::DescriptorType::BlockDevice,
        old::DescriptorType::CharacterDevice => new::DescriptorType::CharacterDevice,
        old::DescriptorType::Directory => new::DescriptorType::Directory,
        old::DescriptorType::Fifo => new::DescriptorType::Fifo,
        old::DescriptorType::SymbolicLink => new::DescriptorType::SymbolicLink,
        old::DescriptorType::RegularFile => new::DescriptorType::RegularFile,
        old::DescriptorType::Socket => new::DescriptorType::Socket,
    }
}

pub(super) fn stat(stat: old::DescriptorStat) -> new::DescriptorStat {
    new::DescriptorStat {
        type_: descriptor_type(stat.type_),
        link_count: stat.link_count,
        size: stat.size,
        data_access_timestamp: stat.data_access_timestamp.map(instant),
        data_modification_timestamp: stat.data_modification_timestamp.map(instant),
        status_change_timestamp: stat.status_change_timestamp.map(instant),
    }
}

pub(super) fn metadata_hash(hash: old::MetadataHashValue) -> new::MetadataHashValue {
    new::MetadataHashValue { lower: hash.lower, upper: hash.upper }
}

fn instant(time: Datetime) -> Instant {
    let seconds = i64::try_from(time.seconds).unwrap_or(i64::MAX);
    Instant { seconds, nanoseconds: time.nanoseconds }
}

/// Translates a time that a file is to get. Fails for a time before 1970, which WASI 0.2 cannot
/// express.
pub(super) fn timestamp(time: new::NewTimestamp) -> FsResult<old::NewTimestamp> {
    Ok(match time {
        new::NewTimestamp::NoChange => old::NewTimestamp::NoChange,
        new::NewTimestamp::Now => old::NewTimestamp::Now,
        new::NewTimestamp::Timestamp(Instant { seconds, nanoseconds }) => {
            let seconds = u64::try_from(seconds).map_err(|_| old::ErrorCode::Overflow)?;
            old::NewTimestamp::Timestamp(Datetime { seconds, nanoseconds })
        }
    })
}

/// Translates the code of a socket that was not made.
pub(super) fn socket_error(code: old_network::ErrorCode) -> new_sockets::ErrorCode {
    match code {
        old_network::ErrorCode::AccessDenied => new_sockets::ErrorCode::AccessDenied,
        old_network::ErrorCode::NotSupported => new_sockets::ErrorCode::NotSupported,
        old_network::ErrorCode::InvalidArgument => new_sockets::ErrorCode::InvalidArgument,
        old_network::ErrorCode::OutOfMemory | old_network::ErrorCode::NewSocketLimit => {
            new_sockets::ErrorCode::OutOfMemory
        }
        other => new_sockets::ErrorCode::Other(Some(other.name().to_owned())),
    }
}
