//! The file that a path outside of the grant leads to, opened without a right to its contents.

use std::fs::canonicalize;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};

use super::hidden::{HiddenPaths, real_path};
use super::ordinary::is_allowed;

/// The file at the end of a path. Paths are absolute, without links.
pub(super) enum PathTarget {
    /// A regular file.
    File { path: PathBuf, open: OwnedFd },
    /// A directory.
    Directory { path: PathBuf, open: OwnedFd },
    /// An entry of a directory, usually a file that is to be made.
    Entry { path: PathBuf, parent: OwnedFd, name: String },
}

/// The entries of a directory that a change applies to: existing ones, missing ones, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Existing {
    Yes,
    No,
    Either,
}

impl PathTarget {
    /// Returns the first of several paths at which something exists or could be made.
    pub(super) fn find(candidates: &[PathBuf], follows: bool, creates: bool) -> Option<Self> {
        let existing = candidates.iter().find_map(|path| Self::existing(path, follows));
        existing.or_else(|| {
            creates
                .then(|| candidates.iter().find_map(|path| Self::entry(path, Existing::No)))
                .flatten()
        })
    }

    fn existing(path: &Path, follows: bool) -> Option<Self> {
        let path = match (path.parent(), path.file_name()) {
            (Some(parent), Some(name)) if !follows => canonicalize(parent).ok()?.join(name),
            _ => canonicalize(path).ok()?,
        };
        // No question is about the whole file system.
        let (open, kind) = seen(&path).filter(|_| path != Path::new("/"))?;
        match kind {
            FileType::RegularFile => Some(Self::File { path, open }),
            FileType::Directory => Some(Self::Directory { path, open }),
            _ => None,
        }
    }

    /// Returns the directory and the name of an entry that is to be changed itself.
    pub(super) fn entry(path: &Path, existing: Existing) -> Option<Self> {
        let (parent, name) = (canonicalize(path.parent()?).ok()?, path.file_name()?);
        // A link that leads nowhere is there, too.
        let is_there = || parent.join(name).symlink_metadata().is_ok();
        let is_wanted = match existing {
            Existing::Yes => is_there(),
            Existing::No => !is_there(),
            Existing::Either => true,
        };
        if parent == Path::new("/") || !is_wanted {
            return None;
        }
        let name = name.to_str()?.to_owned();
        match seen(&parent)? {
            (open, FileType::Directory) => Some(Self::Entry { path: parent, parent: open, name }),
            _ => None,
        }
    }

    /// Returns the path that the user is asked about: the file, or the directory in which it is to
    /// be made.
    pub(super) fn path(&self) -> &Path {
        let (Self::File { path, .. } | Self::Directory { path, .. } | Self::Entry { path, .. }) =
            self;
        path
    }

    /// Returns the path of the file, the directory or the entry itself.
    pub(super) fn itself(&self) -> PathBuf {
        match self {
            Self::File { path, .. } | Self::Directory { path, .. } => path.clone(),
            Self::Entry { path, name, .. } => path.join(name),
        }
    }

    /// Returns whether it is hidden from the guest. Then the user is not asked about it.
    pub(super) fn is_hidden(&self, hidden: Option<&HiddenPaths>) -> bool {
        let Some(hidden) = hidden else { return false };
        let hides = |path: &Path| hidden.is_hidden_anywhere(path) || hidden.has_hidden_name(path);
        match self {
            Self::File { path, open } => {
                hides(path)
                    || path
                        .parent()
                        .is_none_or(|root| hidden.check_open(root, open.as_fd()).is_err())
            }
            Self::Directory { path, .. } => hides(path),
            Self::Entry { .. } => hides(&self.itself()),
        }
    }
}

/// Opens the file at a path without links. Nothing can be read or written through it. Fails if the
/// file is a device or lies in a file system of the kernel, and if a link was put on the way in the
/// meantime.
fn seen(path: &Path) -> Option<(OwnedFd, FileType)> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = openat(CWD, path, flags, Mode::empty()).ok()?;
    let kind = FileType::from_raw_mode(fstat(&open).ok()?.st_mode);
    let is_there = real_path(open.as_fd()).is_ok_and(|real| real == path);
    (is_there && is_allowed(open.as_fd())).then_some((open, kind))
}
