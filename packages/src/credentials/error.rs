//! The errors of credentials. They never quote a secret from a file or a helper.

use std::path::PathBuf;
use std::time::Duration;

/// The reason why a configured credential cannot be obtained.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CredentialError {
    /// A file does not have the format of docker or podman.
    #[error("`{}` has no readable credentials: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The fault.
        reason: String,
    },
    /// The name of a helper is not valid.
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
    /// The helper may not be started.
    #[error("the credential helper `{program}` was not started: {reason}")]
    HelperRefused {
        /// The program.
        program: String,
        /// The reason of the check.
        reason: String,
    },
    /// The helper failed.
    #[error("the credential helper `{program}` failed for `{server}`: {reason}")]
    Helper {
        /// The program.
        program: String,
        /// The registry whose credential was requested.
        server: String,
        /// The fault, or the message of the helper.
        reason: String,
    },
    /// The helper did not end in time.
    #[error("the credential helper `{program}` took more than {after:?}")]
    HelperTime {
        /// The program.
        program: String,
        /// The time that ikigai waited.
        after: Duration,
    },
}

impl CredentialError {
    /// Returns what the user can do about it.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::File { .. } | Self::HelperName(_) => {
                "correct the file, or log in anew with `docker login` or `podman login`"
            }
            Self::NoHelper { .. } | Self::HelperRefused { .. } => {
                "install the helper, or remove its name from the configuration of docker or podman"
            }
            Self::Helper { .. } | Self::HelperTime { .. } => {
                "log in anew with `docker login` or `podman login`"
            }
        }
    }
}
