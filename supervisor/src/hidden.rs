//! Hidden files and directories: an empty one is mounted over each. A read-only one is mounted over itself.
//!
//! A mount stays with what it lies over, whatever becomes of the directories above, and a tool can
//! neither remove nor rename it. Over an overlay, which a recording has, it stays with the name. Owns
//! the covers, and the check that what is covered is what the host found. Does not search.

use std::collections::{BTreeSet, HashSet};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, mkdirat, openat, unlinkat};
use rustix::io::Errno;

use super::mounts::{NOSUID_NODEV, attach, beneath_of, copy_of, restrict};
use crate::plan::{Found, Hidden, path_of};

/// The names of the empty file and the empty directory while copies of them are made. They are
/// removed before the tool starts.
const FILE: &str = ".nothing";
const DIRECTORY: &str = ".none";

/// Mounts an empty file or directory over each of `hidden`. The empty ones are made in `memory`, which is
/// attached. `find` opens a hidden file.
///
/// # Errors
///
/// [`io::ErrorKind::ResourceBusy`]: something else has the name now, so that the file that was
/// found may have any other.
pub(super) fn cover(
    memory: &OwnedFd,
    hidden: &[Hidden],
    find: impl Fn(&Path, Found) -> io::Result<OwnedFd>,
) -> io::Result<()> {
    if hidden.is_empty() {
        return Ok(());
    }
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    drop(openat(memory, FILE, flags, Mode::RUSR | Mode::RGRP | Mode::ROTH)?);
    mkdirat(memory, DIRECTORY, Mode::from_raw_mode(0o555))?;
    let [file, directory] = [FILE, DIRECTORY].map(|name| beneath_of(memory, Path::new(name)));
    let (file, directory) = (file?, directory?);
    for Hidden { path, found } in hidden {
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

/// Mounts each of `read_only` over itself. `find` opens one.
///
/// # Errors
///
/// [`io::ErrorKind::ResourceBusy`], as of [`cover`].
pub(super) fn make_read_only(
    read_only: &[Hidden],
    find: impl Fn(&Path, Found) -> io::Result<OwnedFd>,
) -> io::Result<()> {
    for Hidden { path, found } in read_only {
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
/// [`io::ErrorKind::ResourceBusy`]: it is not the file that was found.
pub(super) fn as_found(
    opened: Result<OwnedFd, Errno>,
    path: &Path,
    found: Found,
) -> io::Result<OwnedFd> {
    let place = opened.map_err(|errno| changed(path, &errno.to_string()))?;
    if is(&place, found)? { Ok(place) } else { Err(changed(path, "another file has its name")) }
}

/// Mounts each directory in `tree` on the way to these places over itself, but for the `granted` ones: a mount
/// cannot be renamed. What is hidden or read-only by its path would have another one in the next call, and
/// another call that looks for such files at this moment could miss a directory that moves.
pub(super) fn pin<'a>(
    tree: &OwnedFd,
    places: impl Iterator<Item = &'a Hidden>,
    granted: &HashSet<&Path>,
) -> io::Result<()> {
    let paths: Vec<PathBuf> = places.map(|it| path_of(&it.path)).collect();
    let mut above: BTreeSet<&Path> = BTreeSet::new();
    for path in &paths {
        let ancestors = path.ancestors().skip(1);
        // A file that is granted alone has no directory of the tool's.
        if ancestors.clone().any(|dir| granted.contains(dir)) {
            above.extend(ancestors.take_while(|dir| !granted.contains(dir)));
        }
    }
    // Outer ones first: the copy of one has none of those in it yet.
    for path in above {
        let place = beneath_of(tree, path).map_err(|errno| changed(path, &errno.to_string()))?;
        attach(&copy_of(&place)?, &place, c"")?;
    }
    Ok(())
}

/// Returns whether an open file is the one that was found.
pub(super) fn is(place: impl AsFd, found: Found) -> io::Result<bool> {
    let stat = fstat(place)?;
    let directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    Ok(Found { directory, device: stat.st_dev, inode: stat.st_ino } == found)
}

fn changed(path: &Path, why: &str) -> io::Error {
    let path = path.display();
    let reason = format!(
        "`{path}`, which is kept from the tool, changed while the call was prepared ({why}); \
         call it again"
    );
    io::Error::new(io::ErrorKind::ResourceBusy, reason)
}
