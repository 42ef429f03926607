//! minisign signatures.
//!
//! A signature contains only the 64-bit id of its key, so it verifies only with a trusted signer's
//! key. minisign can sign in two ways. Only signatures over the BLAKE2b hash of the file are
//! accepted, which have been the default since minisign 0.10. The older way, which signs the file
//! itself, is refused. The signed bytes do not say which way was used. If both were accepted, an
//! attacker could change that mark, and a signature over a file would become a signature over the
//! 64 bytes of its hash.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use minisign_verify::{Error, PublicKey, Signature};

use super::{PublicKeyError, SignatureError, SignatureKind, SignerKey};
use crate::signer::Signer;

pub(super) const COMMENT: &str = "untrusted comment:";
const OF: &str = "minisign";

/// The length of a secret key in a minisign file: algorithms, salt, limits, id, keys, checksum.
const SECRET_KEY_BYTES: usize = 158;

/// A minisign public key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MinisignKey {
    id: u64,
    key: PublicKey,
}

impl MinisignKey {
    /// Parses the line `RW…` of a `.pub` file, or the whole file.
    ///
    /// # Errors
    ///
    /// Fails if the text is neither of them.
    pub fn parse(text: &str) -> Result<Self, PublicKeyError> {
        let text = text.trim();
        let line = match text.split_once('\n') {
            Some((comment, line)) if comment.starts_with(COMMENT) => line.trim(),
            Some(_) => return Err(PublicKeyError::malformed(OF, "it has more than one line")),
            None => text,
        };
        if STANDARD.decode(line).is_ok_and(|bytes| bytes.len() == SECRET_KEY_BYTES) {
            return Err(PublicKeyError::Private);
        }
        let error = |error: Error| PublicKeyError::malformed(OF, error.to_string());
        let key = PublicKey::from_base64(line).map_err(error)?;
        let id = id(line).ok_or_else(|| PublicKeyError::malformed(OF, "it has no id"))?;
        // The comment of the file is not part of the key.
        Ok(Self { id, key })
    }

    /// Returns the signer identified by this key.
    #[must_use]
    pub fn signer(&self) -> Signer {
        Signer::Minisign(self.id)
    }
}

/// A minisign signature.
#[derive(Clone)]
pub struct Minisig {
    id: u64,
    signature: Signature,
}

impl std::fmt::Debug for Minisig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Minisig").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Minisig {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, SignatureError> {
        let malformed = |reason: &str| SignatureError::malformed(SignatureKind::Minisign, reason);
        let text = str::from_utf8(bytes).map_err(|_| malformed("it is not text"))?.trim_ascii();
        let lines: Vec<&str> = text.lines().collect();
        // The library reads four lines and ignores what follows.
        let [_, line, _, _] = lines[..] else {
            return Err(malformed(&format!("it has {} lines, not 4", lines.len())));
        };
        let signature = Signature::decode(text).map_err(|error| malformed(&error.to_string()))?;
        let id = id(line).ok_or_else(|| malformed("it has no id of a key"))?;
        Ok(Self { id, signature })
    }

    /// Verifies the signature over the file with each key that has the signature's id.
    pub(super) fn verify(
        &self,
        file: &[u8],
        keys: &[&SignerKey],
    ) -> Result<Signer, SignatureError> {
        let signer = Signer::Minisign(self.id);
        let mut refusal = None;
        for key in keys {
            let SignerKey::Minisign(key) = key else { continue };
            if key.id != self.id {
                continue;
            }
            match key.key.verify(file, &self.signature, false) {
                Ok(()) => return Ok(signer),
                Err(error) => refusal = Some(self.refusal(&error)),
            }
        }
        Err(refusal.unwrap_or_else(|| SignatureError::UnknownKey {
            kind: SignatureKind::Minisign,
            signer: signer.to_string(),
        }))
    }

    fn refusal(&self, error: &Error) -> SignatureError {
        let reason = match error {
            Error::UnexpectedAlgorithm => {
                return SignatureError::unsupported(
                    SignatureKind::Minisign,
                    "it signs the file itself, as minisign did before 0.10; sign again with a \
                     newer minisign and without `-l`",
                );
            }
            Error::InvalidSignature => {
                "it is over another file, by another key with this id, or it or its trusted \
                 comment was changed"
                    .to_owned()
            }
            other => other.to_string(),
        };
        let signer = Signer::Minisign(self.id).to_string();
        SignatureError::Bad { kind: SignatureKind::Minisign, signer, reason }
    }
}

/// Returns the id in a line of a key or a signature. It follows two bytes that name the algorithm,
/// and begins with its lowest byte.
fn id(line: &str) -> Option<u64> {
    let bytes = STANDARD.decode(line.trim()).ok()?;
    bytes.get(2..10)?.try_into().ok().map(u64::from_le_bytes)
}
