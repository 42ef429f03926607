//! Opening an existing file for a guest: first without a right to its contents, which does nothing,
//! and then by that handle, as wasmtime would by the name. So a device is refused before it is
//! opened, even if it takes the name of a file.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2};
use wasmtime_wasi::FsPerms;
use wasmtime_wasi::filesystem::{Descriptor, Dir, File as GuestFile, OpenMode};
use wasmtime_wasi::p2::FsResult;
use wasmtime_wasi::p2::bindings::filesystem::types::{DescriptorFlags, ErrorCode, OpenFlags};

use crate::exec::wasm::ordinary::is_ordinary;

/// Opens the file at a path beneath a directory, without a right to its contents. Returns nothing
/// if that fails, or the kernel cannot do it at once.
pub(super) fn see(start: &Dir, path: &str, follows: bool) -> Option<OwnedFd> {
    let mut flags = OFlags::PATH | OFlags::CLOEXEC;
    flags.set(OFlags::NOFOLLOW, !follows);
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    openat2(start.dir.as_fd(), path, flags, Mode::empty(), beneath).ok()
}

/// Opens a file that was opened without a right to its contents. Fails if a guest may not use it.
pub(in crate::exec::wasm) fn open_seen(
    seen: BorrowedFd<'_>,
    perms: FsPerms,
    open: OpenFlags,
    flags: DescriptorFlags,
) -> FsResult<Descriptor> {
    let known = DescriptorFlags::READ | DescriptorFlags::WRITE | DescriptorFlags::MUTATE_DIRECTORY;
    if flags.intersects(!known) {
        return Err(ErrorCode::Unsupported.into());
    }
    let of_files = OpenFlags::CREATE | OpenFlags::EXCLUSIVE | OpenFlags::TRUNCATE;
    if open.contains(OpenFlags::DIRECTORY) && open.intersects(of_files) {
        return Err(ErrorCode::Invalid.into());
    }
    let mut mode = OpenMode::empty();
    let reads = !flags.contains(DescriptorFlags::WRITE) || flags.contains(DescriptorFlags::READ);
    mode.set(OpenMode::READ, reads);
    mode.set(OpenMode::WRITE, writes(open, flags));
    if perms.write_not_permitted() && mode.contains(OpenMode::WRITE) {
        return Err(ErrorCode::NotPermitted.into());
    }
    if open.contains(OpenFlags::CREATE | OpenFlags::EXCLUSIVE) {
        return Err(ErrorCode::Exist.into());
    }
    let kind = FileType::from_raw_mode(fstat(seen).map_err(io::Error::from)?.st_mode);
    match kind {
        FileType::Symlink => return Err(ErrorCode::Loop.into()),
        FileType::BlockDevice | FileType::CharacterDevice => return Err(ErrorCode::Access.into()),
        _ if !is_ordinary(seen) => return Err(ErrorCode::Access.into()),
        FileType::Directory if mode.contains(OpenMode::WRITE) => {
            return Err(ErrorCode::IsDirectory.into());
        }
        FileType::Directory => {
            return Ok(Descriptor::Dir(Dir::new(listable(seen)?, perms, mode, true)));
        }
        _ if open.contains(OpenFlags::DIRECTORY) => return Err(ErrorCode::NotDirectory.into()),
        _ => {}
    }
    let file = reopened(seen, kind, mode, open.contains(OpenFlags::TRUNCATE))?;
    Ok(Descriptor::File(GuestFile::new(file, perms, mode, true)))
}

/// Returns whether a guest that opens a file with these flags may change it.
pub(in crate::exec::wasm) fn writes(open: OpenFlags, flags: DescriptorFlags) -> bool {
    flags.contains(DescriptorFlags::WRITE)
        || open.intersects(OpenFlags::CREATE | OpenFlags::TRUNCATE)
}

/// Opens an open file of this type again, for reading or writing. This opens the file itself, even
/// if its name now leads to another one.
pub(in crate::exec::wasm) fn reopened(
    file: BorrowedFd<'_>,
    kind: FileType,
    mode: OpenMode,
    truncates: bool,
) -> io::Result<File> {
    let access = match (mode.contains(OpenMode::READ), mode.contains(OpenMode::WRITE)) {
        (true, true) => OFlags::RDWR,
        (false, true) => OFlags::WRONLY,
        (_, false) => OFlags::RDONLY,
    };
    let mut flags = access | OFlags::CLOEXEC;
    flags.set(OFlags::TRUNC, truncates);
    // A lease on the file must not make the host wait. Opening one end of a pipe waits for the
    // other end, and that wait ends with the call: unlike the standard library, this returns if it
    // is interrupted.
    flags.set(OFlags::NONBLOCK, kind == FileType::RegularFile);
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(openat(CWD, path, flags, Mode::empty())?.into())
}

/// Opens an open directory again, so that it can be listed.
pub(in crate::exec::wasm) fn listable(dir: BorrowedFd<'_>) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(openat(dir, c".", flags, Mode::empty())?.into())
}
