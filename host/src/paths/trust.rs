//! The check of the users who may write to a file or a directory.
//!
//! Owns the rules by which a file or a directory is trusted: by its own mode and owner, and by the
//! directories on the way to it (`ancestors`). Also owns the check of what the user of this process
//! can change (`changeable`), because a tool runs as that user. The caller decides what follows
//! from a result.

mod ancestors;
mod changeable;

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use super::{open_regular, running_program};

pub use ancestors::{UntrustedAncestor, check_ancestors};
pub(crate) use changeable::{is_changeable, other_names};

/// The bits of a mode that let users other than the owner write.
const OTHERS_WRITE: u32 = 0o022;

/// An untrusted user who may write to a file or a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherWriter {
    /// The owner, who is not trusted, as a user ID.
    Owner(u32),
    /// Users other than the owner, through the mode of the file.
    Mode(u32),
}

/// Returns the untrusted user who may write to a file or a directory, if any. `owner` returns
/// whether an owner is trusted.
#[must_use]
pub fn other_writer(found: &fs::Metadata, owner: impl Fn(u32) -> bool) -> Option<OtherWriter> {
    if !owner(found.uid()) {
        return Some(OtherWriter::Owner(found.uid()));
    }
    (found.mode() & OTHERS_WRITE != 0).then(|| OtherWriter::Mode(found.mode() & 0o7777))
}

/// Returns whether the host runs as this user.
#[must_use]
pub fn is_own(uid: u32) -> bool {
    uid == rustix::process::geteuid().as_raw()
}

/// Returns the owner of the running program.
#[must_use]
pub fn program_owner() -> Option<u32> {
    Some(fs::metadata(running_program().ok()?).ok()?.uid())
}

/// Returns whether `dir` is a directory, and not a link, that belongs to a trusted `owner` and that
/// other users can neither write to nor replace.
pub fn is_trusted(dir: &Path, owner: impl Fn(u32) -> bool) -> bool {
    let is_safe = |found: fs::Metadata| found.is_dir() && other_writer(&found, &owner).is_none();
    fs::symlink_metadata(dir).is_ok_and(is_safe) && check_ancestors(dir, owner).is_ok()
}

/// Opens a regular file as [`open_regular`] does, if it belongs to a trusted `owner`, and other
/// users can neither write to it nor replace it.
///
/// # Errors
///
/// Fails if it is not such a file, or cannot be opened.
pub(crate) fn open_trusted(path: &Path, owner: impl Fn(u32) -> bool) -> io::Result<fs::File> {
    let (file, metadata) = open_regular(path)?;
    check_trusted(&metadata, &owner)?;
    check_ancestors(path, owner)?;
    Ok(file)
}

/// Checks that an open file is regular and belongs to a trusted `owner`, and that other users may
/// not write to it.
///
/// # Errors
///
/// Fails if it is not such a file.
pub(super) fn check_trusted(file: &fs::Metadata, owner: impl Fn(u32) -> bool) -> io::Result<()> {
    if !file.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    match other_writer(file, owner) {
        Some(_) => Err(io::Error::other("another user may have written it")),
        None => Ok(()),
    }
}

/// Opens a directory, but not a link, that belongs to a trusted `owner` and that other users can
/// neither write to nor replace.
///
/// # Errors
///
/// Fails if it is not such a directory, or cannot be opened.
pub(crate) fn open_trusted_dir(path: &Path, owner: impl Fn(u32) -> bool) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = fs::File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if other_writer(&dir.metadata()?, &owner).is_some() {
        let why = format!("another user may write to `{}`", path.display());
        return Err(io::Error::other(why));
    }
    check_ancestors(path, owner)?;
    Ok(dir.into())
}
