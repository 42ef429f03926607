//! Copies of mounts, attached nowhere yet: what they are restricted to, whose files they
//! show, and which of what is mounted in them is no ordinary file system.
//!
//! Owns the system calls on mounts that both a host's root and the init of a sandbox make.
//! Decides nothing of what is shown.

use std::ffi::{CStr, OsString};
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};

use crate::exec::filesystems::is_ordinary;

/// No device, and no program with setuid, is one in what a tool sees.
pub(super) const HARMLESS: u64 = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;

/// A copy of the mounts at a place, attached nowhere yet.
pub(super) fn copy_of(place: impl AsFd) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    Ok(open_tree(place, c"", flags)?)
}

pub(super) fn attach(tree: &OwnedFd, place: impl AsFd, path: &CStr) -> io::Result<()> {
    let mut flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    if path.is_empty() {
        flags |= MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    }
    Ok(move_mount(tree, c"", place, path, flags)?)
}

pub(super) fn read_only(so: bool) -> u64 {
    if so { libc::MOUNT_ATTR_RDONLY } else { 0 }
}

/// Adds `attributes` to the mount `tree`, and to all that are mounted on it.
pub(super) fn restrict(tree: &OwnedFd, attributes: u64, recursive: bool) -> io::Result<()> {
    change(tree.as_fd(), attributes, 0, recursive)
}

/// Shows the files of a copy through the map of the user namespace `owners`, and those of
/// every ordinary file system that is mounted in it. `path` is where the copy is from, and
/// `points` are the [places of mounts](points) there.
///
/// Mounts in it whose file system has no such maps stay as they are, which gives nothing
/// away.
///
/// # Errors
///
/// The file system of the copy itself has no such maps, or this process is not root.
pub(super) fn hand_over(
    tree: &OwnedFd,
    path: &Path,
    points: &[PathBuf],
    owners: &OwnedFd,
) -> io::Result<()> {
    let owners = u64::try_from(owners.as_raw_fd()).map_err(io::Error::other)?;
    let map = |mount: BorrowedFd<'_>| change(mount, libc::MOUNT_ATTR_IDMAP, owners, false);
    map(tree.as_fd())?;
    for point in points {
        if let Ok(beneath) = point.strip_prefix(path)
            && beneath != Path::new("")
            && let Ok(mount) = beneath_of(tree, beneath)
            && is_ordinary(&mount).unwrap_or(false)
        {
            match map(mount.as_fd()) {
                // No map to be had, or a directory where something was mounted before.
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
                mapped => mapped?,
            }
        }
    }
    Ok(())
}

/// Has `cover` hide every place of `tree` where something is mounted that is no ordinary
/// file system, those that hold others first. Places that are `known` are left alone.
pub(super) fn cover_odd(
    tree: &OwnedFd,
    known: impl Fn(&Path) -> bool,
    cover: impl Fn(&Path, &OwnedFd) -> io::Result<()>,
) -> io::Result<()> {
    let mut points = points()?;
    points.sort();
    points.dedup();
    for point in points.into_iter().filter(|point| !known(point)) {
        let mount = match beneath_of(tree, &point) {
            // Hidden by what is above it, or where the tool cannot get either.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS) => continue,
            mount => mount?,
        };
        // Of a server that does not answer nothing can be told.
        if !is_ordinary(&mount).unwrap_or(false) {
            cover(&point, &mount)?;
        }
    }
    Ok(())
}

/// What is at `path` of the tree: never what a link there leads to, which may be of the
/// making of whoever writes to a granted directory.
pub(super) fn beneath_of(tree: &OwnedFd, path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS;
    openat2(tree, path, flags, Mode::empty(), resolve)
}

/// Where something is mounted in this process's mount namespace, by proc_pid_mountinfo(5).
pub(super) fn points() -> io::Result<Vec<PathBuf>> {
    let text = fs::read("/proc/self/mountinfo")?;
    let points = text.split(|byte| *byte == b'\n').filter_map(|line| {
        let point = line.split(|byte| *byte == b' ').nth(4)?;
        Some(PathBuf::from(OsString::from_vec(unescaped(point))))
    });
    Ok(points.collect())
}

/// Blanks, line ends and backslashes are written as three octal digits.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((byte, after)) = rest.split_first() {
        let number = match after {
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..] if *byte == b'\\' => {
                Some((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'))
            }
            _ => None,
        };
        text.push(number.unwrap_or(*byte));
        rest = if number.is_some() { &after[3..] } else { after };
    }
    text
}

fn change(mount: BorrowedFd<'_>, set: u64, owners: u64, recursive: bool) -> io::Result<()> {
    let attributes =
        libc::mount_attr { attr_set: set, attr_clr: 0, propagation: 0, userns_fd: owners };
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: a system call on a descriptor, an empty C string and a structure that is read,
    // with its size.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_of_mountinfo_are_read() {
        assert_eq!(unescaped(br"/a\040b\134c\012\011"), b"/a b\\c\n\t");
        assert_eq!(unescaped(br"/a\04"), br"/a\04");
        assert_eq!(unescaped(br"\400\"), br"\400\");
    }
}
