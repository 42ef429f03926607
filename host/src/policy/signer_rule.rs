//! A signer that a policy file names, as in the file. Verifies nothing.

use std::fmt;

use super::provenance::Provenance;

/// A signer that a policy file names: a table `[signers.NAME]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignerRule {
    /// The name of the table.
    pub name: String,
    /// The key or identity that proves who the signer is.
    pub identity: SignerIdentity,
    /// The names of the tools that it may sign, each exact, or a prefix followed by `*`; `None`
    /// means all tools.
    pub tools: Option<Vec<String>>,
    /// The last day on which the signer's files can be installed, as `YYYY-MM-DD`. Tools that are
    /// already installed stay usable.
    pub until: Option<String>,
    /// The line of the table.
    pub provenance: Provenance,
}

/// The key or identity that proves who a signer is, as in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignerIdentity {
    /// An OpenSSH public key: the kind and the key, as in `authorized_keys`.
    Ssh(String),
    /// A minisign public key.
    Minisign(String),
    /// A public key in PEM.
    Key(String),
    /// An identity in a Sigstore certificate.
    Sigstore {
        /// The URL of the OpenID Connect issuer.
        issuer: String,
        /// The subject: an exact value, or a prefix followed by `*`.
        subject: String,
    },
}

impl SignerIdentity {
    /// Returns its key in the table: `ssh`, `minisign`, `key` or `sigstore`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Ssh(_) => "ssh",
            Self::Minisign(_) => "minisign",
            Self::Key(_) => "key",
            Self::Sigstore { .. } => "sigstore",
        }
    }
}

/// Writes the identity on one line, without its kind.
impl fmt::Display for SignerIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ssh(text) | Self::Minisign(text) => f.write_str(text.trim()),
            Self::Key(pem) => {
                let lines = pem.lines().map(str::trim).filter(|line| !line.starts_with("-----"));
                lines.into_iter().try_for_each(|line| f.write_str(line))
            }
            Self::Sigstore { issuer, subject } => write!(f, "{subject} (by {issuer})"),
        }
    }
}
