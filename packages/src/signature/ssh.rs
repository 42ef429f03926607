//! OpenSSH signatures: the SSHSIG format, as described in OpenSSH's file `PROTOCOL.sshsig`.
//!
//! A signature contains its public key, so it verifies without a list of keys. [`crate::trust`]
//! decides if that key is trusted. Certificates are refused, because they would need authorities.

mod key;
mod wire;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{Algorithm, SHA256, SHA512, digest};

pub use key::SshKey;
use wire::{SshReader, put_string};

use super::{SignatureError, SignatureKind};
use crate::signer::Signer;
use ikigai_protocol::written_out;

pub(super) const ARMOUR_BEGIN: &str = "-----BEGIN SSH SIGNATURE-----";
const ARMOUR_END: &str = "-----END SSH SIGNATURE-----";
const MAGIC: &[u8] = b"SSHSIG";
const VERSION: u32 = 1;

/// An OpenSSH signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sshsig {
    key: SshKey,
    namespace: Vec<u8>,
    // Stored because it is part of the signed bytes.
    reserved: Vec<u8>,
    hash: Hash,
    signature: Vec<u8>,
}

/// The hash algorithm for the signed file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hash {
    Sha256,
    Sha512,
}

impl Hash {
    fn of_name(name: &[u8]) -> Option<Self> {
        [Self::Sha256, Self::Sha512].into_iter().find(|hash| hash.name().as_bytes() == name)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        }
    }

    fn algorithm(self) -> &'static Algorithm {
        match self {
            Self::Sha256 => &SHA256,
            Self::Sha512 => &SHA512,
        }
    }
}

impl Sshsig {
    /// Parses a signature between its lines `BEGIN` and `END`.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, SignatureError> {
        let blob = unarmoured(bytes)?;
        let mut wire = SshReader::new(&blob);
        if wire.take(MAGIC.len()) != Some(MAGIC) {
            return Err(malformed("the bytes within do not begin with `SSHSIG`"));
        }
        let version = wire.u32().ok_or_else(|| cut("version"))?;
        if version != VERSION {
            let reason = format!("its version is {version}; {VERSION} is the one that is known");
            return Err(SignatureError::unsupported(SignatureKind::Ssh, reason));
        }
        let key = wire.string().ok_or_else(|| cut("public key"))?;
        let namespace = wire.string().ok_or_else(|| cut("namespace"))?;
        let reserved = wire.string().ok_or_else(|| cut("reserved part"))?;
        let hash = wire.string().ok_or_else(|| cut("name of the hash"))?;
        let signature = wire.string().ok_or_else(|| cut("signature"))?;
        if !wire.is_empty() {
            return Err(malformed("bytes follow its end"));
        }
        let hash = Hash::of_name(hash).ok_or_else(|| {
            let name = String::from_utf8_lossy(hash);
            let reason = format!("it hashes the file with `{name}`, not with sha256 or sha512");
            SignatureError::unsupported(SignatureKind::Ssh, reason)
        })?;
        Ok(Self {
            key: SshKey::from_blob(key)?,
            namespace: namespace.to_owned(),
            reserved: reserved.to_owned(),
            hash,
            signature: signature.to_owned(),
        })
    }

    /// Verifies the signature over the file with its own key.
    pub(super) fn verify(&self, file: &[u8], namespace: &str) -> Result<Signer, SignatureError> {
        let signer = self.key.signer();
        if self.namespace != namespace.as_bytes() {
            return Err(SignatureError::Namespace {
                signer: signer.to_string(),
                found: written_out(&String::from_utf8_lossy(&self.namespace)),
                expected: namespace.to_owned(),
            });
        }
        self.key.verify(&self.message(file), &self.signature)?;
        Ok(signer)
    }

    /// Returns the bytes that the key signed.
    fn message(&self, file: &[u8]) -> Vec<u8> {
        let mut message = MAGIC.to_vec();
        put_string(&mut message, &self.namespace);
        put_string(&mut message, &self.reserved);
        put_string(&mut message, self.hash.name().as_bytes());
        put_string(&mut message, digest(self.hash.algorithm(), file).as_ref());
        message
    }
}

/// Returns the bytes between the lines `BEGIN` and `END`, which must be the first and the last.
fn unarmoured(bytes: &[u8]) -> Result<Vec<u8>, SignatureError> {
    let text = str::from_utf8(bytes).map_err(|_| malformed("it is not text"))?;
    let within = text.trim_ascii().strip_prefix(ARMOUR_BEGIN);
    let within = within.ok_or_else(|| malformed(format!("`{ARMOUR_BEGIN}` is missing")))?;
    let (within, rest) = within
        .split_once(ARMOUR_END)
        .ok_or_else(|| malformed(format!("it is cut: `{ARMOUR_END}` is missing")))?;
    if !rest.is_empty() {
        return Err(malformed(format!("more follows `{ARMOUR_END}`")));
    }
    let digits: String = within.split_ascii_whitespace().collect();
    STANDARD.decode(digits).map_err(|error| malformed(format!("its Base64 is wrong: {error}")))
}

fn malformed(reason: impl AsRef<str>) -> SignatureError {
    SignatureError::malformed(SignatureKind::Ssh, reason)
}

fn cut(part: &str) -> SignatureError {
    malformed(format!("it ends within its {part}"))
}

#[cfg(test)]
#[path = "ssh/tests.rs"]
mod tests;
