//! The lock's entry for a tool, and the checks of a file against it.

use ikigai_packages::lock::LockedTool;

use crate::error::CliError;
use crate::shipping::{ExaminedTool, Fetched, SignatureVerdict};

/// Returns the lock's entry for a tool. If the user asked for no version, keeps the earlier request
/// to the same source.
pub(super) fn entry(
    examined: &ExaminedTool,
    verdict: &SignatureVerdict,
    old: Option<&LockedTool>,
) -> LockedTool {
    let Fetched { digest, size, source, .. } = &examined.fetched;
    let before = old.filter(|old| old.from == source.from).and_then(|old| old.wanted.clone());
    LockedTool {
        version: examined.manifest.as_ref().map(|it| it.version.clone()),
        from: source.from.clone(),
        wanted: source.wanted.clone().or(before),
        manifest: source.manifest.as_ref().map(|(digest, _)| *digest),
        sha256: *digest,
        size: *size,
        signer: verdict.signer.clone(),
        needs: examined.manifest.as_ref().map(|it| it.needs.digest()),
    }
}

/// The tool that a file is expected to be.
#[derive(Clone, Copy)]
pub(in crate::commands::tool) enum ExpectedTool<'a> {
    /// Any tool, since the user named the place.
    Any,
    /// The tool with this name.
    Name(&'a str),
    /// The tool with this name and this entry in a lock.
    Locked(&'a str, &'a LockedTool),
}

impl ExpectedTool<'_> {
    /// Checks that a file is the expected tool. If `is_locked`, a tool from a lock must leave its
    /// entry unchanged.
    pub(super) fn check(
        self,
        found: &str,
        entry: &LockedTool,
        is_locked: bool,
    ) -> Result<(), CliError> {
        match self {
            Self::Any => Ok(()),
            Self::Name(asked) => check_name(asked, found, entry),
            Self::Locked(asked, locked) => {
                check_locked((asked, locked), found, entry)?;
                if !is_locked || locked == entry {
                    return Ok(());
                }
                let what = format!("the lock would change: its entry for `{found}` is incomplete");
                Err(CliError::failed(anyhow::Error::msg(what))
                    .hint("`ikigai tool sync` without `--locked` completes it"))
            }
        }
    }
}

/// Checks that the file for a tool is still that tool, since an update installs no other tool.
fn check_name(asked: &str, found: &str, entry: &LockedTool) -> Result<(), CliError> {
    if asked == found {
        return Ok(());
    }
    let what = format!("`{}` now has the tool `{found}` instead of `{asked}`", entry.from);
    let hint = format!(
        "`ikigai tool install` installs the new one, and `ikigai tool remove {asked}` removes the \
         old one"
    );
    Err(CliError::failed(anyhow::Error::msg(what)).hint(hint))
}

/// Checks that a file matches its entry in a lock.
fn check_locked(
    (name, locked): (&str, &LockedTool),
    found: &str,
    entry: &LockedTool,
) -> Result<(), CliError> {
    let wrong = |text: String| {
        CliError::failed(anyhow::Error::msg(text))
            .hint("ask the author of the lock; `ikigai tool install` writes it again")
    };
    let differing = |what: &str, one: &dyn std::fmt::Display, other: &dyn std::fmt::Display| {
        wrong(format!("in the lock, the {what} of `{name}` is {one}, but it is {other}"))
    };
    let version = |tool: &LockedTool| {
        tool.version.as_ref().map_or_else(|| "none".to_owned(), ToString::to_string)
    };
    if name != found {
        return Err(differing("name", &name, &found));
    }
    if locked.sha256 != entry.sha256 {
        return Err(differing("digest", &locked.sha256, &entry.sha256));
    }
    if locked.version != entry.version {
        return Err(differing("version", &version(locked), &version(entry)));
    }
    if locked.signer != entry.signer {
        return Err(differing("signer", &locked.signer, &entry.signer));
    }
    if locked.needs != entry.needs {
        return Err(wrong(format!(
            "in the lock, the needs of `{name}` differ from the needs in its file"
        )));
    }
    Ok(())
}
