//! Sigstore bundles, verified without a network.
//!
//! A bundle contains a short-lived certificate that names the signer, or names a key. It also
//! contains the proof that a public log has the signature. The certificate must have been valid at
//! the time for which the log or a time-stamping authority vouches. Today's date does not matter.
//! The logs and the authorities come from the trusted root, which is built into the program or read
//! from a file.

mod ring;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ikigai_protocol::{Digest, written_out};
use serde::Deserialize;
use sigstore_verify::trust_root::{SIGSTORE_PRODUCTION_TRUSTED_ROOT, TrustedRoot};
use sigstore_verify::types::bundle::VerificationMaterialContent;
use sigstore_verify::types::{Bundle as Contents, SignatureContent};
use sigstore_verify::{
    CertificateError, Error, Policy, PublicKeyVerificationPolicy, TimestampError,
    TransparencyLogError, VerificationPolicy, VerificationResult, Verifier, crypto,
};

use super::{Payload, RootError, SignatureError, SignatureKind, Signed, SignedPart, SignerKey};
use crate::signer::{CertificateIdentity, Signer};

/// The statements about a file that count as a signature over it: cosign's statement, and the
/// statement of the workflow that built the file. Other statements, such as scan results or
/// component lists, are about the file and may even say that it is bad.
const SIGNING_STATEMENTS: [&str; 3] = [
    "https://sigstore.dev/cosign/sign/v1",
    "https://slsa.dev/provenance/v0.2",
    "https://slsa.dev/provenance/v1",
];

/// The logs and the authorities for verifying Sigstore bundles.
pub struct SigstoreRoot {
    verifier: Verifier,
    /// The ids of the logs.
    logs: Vec<Vec<u8>>,
}

impl SigstoreRoot {
    /// Returns the root of the public Sigstore instance, as it was when the program was built.
    ///
    /// # Errors
    ///
    /// Never, unless the program was built with a root that the verifier refuses.
    pub fn compiled_in() -> Result<Self, RootError> {
        Self::from_json(SIGSTORE_PRODUCTION_TRUSTED_ROOT)
    }

    /// Parses the contents of a file `trusted_root.json`.
    ///
    /// # Errors
    ///
    /// Fails if the text is not a trusted root, or if the verifier refuses a key or certificate in
    /// it.
    pub fn from_json(json: &str) -> Result<Self, RootError> {
        ring::install();
        let error = |reason: &dyn ToString| RootError(written_out(&reason.to_string()));
        let root = TrustedRoot::from_json(json).map_err(|reason| error(&reason))?;
        let verifier = Verifier::new(&root).map_err(|reason| error(&reason))?;
        let logs = root.tlogs.iter().map(|log| log.log_id.key_id.as_bytes().to_vec()).collect();
        Ok(Self { verifier, logs })
    }
}

/// A Sigstore bundle.
#[derive(Clone, Debug)]
pub struct Bundle(Contents);

impl Bundle {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, SignatureError> {
        let malformed = |reason: &dyn ToString| {
            SignatureError::malformed(SignatureKind::Sigstore, reason.to_string())
        };
        let text = str::from_utf8(bytes).map_err(|error| malformed(&error))?;
        let contents = Contents::from_json(text).map_err(|error| malformed(&error))?;
        Ok(Self(contents))
    }

    pub(super) fn verify(
        &self,
        payload: Payload<'_>,
        keys: &[&SignerKey],
        root: &SigstoreRoot,
    ) -> Result<Signed, SignatureError> {
        if !matches!(
            self.0.verification_material.content,
            VerificationMaterialContent::PublicKey(_)
        ) {
            let (part, result) =
                self.verify_with(&VerificationPolicy::any_identity(), payload, root)?;
            let signer = self.identity(&result)?;
            return self.signed(signer, part, &result, payload);
        }
        let mut refusal = None;
        for key in keys {
            let SignerKey::Pem(pem) = key else { continue };
            let policy = PublicKeyVerificationPolicy::new(pem.der().clone());
            match self.verify_with(&policy, payload, root) {
                Ok((part, result)) => return self.signed(key.signer(), part, &result, payload),
                Err(error) => refusal = Some(error),
            }
        }
        Err(refusal.unwrap_or_else(|| SignatureError::UnknownKey {
            kind: SignatureKind::Sigstore,
            signer: self.claimed(),
        }))
    }

    /// Verifies the bundle over the file, or otherwise over the manifest.
    fn verify_with(
        &self,
        policy: &dyn Policy,
        payload: Payload<'_>,
        root: &SigstoreRoot,
    ) -> Result<(SignedPart, VerificationResult), SignatureError> {
        let verify = |bytes: &[u8]| {
            ring::with_artifact(bytes, || root.verifier.verify(bytes, &self.0, policy))
        };
        let of_file = match verify(payload.file) {
            Ok(result) => return Ok((SignedPart::File, result)),
            Err(error) => error,
        };
        let Some(manifest) = payload.manifest else { return Err(self.refusal(of_file, root)) };
        match verify(manifest) {
            Ok(result) => Ok((SignedPart::Manifest, result)),
            // The bundle is not over the manifest, so the error about the file is the one to
            // report.
            Err(Error::ArtifactMismatch(_)) => Err(self.refusal(of_file, root)),
            Err(error) => Err(self.refusal(error, root)),
        }
    }

    fn signed(
        &self,
        signer: Signer,
        part: SignedPart,
        result: &VerificationResult,
        payload: Payload<'_>,
    ) -> Result<Signed, SignatureError> {
        self.check_statement()?;
        if let (SignedPart::Manifest, Some(manifest)) = (part, payload.manifest) {
            let digest = format!("sha256:{}", Digest::from_bytes(payload.file));
            if !has_layer(manifest, &digest)? {
                return Err(SignatureError::NotOfManifest { signer: signer.to_string(), digest });
            }
        }
        let at = result.verified_timestamps().iter().min().copied();
        Ok(Signed { signer, part, at })
    }

    /// Refuses statements that do not count as a signature.
    fn check_statement(&self) -> Result<(), SignatureError> {
        #[derive(Deserialize)]
        struct Statement {
            #[serde(rename = "predicateType")]
            predicate_type: String,
        }
        let SignatureContent::DsseEnvelope(envelope) = &self.0.content else { return Ok(()) };
        let statement: Statement =
            serde_json::from_slice(envelope.payload.as_bytes()).map_err(|error| {
                SignatureError::malformed(SignatureKind::Sigstore, error.to_string())
            })?;
        let predicate = statement.predicate_type;
        if SIGNING_STATEMENTS.contains(&predicate.as_str()) {
            return Ok(());
        }
        let reason = format!(
            "it is a statement of the type `{predicate}` about the file, which is not a signature; \
             sign with `cosign sign-blob` or `cosign sign`"
        );
        Err(SignatureError::unsupported(SignatureKind::Sigstore, reason))
    }

    /// Returns the identity in the verified certificate.
    fn identity(&self, result: &VerificationResult) -> Result<Signer, SignatureError> {
        let (Some(issuer), Some(subject)) = (result.issuer(), result.identity()) else {
            let reason = "its certificate has no issuer or no subject";
            return Err(SignatureError::malformed(SignatureKind::Sigstore, reason));
        };
        CertificateIdentity::new(issuer, subject.as_str())
            .map(Signer::Sigstore)
            .map_err(|error| SignatureError::malformed(SignatureKind::Sigstore, error.to_string()))
    }

    /// Returns the signer that the bundle claims, for messages.
    fn claimed(&self) -> String {
        if let VerificationMaterialContent::PublicKey(key) = &self.0.verification_material.content {
            return written_out(&format!("key with the hint {}", key.hint));
        }
        let certificate = self.0.signing_certificate();
        let info = certificate.and_then(|der| crypto::parse_certificate_info(der).ok());
        let (issuer, subject) = match &info {
            Some(info) => {
                (info.issuer.as_deref(), info.identity.as_ref().map(|name| name.as_str()))
            }
            None => (None, None),
        };
        let or_unknown = |part: Option<&str>| part.unwrap_or("unknown").to_owned();
        written_out(&format!("sigstore:{}#{}", or_unknown(issuer), or_unknown(subject)))
    }

    /// Returns the id of a log in the bundle that is not in the root.
    fn unknown_log(&self, root: &SigstoreRoot) -> Option<String> {
        let entries = self.0.verification_material.tlog_entries.iter();
        let mut ids = entries.map(|entry| &entry.log_id.key_id);
        let id = ids.find(|id| !root.logs.iter().any(|known| known == id.as_bytes()))?;
        Some(STANDARD.encode(id.as_bytes()))
    }

    fn refusal(&self, error: Error, root: &SigstoreRoot) -> SignatureError {
        let kind = SignatureKind::Sigstore;
        let reason = written_out(&error.to_string());
        let signer = self.claimed();
        // The verifier has no separate error for a log that it looks up to check a time.
        let is_of_log = matches!(error, Error::TransparencyLog(_) | Error::Timestamp(_));
        if let Some(log) = self.unknown_log(root).filter(|_| is_of_log) {
            return SignatureError::UnknownLog { signer, reason: format!("the log `{log}`") };
        }
        match error {
            Error::Certificate(CertificateError::ChainInvalid(detail)) => {
                // If a certificate in the chain was not valid at the time of signing, only these
                // words of the verifier's certificate library show it.
                let is_of_time = ["CertExpired", "CertNotValidYet"];
                match is_of_time.iter().any(|word| detail.contains(word)) {
                    true => SignatureError::Expired { signer, reason },
                    false => SignatureError::UnknownLog { signer, reason },
                }
            }
            Error::Certificate(
                CertificateError::Expired { .. } | CertificateError::NotYetValid { .. },
            )
            | Error::TransparencyLog(TransparencyLogError::IntegratedTime(_))
            | Error::Timestamp(TimestampError::OutsideAuthorityValidity { .. }) => {
                SignatureError::Expired { signer, reason }
            }
            Error::Certificate(CertificateError::NoValidAuthority { .. })
            | Error::TransparencyLog(TransparencyLogError::UnknownLog { .. }) => {
                SignatureError::UnknownLog { signer, reason }
            }
            Error::UnsupportedBundle(_) | Error::UnsupportedArtifact(_) => {
                SignatureError::Unsupported { kind, reason }
            }
            Error::InvalidBundle(_) | Error::Bundle(_) | Error::Types(_) => {
                SignatureError::Malformed { kind, reason }
            }
            _ => SignatureError::Bad { kind, signer, reason },
        }
    }
}

/// Returns whether the manifest has a layer with this digest.
fn has_layer(manifest: &[u8], digest: &str) -> Result<bool, SignatureError> {
    #[derive(Deserialize)]
    struct LayerList {
        #[serde(default)]
        layers: Vec<LayerDigest>,
    }
    #[derive(Deserialize)]
    struct LayerDigest {
        digest: String,
    }
    let manifest: LayerList = serde_json::from_slice(manifest).map_err(|error| {
        SignatureError::malformed(
            SignatureKind::Sigstore,
            format!("the OCI manifest is not JSON: {error}"),
        )
    })?;
    Ok(manifest.layers.iter().any(|layer| layer.digest == digest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_names_its_layers_by_digest() {
        let digest = format!("sha256:{}", Digest::from_bytes(b"a tool"));
        let manifest = format!(r#"{{"layers":[{{"digest":"sha256:0"}},{{"digest":"{digest}"}}]}}"#);
        assert!(has_layer(manifest.as_bytes(), &digest).expect("a manifest"));
        assert!(!has_layer(manifest.as_bytes(), "sha256:1").expect("a manifest"));
        // An index has no layers. The digest must not count at any other place.
        let index = format!(r#"{{"manifests":[{{"digest":"{digest}"}}]}}"#);
        assert!(!has_layer(index.as_bytes(), &digest).expect("an index"));
        assert!(has_layer(b"no JSON", &digest).is_err());
    }
}
