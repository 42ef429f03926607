//! The bundles of sigstore-conformance, each with the verdict that its name implies.

use std::error::Error;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ikigai_packages::signature::{
    Payload, PemKey, PublicKeyError, RootError, Signature, SignatureError, Signed, SignedPart,
    SignerKey, SigstoreRoot,
};
use ikigai_packages::{CertificateIdentity, Signer};

const IDENTITY: &str = "https://github.com/sigstore-conformance/extremely-dangerous-public-oidc-beacon/.github/workflows/extremely-dangerous-oidc-beacon.yml@refs/heads/main";
const ISSUER: &str = "https://token.actions.githubusercontent.com";

/// A P-256 key whose private half was not kept.
const OTHER_KEY: &str = "-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE0V5GJRho5NGMN7gnZP5EFyZuPIgI
nZ7mb1pDbvCUMzd5paaoIcFlYUiD3ZGZSUpH+5Ah0KffUY6JfP+pZTIOHA==
-----END PUBLIC KEY-----
";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sigstore-conformance")
}

/// One directory of the suite.
struct Case {
    bundle: Vec<u8>,
    artifact: Vec<u8>,
    keys: Vec<SignerKey>,
    signer: Signer,
    root: SigstoreRoot,
}

impl Case {
    fn read(name: &str) -> Self {
        Self::try_read(name).expect(name)
    }

    /// Fails if the root or the key of the case is refused.
    fn try_read(name: &str) -> Result<Self, Box<dyn Error>> {
        let path = folder().join(name);
        let text = |name: &str| fs::read_to_string(path.join(name)).ok();
        let issuer = text("issuer").unwrap_or(ISSUER.to_owned());
        let identity = text("identity").unwrap_or(IDENTITY.to_owned());
        let identity =
            CertificateIdentity::new(issuer.trim(), identity.trim()).expect("an identity");
        let key = text("key.pub").map(|pem| PemKey::parse(&pem).map(SignerKey::Pem)).transpose()?;
        let root = match text("trusted_root.json") {
            Some(json) => SigstoreRoot::from_json(&json),
            None => SigstoreRoot::compiled_in(),
        }?;
        let artifact = fs::read(path.join("artifact"));
        Ok(Self {
            bundle: fs::read(path.join("bundle.sigstore.json")).expect("a bundle"),
            artifact: artifact.unwrap_or_else(|_| fs::read(folder().join("a.txt")).expect("a.txt")),
            signer: key.as_ref().map_or(Signer::Sigstore(identity), SignerKey::signer),
            keys: key.into_iter().collect(),
            root,
        })
    }

    fn verify(&self, payload: Payload<'_>) -> Result<Signed, SignatureError> {
        let keys: Vec<&SignerKey> = self.keys.iter().collect();
        Signature::parse(&self.bundle)?.verify(payload, &keys, &self.root)
    }

    fn verdict(&self) -> Result<Signed, SignatureError> {
        self.verify(Payload::of_tool(&self.artifact, None))
    }
}

/// Returns the reason for a refusal in one word.
fn word(error: &SignatureError) -> &'static str {
    match error {
        SignatureError::Malformed { .. } => "malformed",
        SignatureError::Unsupported { .. } => "unsupported",
        SignatureError::Bad { .. } => "bad",
        SignatureError::Expired { .. } => "expired",
        SignatureError::UnknownKey { .. } => "unknown key",
        SignatureError::UnknownLog { .. } => "unknown log",
        other => panic!("no reason for a bundle: {other}"),
    }
}

/// Every directory of the suite and its verdict. A name that ends in `_fail` requires a refusal,
/// and any other name a valid signature. The reason is ikigai's own.
const VERDICTS: &[(&str, &str)] = &[
    ("bundle-empty-certificate-chain_fail", "malformed"),
    ("bundle-from-wrong-instance_fail", "unknown log"),
    ("bundle-invalid-base64-signature_fail", "malformed"),
    ("bundle-malformed-json_fail", "malformed"),
    ("bundle-negative-log-index_fail", "malformed"),
    ("bundle-unknown-version_fail", "malformed"),
    ("bundle-with-root-cert_fail", "malformed"),
    ("bundle-with-sct-with-extensions", "signed"),
    ("checkpoint-bad-keyhint_fail", "bad"),
    ("checkpoint-wrong-roothash_fail", "malformed"),
    ("dsse-invalid-sig_fail", "bad"),
    ("dsse-mismatch-envelope_fail", "bad"),
    ("dsse-mismatch-sig_fail", "bad"),
    ("happy-path-intoto-in-dsse-v3", "signed"),
    ("happy-path-v0.1", "signed"),
    ("happy-path-v0.2", "signed"),
    ("happy-path-v0.3", "signed"),
    ("happy-path-v0.3-new-mediaType", "signed"),
    ("inclusion-proof-corrupted-hash_fail", "bad"),
    ("incorrect-public-key_fail", "bad"),
    ("integrated-time-in-future_fail", "expired"),
    ("intoto-expired-certificate_fail", "expired"),
    ("intoto-log-entry-mismatch_fail", "bad"),
    ("intoto-missing-inclusion-proof_fail", "malformed"),
    ("intoto-set-outside-signing-cert-validity_fail", "expired"),
    ("intoto-tsa-timestamp-outside-cert-validity_fail", "expired"),
    ("intoto-with-custom-trust-root", "signed"),
    ("invalid-checkpoint-signature_fail", "bad"),
    ("invalid-ct-key_fail", "bad"),
    ("invalid-inclusion-proof_fail", "malformed"),
    ("managed-key-and-trusted-root", "signed"),
    ("managed-key-happy-path", "signed"),
    ("managed-key-no-key_fail", "unknown key"),
    ("managed-key-wrong-key_fail", "no key"),
    ("message-digest-mismatch_fail", "bad"),
    ("rekor2-checkpoint-cosigned", "signed"),
    ("rekor2-checkpoint-missing-log-signature_fail", "malformed"),
    ("rekor2-checkpoint-missing-origin_fail", "malformed"),
    ("rekor2-checkpoint-missing-root-hash_fail", "malformed"),
    ("rekor2-checkpoint-missing-size_fail", "malformed"),
    ("rekor2-checkpoint-multiple-cosigs", "signed"),
    ("rekor2-checkpoint-no-matching-signature_fail", "bad"),
    ("rekor2-checkpoint-origin-not-first", "signed"),
    ("rekor2-checkpoint-two-sigs-cosigned", "signed"),
    ("rekor2-checkpoint-two-sigs-from-origin", "signed"),
    ("rekor2-dsse-happy-path", "signed"),
    ("rekor2-dsse-invalid-sig_fail", "bad"),
    ("rekor2-dsse-mismatch-envelope_fail", "bad"),
    ("rekor2-dsse-mismatch-sig_fail", "bad"),
    ("rekor2-happy-path", "signed"),
    ("rekor2-no-inclusion-proof_fail", "malformed"),
    ("rekor2-no-timestamp_fail", "bad"),
    ("rekor2-timestamp-outside-trust-root-tsa-validity_fail", "expired"),
    ("rekor2-timestamp-outside-tsa-cert-validity_fail", "bad"),
    ("rekor2-timestamp-payload-mismatch_fail", "bad"),
    ("rekor2-timestamp-untrusted-tsa-with-embedded-cert_fail", "bad"),
    ("rekor2-timestamp-untrusted-tsa-without-embedded-cert_fail", "bad"),
    ("rekor2-timestamp-with-embedded-cert", "signed"),
    ("rekor2-timestamp-with-expired-cert-chain", "signed"),
    ("rekor2-timestamp-with-incorrect-time_fail", "malformed"),
    ("rekor2-timestamp-without-embedded-cert", "signed"),
    ("set-invalid-signature_fail", "bad"),
    ("signature-mismatch_fail", "bad"),
    ("trust-root-tlog-missing-validity-start_fail", "no root"),
    ("trust-root-tlog-validity-end-inclusive", "signed"),
    ("trust-root-tsa-validity-end-inclusive", "signed"),
    ("wrong-hashedrekord-artifact_fail", "bad"),
    ("wrong-hashedrekord-cert-and-sig_fail", "bad"),
    ("wrong-hashedrekord-entry_fail", "bad"),
    ("wrong-material_fail", "bad"),
];

#[test]
fn every_bundle_has_its_verdict() {
    let entries = fs::read_dir(folder()).expect("the suite").map(|entry| entry.expect("an entry"));
    let mut names: Vec<String> = entries
        .filter(|entry| entry.file_type().expect("a type").is_dir())
        .map(|entry| entry.file_name().into_string().expect("a name"))
        .collect();
    names.sort();
    assert_eq!(names, VERDICTS.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    assert_eq!(names.len(), 70);

    let mut wrong = Vec::new();
    for (name, expected) in VERDICTS {
        let (found, detail) = match Case::try_read(name) {
            Err(error) if error.is::<PublicKeyError>() => ("no key", error.to_string()),
            Err(error) if error.is::<RootError>() => ("no root", error.to_string()),
            Err(error) => panic!("{name}: {error}"),
            Ok(case) => match case.verdict() {
                Ok(signed) if signed.signer == case.signer => ("signed", String::new()),
                Ok(signed) => ("signed by another", signed.signer.to_string()),
                Err(error) => (word(&error), error.to_string()),
            },
        };
        if found != *expected || (found == "signed") == name.ends_with("_fail") {
            wrong.push(format!("{name}: {found}, not {expected}: {detail}"));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn a_bundle_of_another_instance_says_what_to_do() {
    let error = Case::read("bundle-from-wrong-instance_fail").verdict().expect_err("refused");
    assert!(error.to_string().contains("Update ikigai, or name a root"), "{error}");
}

#[test]
fn a_log_that_the_root_does_not_know_is_told() {
    let case = Case::read("happy-path-v0.3");
    let signed = case.verdict().expect("signed");
    assert_eq!(signed.part, SignedPart::File);
    assert!(signed.at.is_some(), "a log vouches for the time");
    let root = Case::read("intoto-with-custom-trust-root").root;
    let error = Case { root, ..case }.verdict().expect_err("another root");
    assert_eq!(word(&error), "unknown log", "{error}");
}

#[test]
fn a_bundle_over_another_file_is_bad_and_never_unsigned() {
    let case = Case::read("happy-path-v0.3");
    for file in [&b""[..], b"another file"] {
        let error = case.verify(Payload::of_tool(file, None)).expect_err("another file");
        assert_eq!(word(&error), "bad", "{error}");
        assert!(error.to_string().contains(IDENTITY), "{error}");
    }
}

#[test]
fn a_bundle_by_a_key_needs_that_key() {
    let case = Case::read("managed-key-happy-path");
    let signer = case.verdict().expect("signed").signer;
    assert!(signer.to_string().starts_with("key:SHA256:"), "{signer}");
    let keys = vec![SignerKey::Pem(PemKey::parse(OTHER_KEY).expect("a key"))];
    let error = Case { keys, ..case }.verdict().expect_err("another key");
    assert_eq!(word(&error), "bad", "{error}");
}

#[test]
fn a_signed_manifest_has_to_name_the_file() {
    let case = Case::read("happy-path-v0.3");
    // The artifact takes the position of the manifest. A valid signature over it is not enough.
    let payload = Payload::of_tool(b"a tool", Some(&case.artifact));
    let error = case.verify(payload).expect_err("no manifest").to_string();
    assert!(error.contains("the OCI manifest is not JSON"), "{error}");
    // If the file itself is signed, the manifest is not checked.
    let payload = Payload::of_tool(&case.artifact, Some(b"{}"));
    assert_eq!(case.verify(payload).expect("signed").part, SignedPart::File);
}

#[test]
fn a_bundle_that_is_too_long_is_not_read_to_its_end() {
    let error = Signature::read(io::repeat(b'{')).expect_err("endless");
    assert!(matches!(error, SignatureError::TooLarge), "{error}");
    let case = Case::read("happy-path-v0.3");
    assert!(Signature::read(&case.bundle[..]).is_ok());
    let bundle = case.bundle.trim_ascii();
    for bytes in [&bundle[..bundle.len() - 1], &[bundle, b"{}"].concat()] {
        assert_eq!(word(&Signature::parse(bytes).expect_err("cut or more")), "malformed");
    }
}
