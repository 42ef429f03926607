//! Visiting all names beneath a directory, up to a bound.

use std::ffi::{CStr, OsStr};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir as Entries, FileType, Mode, OFlags, openat, statat};
use rustix::io::Errno;

use crate::exec::wasm::ordinary::is_ordinary;

/// A name that a walk comes to.
pub(super) struct WalkEntry<'a> {
    pub(super) dir: BorrowedFd<'a>,
    pub(super) name: &'a CStr,
    pub(super) path: &'a Path,
    pub(super) kind: FileType,
}

/// Visits all names beneath `start`, which need not be a directory. Fails if a visit fails, if there
/// are more than `left` names, or if a directory cannot be read. Follows no links, and stays on file
/// systems of files.
pub(super) fn walk(
    start: &Path,
    left: &mut usize,
    visit: &mut dyn FnMut(&WalkEntry<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let mut directories = vec![start.to_owned()];
    while let Some(path) = directories.pop() {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = match openat(CWD, &path, flags, Mode::empty()) {
            Ok(open) => open,
            Err(Errno::NOTDIR) if path == start => continue,
            // A tool may have taken the rights away, moved the directory, or used up descriptors,
            // so that the walk does not see the names in it.
            Err(errno) => return Err(errno.into()),
        };
        if !is_ordinary(open.as_fd()) {
            continue;
        }
        let entries = Entries::read_from(&open)?;
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            *left = left.checked_sub(1).ok_or(io::ErrorKind::QuotaExceeded)?;
            let kind = match entry.file_type() {
                FileType::Unknown => match statat(&open, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                    Err(errno) => return Err(errno.into()),
                },
                kind => kind,
            };
            let path = path.join(OsStr::from_bytes(name.to_bytes()));
            visit(&WalkEntry { dir: open.as_fd(), name, path: &path, kind })?;
            if kind == FileType::Directory {
                directories.push(path);
            }
        }
    }
    Ok(())
}
