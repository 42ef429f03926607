//! The entry of a tool as it is written in the user's file, for a change that keeps it.

use std::path::{Path, PathBuf};

use ikigai_protocol::{Access, Digest};

use super::rule::{DirRule, Entry};
use super::{AssetAccess, LimitKey, Net, Sandbox};

/// The part of an entry of the user's file that says what its tool may touch. A key that the entry does not have is
/// `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// True if the tool does not run.
    pub deny: bool,
    /// The digests of the contents that it is bound to.
    pub sha256: Option<Vec<Digest>>,
    /// The list `fs`.
    pub fs: Option<Vec<WrittenPath>>,
    /// The list `net`.
    pub net: Option<Net>,
    /// The list `env`.
    pub env: Option<Vec<String>>,
    /// The list `path`: the directories before those of `PATH`.
    pub path: Option<Vec<PathBuf>>,
    /// The access to assets.
    pub assets: Option<AssetAccess>,
    /// The sandbox that it asks for.
    pub sandbox: Option<Sandbox>,
    /// The limits, each in the unit of its key.
    pub limits: Vec<(LimitKey, u64)>,
}

/// An entry of a list `fs`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenPath {
    /// The access.
    pub access: Access,
    /// The path as it is written.
    pub written: String,
    /// The absolute path, in which links are not resolved.
    pub path: PathBuf,
}

impl WrittenPath {
    pub(super) fn from_rule(rule: &DirRule) -> Self {
        Self { access: rule.access, written: rule.raw.clone(), path: rule.path.clone() }
    }

    /// Returns the rule as a list `fs` has it: `ro:docs`.
    #[must_use]
    pub fn rule(&self) -> String {
        format!("{}:{}", self.access.as_str(), self.written)
    }
}

impl Written {
    pub(super) fn from_entry(entry: &Entry) -> Self {
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

/// Returns a path as an entry of a list `fs` has it: relative to the workspace if it lies there, so that
/// the entry holds in every workspace. Nothing if a policy file cannot name it.
#[must_use]
pub fn path_in_policy(path: &Path, workspace: &Path) -> Option<String> {
    let Ok(inner) = path.strip_prefix(workspace) else {
        return path.to_str().map(str::to_owned);
    };
    let inner = inner.to_str()?;
    Some(match inner {
        "" => ".".to_owned(),
        // Else it would be the home, or a flag.
        inner if inner.starts_with(['~', '-']) => format!("./{inner}"),
        inner => inner.to_owned(),
    })
}
