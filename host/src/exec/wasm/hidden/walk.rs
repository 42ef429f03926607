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

/// The way on from a name.
pub(super) enum WalkStep {
    /// The entries of the directory, as far as it can be read.
    Below,
    /// The entries of the directory, all of them.
    MustSee,
}

/// Visits all names beneath `start`, which need not be a directory unless it must be seen. Fails if
/// a visit fails, if there are more than `left` names, if a directory may not be read, or if one that
/// must be seen cannot be read. Follows no links, and stays on file systems of files.
pub(super) fn walk(
    (start, must_see): (&Path, bool),
    left: &mut usize,
    visit: &mut dyn FnMut(&WalkEntry<'_>) -> io::Result<WalkStep>,
) -> io::Result<()> {
    let mut directories = vec![(start.to_owned(), must_see)];
    while let Some((path, must_see)) = directories.pop() {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = match openat(CWD, &path, flags, Mode::empty()) {
            Ok(open) => open,
            // A tool may have taken the rights away, so that nobody sees the names in it.
            Err(errno @ (Errno::ACCESS | Errno::PERM)) => return Err(errno.into()),
            Err(errno) if must_see => return Err(errno.into()),
            Err(_) => continue,
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
                    Err(_) => continue,
                },
                kind => kind,
            };
            let path = path.join(OsStr::from_bytes(name.to_bytes()));
            let next = visit(&WalkEntry { dir: open.as_fd(), name, path: &path, kind })?;
            match next {
                WalkStep::Below if kind == FileType::Directory => directories.push((path, false)),
                WalkStep::MustSee if kind == FileType::Directory => directories.push((path, true)),
                _ => {}
            }
        }
    }
    Ok(())
}
