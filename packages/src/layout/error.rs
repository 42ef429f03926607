//! The errors of layouts, and what the user can do about them.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::file_error::FileError;
use crate::harmless;
use crate::oci::OciError;

/// The reason why a layout cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum LayoutError {
    /// An artifact in the layout, or one that was to be copied, is not usable.
    #[error(transparent)]
    Oci(#[from] OciError),
    /// The version of the format is newer, or missing.
    #[error("`{}` has the version `{version}`; expected 1.0.0", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// The version.
        version: String,
    },
    /// The directory is used for something else.
    #[error("`{}` is not empty, and is not a layout", .0.display())]
    NotEmpty(PathBuf),
    /// Another process adds to the layout.
    #[error(
        "another process has had `{}` locked for {}",
        directory.display(),
        humantime::format_duration(*waited)
    )]
    Held {
        /// The directory of the layout.
        directory: PathBuf,
        /// The duration of the wait.
        waited: Duration,
    },
    /// A file of this machine cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
}

impl LayoutError {
    pub(super) fn file(path: &Path, error: io::Error) -> Self {
        Self::File(FileError::new(path, error))
    }

    /// Converts the error into an error of an artifact.
    pub(super) fn into_oci(self) -> OciError {
        match self {
            Self::Oci(error) => error,
            Self::File(FileError::Unusable { path, error }) => OciError::Unreadable {
                path: harmless::line(&path.to_string_lossy()),
                reason: error.to_string(),
            },
            Self::Version { ref path, .. }
            | Self::NotEmpty(ref path)
            | Self::Held { directory: ref path, .. }
            | Self::File(FileError::DiskFull(ref path)) => {
                let path = harmless::line(&path.to_string_lossy());
                OciError::Unreadable { path, reason: self.to_string() }
            }
        }
    }

    /// Returns what the user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Oci(error) => error.hint(),
            Self::NotEmpty(_) => {
                Some("name an empty directory, or one that is not there yet".to_owned())
            }
            Self::Held { .. } => Some("end that process, then try again".to_owned()),
            Self::File(error) => error.hint(),
            Self::Version { .. } => Some("use a newer ikigai".to_owned()),
        }
    }
}
