//! Replacing a regular file atomically: a temporary file beside it with the same
//! permissions and owner, flushed, then renamed over it.
//!
//! Every step after the target's directory is open is relative to that handle, with a single name,
//! so a change to the path meanwhile has no effect. Where the owner cannot be kept, or the name is
//! a mount of its own, the file is rewritten in place instead.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{Seek as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use ikigai_protocol::Access;
use ikigai_tools::ports::FsError;
use rustix::fs::{self, AtFlags, FileType, Gid, Mode, OFlags, RenameFlags, Stat, Uid};
use rustix::io::Errno;

use crate::errno::{meaning, meaning_of};
use crate::grants::Place;

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
pub(crate) struct Target {
    dir: OwnedFd,
    name: OsString,
    /// Set where nothing may be made beside it.
    alone: bool,
}

impl Target {
    pub(crate) fn of_caller(path: &Path) -> Result<Self, FsError> {
        let real = std::fs::canonicalize(path).map_err(|error| meaning_of(&error))?;
        let (Some(parent), Some(name)) = (real.parent(), real.file_name()) else {
            return Err(FsError::NotRegular);
        };
        let flags = HELD | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = fs::open(parent, flags, Mode::empty()).map_err(meaning)?;
        Ok(Self { dir, name: name.to_owned(), alone: false })
    }

    pub(crate) fn granted(place: &Place<'_>) -> Result<Self, FsError> {
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
pub(crate) fn replace(target: &Target, contents: &[u8]) -> Result<(), FsError> {
    // Opened although nothing is written through it: a caller that may not write the file may not
    // replace it either. A running executable cannot be opened for writing, and may be replaced.
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
    let (name, mut file) = create_beside(target)?;
    let outcome = fill(&mut file, contents, &stat).and_then(|()| rename(target, &name));
    if outcome.is_err() {
        // The first error is the one that is reported.
        let _ = fs::unlinkat(&target.dir, &name, AtFlags::empty());
    }
    match (outcome, existing) {
        (Ok(()), _) => {
            flush_directory(target);
            Ok(())
        }
        (Err(Step::Impossible), Some(existing)) => {
            lose_set_id(&existing)?;
            in_place(File::from(existing), contents)
        }
        (Err(Step::Impossible), None) => Err(FsError::Denied),
        (Err(Step::Failed(error)), _) => Err(error),
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
enum Step {
    /// The owner cannot be kept, or the target cannot be renamed over.
    Impossible,
    Failed(FsError),
}

fn create_beside(target: &Target) -> Result<(OsString, File), FsError> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    for _ in 0..NAME_TRIES {
        let name =
            OsString::from(format!(".ikigai-{:016x}", RandomState::new().build_hasher().finish()));
        match fs::openat(&target.dir, &name, flags, Mode::RUSR | Mode::WUSR) {
            Ok(fd) => return Ok((name, File::from(fd))),
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(meaning(errno)),
        }
    }
    Err(FsError::Other)
}

fn fill(file: &mut File, contents: &[u8], like: &Stat) -> Result<(), Step> {
    file.write_all(contents).map_err(|error| Step::Failed(meaning_of(&error)))?;
    let own = fs::fstat(&*file).map_err(|errno| Step::Failed(meaning(errno)))?;
    if (own.st_uid, own.st_gid) != (like.st_uid, like.st_gid) {
        let (owner, group) = (Uid::from_raw(like.st_uid), Gid::from_raw(like.st_gid));
        fs::fchown(&*file, Some(owner), Some(group)).map_err(|_| Step::Impossible)?;
    }
    let mode = Mode::from_raw_mode(like.st_mode) - SET_ID;
    fs::fchmod(&*file, mode).map_err(|errno| Step::Failed(meaning(errno)))?;
    file.sync_all().map_err(|error| Step::Failed(meaning_of(&error)))
}

fn rename(target: &Target, name: &OsStr) -> Result<(), Step> {
    match fs::renameat_with(&target.dir, name, &target.dir, &target.name, RenameFlags::empty()) {
        Ok(()) => Ok(()),
        // A file that is a mount of its own, as in containers.
        Err(Errno::BUSY | Errno::XDEV) => Err(Step::Impossible),
        Err(errno) => Err(Step::Failed(meaning(errno))),
    }
}

/// Flushes the directory. The rename is done and visible; this makes it survive a power cut, where
/// the directory can be opened for that.
fn flush_directory(target: &Target) {
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
