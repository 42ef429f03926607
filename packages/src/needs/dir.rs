//! A directory that a tool needs: the workspace, or a directory beneath it.

use crate::harmless;
use std::fmt;
use std::str::FromStr;

use ikigai_protocol::{Access, is_invisible};

/// The workspace, or a directory beneath it, and the access to it: `ro:DIR` or `rw:DIR`, as in
/// `ro:.` and `rw:data/cache`.
///
/// The directory may lead out of the workspace through a link. That is only known when it is used.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkspaceDir {
    access: Access,
    /// The path from the workspace, with names joined by `/`. Empty for the workspace itself.
    path: String,
}

/// The reason why a text is not a directory that a tool may need. Its text completes a sentence
/// that begins with that text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DirError {
    /// The access is missing.
    #[error("begins with neither `ro:` nor `rw:`; to read it, write `ro:{0}`")]
    Access(String),
    /// The directory is not in the workspace.
    #[error("is not in the workspace; a tool needs the workspace (`.`) or a directory beneath it")]
    Outside,
    /// The path is empty, or has an invisible character.
    #[error("is not the path of a directory that can be granted")]
    Path,
}

impl WorkspaceDir {
    /// Returns the access.
    #[must_use]
    pub fn access(&self) -> Access {
        self.access
    }

    /// Returns the path relative to the workspace. The workspace itself is `.`.
    #[must_use]
    pub fn path(&self) -> &str {
        if self.path.is_empty() { "." } else { &self.path }
    }

    /// Returns whether this directory is `outer` or is inside it, by name.
    #[must_use]
    pub fn is_in(&self, outer: &Self) -> bool {
        let rest = self.path.strip_prefix(&outer.path);
        outer.path.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

impl FromStr for WorkspaceDir {
    type Err = DirError;

    fn from_str(text: &str) -> Result<Self, DirError> {
        let (access, raw) = match text.split_once(':') {
            Some(("ro", raw)) => (Access::ReadOnly, raw),
            Some(("rw", raw)) => (Access::ReadWrite, raw),
            _ => return Err(DirError::Access(harmless::line(text))),
        };
        if raw.is_empty() || raw.contains(is_invisible) {
            return Err(DirError::Path);
        }
        let mut names = Vec::new();
        for name in raw.split('/') {
            match name {
                ".." => return Err(DirError::Outside),
                "" | "." => {}
                name => names.push(name),
            }
        }
        // In a policy, `~` means the user's home.
        if raw.starts_with('/') || names.first().is_some_and(|first| first.starts_with('~')) {
            return Err(DirError::Outside);
        }
        Ok(Self { access, path: names.join("/") })
    }
}

impl fmt::Display for WorkspaceDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.access.as_str(), self.path())
    }
}

impl serde::Serialize for WorkspaceDir {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
