//! The public keys of signers that a policy names, and the keys whose signatures do not contain
//! them.

use ring::digest::{SHA256, digest};
use sigstore_verify::crypto::VerificationKey;
use sigstore_verify::types::DerPublicKey;

use super::{MinisignKey, PublicKeyError, SshKey};
use crate::signer::Signer;

/// A public key that a policy names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignerKey {
    /// An OpenSSH key.
    Ssh(SshKey),
    /// A minisign key.
    Minisign(MinisignKey),
    /// A PEM key, for Sigstore bundles without a certificate.
    Pem(PemKey),
}

impl SignerKey {
    /// Returns the signer that the key identifies.
    #[must_use]
    pub fn signer(&self) -> Signer {
        match self {
            Self::Ssh(key) => key.signer(),
            Self::Minisign(key) => key.signer(),
            Self::Pem(key) => key.signer(),
        }
    }
}

/// A public key in PEM, as `cosign generate-key-pair` and `openssl pkey -pubout` write it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PemKey(DerPublicKey);

impl PemKey {
    /// Parses a block `PUBLIC KEY`.
    ///
    /// # Errors
    ///
    /// Fails if the text is not such a block, or if the key's type is not supported.
    pub fn parse(text: &str) -> Result<Self, PublicKeyError> {
        if text.contains("PRIVATE KEY-----") {
            return Err(PublicKeyError::Private);
        }
        let error = |reason: &dyn ToString| PublicKeyError::malformed("PEM", reason.to_string());
        let key = DerPublicKey::from_pem(text).map_err(|reason| error(&reason))?;
        VerificationKey::from_spki(&key).map_err(|reason| error(&reason))?;
        Ok(Self(key))
    }

    pub(super) fn der(&self) -> &DerPublicKey {
        &self.0
    }

    fn signer(&self) -> Signer {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest(&SHA256, self.0.as_bytes()).as_ref());
        Signer::Key(bytes)
    }
}
