//! Replaces a regular file atomically. A temporary file in the same directory gets the same
//! permissions and owner, is flushed, and is then renamed over the target. On Linux the file has a
//! name only between the last two steps, so a killed process leaves no file behind.
//!
//! Once the target's directory is open, every step is relative to that handle, with a single name.
//! So a concurrent change to the path has no effect. If the owner cannot be kept, or the target is
//! a mount point, the file is rewritten in place instead.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{Seek as _, Write as _};
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd as _;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use ikigai_protocol::Access;
use ikigai_tools::ports::FsError;
use rustix::fs::{self, AtFlags, FileType, Gid, Mode, OFlags, RenameFlags, Stat, Uid};
use rustix::io::Errno;

use crate::errno::{meaning, meaning_of};
use crate::grants::GrantedPath;

/// The number of names that are tried; each is 64 random bits.
const NAME_TRIES: u32 = 16;

/// The bits that a file loses with its contents: they were granted to the old contents.
const SET_ID: Mode = Mode::SUID.union(Mode::SGID);

/// The mode for opening a directory to name files in it, which needs no right to read it on systems
/// with `O_PATH`.
#[cfg(target_os = "linux")]
const HELD: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const HELD: OFlags = OFlags::RDONLY;

/// A file by its directory's handle and its name there, with links already followed.
#[derive(Debug)]
pub(crate) struct ReplaceTarget {
    dir: OwnedFd,
    name: OsString,
    /// Set if no other file may be created in the directory.
    alone: bool,
}

impl ReplaceTarget {
    pub(crate) fn of_caller(path: &Path) -> Result<Self, FsError> {
        let real = std::fs::canonicalize(path).map_err(|error| meaning_of(&error))?;
        let (Some(parent), Some(name)) = (real.parent(), real.file_name()) else {
            return Err(FsError::NotRegular);
        };
        let flags = HELD | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = fs::open(parent, flags, Mode::empty()).map_err(meaning)?;
        Ok(Self { dir, name: name.to_owned(), alone: false })
    }

    pub(crate) fn granted(place: &GrantedPath<'_>) -> Result<Self, FsError> {
        if place.access == Access::ReadOnly {
            return Err(FsError::ReadOnlyGrant);
        }
        let real = place.dir.canonicalize(&place.path).map_err(|error| meaning_of(&error))?;
        let name = real.file_name().ok_or(FsError::NotRegular)?;
        let parent = real.parent().filter(|parent| !parent.as_os_str().is_empty());
        let dir = place.dir.open_dir(parent.unwrap_or(Path::new(".")));
        let dir = dir.map_err(|error| meaning_of(&error))?.into_std_file().into();
        Ok(Self { dir, name: name.to_owned(), alone: place.alone })
    }
}

/// Replaces the contents of `target`.
pub(crate) fn replace(target: &ReplaceTarget, contents: &[u8]) -> Result<(), FsError> {
    // The file is opened although nothing is written through it: a caller that may not write the
    // file may not replace it either. A running executable cannot be opened for writing, and may be
    // replaced.
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let existing = match fs::openat(&target.dir, &target.name, flags, Mode::empty()) {
        Ok(fd) => Some(fd),
        Err(Errno::TXTBSY) => None,
        Err(errno) => return Err(meaning(errno)),
    };
    let stat = match &existing {
        Some(fd) => fs::fstat(fd),
        None => fs::statat(&target.dir, &target.name, AtFlags::SYMLINK_NOFOLLOW),
    };
    let stat = stat.map_err(meaning)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(FsError::NotRegular);
    }
    if target.alone {
        let existing = existing.ok_or(FsError::Denied)?;
        lose_set_id(&existing)?;
        return in_place(File::from(existing), contents);
    }
    let mut draft = Draft::beside(target)?;
    let outcome = fill(&mut draft.file, contents, &stat).and_then(|()| draft.rename(target));
    if let (Err(_), Some(name)) = (&outcome, &draft.name) {
        // The first error is the one that is reported.
        let _ = fs::unlinkat(&target.dir, name, AtFlags::empty());
    }
    match (outcome, existing) {
        (Ok(()), _) => {
            flush_directory(target);
            Ok(())
        }
        (Err(ReplaceFailure::Impossible), Some(existing)) => {
            lose_set_id(&existing)?;
            in_place(File::from(existing), contents)
        }
        (Err(ReplaceFailure::Impossible), None) => Err(FsError::Denied),
        (Err(ReplaceFailure::Failed(error)), _) => Err(error),
    }
}

/// Removes setuid and setgid from a file that is about to be written in place. The kernel does so
/// for everyone but root, and leaves a setgid that has no effect.
pub(crate) fn lose_set_id(file: impl AsFd) -> Result<(), FsError> {
    let mode = Mode::from_raw_mode(fs::fstat(&file).map_err(meaning)?.st_mode);
    let has_effect = mode.contains(Mode::SUID) || mode.contains(Mode::SGID | Mode::XGRP);
    if has_effect { fs::fchmod(file, mode - SET_ID).map_err(meaning) } else { Ok(()) }
}

/// The reason why the temporary file did not replace the target.
enum ReplaceFailure {
    /// The owner cannot be kept, or the target cannot be renamed over.
    Impossible,
    Failed(FsError),
}

/// The new contents, until they have the target's name.
struct Draft {
    file: File,
    /// The temporary name, which stays behind if this process is killed. `None` while the file has
    /// no name.
    name: Option<OsString>,
}

impl Draft {
    /// Makes an empty file in the target's directory: without a name, if the file system can do
    /// that.
    fn beside(target: &ReplaceTarget) -> Result<Self, FsError> {
        #[cfg(target_os = "linux")]
        if let Ok(fd) = fs::openat(
            &target.dir,
            ".",
            OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC,
            Mode::RUSR | Mode::WUSR,
        ) {
            return Ok(Self { file: File::from(fd), name: None });
        }
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let (name, fd) = named(|name| fs::openat(&target.dir, name, flags, mode))?;
        Ok(Self { file: File::from(fd), name: Some(name) })
    }

    /// Gives the file the target's name.
    fn rename(&mut self, target: &ReplaceTarget) -> Result<(), ReplaceFailure> {
        #[cfg(target_os = "linux")]
        if self.name.is_none() {
            // A file without a name cannot replace another, so it first gets a name.
            let own = format!("/proc/self/fd/{}", self.file.as_raw_fd());
            let follow = AtFlags::SYMLINK_FOLLOW;
            let link = |name: &OsStr| fs::linkat(fs::CWD, &own, &target.dir, name, follow);
            self.name = Some(named(link).map_err(ReplaceFailure::Failed)?.0);
        }
        match &self.name {
            Some(name) => rename(target, name),
            None => Err(ReplaceFailure::Impossible),
        }
    }
}

/// Tries to make something with a free name, and returns the name.
fn named<T>(
    mut make: impl FnMut(&OsStr) -> rustix::io::Result<T>,
) -> Result<(OsString, T), FsError> {
    for _ in 0..NAME_TRIES {
        let name =
            OsString::from(format!(".ikigai-{:016x}", RandomState::new().build_hasher().finish()));
        match make(&name) {
            Ok(made) => return Ok((name, made)),
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(meaning(errno)),
        }
    }
    Err(FsError::Other)
}

fn fill(file: &mut File, contents: &[u8], like: &Stat) -> Result<(), ReplaceFailure> {
    file.write_all(contents).map_err(|error| ReplaceFailure::Failed(meaning_of(&error)))?;
    let own = fs::fstat(&*file).map_err(|errno| ReplaceFailure::Failed(meaning(errno)))?;
    if (own.st_uid, own.st_gid) != (like.st_uid, like.st_gid) {
        let (owner, group) = (Uid::from_raw(like.st_uid), Gid::from_raw(like.st_gid));
        fs::fchown(&*file, Some(owner), Some(group)).map_err(|_| ReplaceFailure::Impossible)?;
    }
    let mode = Mode::from_raw_mode(like.st_mode) - SET_ID;
    fs::fchmod(&*file, mode).map_err(|errno| ReplaceFailure::Failed(meaning(errno)))?;
    file.sync_all().map_err(|error| ReplaceFailure::Failed(meaning_of(&error)))
}

fn rename(target: &ReplaceTarget, name: &OsStr) -> Result<(), ReplaceFailure> {
    match fs::renameat_with(&target.dir, name, &target.dir, &target.name, RenameFlags::empty()) {
        Ok(()) => Ok(()),
        // The file is a mount point, as in containers.
        Err(Errno::BUSY | Errno::XDEV) => Err(ReplaceFailure::Impossible),
        Err(errno) => Err(ReplaceFailure::Failed(meaning(errno))),
    }
}

/// Flushes the directory. The rename is done and visible. Flushing makes it survive a power cut, if
/// the directory can be opened for that.
fn flush_directory(target: &ReplaceTarget) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    if let Ok(dir) = fs::openat(target.dir.as_fd(), ".", flags, Mode::empty()) {
        let _ = fs::fsync(dir);
    }
}

fn in_place(mut file: File, contents: &[u8]) -> Result<(), FsError> {
    let written = file.rewind().and_then(|()| file.write_all(contents));
    let written = written.and_then(|()| file.set_len(contents.len() as u64));
    written.and_then(|()| file.sync_all()).map_err(|error| meaning_of(&error))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn new_contents_have_no_name_before_they_are_whole() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("file");
        std::fs::write(&path, "old").expect("written");
        let names = || {
            let entries = std::fs::read_dir(dir.path()).expect("listed").flatten();
            entries.map(|entry| entry.file_name()).collect::<Vec<_>>()
        };
        let target = ReplaceTarget::of_caller(&path).expect("a target");
        let mut draft = Draft::beside(&target).expect("made");
        draft.file.write_all(b"new").expect("written");
        assert_eq!(names(), ["file"]);
        assert!(draft.rename(&target).is_ok());
        assert_eq!(names(), ["file"]);
        assert_eq!(std::fs::read(&path).expect("read"), b"new");
    }
}
