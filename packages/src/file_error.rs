//! The error of a file on this machine that is read or written.

use std::io;
use std::path::{Path, PathBuf};

/// The reason why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The disk or the quota is full.
    #[error("no space is left for `{}`", .0.display())]
    DiskFull(PathBuf),
    /// Another error of the system.
    #[error("`{}` cannot be used", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// The error.
        #[source]
        error: io::Error,
    },
}

impl FileError {
    pub(crate) fn new(path: &Path, error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::DiskFull(path.to_owned())
            }
            _ => Self::Unusable { path: path.to_owned(), error },
        }
    }

    /// Returns what the user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::DiskFull(_) => Some("free space, and run it again".to_owned()),
            Self::Unusable { .. } => None,
        }
    }
}
