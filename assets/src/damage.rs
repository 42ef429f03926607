//! The texts of a store by their names, and the damage that a check finds.

use std::fmt;

use crate::path::AssetPath;
use crate::session::SessionId;

/// A text that a store keeps with a digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredText {
    /// A version of an asset, the current or an older one.
    Asset {
        /// The asset.
        path: AssetPath,
        /// The version.
        version: u64,
    },
    /// An event of a session.
    Event {
        /// The session.
        session: SessionId,
        /// The number of the event.
        seq: u64,
    },
}

impl fmt::Display for StoredText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asset { path, version } => write!(f, "version {version} of asset `{path}`"),
            Self::Event { session, seq } => write!(f, "event {seq} of session `{session}`"),
        }
    }
}

/// A damaged part of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Damage {
    /// The text differs from the one that was written. The rest of the store can be used.
    Text(StoredText),
    /// The file or a table is damaged, for this reason.
    File(String),
}
