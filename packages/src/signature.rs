//! Signatures over the file of a tool: OpenSSH signatures, minisign signatures and Sigstore
//! bundles.
//!
//! A valid signature only says who signed the file. [`crate::trust`] decides whether that is
//! enough. This module makes no signatures, holds no private keys and opens no sockets.

mod error;
mod key;
mod minisign;
mod sigstore;
mod ssh;

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

pub use error::{PublicKeyError, RootError, SignatureError};
pub use key::{PemKey, SignerKey};
pub use minisign::MinisignKey;
pub use sigstore::SigstoreRoot;
pub use ssh::SshKey;

use crate::signer::Signer;

/// The largest signature in bytes.
pub const MAX_SIGNATURE_BYTES: usize = 1 << 20;

/// The namespace of OpenSSH signatures over tools. It prevents a signature that was made for
/// another purpose, a commit for example, from counting as a signature over a tool.
pub const SSH_NAMESPACE: &str = "ikigai-tool";

/// A kind of signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::VariantArray)]
pub enum SignatureKind {
    /// An OpenSSH signature, as `ssh-keygen -Y sign` writes it.
    Ssh,
    /// A minisign signature.
    Minisign,
    /// A Sigstore bundle, as `cosign sign-blob --bundle` writes it.
    Sigstore,
}

impl SignatureKind {
    /// Returns the kind of the signature that begins with these bytes. The file's name does not
    /// matter.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let begun = bytes.trim_ascii_start();
        [(ssh::ARMOUR_BEGIN, Self::Ssh), (minisign::COMMENT, Self::Minisign), ("{", Self::Sigstore)]
            .into_iter()
            .find_map(|(opening, kind)| begun.starts_with(opening.as_bytes()).then_some(kind))
    }

    /// Returns the suffix of a signature file that lies next to the signed file.
    #[must_use]
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Ssh => ".sig",
            Self::Minisign => ".minisig",
            Self::Sigstore => ".sigstore.json",
        }
    }

    /// Returns the artifact type of such a signature that is attached to a manifest in a registry.
    /// For bundles it is the media type of
    /// <https://github.com/sigstore/protobuf-specs/blob/main/protos/sigstore_bundle.proto>. The
    /// other kinds have no official type, so ikigai defines its own names.
    #[must_use]
    pub const fn artifact_type(self) -> &'static str {
        match self {
            Self::Ssh => "application/vnd.ikigai.signature.ssh",
            Self::Minisign => "application/vnd.ikigai.signature.minisign",
            Self::Sigstore => "application/vnd.dev.sigstore.bundle.v0.3+json",
        }
    }

    /// Returns the kind of the signature with this artifact type. The type of a bundle contains its
    /// version number.
    #[must_use]
    pub fn of_artifact_type(text: &str) -> Option<Self> {
        if text.starts_with("application/vnd.dev.sigstore.bundle") {
            return Some(Self::Sigstore);
        }
        [Self::Ssh, Self::Minisign].into_iter().find(|kind| kind.artifact_type() == text)
    }
}

impl fmt::Display for SignatureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ssh => "ssh signature",
            Self::Minisign => "minisign signature",
            Self::Sigstore => "Sigstore bundle",
        })
    }
}

/// Returns the paths at which a signature over this file may lie, in search order. Other programs
/// also use `.sig` for their signatures, so [`SignatureKind::from_bytes`] finds out the actual kind.
#[must_use]
pub fn beside(file: &Path) -> Vec<PathBuf> {
    let with = |kind: &SignatureKind| {
        let mut path = file.as_os_str().to_owned();
        path.push(kind.suffix());
        PathBuf::from(path)
    };
    <SignatureKind as strum::VariantArray>::VARIANTS.iter().map(with).collect()
}

/// The bytes that a signature is verified against, and the purpose that it must have.
#[derive(Clone, Copy, Debug)]
pub struct Payload<'a> {
    /// The signed file.
    pub file: &'a [u8],
    /// The OCI manifest that has the file as a layer, if there is one. Sigstore bundles sign it
    /// instead of the file, as cosign does.
    pub manifest: Option<&'a [u8]>,
    /// The namespace that an OpenSSH signature must name. The other kinds have none.
    pub namespace: &'a str,
}

impl<'a> Payload<'a> {
    /// Returns the payload of a signature over a tool, with the namespace [`SSH_NAMESPACE`].
    #[must_use]
    pub const fn of_tool(file: &'a [u8], manifest: Option<&'a [u8]>) -> Self {
        Self { file, manifest, namespace: SSH_NAMESPACE }
    }
}

/// A part of the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignedPart {
    /// The file of the tool.
    File,
    /// The OCI manifest, which contains the file's digest.
    Manifest,
}

/// A verified signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed {
    /// The signer.
    pub signer: Signer,
    /// The part of the payload that was signed.
    pub part: SignedPart,
    /// The time of signing, if a log or a time-stamping authority vouches for it.
    pub at: Option<jiff::Timestamp>,
}

/// A parsed signature that is not verified yet.
#[derive(Clone, Debug)]
pub enum Signature {
    /// An OpenSSH signature, which contains the public key that made it.
    Ssh(ssh::Sshsig),
    /// A minisign signature, which contains the id of the key that made it.
    Minisign(minisign::Minisig),
    /// A Sigstore bundle, which contains a certificate or names a key.
    Sigstore(Box<sigstore::Bundle>),
}

impl Signature {
    /// Reads a signature, and stops at [`MAX_SIGNATURE_BYTES`].
    ///
    /// # Errors
    ///
    /// Fails if reading fails, or if the bytes are not a signature or have an unsupported form.
    pub fn read(reader: impl Read) -> Result<Self, SignatureError> {
        let mut bytes = Vec::new();
        let one_more = MAX_SIGNATURE_BYTES as u64 + 1;
        reader.take(one_more).read_to_end(&mut bytes).map_err(SignatureError::Read)?;
        Self::parse(&bytes)
    }

    /// Parses the bytes of a signature.
    ///
    /// # Errors
    ///
    /// Fails if the bytes are not a signature, or have an unsupported form.
    pub fn parse(bytes: &[u8]) -> Result<Self, SignatureError> {
        if bytes.len() > MAX_SIGNATURE_BYTES {
            return Err(SignatureError::TooLarge);
        }
        match SignatureKind::from_bytes(bytes).ok_or(SignatureError::UnknownFormat)? {
            SignatureKind::Ssh => ssh::Sshsig::parse(bytes).map(Self::Ssh),
            SignatureKind::Minisign => minisign::Minisig::parse(bytes).map(Self::Minisign),
            SignatureKind::Sigstore => {
                sigstore::Bundle::parse(bytes).map(Box::new).map(Self::Sigstore)
            }
        }
    }

    /// Verifies the signature over the payload. `keys` are the keys of the trusted signers, because
    /// minisign signatures and bundles without a certificate do not contain their keys. OpenSSH
    /// signatures and Sigstore certificates verify without them.
    ///
    /// # Errors
    ///
    /// Fails if the signature is bad, was made while its certificate was not valid, or needs an
    /// unknown key, log or authority.
    pub fn verify(
        &self,
        payload: Payload<'_>,
        keys: &[&SignerKey],
        root: &SigstoreRoot,
    ) -> Result<Signed, SignatureError> {
        let of_file = |signer| Signed { signer, part: SignedPart::File, at: None };
        match self {
            Self::Ssh(signature) => signature.verify(payload.file, payload.namespace).map(of_file),
            Self::Minisign(signature) => signature.verify(payload.file, keys).map(of_file),
            Self::Sigstore(bundle) => bundle.verify(payload, keys, root),
        }
    }
}
