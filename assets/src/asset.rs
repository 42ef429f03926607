//! What callers hand to the store and get from it: assets, versions, pins, sums, and
//! who did what. Values only.

use std::str::FromStr;
use std::time::SystemTime;

use crate::agent::Agent;
use crate::budget::Budget;
use crate::path::AssetPath;

/// The largest asset, 64 MiB: more than any context holds, and little enough to be in
/// memory a few times over while it is changed.
pub const MAX_ASSET_BYTES: u64 = 64 << 20;

/// What kind of change made a version, or ended one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The whole asset was written.
    Write,
    /// A string in it was replaced.
    Edit,
    /// An older version was brought back.
    Restore,
    /// It was rewritten to be shorter.
    Compact,
    /// It was removed.
    Remove,
}

impl Cause {
    /// The word that the database and the command line use.
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

/// A cause that this build does not know.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a cause that this version knows")]
pub struct UnknownCause(String);

impl FromStr for Cause {
    type Err = UnknownCause;

    fn from_str(word: &str) -> Result<Self, UnknownCause> {
        let all = [Self::Write, Self::Edit, Self::Restore, Self::Compact, Self::Remove];
        let found = all.into_iter().find(|cause| cause.as_str() == word);
        found.ok_or_else(|| UnknownCause(word.to_owned()))
    }
}

/// Who changes an asset, and what the history says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Author {
    /// Whose budget is checked.
    pub agent: Agent,
    /// What the new version and the replaced one are marked with.
    pub cause: Cause,
}

/// Which state of an asset a change was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Whatever is there: the last one who writes wins, and the history has the others.
    Any,
    /// This version; anything else is refused and nothing is changed.
    Version(u64),
    /// None: the asset shall be a new one.
    Absent,
}

/// What is known of an asset without its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// Its name.
    pub path: AssetPath,
    /// Bytes of its content.
    pub size: u64,
    /// What it counts in a budget: [`crate::tokens`] of its size.
    pub tokens: u64,
    /// 1 for a new asset, one more with each change. An asset that is removed and
    /// written anew goes on counting for as long as its history is kept; when all of that is
    /// pruned it is a new one, and has the numbers of the old one again.
    pub version: u64,
    /// Whether changes are refused.
    pub read_only: bool,
    /// When this version was written, by the clock of the host that wrote it.
    pub updated_at: SystemTime,
}

/// An asset with its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asset {
    /// What it is.
    pub metadata: Metadata,
    /// What it says: bytes, usually UTF-8.
    pub content: Vec<u8>,
}

/// One state in the history of an asset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// Its number.
    pub version: u64,
    /// Bytes of its content.
    pub size: u64,
    /// [`crate::tokens`] of its size.
    pub tokens: u64,
    /// When it was written.
    pub written_at: SystemTime,
    /// Who wrote it; `None` for some versions that a store of an earlier release has.
    pub author: Option<Author>,
    /// What ended it; `None` for what the asset says now.
    pub replaced: Option<Replaced>,
}

/// The end of a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replaced {
    /// When.
    pub at: SystemTime,
    /// By what.
    pub cause: Cause,
    /// By whom.
    pub agent: Agent,
}

/// A version with its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// What it is.
    pub version: Version,
    /// What the asset said.
    pub content: Vec<u8>,
}

/// An asset in the context of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// The asset, as it is now.
    pub metadata: Metadata,
    /// When it was pinned.
    pub pinned_at: SystemTime,
}

/// What pinning did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pinned {
    /// It is in the context from now on.
    Now,
    /// It was there already, and keeps its place.
    Already,
}

/// What a write left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// The number of the new version.
    pub version: u64,
    /// Its tokens.
    pub tokens: u64,
}

/// What an edit left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edited {
    /// How many occurrences were replaced; 0 only where all were asked for, and then
    /// nothing was written.
    pub replacements: u64,
    /// The number of the version that the asset now has.
    pub version: u64,
    /// Its tokens.
    pub tokens: u64,
}

/// What an agent has pinned, and what the whole store holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// What the agent may pin.
    pub budget: Budget,
    /// Assets that it has pinned.
    pub pinned_assets: u64,
    /// Their tokens together.
    pub pinned_tokens: u64,
    /// All assets of the store, `outputs/` left out.
    pub assets: u64,
    /// Their tokens.
    pub tokens: u64,
    /// Assets below `outputs/`.
    pub outputs: u64,
    /// Their tokens.
    pub output_tokens: u64,
    /// Replaced and removed versions that are kept.
    pub old_versions: u64,
}
