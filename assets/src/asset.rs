//! The values that a caller hands to the store and gets from it: assets, versions, pins and
//! sums. They are independent of the database.

use std::str::FromStr;
use std::time::SystemTime;

use crate::agent::Agent;
use crate::budget::Budget;
use crate::path::AssetPath;

/// The size of the largest asset, 64 MiB: more than any context holds, and small enough for
/// a few copies in memory while it is changed.
pub const MAX_ASSET_BYTES: u64 = 64 << 20;

/// The kind of change that made or ended a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChangeCause {
    /// The whole asset was written.
    Write,
    /// A string in it was replaced.
    Edit,
    /// An older version was brought back.
    Restore,
    /// The asset was rewritten to be shorter.
    Compact,
    /// The asset was removed.
    Remove,
}

impl ChangeCause {
    /// Returns the word that the database and the command line use.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Edit => "edit",
            Self::Restore => "restore",
            Self::Compact => "compact",
            Self::Remove => "remove",
        }
    }
}

/// The error for a cause that this build does not know.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a cause that this version knows")]
pub struct UnknownCause(String);

impl FromStr for ChangeCause {
    type Err = UnknownCause;

    fn from_str(word: &str) -> Result<Self, UnknownCause> {
        let all = [Self::Write, Self::Edit, Self::Restore, Self::Compact, Self::Remove];
        let found = all.into_iter().find(|cause| cause.as_str() == word);
        found.ok_or_else(|| UnknownCause(word.to_owned()))
    }
}

/// The author of a change, for the history of the asset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Author {
    /// The agent, whose budget is checked.
    pub agent: Agent,
    /// The cause that the new version and the replaced version are marked with.
    pub cause: ChangeCause,
}

/// The state of an asset that a change requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// Any state: the last writer wins, and the history keeps the other versions.
    Any,
    /// This version. With any other the change is refused.
    Version(u64),
    /// No asset at that path: the change must make a new one.
    Absent,
}

/// An asset without its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssetMetadata {
    /// The path, which is the name.
    pub path: AssetPath,
    /// Bytes of its content.
    pub size: u64,
    /// The tokens that count in a budget: [`crate::tokens`] of the size.
    pub tokens: u64,
    /// The number of the version: 1 for a new asset, one more with each change. An asset that is
    /// removed and written anew continues the numbers as long as some of its history is kept.
    /// After that, it starts at 1 again.
    pub version: u64,
    /// True if changes are refused.
    pub read_only: bool,
    /// The time at which this version was written, by the clock of the host that wrote it.
    pub updated_at: SystemTime,
}

/// An asset with its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asset {
    /// All but the content.
    pub metadata: AssetMetadata,
    /// The content: bytes, usually UTF-8.
    pub content: Vec<u8>,
}

/// A version in the history of an asset, without its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssetVersion {
    /// Its number.
    pub version: u64,
    /// Bytes of its content.
    pub size: u64,
    /// [`crate::tokens`] of its size.
    pub tokens: u64,
    /// The time at which it was written.
    pub written_at: SystemTime,
    /// The author.
    pub author: Author,
    /// The end of the version; `None` for the current one.
    pub replaced: Option<VersionEnd>,
}

/// The end of a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionEnd {
    /// The time of the change that ended it.
    pub at: SystemTime,
    /// The cause of that change.
    pub cause: ChangeCause,
    /// The agent that made it.
    pub agent: Agent,
}

/// A version with its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// All but the content.
    pub version: AssetVersion,
    /// The content that the asset had.
    pub content: Vec<u8>,
}

/// An asset that an agent has pinned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinnedAsset {
    /// The asset, as it is now.
    pub metadata: AssetMetadata,
    /// The time at which it was pinned.
    pub pinned_at: SystemTime,
}

/// The outcome of pinning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PinOutcome {
    /// The asset is in the context from now on.
    Now,
    /// The asset was there already, and keeps its position.
    Already,
}

/// The outcome of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewVersion {
    /// The number of the new version.
    pub version: u64,
    /// Its tokens.
    pub tokens: u64,
}

/// The outcome of an edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EditOutcome {
    /// The occurrences that were replaced. 0 is possible only if all were to be replaced, and
    /// means that nothing was written.
    pub replacements: u64,
    /// The number of the current version.
    pub version: u64,
    /// Its tokens.
    pub tokens: u64,
}

/// The sums of an agent's pins and of the whole store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreUsage {
    /// The budget of the agent.
    pub budget: Budget,
    /// The number of assets that the agent has pinned.
    pub pinned_assets: u64,
    /// The tokens of the pinned assets.
    pub pinned_tokens: u64,
    /// The number of assets in the store, without those below `outputs/`.
    pub assets: u64,
    /// The tokens of all assets outside of `outputs/`.
    pub tokens: u64,
    /// The number of assets below `outputs/`.
    pub outputs: u64,
    /// The tokens of the assets below `outputs/`.
    pub output_tokens: u64,
    /// The number of replaced and removed versions that are kept.
    pub old_versions: u64,
}
