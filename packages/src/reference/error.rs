//! The errors of references. They show the valid forms.

use std::io;
use std::path::PathBuf;

/// The forms of a reference, for the hint of an error.
const FORMS: &str = "a reference is a file, a directory with `tool.toml` or `oci-layout`, \
     `https://HOST/FILE.wasm[#sha256=HEX]` or `HOST/REPO[:TAG][@sha256:HEX]`";

/// The reason why a text is not a reference, or a path does not lead to a tool.
#[derive(Debug, thiserror::Error)]
pub enum ReferenceError {
    /// The text is empty.
    #[error("the reference is empty")]
    Empty,
    /// The text has a control character.
    #[error("`{0}` has a control character")]
    ControlCharacter(String),
    /// The scheme belongs to another program.
    #[error("`{text}` has the scheme of another program")]
    Scheme {
        /// The text.
        text: String,
        /// The same reference as ikigai writes it.
        instead: String,
    },
    /// ikigai does not know the scheme.
    #[error("`{0}` has an unknown scheme")]
    UnknownScheme(String),
    /// The text is not the address of a file.
    #[error("`{text}` is not the address of a file: {reason}")]
    Url {
        /// The text.
        text: String,
        /// The fault.
        reason: String,
    },
    /// The text contains a user or a password, so it is not repeated.
    #[error("the reference has a user or a password in it")]
    Credential,
    /// The query of an address looks like a credential, so the text is not repeated.
    #[error("the reference has a query that looks like a credential, which ikigai would store")]
    CredentialInQuery,
    /// The answer could be forged in transit.
    #[error("`{0}` is refused: `http` is only for this machine")]
    PlainHttp(String),
    /// The text begins like a reference to a registry.
    #[error("`{text}` is not a reference to a registry: {reason}")]
    Registry {
        /// The text.
        text: String,
        /// The fault.
        reason: String,
        /// The reference that the user probably meant.
        instead: Option<String>,
    },
    /// The text names a file, and could also be a repository.
    #[error("`{0}` is a file here, but could also be a repository")]
    Ambiguous(String),
    /// The path cannot be read.
    #[error("`{}` cannot be read", crate::harmless::line(&path.to_string_lossy()))]
    Path {
        /// The path.
        path: PathBuf,
        /// True if the text could be a repository on Docker Hub.
        looks_like_repository: bool,
        /// The error.
        #[source]
        error: io::Error,
    },
    /// A directory is both a layout and a project.
    #[error("`{}` has both `oci-layout` and `tool.toml`", crate::harmless::line(&.0.to_string_lossy()))]
    TwoInOne(PathBuf),
    /// A directory contains no tool.
    #[error("`{}` has neither `tool.toml` nor `oci-layout`", crate::harmless::line(&.0.to_string_lossy()))]
    NoTool(PathBuf),
}

impl ReferenceError {
    /// Returns what the user can do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Scheme { instead, .. } | Self::Registry { instead: Some(instead), .. } => {
                format!("write `{instead}`")
            }
            Self::Credential => {
                "log in with `docker login HOST` or `podman login HOST`; ikigai reads the \
                 credential that they store"
                    .to_owned()
            }
            Self::CredentialInQuery => {
                "download the file and install it from its path, or use a registry with `docker \
                 login HOST` or `podman login HOST`"
                    .to_owned()
            }
            Self::PlainHttp(_) => "use `https`".to_owned(),
            Self::Ambiguous(text) => {
                format!("write `./{text}` for the file, or `oci://{text}` for the repository")
            }
            Self::Path { path, looks_like_repository: true, .. } => format!(
                "a reference to a registry begins with its host, as in `docker.io/{}`",
                crate::harmless::line(&path.to_string_lossy())
            ),
            Self::TwoInOne(_) => "move one of them to another directory".to_owned(),
            Self::Empty
            | Self::ControlCharacter(_)
            | Self::UnknownScheme(_)
            | Self::Url { .. }
            | Self::Registry { .. }
            | Self::Path { .. }
            | Self::NoTool(_) => FORMS.to_owned(),
        }
    }
}
