//! A release of ikigai: its list of digests, and the signer of that list.
//!
//! Reads the list, the list of sizes and the signatures next to it. It downloads nothing, and does
//! not look into the files of a release.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use ikigai_host::Digest;
use ikigai_packages::signature::{
    MinisignKey, Payload, PemKey, PublicKeyError, Signature, SignatureError, SignerKey, SshKey,
    beside,
};
use ikigai_packages::trust::{Trust, TrustAdmission};
use ikigai_packages::{Signer, open_regular};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::client::root;
use crate::error::CliError;

/// The list of digests, in the format of `sha256sum`.
pub(crate) const SUMS: &str = "SHA256SUMS";

/// The list of sizes in bytes. The list of digests covers it.
const SIZES: &str = "SIZES";

/// The namespace of ssh signatures over the list of digests. `cargo xtask dist` signs with it.
const NAMESPACE: &str = "ikigai-release";

/// The name that `tools` of a signer in the policy must match.
const RELEASE: &str = "ikigai";

/// The largest list in bytes.
const MAX_LIST_BYTES: u64 = 1 << 20;

/// The largest file with a public key in bytes.
const MAX_KEY_BYTES: u64 = 64 << 10;

/// The list of digests of a release.
pub(crate) struct ReleaseList {
    path: PathBuf,
    text: String,
    digests: BTreeMap<String, Digest>,
}

/// The signers that may vouch for a release.
pub(crate) enum ReleaseSigners {
    /// The owner of this key, which the user named.
    Key(SignerKey),
    /// The signers in the policy.
    Policy(Trust),
}

/// The signer that vouches for a release.
pub(crate) struct ReleaseVoucher {
    /// The signer.
    pub(crate) signer: Signer,
    /// The source of the trust in the signer, in words.
    pub(crate) trusted_by: String,
}

impl ReleaseList {
    /// Reads the list at a path.
    pub(crate) fn read(path: &Path) -> Result<Self, CliError> {
        let text = read_text(path, MAX_LIST_BYTES)
            .with_context(|| format!("cannot read the list of digests `{}`", path.display()))
            .map_err(|error| {
                CliError::failed(error).hint(format!(
                    "download `{SUMS}` of the release, and the signature of it, into the directory \
                     of the file; `--sums FILE` names a list elsewhere"
                ))
            })?;
        let digests = digests(&text).map_err(|reason| {
            let what = format!("`{}` is not a list of digests: {reason}", path.display());
            CliError::failed(anyhow::Error::msg(what)).hint("download it again")
        })?;
        Ok(Self { path: path.to_owned(), text, digests })
    }

    /// Returns the name of the list's file.
    pub(crate) fn name(&self) -> String {
        self.path.file_name().unwrap_or(self.path.as_os_str()).to_string_lossy().into_owned()
    }

    /// Returns the digest of the file of this name.
    pub(crate) fn digest(&self, name: &str) -> Option<Digest> {
        self.digests.get(name).copied()
    }

    /// Returns the size of the file of this name, if the release has a list of sizes and it lies
    /// next to this list.
    pub(crate) fn size(&self, name: &str) -> Option<u64> {
        let text = read_text(&self.path.with_file_name(SIZES), MAX_LIST_BYTES).ok()?;
        if self.digest(SIZES)? != Digest::from_bytes(text.as_bytes()) {
            return None;
        }
        let mut lines = text.lines().filter_map(|line| line.split_once("  "));
        lines.find(|(_, listed)| *listed == name).and_then(|(size, _)| size.parse().ok())
    }

    /// Verifies the signatures next to the list, and returns the first signer that may vouch for
    /// it.
    ///
    /// # Errors
    ///
    /// Fails if the list is unsigned, or if only others signed it.
    pub(crate) fn voucher(&self, signers: &ReleaseSigners) -> Result<ReleaseVoucher, CliError> {
        let (root, keys) = (root(None)?, signers.keys());
        let payload = Payload { file: self.text.as_bytes(), manifest: None, namespace: NAMESPACE };
        let mut refused = Vec::new();
        for path in beside(&self.path) {
            let opened = match open_regular(&path) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                opened => opened.map_err(SignatureError::Read),
            };
            let signature = opened.and_then(|file| Signature::read(&file));
            let reason = match signature.and_then(|it| it.verify(payload, &keys, &root)) {
                Ok(signed) => match signers.admit(&signed.signer) {
                    Ok(trusted_by) => {
                        return Ok(ReleaseVoucher { signer: signed.signer, trusted_by });
                    }
                    Err(reason) => reason,
                },
                Err(error) => signers.refusal(error),
            };
            refused.push(format!("`{}`: {reason}", path.display()));
        }
        let list = self.name();
        if refused.is_empty() {
            let what = format!("`{list}` is not signed, so nobody vouches for the digest");
            return Err(CliError::failed(anyhow::Error::msg(what)).hint(format!(
                "download `{list}.sig` or `{list}.minisig` of the release into the directory of the \
                 list"
            )));
        }
        let what = format!("nobody that you trust vouches for `{list}`: {}", refused.join("; "));
        Err(CliError::failed(anyhow::Error::msg(what)).hint(signers.advice()))
    }
}

impl ReleaseSigners {
    /// Parses a public key of ssh, minisign or cosign, or reads it from a file.
    pub(crate) fn from_key(text: &str) -> Result<Self, CliError> {
        let key = match public_key(text) {
            Ok(key) => Ok(key),
            Err(error @ PublicKeyError::Private) => Err(CliError::usage(error)),
            // A text that is a key is never a path, so no file can replace the key.
            Err(_) => key_of_file(Path::new(text)),
        };
        key.map(Self::Key)
    }

    fn keys(&self) -> Vec<&SignerKey> {
        match self {
            Self::Key(key) => vec![key],
            Self::Policy(trust) => trust.keys(),
        }
    }

    /// Returns the source of the trust in a signer in words, or the reason why the signer may not
    /// vouch for a release.
    fn admit(&self, signer: &Signer) -> Result<String, String> {
        let trust = match self {
            Self::Key(key) if key.signer() == *signer => return Ok("the key of `--key`".to_owned()),
            Self::Key(key) => return Err(other_key(signer, key)),
            Self::Policy(trust) => trust,
        };
        let today = Timestamp::now().to_zoned(TimeZone::UTC).date();
        match trust.admit(RELEASE, signer, today) {
            Ok(TrustAdmission::By(name)) => Ok(format!("`{name}` of the policy")),
            Ok(TrustAdmission::Stranger | TrustAdmission::Unsigned) => {
                Err(format!("it is by `{signer}`, which is not a signer in the policy"))
            }
            Err(refusal) => Err(refusal.to_string()),
        }
    }

    /// Returns the reason why a signature does not count, in words.
    fn refusal(&self, error: SignatureError) -> String {
        match (self, error) {
            (Self::Key(key), SignatureError::UnknownKey { signer, .. }) => other_key(&signer, key),
            (_, error) => format!("{:#}", anyhow::Error::new(error)),
        }
    }

    fn advice(&self) -> &'static str {
        match self {
            Self::Key(_) => "use no file of this release, unless you know that the key is wrong",
            Self::Policy(_) => {
                "get the public key from a place other than the download, and name it with `--key`, \
                 or in `[signers.NAME]` of your policy"
            }
        }
    }
}

fn other_key(signer: &impl std::fmt::Display, key: &SignerKey) -> String {
    format!("it is by `{signer}`, and `--key` is `{}`", key.signer())
}

fn key_of_file(path: &Path) -> Result<SignerKey, CliError> {
    let shown = path.display();
    let text = match read_text(path, MAX_KEY_BYTES) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let what = format!("`{shown}` is neither a public key nor a file");
            return Err(CliError::usage(anyhow::Error::msg(what))
                .hint("a public key is `ssh-ed25519 AAAA…` of ssh, or `RW…` of minisign"));
        }
        text => text.with_context(|| format!("cannot read the key `{shown}`")),
    };
    let key = text.and_then(|text| public_key(&text).with_context(|| format!("`{shown}`")));
    key.map_err(CliError::usage)
}

/// Parses a public key, by its first characters.
fn public_key(text: &str) -> Result<SignerKey, PublicKeyError> {
    let text = text.trim();
    if text.starts_with("-----BEGIN ") {
        return PemKey::parse(text).map(SignerKey::Pem);
    }
    // minisign writes a comment and a line without spaces, of which users often copy the latter.
    if text.starts_with("untrusted comment:") || !text.contains(char::is_whitespace) {
        return MinisignKey::parse(text).map(SignerKey::Minisign);
    }
    SshKey::parse(text).map(SignerKey::Ssh)
}

fn read_text(path: &Path, most: u64) -> io::Result<String> {
    let mut text = String::new();
    open_regular(path)?.take(most + 1).read_to_string(&mut text)?;
    if text.len() as u64 > most {
        return Err(io::Error::other(format!("it has more than {most} bytes")));
    }
    Ok(text)
}

/// Parses lines of `sha256sum`: a digest, a space, a space or an asterisk, and a name.
fn digests(text: &str) -> Result<BTreeMap<String, Digest>, String> {
    let mut digests = BTreeMap::new();
    for (line, number) in text.lines().zip(1..) {
        let parts = line.split_once(' ').and_then(|(digest, name)| {
            Some((digest.parse::<Digest>().ok()?, name.strip_prefix([' ', '*'])?))
        });
        let Some((digest, name)) = parts.filter(|(_, name)| !name.is_empty()) else {
            return Err(format!(
                "line {number} has no digest and name, as `sha256sum` writes them"
            ));
        };
        if digests.insert(name.to_owned(), digest).is_some_and(|earlier| earlier != digest) {
            return Err(format!("it has two digests of {name:?}"));
        }
    }
    Ok(digests)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    const SSH: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIC8KoOvhVJphtdff5WOtbG7URkhHWT6CQLifE/ZzFtd5";

    #[test]
    fn a_list_has_one_digest_for_each_name() {
        let digest: Digest = ABC.parse().expect("a digest");
        let list = digests(&format!("{ABC}  a b\n{ABC} *c\n")).expect("a list");
        assert_eq!(list, BTreeMap::from([("a b".to_owned(), digest), ("c".to_owned(), digest)]));
        let other = ABC.replace('b', "c");
        for (text, reason) in [
            (format!("{ABC}  a\n{}", &ABC[..40]), "line 2 has no digest"),
            (format!("{ABC}  "), "line 1 has no digest"),
            (format!("{ABC} a"), "line 1 has no digest"),
            (format!("{ABC}  a\n\n"), "line 2 has no digest"),
            (format!("{ABC}  a\n{other}  a"), "two digests of \"a\""),
        ] {
            let error = digests(&text).expect_err(&text);
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn sizes_count_only_if_the_list_covers_them() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = scratch.path().join(SUMS);
        let sizes = "3  a\n0  b\n";
        let digest = Digest::from_bytes(sizes.as_bytes());
        fs::write(&path, format!("{digest}  {SIZES}\n{ABC}  a\n")).expect("written");
        let list = ReleaseList::read(&path).expect("a list");
        assert_eq!((list.size("a"), list.name()), (None, SUMS.to_owned()), "no list of sizes");
        fs::write(scratch.path().join(SIZES), sizes).expect("written");
        assert_eq!((list.size("a"), list.size("c")), (Some(3), None));
        fs::write(scratch.path().join(SIZES), "4  a\n").expect("written");
        assert_eq!(list.size("a"), None, "another list");
    }

    #[test]
    fn a_key_is_a_text_or_a_file() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = scratch.path().join("key.pub");
        fs::write(&path, format!("{SSH} somebody\n")).expect("written");
        let key = |text: &str| match ReleaseSigners::from_key(text) {
            Ok(ReleaseSigners::Key(key)) => key.signer(),
            Ok(ReleaseSigners::Policy(_)) => Signer::None,
            Err(error) => panic!("{}", error.text()),
        };
        assert_eq!(key(SSH), key(path.to_str().expect("UTF-8")));
        fs::write(&path, "no key\n").expect("written");
        for (text, reason) in [
            (path.to_str().expect("UTF-8"), "no public key of ssh"),
            ("/nowhere/key.pub", "`/nowhere/key.pub` is neither a public key nor a file"),
            ("-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl\n", "this is a private key"),
            (scratch.path().to_str().expect("UTF-8"), "cannot read the key"),
        ] {
            let error = ReleaseSigners::from_key(text).err().expect(reason);
            assert!(error.reason().contains(reason), "{}", error.reason());
            assert_eq!(error.exit, crate::error::USAGE);
        }
    }
}
