//! The lock: exactly which tools were installed.
//!
//! A lock is TOML, sorted by name and without times, so the same tools always give the same text:
//!
//! ```toml
//! version = 1
//!
//! [[tool]]
//! name = "weather"
//! version = "1.2.0"
//! from = "oci://ghcr.io/acme/weather"
//! wanted = "^1.2"
//! manifest = "sha256:a00dfaad…"
//! sha256 = "45456288…"
//! size = 52846
//! signer = "none"
//! needs = "sha256:…"
//! ```
//!
//! Owns the text of locks. The caller chooses the path of a lock, and writes it to the disk. A text
//! that cannot be parsed gives no lock, so it cannot be overwritten by mistake.

mod read;
mod wanted;

use std::collections::BTreeMap;
use std::fmt;

use ikigai_protocol::{Digest, is_invisible};
use semver::Version;

use crate::document::DocumentError;
use crate::manifest;
use crate::signer::Signer;

pub use wanted::{Tag, WantedError, WantedVersion};

/// The largest lock, in bytes: about ten thousand tools.
pub const MAX_LOCK_BYTES: usize = 4 << 20;

/// The longest reference in bytes: the longest path.
const LONGEST_FROM: usize = 4096;

/// The installed tools. The default is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolsLock {
    tools: BTreeMap<String, LockedTool>,
}

/// One tool as it was installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockedTool {
    /// The version in its manifest. `None` for a file without a manifest.
    pub version: Option<Version>,
    /// The reference that it came from, without tag, version and digest. It is one line of at most
    /// 4096 bytes, without invisible characters.
    pub from: String,
    /// The requested version or tag. `None` if the reference was requested without either.
    pub wanted: Option<WantedVersion>,
    /// The digest of the manifest of its artifact in a registry or layout.
    pub manifest: Option<Digest>,
    /// The digest of its file.
    pub sha256: Digest,
    /// The size of its file, in bytes.
    pub size: u64,
    /// The signer of its file.
    pub signer: Signer,
    /// The [digest of its needs](crate::Needs::digest). `None` for a file without a manifest.
    pub needs: Option<Digest>,
}

/// The reason why a lock cannot contain a tool: its text could not be parsed again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnlockableTool {
    /// Tools cannot have this name.
    #[error("{0:?} is not a valid tool name")]
    Name(String),
    /// The reference is too long, or has an invisible character.
    #[error(
        "{0:?} cannot be written into a lock: it is longer than {LONGEST_FROM} bytes, or has \
             characters that cannot be seen"
    )]
    From(String),
}

impl ToolsLock {
    /// Parses the text of a lock.
    ///
    /// # Errors
    ///
    /// Fails if the text is too large, is not TOML, has conflict markers of git, or was written for
    /// a newer ikigai. Also fails if a tool is there twice, or if a key is unknown, missing or has
    /// an invalid value. The error contains line and column.
    pub fn parse(text: &[u8]) -> Result<Self, DocumentError> {
        read::read(text).map(|tools| Self { tools })
    }

    /// Returns the tool of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&LockedTool> {
        self.tools.get(name)
    }

    /// Returns the tool that came from this reference, with its name. If several did, returns the
    /// first by name.
    #[must_use]
    pub fn of_source(&self, from: &str) -> Option<(&str, &LockedTool)> {
        self.iter().find(|(_, tool)| tool.from == from)
    }

    /// Adds a tool, and returns the previous tool of that name.
    ///
    /// # Errors
    ///
    /// Fails if the name or the reference could not be parsed again. The lock stays unchanged.
    pub fn put(
        &mut self,
        name: &str,
        tool: LockedTool,
    ) -> Result<Option<LockedTool>, UnlockableTool> {
        if !manifest::is_name(name) {
            return Err(UnlockableTool::Name(name.to_owned()));
        }
        if !is_source(&tool.from) {
            return Err(UnlockableTool::From(tool.from));
        }
        Ok(self.tools.insert(name.to_owned(), tool))
    }

    /// Removes the tool of this name, and returns it.
    pub fn remove(&mut self, name: &str) -> Option<LockedTool> {
        self.tools.remove(name)
    }

    /// Returns the tools with their names, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &LockedTool)> {
        self.tools.iter().map(|(name, tool)| (name.as_str(), tool))
    }

    /// Returns whether the lock has no tools.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }
}

/// Returns whether a lock can contain this text as a tool's reference.
fn is_source(text: &str) -> bool {
    !text.trim().is_empty() && text.len() <= LONGEST_FROM && !text.contains(is_invisible)
}

/// Writes the text of the lock.
impl fmt::Display for ToolsLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "version = 1")?;
        for (name, tool) in self.iter() {
            writeln!(f, "\n[[tool]]")?;
            text(f, "name", name)?;
            if let Some(version) = &tool.version {
                text(f, "version", version)?;
            }
            text(f, "from", &tool.from)?;
            if let Some(wanted) = &tool.wanted {
                text(f, "wanted", wanted)?;
            }
            if let Some(manifest) = &tool.manifest {
                text(f, "manifest", format_args!("sha256:{manifest}"))?;
            }
            text(f, "sha256", tool.sha256)?;
            writeln!(f, "size = {}", tool.size)?;
            text(f, "signer", &tool.signer)?;
            if let Some(needs) = &tool.needs {
                text(f, "needs", format_args!("sha256:{needs}"))?;
            }
        }
        Ok(())
    }
}

/// Writes a TOML string on its own line.
fn text(f: &mut fmt::Formatter<'_>, key: &str, value: impl fmt::Display) -> fmt::Result {
    let value = value.to_string().replace('\\', "\\\\").replace('"', "\\\"");
    writeln!(f, "{key} = \"{value}\"")
}

#[cfg(test)]
mod tests;
