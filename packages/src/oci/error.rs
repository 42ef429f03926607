//! The errors of artifacts and registries. Foreign texts in them are safe to show.

use ikigai_protocol::Digest;

use crate::credentials::CredentialError;
use crate::transport::TransportError;

/// The most tags that a message lists.
const TAGS: usize = 10;

/// The reason why an artifact cannot be fetched, used or pushed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum OciError {
    /// The registry's answer cannot be used.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// A configured credential cannot be obtained.
    #[error(transparent)]
    Credential(#[from] CredentialError),
    /// The registry wants a credential to be sent to a forbidden address.
    #[error("the registry `{host}` asks to log in at `{realm}`, which is refused: {reason}")]
    Realm {
        /// The registry.
        host: String,
        /// The address that the registry names.
        realm: String,
        /// The reason.
        reason: String,
    },
    /// The registry wants a credential, or a different one.
    #[error("the registry `{host}` refuses {what}: {}", if *.had_credential {
        "the credential that is kept for it does not suffice"
    } else {
        "no credential is kept for it"
    })]
    Denied {
        /// The registry.
        host: String,
        /// The thing that was requested.
        what: String,
        /// True if a credential was sent.
        had_credential: bool,
    },
    /// The manifest does not exist.
    #[error("there is no {what}{}", tags_are(.tags))]
    NoManifest {
        /// The manifest.
        what: String,
        /// The tags of the repository.
        tags: Vec<String>,
    },
    /// The manifest contains no module or component.
    #[error("no wasm artifact in {what}: {found}{}", tags_are(.tags))]
    NoWasm {
        /// The manifest.
        what: String,
        /// The things that it contains.
        found: String,
        /// The tags of the repository.
        tags: Vec<String>,
    },
    /// It is a container image.
    #[error("{what} is a container image, not a tool")]
    Image {
        /// The manifest.
        what: String,
    },
    /// Two or more layers could be the tool.
    #[error("{what} has {count} layers of `application/wasm`, and a tool has one")]
    SeveralLayers {
        /// The manifest.
        what: String,
        /// The number of layers.
        count: usize,
    },
    /// The configuration lists other layers than the manifest.
    #[error("the configuration of {what} lists the layers {}, and its manifest {}", config.join(", "), layers.join(", "))]
    LayerDigests {
        /// The manifest.
        what: String,
        /// The digests in the configuration.
        config: Vec<String>,
        /// The digests in the manifest.
        layers: Vec<String>,
    },
    /// The bytes do not have the requested digest.
    #[error("{what} should have the digest sha256:{expected} and has sha256:{found}")]
    Digest {
        /// The thing that was read.
        what: String,
        /// The requested digest.
        expected: Digest,
        /// The digest of the bytes that arrived.
        found: Digest,
    },
    /// The answer is a web page.
    #[error("`{host}` answers with a web page: it is not a registry")]
    WebPage {
        /// The host.
        host: String,
    },
    /// The thing does not follow its specification.
    #[error("{what} is not usable: {detail}")]
    Malformed {
        /// The thing that was read.
        what: String,
        /// The fault.
        detail: String,
    },
    /// The list is too long to read.
    #[error("{what} has more than {most} {things}")]
    TooMany {
        /// The manifest or the repository.
        what: String,
        /// The things.
        things: &'static str,
        /// The most that are read.
        most: usize,
    },
    /// A file of a layout cannot be read.
    #[error("`{path}` cannot be read: {reason}")]
    Unreadable {
        /// The file.
        path: String,
        /// The system's message.
        reason: String,
    },
}

impl OciError {
    /// Returns whether another attempt may succeed.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Transport(error) if error.is_passing())
    }

    /// Returns what the user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Transport(error) => error.hint().map(str::to_owned),
            Self::Credential(error) => Some(error.hint().to_owned()),
            Self::Denied { host, .. } => {
                Some(format!("log in with `docker login {host}` or `podman login {host}`"))
            }
            Self::NoManifest { .. } | Self::NoWasm { .. } => {
                Some("name another tag, or the digest of a manifest".to_owned())
            }
            Self::Image { .. } => Some("run it with `docker run` or `podman run`".to_owned()),
            Self::SeveralLayers { .. } | Self::LayerDigests { .. } | Self::Malformed { .. } => {
                Some("ask its publisher to push it again".to_owned())
            }
            Self::Digest { .. } => Some("do not use it; tell the server's operator".to_owned()),
            Self::WebPage { .. } => Some(
                "a reference to a registry is `HOST/REPO:TAG`, without what a browser shows"
                    .to_owned(),
            ),
            Self::Realm { .. } => Some("tell the registry's operator".to_owned()),
            Self::TooMany { .. } | Self::Unreadable { .. } => None,
        }
    }
}

/// Returns the end of a message that lists tags.
fn tags_are(tags: &[String]) -> String {
    if tags.is_empty() {
        return String::new();
    }
    let named = tags.iter().take(TAGS).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = tags.len().saturating_sub(TAGS);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("; tags are {named}{more}")
}
