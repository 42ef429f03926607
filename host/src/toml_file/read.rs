//! Reads a settings file: a policy, or the configuration of a program.
//!
//! Owns how such a file is opened, the limit of its size, and the check that only trusted users
//! could write it. The caller words the refusal.

use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::paths::{self, OtherWriter, UntrustedAncestor};

/// The rules for reading a settings file.
#[derive(Clone, Copy, Debug)]
pub struct ReadRules {
    /// The largest file that is read, in bytes.
    pub largest: u64,
    /// True if a symbolic link is followed.
    pub follows_links: bool,
    /// The users who may own the file and the directories on the way to it. Other users must not be
    /// able to write to them. Without this rule, any user may have written the file.
    pub owner: Option<fn(u32) -> bool>,
}

/// A settings file that was not read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file does not exist.
    #[error("{0}")]
    Missing(io::Error),
    /// A directory on the way to the file cannot be entered, so it is unknown whether the file
    /// exists.
    #[error(transparent)]
    Hidden(ClosedDir),
    /// The same, and the directory belongs to another user, as with `sudo -u`. Its contents do not
    /// concern the user of this process.
    #[error("{0}, which belongs to another user")]
    Foreign(ClosedDir),
    /// The file is a symbolic link, which is not followed.
    #[error("it is a symbolic link")]
    Link,
    /// The file cannot be opened or read, or is not a regular file.
    #[error("{0}")]
    Unreadable(io::Error),
    /// Another user may have written the file, because of its owner or mode.
    #[error("another user may have written it")]
    OtherWriter(OtherWriter),
    /// Another user may have replaced the file, because of a directory on the way to it.
    #[error(transparent)]
    Ancestor(UntrustedAncestor),
    /// The file is larger than this number of bytes.
    #[error("it is larger than {0} bytes")]
    TooLarge(u64),
}

/// A directory that this process cannot enter.
#[derive(Debug, thiserror::Error)]
#[error("you may not enter the directory `{}`", path.display())]
pub struct ClosedDir {
    /// The path of the directory.
    pub path: PathBuf,
}

impl ClosedDir {
    /// Returns the first directory on the way to a path that cannot be entered.
    fn before(path: &Path) -> Option<Self> {
        let mut dirs: Vec<&Path> = path.ancestors().skip(1).collect();
        dirs.reverse();
        let is_closed = |dir: &&Path| {
            let entered = fs::symlink_metadata(dir.join("."));
            entered.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
        };
        dirs.into_iter().find(is_closed).map(|path| Self { path: path.to_owned() })
    }

    /// Returns whether the directory is known to belong to another user. Follows a link.
    fn is_of_another_user(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|metadata| !paths::is_own(metadata.uid()))
    }

    /// Returns the step that opens the directory.
    #[must_use]
    pub fn hint(&self) -> String {
        format!("chmod u+rwx {}", self.path.display())
    }
}

/// Returns the text of a regular file, unless another user may have written it. Never blocks,
/// unlike opening a FIFO.
///
/// # Errors
///
/// Fails if the file does not exist, cannot be read, or is not allowed by the rules.
pub fn read(path: &Path, rules: ReadRules) -> Result<Vec<u8>, ReadError> {
    let opened = match rules.follows_links {
        true => paths::open_regular_behind_links(path),
        false => paths::open_regular(path),
    };
    let (file, metadata) = opened.map_err(|error| ReadError::of_opening(path, rules, error))?;
    if let Some(owner) = rules.owner {
        if let Some(writer) = paths::other_writer(&metadata, owner) {
            return Err(ReadError::OtherWriter(writer));
        }
        paths::check_ancestors(path, owner).map_err(ReadError::Ancestor)?;
    }
    let mut text = Vec::new();
    file.take(rules.largest + 1).read_to_end(&mut text).map_err(ReadError::Unreadable)?;
    if text.len() as u64 > rules.largest {
        return Err(ReadError::TooLarge(rules.largest));
    }
    Ok(text)
}

impl ReadError {
    fn of_opening(path: &Path, rules: ReadRules, error: io::Error) -> Self {
        use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
        let is_loop = || error.raw_os_error() == Some(Errno::LOOP.raw_os_error());
        match error.kind() {
            NotFound | NotADirectory => Self::Missing(error),
            PermissionDenied => match ClosedDir::before(path) {
                Some(dir) if dir.is_of_another_user() => Self::Foreign(dir),
                Some(dir) => Self::Hidden(dir),
                None => Self::Unreadable(error),
            },
            _ if !rules.follows_links && is_loop() => Self::Link,
            _ => Self::Unreadable(error),
        }
    }
}
