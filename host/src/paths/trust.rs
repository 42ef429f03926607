//! The check of the users who may write to a file or a directory.
//!
//! Owns the rules by which a file or a directory is trusted: by its own mode and owner, and by
//! the directories on the way to it (`ancestors`). Owns as well what the user of this process
//! can change (`changeable`), because a tool runs as that user. What follows from an answer is
//! decided by the caller.

mod ancestors;
mod changeable;

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use super::open_regular;

pub use ancestors::{UntrustedAncestor, check_ancestors};
pub(crate) use changeable::{is_changeable, other_names};

/// The bits of a mode that let others than the owner write.
const OTHERS_WRITE: u32 = 0o022;

/// A user besides the trusted owners who may write to a file or a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherWriter {
    /// The owner, who is not trusted, by the user's id.
    Owner(u32),
    /// Others than the owner, by the mode of the file.
    Mode(u32),
}

/// Returns who may write to a file or a directory besides an `owner` who is trusted.
#[must_use]
pub fn other_writer(found: &fs::Metadata, owner: impl Fn(u32) -> bool) -> Option<OtherWriter> {
    if !owner(found.uid()) {
        return Some(OtherWriter::Owner(found.uid()));
    }
    (found.mode() & OTHERS_WRITE != 0).then(|| OtherWriter::Mode(found.mode() & 0o7777))
}

/// Returns whether this is the user that the host runs as.
#[must_use]
pub fn is_own(uid: u32) -> bool {
    uid == rustix::process::geteuid().as_raw()
}

/// Returns the owner of the running program.
#[must_use]
pub fn program_owner() -> Option<u32> {
    let program = std::env::current_exe().ok()?;
    Some(fs::metadata(program).ok()?.uid())
}

/// Returns whether `dir` is a directory, not a link to one, that belongs to an `owner` who is
/// trusted and that nobody else may write to or replace.
pub fn is_trusted(dir: &Path, owner: impl Fn(u32) -> bool) -> bool {
    let is_safe = |found: fs::Metadata| found.is_dir() && other_writer(&found, &owner).is_none();
    fs::symlink_metadata(dir).is_ok_and(is_safe) && check_ancestors(dir, owner).is_ok()
}

/// Opens a regular file as [`open_regular`] does, if it belongs to an `owner` who is trusted and
/// nobody else may write to it or replace it.
///
/// # Errors
///
/// It is something else, or cannot be opened.
pub(crate) fn open_trusted(path: &Path, owner: impl Fn(u32) -> bool) -> io::Result<fs::File> {
    let (file, metadata) = open_regular(path)?;
    check_trusted(&metadata, &owner)?;
    check_ancestors(path, owner)?;
    Ok(file)
}

/// Checks that an open file is a regular one, belongs to an `owner` who is trusted, and that
/// nobody else may write to it.
///
/// # Errors
///
/// It is something else.
pub(super) fn check_trusted(file: &fs::Metadata, owner: impl Fn(u32) -> bool) -> io::Result<()> {
    if !file.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    match other_writer(file, owner) {
        Some(_) => Err(io::Error::other("somebody else may have written it")),
        None => Ok(()),
    }
}

/// Opens a directory, not a link to one, that belongs to an `owner` who is trusted and that
/// nobody else may write to or replace.
///
/// # Errors
///
/// It is something else, or cannot be opened.
pub(crate) fn open_trusted_dir(path: &Path, owner: impl Fn(u32) -> bool) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = fs::File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if other_writer(&dir.metadata()?, &owner).is_some() {
        let why = format!("somebody else may write to `{}`", path.display());
        return Err(io::Error::other(why));
    }
    check_ancestors(path, owner)?;
    Ok(dir.into())
}
