//! Signatures over the file of a tool: those of OpenSSH and of minisign, and bundles of Sigstore.
//!
//! A signature that verifies says who signed the file, and nothing else: [`crate::trust`] decides
//! whether that is enough. Makes no signature, holds no private key and opens no socket.

mod error;
mod key;
mod minisign;
mod sigstore;
mod ssh;

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

pub use error::{KeyError, RootError, SignatureError};
pub use key::{Key, PemKey};
pub use minisign::MinisignKey;
pub use sigstore::Root;
pub use ssh::SshKey;

use crate::signer::Signer;

/// The most bytes that a signature may have.
pub const MAX_SIGNATURE_BYTES: usize = 1 << 20;

/// The namespace of signatures of OpenSSH over tools. It keeps a signature that somebody made for
/// another purpose, a commit for example, from counting as one over a tool.
pub const SSH_NAMESPACE: &str = "ikigai-tool";

/// A kind of signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::VariantArray)]
pub enum Kind {
    /// A signature of OpenSSH, as `ssh-keygen -Y sign` writes it.
    Ssh,
    /// A signature of minisign.
    Minisign,
    /// A bundle of Sigstore, as `cosign sign-blob --bundle` writes it.
    Sigstore,
}

impl Kind {
    /// Returns the kind of the signature that these bytes begin, whatever its file is called.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let begun = bytes.trim_ascii_start();
        [(ssh::ARMOUR_BEGIN, Self::Ssh), (minisign::COMMENT, Self::Minisign), ("{", Self::Sigstore)]
            .into_iter()
            .find_map(|(opening, kind)| begun.starts_with(opening.as_bytes()).then_some(kind))
    }

    /// Returns the end of the name of a signature beside the file that it signs.
    #[must_use]
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Ssh => ".sig",
            Self::Minisign => ".minisig",
            Self::Sigstore => ".sigstore.json",
        }
    }

    /// Returns the kind of artifact as which such a signature is attached to a manifest in a registry:
    /// for bundles the media type of
    /// <https://github.com/sigstore/protobuf-specs/blob/main/protos/sigstore_bundle.proto>, for the
    /// others, which have none, names of our own.
    #[must_use]
    pub const fn artifact_type(self) -> &'static str {
        match self {
            Self::Ssh => "application/vnd.ikigai.signature.ssh",
            Self::Minisign => "application/vnd.ikigai.signature.minisign",
            Self::Sigstore => "application/vnd.dev.sigstore.bundle.v0.3+json",
        }
    }

    /// Returns the kind of signature that is attached as this kind of artifact. Bundles have the
    /// number of their version in it.
    #[must_use]
    pub fn of_artifact_type(text: &str) -> Option<Self> {
        if text.starts_with("application/vnd.dev.sigstore.bundle") {
            return Some(Self::Sigstore);
        }
        [Self::Ssh, Self::Minisign].into_iter().find(|kind| kind.artifact_type() == text)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ssh => "ssh signature",
            Self::Minisign => "minisign signature",
            Self::Sigstore => "Sigstore bundle",
        })
    }
}

/// Returns the paths at which a signature over this file may lie, in the order in which to look.
/// [`Kind::from_bytes`] tells what lies there: other programs call their signatures `.sig` as well.
#[must_use]
pub fn beside(file: &Path) -> Vec<PathBuf> {
    let with = |kind: &Kind| {
        let mut path = file.as_os_str().to_owned();
        path.push(kind.suffix());
        PathBuf::from(path)
    };
    <Kind as strum::VariantArray>::VARIANTS.iter().map(with).collect()
}

/// The bytes that a signature is verified over.
#[derive(Clone, Copy, Debug)]
pub struct Payload<'a> {
    /// The file of the tool.
    pub file: &'a [u8],
    /// The OCI manifest of which the file is a layer, where there is one. Bundles of Sigstore sign
    /// it instead of the file, as cosign does.
    pub manifest: Option<&'a [u8]>,
}

/// A part of the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The file of the tool.
    File,
    /// The OCI manifest, which names the file by its digest.
    Manifest,
}

/// A signature that verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed {
    /// The signer.
    pub signer: Signer,
    /// The part of the payload that the signature is over.
    pub part: Part,
    /// The time of signing, where a log or a time-stamping authority vouches for it.
    pub at: Option<jiff::Timestamp>,
}

/// A signature that was read and is not verified yet.
#[derive(Clone, Debug)]
pub enum Signature {
    /// A signature of OpenSSH, which carries the key that made it.
    Ssh(ssh::Sshsig),
    /// A signature of minisign, which names the key that made it.
    Minisign(minisign::Minisig),
    /// A bundle of Sigstore, which carries a certificate or names a key.
    Sigstore(Box<sigstore::Bundle>),
}

impl Signature {
    /// Reads a signature, and stops at [`MAX_SIGNATURE_BYTES`].
    ///
    /// # Errors
    ///
    /// Reading fails, or what is read is no signature or one of a form that is not supported.
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
    /// The bytes are no signature or one of a form that is not supported.
    pub fn parse(bytes: &[u8]) -> Result<Self, SignatureError> {
        if bytes.len() > MAX_SIGNATURE_BYTES {
            return Err(SignatureError::TooLarge);
        }
        match Kind::from_bytes(bytes).ok_or(SignatureError::UnknownFormat)? {
            Kind::Ssh => ssh::Sshsig::parse(bytes).map(Self::Ssh),
            Kind::Minisign => minisign::Minisig::parse(bytes).map(Self::Minisign),
            Kind::Sigstore => sigstore::Bundle::parse(bytes).map(Box::new).map(Self::Sigstore),
        }
    }

    /// Verifies the signature over the payload. `keys` are those of the signers that somebody
    /// named: minisign and bundles without a certificate do not carry theirs. Signatures of OpenSSH
    /// and certificates of Sigstore verify without them.
    ///
    /// # Errors
    ///
    /// The signature is bad, was made while its certificate was not valid, or needs a key, a log or
    /// an authority that is not known.
    pub fn verify(
        &self,
        payload: Payload<'_>,
        keys: &[&Key],
        root: &Root,
    ) -> Result<Signed, SignatureError> {
        let of_file = |signer| Signed { signer, part: Part::File, at: None };
        match self {
            Self::Ssh(signature) => signature.verify(payload.file).map(of_file),
            Self::Minisign(signature) => signature.verify(payload.file, keys).map(of_file),
            Self::Sigstore(bundle) => bundle.verify(payload, keys, root),
        }
    }
}
