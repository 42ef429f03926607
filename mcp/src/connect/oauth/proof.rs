//! The proof of a client's identity at an issuer.

use serde::{Deserialize, Serialize};

use super::discovery::Issuer;

/// The way in which a client proves its identity: RFC 6749, section 2.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Proof {
    None,
    ClientSecretBasic,
    ClientSecretPost,
}

impl Proof {
    const ALL: [(&str, Self); 3] = [
        ("none", Self::None),
        ("client_secret_basic", Self::ClientSecretBasic),
        ("client_secret_post", Self::ClientSecretPost),
    ];

    pub(super) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, it)| *it == self).map_or("", |(name, _)| name)
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, it)| *it)
    }

    /// Returns the method of a client without a secret. If the issuer does not support that,
    /// returns a method with a secret.
    pub(super) fn without_secret(issuer: &Issuer) -> Self {
        match &issuer.token_endpoint_auth_methods_supported {
            Some(known) if known.iter().any(|it| it == Self::None.name()) => Self::None,
            Some(_) => Self::of_secret(issuer),
            None => Self::None,
        }
    }

    /// Returns the method of a client with a secret.
    pub(super) fn of_secret(issuer: &Issuer) -> Self {
        // RFC 8414 defines this default.
        let known = issuer.token_endpoint_auth_methods_supported.as_deref().unwrap_or_default();
        let knows = |proof: Self| known.iter().any(|it| it == proof.name());
        if knows(Self::ClientSecretPost) && !knows(Self::ClientSecretBasic) {
            Self::ClientSecretPost
        } else {
            Self::ClientSecretBasic
        }
    }
}
