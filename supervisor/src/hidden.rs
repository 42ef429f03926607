//! Hidden files and directories: an empty one is mounted over each. A read-only one is mounted
//! over itself, and so is a link or directory that must stay where it is.
//!
//! A mount stays with the file under it, even if the directories above are moved, and a tool can
//! neither remove nor rename it. On an overlay, which a recording uses, the mount stays with the
//! name. Owns the covers, and the check that the covered file is the one that the host found.
//! Does not search.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, mkdirat, openat, unlinkat};
use rustix::io::Errno;

use super::mounts::{NOSUID_NODEV, attach, beneath_of, copy_of, restrict};
use crate::plan::{HiddenPath, InodeId, path_of};

/// The names of the empty file and the empty directory while copies of them are made. They are
/// removed before the tool starts.
const FILE: &str = ".nothing";
const DIRECTORY: &str = ".none";

/// Mounts an empty file or directory over each of `hidden`. The empty ones are made in `memory`,
/// which is attached. `find` opens a hidden file.
///
/// # Errors
///
/// Fails with [`io::ErrorKind::ResourceBusy`] if another file has the name now: the file that
/// was found may have any other name.
pub(super) fn cover(
    memory: &OwnedFd,
    hidden: &[HiddenPath],
    find: impl Fn(&Path, InodeId) -> io::Result<OwnedFd>,
) -> io::Result<()> {
    if hidden.is_empty() {
        return Ok(());
    }
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    drop(openat(memory, FILE, flags, Mode::RUSR | Mode::RGRP | Mode::ROTH)?);
    mkdirat(memory, DIRECTORY, Mode::from_raw_mode(0o555))?;
    let [file, directory] = [FILE, DIRECTORY].map(|name| beneath_of(memory, Path::new(name)));
    let (file, directory) = (file?, directory?);
    for HiddenPath { path, found } in hidden {
        let path = &path_of(path);
        let place = find(path, *found)?;
        let nothing = copy_of(if found.directory { &directory } else { &file })?;
        restrict(&nothing, NOSUID_NODEV | libc::MOUNT_ATTR_RDONLY, false)?;
        attach(&nothing, &place, c"").map_err(|error| {
            io::Error::new(error.kind(), format!("`{}` cannot be hidden: {error}", path.display()))
        })?;
    }
    unlinkat(memory, FILE, AtFlags::empty())?;
    unlinkat(memory, DIRECTORY, AtFlags::REMOVEDIR)?;
    Ok(())
}

/// Mounts each of `read_only` over itself. `find` opens one of them.
///
/// # Errors
///
/// Fails with [`io::ErrorKind::ResourceBusy`], like [`cover`].
pub(super) fn make_read_only(
    read_only: &[HiddenPath],
    find: impl Fn(&Path, InodeId) -> io::Result<OwnedFd>,
) -> io::Result<()> {
    for HiddenPath { path, found } in read_only {
        let path = &path_of(path);
        let place = find(path, *found)?;
        let itself = copy_of(&place)?;
        restrict(&itself, NOSUID_NODEV | libc::MOUNT_ATTR_RDONLY, true)?;
        attach(&itself, &place, c"").map_err(|error| {
            let path = path.display();
            io::Error::new(error.kind(), format!("`{path}` cannot be read-only: {error}"))
        })?;
    }
    Ok(())
}

/// Returns a hidden file that was opened by its path.
///
/// # Errors
///
/// Fails with [`io::ErrorKind::ResourceBusy`] if it is not the file that was found.
pub(super) fn as_found(
    opened: Result<OwnedFd, Errno>,
    path: &Path,
    found: InodeId,
) -> io::Result<OwnedFd> {
    let place = opened.map_err(|errno| changed(path, &errno.to_string()))?;
    if is(&place, found)? { Ok(place) } else { Err(changed(path, "another file has its name")) }
}

/// Mounts each of `pinned` over itself, and each directory in `tree` above those and the `inner`
/// places, except the `granted` ones: a mount can be neither removed nor renamed. If such a
/// directory moved, its hidden and read-only files would have other paths in the next call. Another
/// call that searches for such files at that moment could miss the directory. `find` opens one of
/// `pinned`, which may be a link.
///
/// # Errors
///
/// Fails with [`io::ErrorKind::ResourceBusy`], like [`cover`].
pub(super) fn pin<'a>(
    tree: &OwnedFd,
    pinned: &'a [HiddenPath],
    inner: impl Iterator<Item = &'a HiddenPath>,
    granted: &HashSet<&Path>,
    find: impl Fn(&Path, InodeId) -> io::Result<OwnedFd>,
) -> io::Result<()> {
    let paths: Vec<PathBuf> = pinned.iter().chain(inner).map(|it| path_of(&it.path)).collect();
    // Outer directories first: their copies must not contain the mounts of inner ones.
    let mut places: BTreeMap<&Path, Option<InodeId>> = BTreeMap::new();
    for path in &paths {
        let ancestors = path.ancestors().skip(1);
        // If only the file itself is granted, the tool can move no directory above it.
        if ancestors.clone().any(|dir| granted.contains(dir)) {
            let above = ancestors.take_while(|dir| !granted.contains(dir));
            above.for_each(|dir| _ = places.entry(dir).or_default());
        }
    }
    for (path, it) in paths.iter().zip(pinned) {
        if !granted.contains(path.as_path()) {
            places.insert(path, Some(it.found));
        }
    }
    for (path, found) in places {
        let place = match found {
            Some(found) => find(path, found)?,
            None => beneath_of(tree, path).map_err(|errno| changed(path, &errno.to_string()))?,
        };
        attach(&copy_of(&place)?, &place, c"").map_err(|error| {
            let path = path.display();
            io::Error::new(error.kind(), format!("`{path}` cannot be kept in its place: {error}"))
        })?;
    }
    Ok(())
}

/// Returns whether an open file is the one that was found.
pub(super) fn is(place: impl AsFd, found: InodeId) -> io::Result<bool> {
    let stat = fstat(place)?;
    let directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    Ok(InodeId { directory, device: stat.st_dev, inode: stat.st_ino } == found)
}

fn changed(path: &Path, why: &str) -> io::Error {
    let path = path.display();
    let reason = format!(
        "`{path}`, which is kept from the tool, changed while the call was prepared ({why}); \
         call it again"
    );
    io::Error::new(io::ErrorKind::ResourceBusy, reason)
}
