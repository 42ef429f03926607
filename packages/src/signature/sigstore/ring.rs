//! The cryptography of the Sigstore verifier, computed by ring, as everywhere in this crate.
//!
//! The verifier checks a signature against the hash of the artifact, but ring can check it only
//! against a message. So the artifact is kept in a thread-local variable during a verification, and
//! ring hashes it once more.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Once;

use ring::digest::{self, Context};
use ring::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA384_ASN1, ECDSA_P384_SHA256_ASN1, ECDSA_P384_SHA384_ASN1,
    ED25519, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512,
    RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512,
    UnparsedPublicKey, VerificationAlgorithm,
};
use sigstore_verify::crypto::{
    CryptoProvider, Error, HashContext, Result, SigningScheme, install_default_provider,
};
use sigstore_verify::types::HashAlgorithm;

thread_local! {
    static IN_HAND: RefCell<Option<Rc<[u8]>>> = const { RefCell::new(None) };
}

/// Makes ring the verifier's provider, for the whole process.
pub(super) fn install() {
    static ONCE: Once = Once::new();
    // Nothing else in the process installs a provider, and only the first call has an effect.
    ONCE.call_once(|| {
        let _ = install_default_provider(&Ring);
    });
}

/// Runs a verification while its artifact is in `IN_HAND`.
pub(super) fn with_artifact<T>(artifact: &[u8], verify: impl FnOnce() -> T) -> T {
    struct PutDown;
    impl Drop for PutDown {
        fn drop(&mut self) {
            IN_HAND.set(None);
        }
    }
    IN_HAND.set(Some(artifact.into()));
    let _put_down = PutDown;
    verify()
}

#[derive(Debug)]
struct Ring;

struct RingHasher(Context);

impl HashContext for RingHasher {
    fn update(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    fn finalize(self: Box<Self>) -> Vec<u8> {
        self.0.finish().as_ref().to_vec()
    }
}

impl CryptoProvider for Ring {
    fn hash(&self, algorithm: HashAlgorithm) -> Result<Box<dyn HashContext>> {
        Ok(Box::new(RingHasher(Context::new(hash(algorithm)?))))
    }

    fn verify_raw(
        &self,
        scheme: SigningScheme,
        key: &[u8],
        data: &[u8],
        signature: &[u8],
    ) -> Result<()> {
        let key = UnparsedPublicKey::new(verification(scheme)?, key);
        let failed = || Error::Verification(format!("the {} signature is wrong", scheme.name()));
        key.verify(data, signature).map_err(|_| failed())
    }

    fn verify_prehashed(
        &self,
        scheme: SigningScheme,
        key: &[u8],
        digest: &[u8],
        signature: &[u8],
    ) -> Result<()> {
        let unknown = || Error::UnsupportedAlgorithm(format!("{} has no hash", scheme.name()));
        let algorithm = hash(scheme.hash_algorithm().ok_or_else(unknown)?)?;
        let artifact = IN_HAND.with_borrow(Clone::clone);
        let artifact = artifact.filter(|bytes| digest::digest(algorithm, bytes).as_ref() == digest);
        let other = || Error::Verification("the hash is of another artifact".to_owned());
        self.verify_raw(scheme, key, &artifact.ok_or_else(other)?, signature)
    }
}

fn hash(algorithm: HashAlgorithm) -> Result<&'static digest::Algorithm> {
    match algorithm {
        HashAlgorithm::Sha2256 => Ok(&digest::SHA256),
        HashAlgorithm::Sha2384 => Ok(&digest::SHA384),
        HashAlgorithm::Sha2512 => Ok(&digest::SHA512),
        other => Err(Error::UnsupportedAlgorithm(format!("the hash {other} is not supported"))),
    }
}

fn verification(scheme: SigningScheme) -> Result<&'static dyn VerificationAlgorithm> {
    Ok(match scheme {
        SigningScheme::EcdsaP256Sha256 => &ECDSA_P256_SHA256_ASN1,
        SigningScheme::EcdsaP256Sha384 => &ECDSA_P256_SHA384_ASN1,
        SigningScheme::EcdsaP384Sha256 => &ECDSA_P384_SHA256_ASN1,
        SigningScheme::EcdsaP384Sha384 => &ECDSA_P384_SHA384_ASN1,
        SigningScheme::Ed25519 => &ED25519,
        SigningScheme::RsaPssSha256 => &RSA_PSS_2048_8192_SHA256,
        SigningScheme::RsaPssSha384 => &RSA_PSS_2048_8192_SHA384,
        SigningScheme::RsaPssSha512 => &RSA_PSS_2048_8192_SHA512,
        SigningScheme::RsaPkcs1Sha256 => &RSA_PKCS1_2048_8192_SHA256,
        SigningScheme::RsaPkcs1Sha384 => &RSA_PKCS1_2048_8192_SHA384,
        SigningScheme::RsaPkcs1Sha512 => &RSA_PKCS1_2048_8192_SHA512,
        other => {
            return Err(Error::UnsupportedAlgorithm(format!("{} is not supported", other.name())));
        }
    })
}
