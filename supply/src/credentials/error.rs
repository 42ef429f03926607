//! The errors of credentials. None repeats what a file or a helper said of a secret.

use std::path::PathBuf;
use std::time::Duration;

/// A credential that is configured and cannot be had.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CredentialError {
    /// A file is not as docker or podman write it.
    #[error("`{}` has no readable credentials: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The fault.
        reason: String,
    },
    /// The name of a helper is none.
    #[error("`{0}` is not the name of a credential helper")]
    HelperName(String),
    /// The helper cannot be started.
    #[error("the credential helper `{program}` cannot be started: {reason}")]
    NoHelper {
        /// The program.
        program: String,
        /// The system's message.
        reason: String,
    },
    /// The helper failed.
    #[error("the credential helper `{program}` failed for `{server}`: {reason}")]
    Helper {
        /// The program.
        program: String,
        /// The registry that it was asked about.
        server: String,
        /// The fault, or the message of the helper.
        reason: String,
    },
    /// The helper did not end.
    #[error("the credential helper `{program}` took more than {after:?}")]
    HelperTime {
        /// The program.
        program: String,
        /// The time that was waited.
        after: Duration,
    },
}

impl CredentialError {
    /// Returns what to do about it.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::File { .. } | Self::HelperName(_) => {
                "correct the file, or log in anew with `docker login` or `podman login`"
            }
            Self::NoHelper { .. } => {
                "install the helper, or remove its name from the configuration of docker or podman"
            }
            Self::Helper { .. } | Self::HelperTime { .. } => {
                "log in anew with `docker login` or `podman login`"
            }
        }
    }
}
