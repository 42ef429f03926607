//! A tool's entry as written in the user's file, for changes that keep the rest of the entry.

use std::path::{Path, PathBuf};

use ikigai_protocol::{Access, Digest};

use super::rule::{DirRule, PolicyEntry};
use super::{AssetAccess, LimitKey, Net, Sandbox};

/// The permissions in an entry of the user's file. A key that the entry does not have is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntryPermissions {
    /// True if the tool may not run.
    pub deny: bool,
    /// The digests of the contents that the entry is bound to.
    pub sha256: Option<Vec<Digest>>,
    /// The list `fs`.
    pub fs: Option<Vec<WrittenPath>>,
    /// The list `net`.
    pub net: Option<Net>,
    /// The list `env`.
    pub env: Option<Vec<String>>,
    /// The list `path`: the directories to put before those of `PATH`.
    pub path: Option<Vec<PathBuf>>,
    /// The access to assets.
    pub assets: Option<AssetAccess>,
    /// The sandbox that the entry requires.
    pub sandbox: Option<Sandbox>,
    /// The limits, each in the unit of its key.
    pub limits: Vec<(LimitKey, u64)>,
}

/// An entry of a list `fs`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenPath {
    /// The access.
    pub access: Access,
    /// The path as written.
    pub written: String,
    /// The absolute path, without resolving links.
    pub path: PathBuf,
}

impl WrittenPath {
    pub(super) fn from_rule(rule: &DirRule) -> Self {
        Self { access: rule.access, written: rule.raw.clone(), path: rule.path.clone() }
    }

    /// Returns the rule in the form of a list `fs`: `ro:docs`.
    #[must_use]
    pub fn rule(&self) -> String {
        format!("{}:{}", self.access.as_str(), self.written)
    }
}

impl EntryPermissions {
    pub(super) fn from_entry(entry: &PolicyEntry) -> Self {
        let fs = entry.fs.as_ref().map(|at| at.value.iter().map(WrittenPath::from_rule).collect());
        Self {
            deny: entry.deny.as_ref().is_some_and(|at| at.value),
            sha256: entry.sha256.as_ref().map(|at| at.value.clone()),
            fs,
            net: entry.net.as_ref().map(|at| at.value.clone()),
            env: entry.env.as_ref().map(|at| at.value.clone()),
            path: entry.path.as_ref().map(|at| at.value.clone()),
            assets: entry.assets.as_ref().map(|at| at.value),
            sandbox: entry.sandbox.as_ref().map(|at| at.value),
            limits: entry.limits.iter().map(|(key, at)| (*key, at.value)).collect(),
        }
    }
}

/// Returns a path in the form of a list `fs`. A path in the workspace becomes relative, so that the
/// entry applies in every workspace. Returns `None` if a policy file cannot name the path.
#[must_use]
pub fn path_in_policy(path: &Path, workspace: &Path) -> Option<String> {
    let Ok(inner) = path.strip_prefix(workspace) else {
        return path.to_str().map(str::to_owned);
    };
    let inner = inner.to_str()?;
    Some(match inner {
        "" => ".".to_owned(),
        // Without `./` the text would mean the home or a flag.
        inner if inner.starts_with(['~', '-']) => format!("./{inner}"),
        inner => inner.to_owned(),
    })
}
