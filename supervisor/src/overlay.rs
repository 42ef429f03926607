//! Directories of the machine that a recording may write to: each under a file system that keeps
//! the changes in memory, and ends with the call (overlayfs).
//!
//! Owns the file systems. The directories beneath stay unchanged, and are kept open. An overlay
//! gives its files new inode numbers, so only the directory beneath tells which file is which.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    Access, AtFlags, CWD, Gid, Mode, OFlags, Uid, accessat, chmodat, chownat, fstat, mkdirat,
    openat,
};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_flag,
    fsconfig_set_string, fsmount, fsopen,
};

use super::mounts::{attach, beneath_of, has_mounts, identity};

/// A directory of the machine under an overlay.
pub(super) struct OverlayDir {
    /// The path of the directory and of its overlay.
    pub(super) path: PathBuf,
    /// The directory beneath.
    lower: OwnedFd,
    /// The number of the overlay's mount.
    mount: u64,
}

impl OverlayDir {
    /// Puts an overlay over the directory at `path`, which is the mount `lower`. The changes are
    /// kept in `changes`, a directory of an attached file system in memory.
    ///
    /// # Errors
    ///
    /// Fails if the kernel makes no overlay there, or other file systems are mounted in the
    /// directory. Those would be hidden, and the files beneath them would become visible.
    pub(super) fn over(path: &Path, lower: OwnedFd, changes: &OwnedFd) -> io::Result<Self> {
        if has_mounts(&lower)? {
            return Err(io::Error::other("other file systems are mounted in it"));
        }
        let part = |name: &str| -> io::Result<OwnedFd> {
            mkdirat(changes, name, Mode::from_raw_mode(0o755))?;
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            Ok(openat(changes, name, flags, Mode::empty())?)
        };
        let (upper, work) = (part("upper")?, part("work")?);
        let like = |upper: &OwnedFd| {
            let stat = fstat(&lower)?;
            let (user, group) = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
            let mode = match chownat(upper, c"", Some(user), Some(group), AtFlags::EMPTY_PATH) {
                Ok(()) => Mode::from_raw_mode(stat.st_mode),
                // The owner does not exist here. This user gets the rights that others have
                // there.
                Err(_) => rights(&lower),
            };
            let link = format!("/proc/self/fd/{}", upper.as_raw_fd());
            chmodat(CWD, link, mode, AtFlags::empty())
        };
        like(&upper)?;
        let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
        for (key, place) in [("lowerdir", &lower), ("upperdir", &upper), ("workdir", &work)] {
            fsconfig_set_string(&context, key, format!("/proc/self/fd/{}", place.as_raw_fd()))?;
        }
        // Without privileges a user can set only user attributes.
        fsconfig_set_flag(&context, "userxattr")?;
        fsconfig_create(&context)?;
        let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
        let overlay = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
        attach(&overlay, &lower, c"")?;
        Ok(Self { path: path.to_owned(), mount: identity(&overlay)?, lower })
    }

    /// Returns the number of the overlay's mount.
    pub(super) fn mount(&self) -> u64 {
        self.mount
    }

    /// Opens the file at a path in the directory beneath the overlay. Follows no link.
    pub(super) fn beneath(&self, path: &Path) -> Result<OwnedFd, Errno> {
        let rest = path.strip_prefix(&self.path).map_err(|_| Errno::XDEV)?;
        let rest = if rest == Path::new("") { Path::new(".") } else { rest };
        beneath_of(&self.lower, rest)
    }

    /// Returns the deepest directory on the way to a path that this process may not enter.
    pub(super) fn closed_on(&self, path: &Path) -> io::Result<PathBuf> {
        let above = path.ancestors().skip(1).take_while(|above| above.starts_with(&self.path));
        for above in above {
            match self.beneath(above) {
                Err(Errno::ACCESS) => {}
                opened => {
                    opened?;
                    return Ok(above.to_owned());
                }
            }
        }
        Ok(self.path.clone())
    }
}

/// Returns the overlay that a path is in.
pub(super) fn nearest<'a>(all: &'a [OverlayDir], path: &Path) -> Option<&'a OverlayDir> {
    let around = all.iter().filter(|over| path.starts_with(&over.path));
    around.max_by_key(|over| over.path.as_os_str().len())
}

/// Returns the overlay that a path is in, and closes the others.
pub(super) fn take_nearest(all: Vec<OverlayDir>, path: &Path) -> Option<OverlayDir> {
    let around = all.into_iter().filter(|over| path.starts_with(&over.path));
    around.max_by_key(|over| over.path.as_os_str().len())
}

/// Returns a mode for a directory of this user, such that this user has the same rights in it as
/// in `other`, which belongs to another user.
fn rights(other: &OwnedFd) -> Mode {
    let may = |right, mode: Mode| match accessat(other, c".", right, AtFlags::EACCESS) {
        // The directory is mounted read-only, which the kernel checks last.
        Ok(()) | Err(Errno::ROFS) => mode,
        Err(_) => Mode::empty(),
    };
    let read = may(Access::READ_OK, Mode::RUSR | Mode::RGRP | Mode::ROTH);
    let write = may(Access::WRITE_OK, Mode::WUSR | Mode::WGRP | Mode::WOTH);
    read | write | may(Access::EXEC_OK, Mode::XUSR | Mode::XGRP | Mode::XOTH)
}
