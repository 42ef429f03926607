//! The reasons why a signature, a key or a trusted root is refused.

use std::io;

use ikigai_protocol::written_out;

use super::{MAX_SIGNATURE_BYTES, SignatureKind};

/// The reason why a signature is refused. None of these errors means that the file is unsigned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SignatureError {
    /// The signature is too long.
    #[error("the signature has more than {MAX_SIGNATURE_BYTES} bytes, so it was not read further")]
    TooLarge,
    /// The signature cannot be read.
    #[error("cannot read the signature")]
    Read(#[source] io::Error),
    /// The first bytes match no signature format.
    #[error(
        "neither an ssh signature, nor a minisign signature, nor a Sigstore bundle: its first \
         bytes match none of them"
    )]
    UnknownFormat,
    /// The signature does not follow its format.
    #[error("the {kind} is malformed: {reason}")]
    Malformed {
        /// The kind of the signature.
        kind: SignatureKind,
        /// The part that is wrong.
        reason: String,
    },
    /// The signature follows its format, but its form is not supported.
    #[error("the {kind} cannot be verified: {reason}")]
    Unsupported {
        /// The kind of the signature.
        kind: SignatureKind,
        /// The form, and the alternative.
        reason: String,
    },
    /// The key in the signature is refused.
    #[error(transparent)]
    Key(#[from] PublicKeyError),
    /// The OpenSSH signature was made for another purpose.
    #[error(
        "the ssh signature by `{signer}` is for the namespace {found:?}; this file needs one that \
         is made with `ssh-keygen -Y sign -n {expected}`"
    )]
    Namespace {
        /// The signer.
        signer: String,
        /// The namespace in the signature.
        found: String,
        /// The namespace for this file.
        expected: String,
    },
    /// The signature does not verify.
    #[error("the {kind} by `{signer}` is bad: {reason}")]
    Bad {
        /// The kind of the signature.
        kind: SignatureKind,
        /// The signer that the signature claims.
        signer: String,
        /// The check that fails.
        reason: String,
    },
    /// The certificate was not valid when the signature was made.
    #[error(
        "the Sigstore bundle by `{signer}` is expired: {reason}. Its certificate must have been \
         valid when the file was signed; the file needs a new signature"
    )]
    Expired {
        /// The signer that the certificate names.
        signer: String,
        /// The times.
        reason: String,
    },
    /// The signature does not contain its key, and no trusted signer has that key.
    #[error(
        "the {kind} is by `{signer}`, a key that no signer in the policy has; \
         add the signer's public key to `[signers.NAME]`"
    )]
    UnknownKey {
        /// The kind of the signature.
        kind: SignatureKind,
        /// The key that the signature names.
        signer: String,
    },
    /// The log or the authority is not in the trusted root.
    #[error(
        "the Sigstore bundle by `{signer}` comes from a log or an authority that is not in the \
         trusted root: {reason}. Update ikigai, or name a root with `--trusted-root FILE`"
    )]
    UnknownLog {
        /// The signer that the certificate names.
        signer: String,
        /// The log or the authority.
        reason: String,
    },
    /// The manifest is signed, but does not list the file.
    #[error("the OCI manifest is signed by `{signer}`, but has no layer with the file `{digest}`")]
    NotOfManifest {
        /// The signer.
        signer: String,
        /// The digest of the file.
        digest: String,
    },
}

impl SignatureError {
    pub(super) fn malformed(kind: SignatureKind, reason: impl AsRef<str>) -> Self {
        Self::Malformed { kind, reason: written_out(reason.as_ref()) }
    }

    pub(super) fn unsupported(kind: SignatureKind, reason: impl AsRef<str>) -> Self {
        Self::Unsupported { kind, reason: written_out(reason.as_ref()) }
    }
}

/// The reason why a key is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PublicKeyError {
    /// The text or the bytes are not a public key.
    #[error("no public key of {of}: {reason}")]
    Malformed {
        /// The program or the format of the key.
        of: &'static str,
        /// The part that is wrong.
        reason: String,
    },
    /// The text is a private key.
    #[error(
        "this is a private key instead of a public key; name the public key, and make a new key if \
         others may have read this one"
    )]
    Private,
    /// The key is an OpenSSH certificate.
    #[error(
        "the ssh key is a certificate (`{0}`); certificates of ssh are not supported: sign with \
         the key itself and name its public key"
    )]
    Certificate(String),
    /// The type of the key is not supported.
    #[error(
        "the ssh key is of the type `{0}`, which is not supported; use `ssh-ed25519`, \
         `ecdsa-sha2-nistp256`, `ecdsa-sha2-nistp384`, `sk-ssh-ed25519@openssh.com` or `ssh-rsa` \
         with at least 2048 bits"
    )]
    Type(String),
    /// The RSA key is too short or too long.
    #[error("the ssh key is RSA with {0} bits; from 2048 to 8192 are accepted")]
    Bits(usize),
}

impl PublicKeyError {
    pub(super) fn malformed(of: &'static str, reason: impl AsRef<str>) -> Self {
        Self::Malformed { of, reason: written_out(reason.as_ref()) }
    }
}

/// A trusted root of Sigstore that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the trusted root of Sigstore cannot be used: {0}")]
pub struct RootError(pub(super) String);
