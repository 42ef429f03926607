//! Hidden files and directories: an empty one is mounted over each.
//!
//! A mount stays with what it lies over, whatever becomes of the directories above, and a tool can
//! neither remove nor rename it. Owns the covers, and the check that what is covered is what the
//! host found. Does not search.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, mkdirat, openat, unlinkat};

use super::mounts::{NOSUID_NODEV, attach, beneath_of, copy_of, restrict};
use crate::plan::{Found, Hidden, path_of};

/// The names of the empty file and the empty directory while copies of them are made. They are
/// removed before the tool starts.
const FILE: &str = ".nothing";
const DIRECTORY: &str = ".none";

/// Mounts an empty file or directory over each of `hidden` in `tree`. The empty ones are made in
/// `memory`, which is attached.
///
/// # Errors
///
/// [`io::ErrorKind::ResourceBusy`]: something else has the name now, so that the file that was
/// found may have any other.
pub(super) fn cover(tree: &OwnedFd, memory: &OwnedFd, hidden: &[Hidden]) -> io::Result<()> {
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
        let place = beneath_of(tree, path).map_err(|errno| changed(path, &errno.to_string()))?;
        if !is(&place, *found)? {
            return Err(changed(path, "another file has its name"));
        }
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

/// Returns whether an open file is the one that was found.
fn is(place: impl AsFd, found: Found) -> io::Result<bool> {
    let stat = fstat(place)?;
    let directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    Ok(Found { directory, device: stat.st_dev, inode: stat.st_ino } == found)
}

fn changed(path: &Path, why: &str) -> io::Error {
    let path = path.display();
    let reason = format!(
        "`{path}`, which is hidden from the tool, changed while the call was prepared ({why}); \
         call it again"
    );
    io::Error::new(io::ErrorKind::ResourceBusy, reason)
}
