//! The errors of downloads, and what the user can do about them.

use std::io;
use std::path::{Path, PathBuf};

use ikigai_protocol::Digest;

use super::partial::STALLED;
use crate::file_error::FileError;
use crate::oci::OciError;

/// The reason why a file was not downloaded. The cache has no file under its digest.
#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    /// The server's answer cannot be used.
    #[error(transparent)]
    Oci(#[from] OciError),
    /// The bytes did not have the requested digest, twice.
    #[error("{what} should have the digest sha256:{expected} and has sha256:{found}")]
    Digest {
        /// The file.
        what: String,
        /// The requested digest.
        expected: Digest,
        /// The digest of the bytes that arrived.
        found: Digest,
    },
    /// The server sent a different part of the file than requested.
    #[error("the server sends another part of {what} than it was asked for")]
    Range {
        /// The file.
        what: String,
    },
    /// The answer ended too early.
    #[error("{what} ended after {length} of {total} bytes")]
    Short {
        /// The file.
        what: String,
        /// The expected size in bytes.
        total: u64,
        /// The number of bytes that arrived.
        length: u64,
    },
    /// The file is larger than a tool may be.
    #[error("{what} has {}, and a tool has at most {most}", size.map_or("too many bytes".to_owned(), |size| format!("{size} bytes")))]
    TooLarge {
        /// The file.
        what: String,
        /// The size that the server reports, in bytes.
        size: Option<u64>,
        /// The maximum size in bytes.
        most: u64,
    },
    /// The answer is a web page.
    #[error("{what} is a web page, not a tool")]
    WebPage {
        /// The file.
        what: String,
    },
    /// Another process downloads the same file, and makes no progress.
    #[error(
        "another process has locked `{}`, and its download has made no progress for {}",
        path.display(),
        humantime::format_duration(STALLED)
    )]
    Held {
        /// The file that the process has locked.
        path: PathBuf,
    },
    /// A file of this machine cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
}

impl DownloadError {
    /// Returns the error for a file of the cache.
    pub(super) fn file(path: &Path, error: io::Error) -> Self {
        Self::File(FileError::new(path, error))
    }

    /// Returns whether another attempt may succeed.
    pub(super) fn is_passing(&self) -> bool {
        match self {
            Self::Oci(error) => error.is_passing(),
            Self::Range { .. } | Self::Short { .. } => true,
            Self::Digest { .. }
            | Self::TooLarge { .. }
            | Self::WebPage { .. }
            | Self::Held { .. }
            | Self::File(_) => false,
        }
    }

    /// Returns true if the downloaded bytes are useless for another attempt, or in its way.
    pub(super) fn spoils_the_part(&self) -> bool {
        matches!(
            self,
            Self::TooLarge { .. } | Self::WebPage { .. } | Self::File(FileError::DiskFull(_))
        )
    }

    /// Returns what the user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Oci(error) => error.hint(),
            Self::Digest { .. } => Some(
                "nothing was installed; do not use the file, and tell the server's operator"
                    .to_owned(),
            ),
            Self::Range { .. } | Self::Short { .. } => Some("try again later".to_owned()),
            Self::WebPage { .. } => Some(
                "name the file itself, which a browser shows as `raw` or `download`".to_owned(),
            ),
            Self::Held { .. } => Some("end that process, then try again".to_owned()),
            Self::File(error) => error.hint(),
            Self::TooLarge { .. } => None,
        }
    }
}
