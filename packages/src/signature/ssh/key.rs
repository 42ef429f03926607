//! OpenSSH public keys, and the verification of signatures with them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA256, digest};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA512, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};

use super::super::{PublicKeyError, SignatureError, SignatureKind};
use super::wire::SshReader;
use crate::signer::Signer;
use ikigai_protocol::written_out;

const OF: &str = "ssh";

/// The flag in a security key's signature that says that a user touched the key.
const TOUCHED: u8 = 1;

/// An OpenSSH public key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SshKey {
    fingerprint: [u8; 32],
    material: Material,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Material {
    Ed25519(Vec<u8>),
    /// A key on a security key, which signs the application and its own state together with the
    /// message.
    SecurityKey {
        key: Vec<u8>,
        application: Vec<u8>,
    },
    Ecdsa {
        curve: Curve,
        point: Vec<u8>,
    },
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Curve {
    P256,
    P384,
}

impl Curve {
    fn name(self) -> &'static str {
        match self {
            Self::P256 => "nistp256",
            Self::P384 => "nistp384",
        }
    }

    fn key_type(self) -> &'static str {
        match self {
            Self::P256 => "ecdsa-sha2-nistp256",
            Self::P384 => "ecdsa-sha2-nistp384",
        }
    }

    fn scalar_bytes(self) -> usize {
        match self {
            Self::P256 => 32,
            Self::P384 => 48,
        }
    }

    fn algorithm(self) -> &'static dyn VerificationAlgorithm {
        match self {
            Self::P256 => &ECDSA_P256_SHA256_FIXED,
            Self::P384 => &ECDSA_P384_SHA384_FIXED,
        }
    }
}

impl SshKey {
    /// Parses a line of a `.pub` file: `ssh-ed25519 AAAA… comment`.
    ///
    /// # Errors
    ///
    /// Fails if the text is not such a line, or if the key's type is not supported.
    pub fn parse(text: &str) -> Result<Self, PublicKeyError> {
        if text.contains("PRIVATE KEY-----") {
            return Err(PublicKeyError::Private);
        }
        let text = text.trim();
        if text.contains('\n') {
            return Err(PublicKeyError::malformed(OF, "it has more than one line"));
        }
        let mut words = text.split_ascii_whitespace();
        let (Some(named), Some(digits)) = (words.next(), words.next()) else {
            return Err(PublicKeyError::malformed(
                OF,
                "it is not `TYPE BASE64`, as `ssh-ed25519 AAAA…`",
            ));
        };
        let blob = STANDARD.decode(digits);
        let blob = blob.map_err(|error| PublicKeyError::malformed(OF, error.to_string()))?;
        let found = SshReader::new(&blob).string().unwrap_or_default();
        if found != named.as_bytes() {
            let found = String::from_utf8_lossy(found);
            let reason = format!("it says `{named}`, but within is `{found}`");
            return Err(PublicKeyError::malformed(OF, reason));
        }
        Self::from_blob(&blob)
    }

    /// Parses a key in its SSH wire format.
    pub(super) fn from_blob(blob: &[u8]) -> Result<Self, PublicKeyError> {
        let cut = || PublicKeyError::malformed(OF, "the key is cut");
        let mut wire = SshReader::new(blob);
        let key_type = wire.string().ok_or_else(cut)?;
        let material = match key_type {
            b"ssh-ed25519" => Material::Ed25519(ed25519(&mut wire)?),
            b"sk-ssh-ed25519@openssh.com" => Material::SecurityKey {
                key: ed25519(&mut wire)?,
                application: wire.string().ok_or_else(cut)?.to_owned(),
            },
            b"ecdsa-sha2-nistp256" => ecdsa(&mut wire, Curve::P256)?,
            b"ecdsa-sha2-nistp384" => ecdsa(&mut wire, Curve::P384)?,
            b"ssh-rsa" => rsa(&mut wire)?,
            other => {
                let other = written_out(&String::from_utf8_lossy(other));
                return Err(match other.contains("-cert-v0") {
                    true => PublicKeyError::Certificate(other),
                    false => PublicKeyError::Type(other),
                });
            }
        };
        if !wire.is_empty() {
            return Err(PublicKeyError::malformed(OF, "bytes follow the end of the key"));
        }
        let mut fingerprint = [0; 32];
        fingerprint.copy_from_slice(digest(&SHA256, blob).as_ref());
        Ok(Self { fingerprint, material })
    }

    /// Returns the signer that the key identifies.
    #[must_use]
    pub fn signer(&self) -> Signer {
        Signer::Ssh(self.fingerprint)
    }

    /// Verifies the innermost part of an SSHSIG over a message.
    pub(super) fn verify(&self, message: &[u8], signature: &[u8]) -> Result<(), SignatureError> {
        let malformed = |reason: &str| SignatureError::malformed(SignatureKind::Ssh, reason);
        let mut wire = SshReader::new(signature);
        let name = wire.string().ok_or_else(|| malformed("it names no algorithm"))?;
        let bytes = wire.string().ok_or_else(|| malformed("it is cut"))?;
        let is_valid = match &self.material {
            Material::Ed25519(key) => {
                self.expect(name, "ssh-ed25519")?;
                UnparsedPublicKey::new(&ED25519, key).verify(message, bytes).is_ok()
            }
            Material::SecurityKey { key, application } => {
                self.expect(name, "sk-ssh-ed25519@openssh.com")?;
                let state = wire.take(5).ok_or_else(|| malformed("it has no counter"))?;
                if state[0] & TOUCHED == 0 {
                    return Err(self.bad("its security key was not touched"));
                }
                let mut signed = digest(&SHA256, application).as_ref().to_vec();
                signed.extend(state);
                signed.extend(digest(&SHA256, message).as_ref());
                UnparsedPublicKey::new(&ED25519, key).verify(&signed, bytes).is_ok()
            }
            Material::Ecdsa { curve, point } => {
                self.expect(name, curve.key_type())?;
                let scalars = scalars(bytes, curve.scalar_bytes());
                let scalars = scalars.ok_or_else(|| malformed("it is not a pair of scalars"))?;
                UnparsedPublicKey::new(curve.algorithm(), point).verify(message, &scalars).is_ok()
            }
            Material::Rsa { modulus, exponent } => {
                let algorithm = match name {
                    b"rsa-sha2-256" => &RSA_PKCS1_2048_8192_SHA256,
                    b"rsa-sha2-512" => &RSA_PKCS1_2048_8192_SHA512,
                    other => {
                        let other = String::from_utf8_lossy(other);
                        let reason = format!("its algorithm is `{other}`, not RSA with SHA-2");
                        return Err(SignatureError::unsupported(SignatureKind::Ssh, reason));
                    }
                };
                let key = RsaPublicKeyComponents { n: modulus, e: exponent };
                key.verify(algorithm, message, bytes).is_ok()
            }
        };
        if !wire.is_empty() {
            return Err(malformed("bytes follow its innermost part"));
        }
        match is_valid {
            true => Ok(()),
            false => Err(self.bad("it is over another file, or was changed")),
        }
    }

    fn expect(&self, name: &[u8], expected: &str) -> Result<(), SignatureError> {
        if name == expected.as_bytes() {
            return Ok(());
        }
        let name = written_out(&String::from_utf8_lossy(name));
        Err(self.bad(&format!("its algorithm is `{name}`, but its key is `{expected}`")))
    }

    fn bad(&self, reason: &str) -> SignatureError {
        let signer = self.signer().to_string();
        SignatureError::Bad { kind: SignatureKind::Ssh, signer, reason: reason.to_owned() }
    }
}

fn ed25519(wire: &mut SshReader<'_>) -> Result<Vec<u8>, PublicKeyError> {
    let key = wire.string().filter(|key| key.len() == 32);
    key.map(<[u8]>::to_vec).ok_or_else(|| PublicKeyError::malformed(OF, "it has not 32 bytes"))
}

fn ecdsa(wire: &mut SshReader<'_>, curve: Curve) -> Result<Material, PublicKeyError> {
    let found = wire.string().filter(|name| *name == curve.name().as_bytes());
    found.ok_or_else(|| PublicKeyError::malformed(OF, "it names another curve than its type"))?;
    // The uncompressed form, which OpenSSH writes.
    let is_point = |point: &&[u8]| point.len() == 2 * curve.scalar_bytes() + 1 && point[0] == 4;
    let point = wire.string().filter(is_point);
    let point =
        point.ok_or_else(|| PublicKeyError::malformed(OF, "it has no point of its curve"))?;
    Ok(Material::Ecdsa { curve, point: point.to_owned() })
}

fn rsa(wire: &mut SshReader<'_>) -> Result<Material, PublicKeyError> {
    let cut = || PublicKeyError::malformed(OF, "it has no modulus and exponent");
    let exponent = wire.positive().ok_or_else(cut)?;
    let modulus = wire.positive().ok_or_else(cut)?;
    let bits = modulus.len() * 8 - modulus.first().map_or(0, |byte| byte.leading_zeros() as usize);
    if !(2048..=8192).contains(&bits) {
        return Err(PublicKeyError::Bits(bits));
    }
    Ok(Material::Rsa { modulus: modulus.to_owned(), exponent: exponent.to_owned() })
}

/// Returns the two scalars of an ECDSA signature, each padded to `length` bytes.
fn scalars(bytes: &[u8], length: usize) -> Option<Vec<u8>> {
    let mut wire = SshReader::new(bytes);
    let mut scalars = Vec::with_capacity(2 * length);
    for _ in 0..2 {
        let scalar = wire.positive()?;
        scalars.resize(scalars.len() + length.checked_sub(scalar.len())?, 0);
        scalars.extend(scalar);
    }
    wire.is_empty().then_some(scalars)
}
