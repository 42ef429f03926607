//! The signer of a tool's file, in the text form that a lock and the user see.
//!
//! This module verifies no signatures and holds no keys. Other modules name a signer after they
//! have verified its signature.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use ikigai_protocol::is_invisible;

/// The signer of a file. Two signatures have the same signer if their texts are equal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Signer {
    /// The file is unsigned: `none`.
    None,
    /// An OpenSSH key, by the SHA-256 digest of its public key in wire format: `ssh:SHA256:` and 43
    /// characters of Base64, as `ssh-keygen -l` prints it.
    Ssh([u8; 32]),
    /// A minisign key, by its id: `minisign:` and 16 hexadecimal digits, as minisign prints it. A
    /// minisign file contains the id with its lowest byte first.
    Minisign(u64),
    /// A PEM key, by the SHA-256 digest of its DER: `key:SHA256:` and 43 characters of Base64.
    Key([u8; 32]),
    /// An identity in a Sigstore certificate: `sigstore:ISSUER#SUBJECT`.
    Sigstore(CertificateIdentity),
}

impl Signer {
    /// Returns whether the file is unsigned.
    #[must_use]
    pub fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }
}

/// An identity in a Sigstore certificate: the subject, and the issuer that vouches for it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CertificateIdentity {
    issuer: String,
    subject: String,
}

impl CertificateIdentity {
    /// Returns the identity `subject` (an email address, or the URL of a workflow), for which
    /// `issuer` (the URL of an OpenID Connect issuer) vouches.
    ///
    /// # Errors
    ///
    /// Fails if one of them is empty, or has white space or an invisible character, or if the
    /// issuer has a `#`, which an issuer's URL must not have.
    pub fn new(issuer: &str, subject: &str) -> Result<Self, SignerError> {
        let is_bad = |c: char| c.is_whitespace() || is_invisible(c);
        if [issuer, subject].iter().any(|text| text.is_empty() || text.contains(is_bad))
            || issuer.contains('#')
        {
            return Err(SignerError(format!("sigstore:{issuer}#{subject}")));
        }
        Ok(Self { issuer: issuer.to_owned(), subject: subject.to_owned() })
    }

    /// Returns the URL of the issuer.
    #[must_use]
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Returns the subject.
    #[must_use]
    pub fn subject(&self) -> &str {
        &self.subject
    }
}

/// The error for a text that names no signer. The text may contain any character.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} does not name a signer; signers are `ssh:SHA256:…`, `minisign:KEYID`, `key:SHA256:…`, \
     `sigstore:ISSUER#SUBJECT` and `none`"
)]
pub struct SignerError(String);

impl fmt::Display for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Ssh(digest) => write!(f, "ssh:SHA256:{}", STANDARD_NO_PAD.encode(digest)),
            Self::Key(digest) => write!(f, "key:SHA256:{}", STANDARD_NO_PAD.encode(digest)),
            Self::Minisign(id) => write!(f, "minisign:{id:016X}"),
            Self::Sigstore(CertificateIdentity { issuer, subject }) => {
                write!(f, "sigstore:{issuer}#{subject}")
            }
        }
    }
}

impl FromStr for Signer {
    type Err = SignerError;

    fn from_str(text: &str) -> Result<Self, SignerError> {
        let error = || SignerError(text.to_owned());
        if text == "none" {
            return Ok(Self::None);
        }
        for (prefix, signer) in
            [("ssh:SHA256:", Self::Ssh as fn(_) -> _), ("key:SHA256:", Self::Key)]
        {
            if let Some(fingerprint) = text.strip_prefix(prefix) {
                let digest = STANDARD_NO_PAD.decode(fingerprint).map_err(|_| error())?;
                return digest.try_into().map(signer).map_err(|_| error());
            }
        }
        if let Some(id) = text.strip_prefix("minisign:") {
            let is_id = id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
            let id = is_id.then(|| u64::from_str_radix(id, 16)).ok_or_else(error)?;
            return id.map(Self::Minisign).map_err(|_| error());
        }
        let identity = text.strip_prefix("sigstore:").and_then(|rest| rest.split_once('#'));
        let (issuer, subject) = identity.ok_or_else(error)?;
        CertificateIdentity::new(issuer, subject).map(Self::Sigstore)
    }
}

impl serde::Serialize for Signer {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn signers_come_back_from_their_texts() {
        for text in [
            "none",
            "ssh:SHA256:ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0",
            "key:SHA256:ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0",
            "minisign:0000A3F1E7620F18",
            "sigstore:https://accounts.google.com#jane@acme.example",
            "sigstore:https://issuer#https://github.com/acme/weather/.github/workflows/a.yml@refs/tags/v1#2",
        ] {
            assert_eq!(text.parse::<Signer>().expect(text).to_string(), text);
        }
        let lower: Signer = "minisign:0000a3f1e7620f18".parse().expect("a signer");
        assert_eq!(lower, Signer::Minisign(0xa3f1_e762_0f18));
    }

    #[test]
    fn other_texts_name_no_signer() {
        for text in [
            "",
            "None",
            "ssh:MD5:aa",
            "ssh:SHA256:",
            "ssh:SHA256:ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=",
            "ssh:SHA256:ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa1",
            "minisign:+000A3F1E7620F18",
            "minisign:A3F1",
            "sigstore:https://issuer",
            "sigstore:#subject",
            "sigstore:https://issuer#",
            "sigstore:https://issuer#a b",
            "sigstore:https://issuer#a\u{202e}b",
            "sigstore:https://issuer#a\u{200b}b",
        ] {
            let error = text.parse::<Signer>().expect_err(text).to_string();
            assert!(!error.contains(is_invisible), "{error:?}");
        }
        assert!(CertificateIdentity::new("https://issuer#a", "b").is_err());
    }

    proptest! {
        #[test]
        fn every_signer_comes_back(
            digest: [u8; 32],
            id: u64,
            issuer in "[!-\"$-~]{1,20}",
            subject in "[!-~é]{1,20}",
        ) {
            let identity = CertificateIdentity::new(&issuer, &subject).expect("an identity");
            for signer in [Signer::Ssh(digest), Signer::Key(digest), Signer::Minisign(id), Signer::Sigstore(identity)] {
                let read = signer.to_string().parse();
                prop_assert_eq!(read, Ok(signer));
            }
        }

        #[test]
        fn a_text_has_one_spelling(text in "(ssh:SHA256:|key:SHA256:|minisign:|sigstore:)[0-9A-Za-z+/#=]{0,44}") {
            if let Ok(signer) = text.parse::<Signer>() {
                prop_assert!(signer.to_string().eq_ignore_ascii_case(&text));
            }
        }
    }
}
