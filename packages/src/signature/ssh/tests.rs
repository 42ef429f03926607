//! Signatures in OpenSSH's format. The tests make them with ring's keys, so that each part can be
//! wrong.

use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _,
};

use super::*;
use crate::signature::{PublicKeyError, SSH_NAMESPACE};

const FILE: &[u8] = b"\0asm and the rest of a tool";

/// The parts of a signature. A test may change each of them before they are joined.
struct Parts {
    key: Vec<u8>,
    namespace: &'static str,
    hash: &'static str,
    /// The bytes that the key signs.
    message: Vec<u8>,
    algorithm: &'static str,
    signature: Vec<u8>,
    /// The bytes that follow the signature in its innermost part.
    state: Vec<u8>,
}

fn strings(parts: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    parts.iter().for_each(|part| put_string(&mut bytes, part));
    bytes
}

fn message(namespace: &str, hash: &str, file: &[u8]) -> Vec<u8> {
    let algorithm = if hash == "sha256" { &SHA256 } else { &SHA512 };
    let digest = digest(algorithm, file);
    let parts = strings(&[namespace.as_bytes(), b"", hash.as_bytes(), digest.as_ref()]);
    [MAGIC, &parts].concat()
}

fn ed25519() -> Ed25519KeyPair {
    let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("a key");
    Ed25519KeyPair::from_pkcs8(document.as_ref()).expect("a key")
}

impl Parts {
    fn signed(pair: &Ed25519KeyPair, namespace: &'static str, hash: &'static str) -> Self {
        let message = message(namespace, hash, FILE);
        Self {
            key: strings(&[b"ssh-ed25519", pair.public_key().as_ref()]),
            namespace,
            hash,
            signature: pair.sign(&message).as_ref().to_vec(),
            message,
            algorithm: "ssh-ed25519",
            state: Vec::new(),
        }
    }

    fn touched(pair: &Ed25519KeyPair, flags: u8) -> Self {
        let mut parts = Self::signed(pair, SSH_NAMESPACE, "sha512");
        parts.algorithm = "sk-ssh-ed25519@openssh.com";
        parts.key = strings(&[parts.algorithm.as_bytes(), pair.public_key().as_ref(), b"ssh:"]);
        parts.state = vec![flags, 0, 0, 0, 7];
        let application = digest(&SHA256, b"ssh:");
        let message = digest(&SHA256, &parts.message);
        let signed = [application.as_ref(), &parts.state, message.as_ref()].concat();
        parts.signature = pair.sign(&signed).as_ref().to_vec();
        parts
    }

    fn blob(&self) -> Vec<u8> {
        let mut inner = strings(&[self.algorithm.as_bytes(), &self.signature]);
        inner.extend(&self.state);
        let mut blob = MAGIC.to_vec();
        blob.extend(VERSION.to_be_bytes());
        let (namespace, hash) = (self.namespace.as_bytes(), self.hash.as_bytes());
        blob.extend(strings(&[&self.key, namespace, b"", hash, &inner]));
        blob
    }

    fn verdict(&self) -> Result<Signer, SignatureError> {
        Sshsig::parse(armoured(&self.blob()).as_bytes())?.verify(FILE, SSH_NAMESPACE)
    }
}

fn armoured(blob: &[u8]) -> String {
    format!("{ARMOUR_BEGIN}\n{}\n{ARMOUR_END}\n", STANDARD.encode(blob))
}

/// Asserts that a signature is refused, and that the message says why.
fn refused(verdict: Result<Signer, SignatureError>, reason: &str) {
    let error = verdict.expect_err(reason).to_string();
    assert!(error.contains(reason), "expected {reason:?} in {error:?}");
}

#[test]
fn a_signature_with_either_hash_names_its_key() {
    let pair = ed25519();
    for hash in ["sha256", "sha512"] {
        let parts = Parts::signed(&pair, SSH_NAMESPACE, hash);
        let fingerprint = digest(&SHA256, &parts.key);
        let signer = Signer::Ssh(fingerprint.as_ref().try_into().expect("32 bytes"));
        assert_eq!(parts.verdict().expect(hash), signer);
    }
}

#[test]
fn a_signature_over_another_file_is_bad() {
    let parts = Parts::signed(&ed25519(), SSH_NAMESPACE, "sha512");
    let signature = Sshsig::parse(armoured(&parts.blob()).as_bytes()).expect("a signature");
    let verdict = signature.verify(b"another file", SSH_NAMESPACE);
    refused(verdict, "is bad: it is over another file");
}

#[test]
fn a_signature_for_another_purpose_is_refused() {
    let parts = Parts::signed(&ed25519(), "git", "sha512");
    refused(parts.verdict(), "is for the namespace \"git\"");
    let parts = Parts { namespace: SSH_NAMESPACE, ..parts };
    refused(parts.verdict(), "is bad");
}

#[test]
fn a_swapped_key_is_refused() {
    let mut parts = Parts::signed(&ed25519(), SSH_NAMESPACE, "sha512");
    parts.key = strings(&[b"ssh-ed25519", ed25519().public_key().as_ref()]);
    refused(parts.verdict(), "is bad");
}

#[test]
fn a_wrong_name_of_the_hash_is_refused() {
    let parts = Parts::signed(&ed25519(), SSH_NAMESPACE, "sha512");
    let other = |hash| Parts { hash, ..Parts::signed(&ed25519(), SSH_NAMESPACE, "sha512") };
    refused(other("sha1").verdict(), "`sha1`, not with sha256 or sha512");
    refused(other("SHA512").verdict(), "`SHA512`, not with");
    refused(Parts { hash: "sha256", ..parts }.verdict(), "is bad");
}

#[test]
fn an_algorithm_that_is_not_that_of_the_key_is_refused() {
    let mut parts = Parts::signed(&ed25519(), SSH_NAMESPACE, "sha512");
    parts.algorithm = "rsa-sha2-512";
    refused(parts.verdict(), "its algorithm is `rsa-sha2-512`, but its key is `ssh-ed25519`");
}

#[test]
fn a_signature_that_is_cut_anywhere_is_refused() {
    let blob = Parts::signed(&ed25519(), SSH_NAMESPACE, "sha512").blob();
    for length in 0..blob.len() {
        let verdict = Sshsig::parse(armoured(&blob[..length]).as_bytes());
        let verdict = verdict.and_then(|signature| signature.verify(FILE, SSH_NAMESPACE));
        assert!(matches!(verdict, Err(SignatureError::Malformed { .. })), "{length}: {verdict:?}");
    }
    let text = armoured(&blob);
    for length in ARMOUR_BEGIN.len()..text.trim_end().len() {
        refused(Sshsig::parse(&text.as_bytes()[..length]).map(|_| Signer::None), "it is cut");
    }
}

#[test]
fn bytes_after_the_end_are_refused_at_every_level() {
    let pair = ed25519();
    let mut parts = Parts::signed(&pair, SSH_NAMESPACE, "sha512");
    let blob = [&parts.blob()[..], b"x"].concat();
    let parse = |text: &str| Sshsig::parse(text.as_bytes()).map(|_| Signer::None);
    refused(parse(&armoured(&blob)), "bytes follow its end");
    let text = armoured(&parts.blob());
    refused(parse(&format!("{text}more")), "more follows");
    refused(parse(&format!("{text}{text}")), "more follows");
    parts.state = vec![0];
    refused(parts.verdict(), "bytes follow its innermost part");
    parts.state.clear();
    parts.key.push(0);
    refused(parts.verdict(), "bytes follow the end of the key");
}

#[test]
fn any_changed_bit_is_refused() {
    let blob = Parts::signed(&ed25519(), SSH_NAMESPACE, "sha512").blob();
    for bit in 0..blob.len() * 8 {
        let mut changed = blob.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        let verdict = Sshsig::parse(armoured(&changed).as_bytes());
        assert!(
            verdict.and_then(|signature| signature.verify(FILE, SSH_NAMESPACE)).is_err(),
            "{bit}"
        );
    }
}

#[test]
fn a_security_key_has_to_be_touched() {
    let pair = ed25519();
    assert!(Parts::touched(&pair, TOUCHED).verdict().is_ok());
    refused(Parts::touched(&pair, 0).verdict(), "its security key was not touched");
    let mut parts = Parts::touched(&pair, TOUCHED);
    parts.state[4] = 8;
    refused(parts.verdict(), "is bad");
    parts.state.truncate(4);
    refused(parts.verdict(), "it has no counter");
}

const TOUCHED: u8 = 1;

/// Encodes the integer with these bytes in SSH's wire format.
fn integer(bytes: &[u8]) -> Vec<u8> {
    let start = bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len());
    let is_high = bytes.get(start).is_some_and(|byte| *byte >= 0x80);
    [vec![0; usize::from(is_high)], bytes[start..].to_vec()].concat()
}

#[test]
fn scalars_of_ecdsa_that_are_short_are_filled() {
    let (random, algorithm) = (SystemRandom::new(), &ECDSA_P256_SHA256_FIXED_SIGNING);
    let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).expect("a key");
    let pair = EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).expect("a key");
    let mut parts = Parts::signed(&ed25519(), SSH_NAMESPACE, "sha512");
    parts.algorithm = "ecdsa-sha2-nistp256";
    let curve: &[u8] = b"nistp256";
    parts.key = strings(&[parts.algorithm.as_bytes(), curve, pair.public_key().as_ref()]);
    // About one signature in 128 has a scalar with a leading zero byte.
    let mut has_short = false;
    while !has_short {
        let signature = pair.sign(&random, &parts.message).expect("a signature");
        let (r, s) = signature.as_ref().split_at(32);
        has_short = r[0] == 0 || s[0] == 0;
        parts.signature = strings(&[&integer(r), &integer(s)]);
        parts.verdict().expect("valid");
    }
    let long = [&[1][..], &[0; 32]].concat();
    parts.signature = strings(&[&long, &long]);
    refused(parts.verdict(), "not a pair of scalars");
}

#[test]
fn short_keys_and_those_of_other_types_are_refused() {
    let rsa = |bytes: usize| strings(&[b"ssh-rsa", &[1, 0, 1], &integer(&vec![0xff; bytes])]);
    let p521: &[u8] = b"ecdsa-sha2-nistp521";
    let certificate: &[u8] = b"ssh-ed25519-cert-v01@openssh.com";
    for (key, reason) in [
        (rsa(255), "RSA with 2040 bits; from 2048"),
        (rsa(1025), "RSA with 8200 bits"),
        (strings(&[p521]), "type `ecdsa-sha2-nistp521`, which is not supported"),
        (strings(&[certificate]), "certificates of ssh are not supported"),
        (strings(&[b"ssh-ed25519", &[0; 31]]), "it has not 32 bytes"),
        (strings(&[b"ecdsa-sha2-nistp256", b"nistp384", &[4; 65]]), "another curve"),
        (strings(&[b"ecdsa-sha2-nistp256", b"nistp256", &[2; 33]]), "no point of its curve"),
        (strings(&[b"ssh-rsa", &[1, 0, 1], &[0xff; 256]]), "no modulus and exponent"),
    ] {
        let parts = Parts { key, ..Parts::signed(&ed25519(), SSH_NAMESPACE, "sha512") };
        refused(parts.verdict(), reason);
    }
    assert!(SshKey::from_blob(&rsa(256)).is_ok());
}

#[test]
fn a_key_in_a_policy_is_one_line_of_one_type() {
    let blob = strings(&[b"ssh-ed25519", ed25519().public_key().as_ref()]);
    let digits = STANDARD.encode(&blob);
    let line = format!("ssh-ed25519 {digits} somebody@somewhere");
    assert_eq!(SshKey::parse(&line).expect("a key"), SshKey::from_blob(&blob).expect("a key"));
    for (text, reason) in [
        ("", "`TYPE BASE64`"),
        ("ssh-ed25519", "`TYPE BASE64`"),
        (&format!("ssh-rsa {digits}"), "says `ssh-rsa`, but within is `ssh-ed25519`"),
        (&format!("{line}\n{line}"), "more than one line"),
        ("ssh-ed25519 A\u{202e}A", "no public key of ssh"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\n", "this is a private key instead"),
    ] {
        let error: PublicKeyError = SshKey::parse(text).expect_err(text);
        assert!(error.to_string().contains(reason), "{error}");
    }
}
