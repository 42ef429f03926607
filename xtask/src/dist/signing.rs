//! Signs the list of digests with a key of ssh or minisign, and tells the public key.
//!
//! The programs of these formats sign, so that no secret key is ever read here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::run;

/// The purpose that an ssh signature states. A signature for another purpose is not accepted.
pub(crate) const NAMESPACE: &str = "ikigai-release";

/// A secret key that signs a release.
pub(crate) struct ReleaseKey {
    file: PathBuf,
    pub(crate) kind: KeyKind,
    /// The public key, on one line.
    pub(crate) public: String,
}

/// The format of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyKind {
    Ssh,
    Minisign,
}

impl ReleaseKey {
    /// Recognises the format of a secret key and derives its public key.
    pub(crate) fn load(file: &Path) -> anyhow::Result<Self> {
        let cannot_read = || format!("cannot read the key `{}`", file.display());
        let text = fs::read_to_string(file).with_context(cannot_read)?;
        let first = text.lines().next().unwrap_or_default();
        let kind = match first {
            line if line.contains("OPENSSH PRIVATE KEY") => KeyKind::Ssh,
            line if line.starts_with("untrusted comment:") => KeyKind::Minisign,
            _ => bail!("`{}` is not a secret key of ssh or minisign", file.display()),
        };
        let public = match kind {
            KeyKind::Ssh => run::output(Command::new("ssh-keygen").arg("-y").arg("-f").arg(file))?,
            KeyKind::Minisign => minisign_public(file)?,
        };
        // The comment of an ssh key is not part of the key.
        let words: Vec<&str> = public.split_whitespace().collect();
        let public = match kind {
            KeyKind::Ssh => words.iter().take(2).copied().collect::<Vec<_>>().join(" "),
            KeyKind::Minisign => words.last().copied().unwrap_or_default().to_owned(),
        };
        Ok(Self { file: file.to_owned(), kind, public })
    }

    /// Writes a signature of `signed` next to it.
    pub(crate) fn sign(&self, signed: &Path) -> anyhow::Result<()> {
        match self.kind {
            KeyKind::Ssh => {
                let mut command = Command::new("ssh-keygen");
                command.args(["-q", "-Y", "sign", "-n", NAMESPACE, "-f"]).arg(&self.file);
                run::run(command.arg(signed))
            }
            KeyKind::Minisign => {
                let mut command = Command::new("minisign");
                run::run(command.arg("-S").arg("-s").arg(&self.file).arg("-m").arg(signed))
            }
        }
    }
}

/// Returns the text of the file that minisign writes for the public key.
fn minisign_public(file: &Path) -> anyhow::Result<String> {
    let public = file.with_extension("pub.tmp");
    let mut command = Command::new("minisign");
    let written = run::run(command.args(["-R", "-f", "-s"]).arg(file).arg("-p").arg(&public));
    let text = fs::read_to_string(&public).context("minisign wrote no public key");
    // The first error is returned; the file contains nothing secret.
    let _ = fs::remove_file(&public);
    written.and(text)
}
