//! What can go wrong, each with the code that a tool answers with and with a hint on what
//! to do. How a database puts it is `database::failure`'s to translate.

use std::path::PathBuf;
use std::time::Duration;

use ikigai_protocol::ToolCode;

use crate::agent::InvalidAgent;
use crate::asset::MAX_ASSET_BYTES;
use crate::budget::Exceeded;
use crate::capacity::Overfull;
use crate::path::{AssetPath, PathError};
use crate::store_url::{InvalidStoreUrl, StoreUrl};

/// What an operation of the store gives.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation of the store failed. Unless a variant says otherwise, nothing was
/// changed.
///
/// What the database said is kept as text and not as a source: the errors of a driver hold
/// more than they show, and none of it is checked for names and passwords.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The text names no asset.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The text names no agent.
    #[error(transparent)]
    Agent(#[from] InvalidAgent),
    /// The text is no address of a store.
    #[error(transparent)]
    Url(#[from] InvalidStoreUrl),
    /// There is no such asset.
    #[error("no asset `{0}`")]
    NotFound(AssetPath),
    /// The asset never had this version, or it is no longer kept.
    #[error("no version {version} of asset `{path}` is kept")]
    NoVersion {
        /// The asset.
        path: AssetPath,
        /// What was asked for.
        version: u64,
    },
    /// What an edit shall replace is empty.
    #[error("old_string cannot be empty")]
    EmptyString,
    /// What an edit shall replace does not occur. In the words of the tool for files.
    #[error("String not found in file")]
    StringNotFound,
    /// What an edit shall replace occurs more than once.
    #[error("String found {0} times, use replace_all to replace all")]
    StringNotUnique(u64),
    /// Larger than the largest asset.
    #[error("asset `{path}` would have {size} bytes; the largest has {MAX_ASSET_BYTES}")]
    TooLarge {
        /// The asset.
        path: AssetPath,
        /// What it would have, in bytes.
        size: u64,
    },
    /// It does not fit an agent's budget.
    #[error("{0}")]
    BudgetExceeded(Exceeded),
    /// It does not fit the store.
    #[error("{0}")]
    Overfull(Overfull),
    /// A long result of a tool is read when it is needed, and never pinned.
    #[error("asset `{0}` is an output of a tool and cannot be pinned")]
    Unpinnable(AssetPath),
    /// The asset refuses changes.
    #[error("asset `{0}` is read-only")]
    ReadOnly(AssetPath),
    /// The change was made for another version than the one that is there.
    #[error("asset `{path}` has changed: {}", found.map_or("it does not exist".to_owned(), |version| format!("it has version {version}")))]
    Changed {
        /// The asset.
        path: AssetPath,
        /// The version that it has.
        found: Option<u64>,
    },
    /// Others changed the same at the same time, again and again.
    #[error("store `{0}` is contended: others change the same at the same time")]
    Contended(StoreUrl),
    /// The store refuses changes altogether.
    #[error("store `{0}` is read-only")]
    StoreReadOnly(StoreUrl),
    /// There is no room.
    #[error("store `{0}` is full")]
    Full(StoreUrl),
    /// Another process holds the store.
    #[error("store `{store}` is locked by another process and was not free within {waited:?}")]
    Locked {
        /// The store.
        store: StoreUrl,
        /// How long it was waited for.
        waited: Duration,
    },
    /// The server is there and does not answer. Where it was asked to make a change
    /// final, the change may have been made.
    #[error("store `{store}` did not answer within {waited:?}")]
    Slow {
        /// The store.
        store: StoreUrl,
        /// How long it was waited for.
        waited: Duration,
    },
    /// No connection, or none any more. Where it was lost while a change was being made
    /// final, the change may have been made.
    #[error("cannot reach store `{store}`: {reason}")]
    Unreachable {
        /// The store.
        store: StoreUrl,
        /// What the system or the server said.
        reason: String,
    },
    /// The server does not take the user or the password. What it said is left out,
    /// because it names the user.
    #[error("store `{0}` does not accept the user or the password")]
    Unauthenticated(StoreUrl),
    /// The user may not do this.
    #[error("store `{store}` refuses access: {reason}")]
    Denied {
        /// The store.
        store: StoreUrl,
        /// What the server said.
        reason: String,
    },
    /// Others could put what they like into the file: they may write to it or to its
    /// directory, or own one of them. Only what belongs to the user or to root is taken.
    #[error("store `{}` is not safe to use: {reason}", path.display())]
    Unsafe {
        /// The file or the directory.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// What is there is something else.
    #[error("`{store}` is no ikigai store: {reason}")]
    NotAStore {
        /// What was opened.
        store: StoreUrl,
        /// How that was seen.
        reason: &'static str,
    },
    /// A newer ikigai has changed the tables.
    #[error(
        "store `{store}` is of a newer ikigai: its tables have version {found}, this one knows {known}"
    )]
    Newer {
        /// The store.
        store: StoreUrl,
        /// The version of its tables.
        found: u64,
        /// The newest that this build knows.
        known: u64,
    },
    /// What is stored makes no sense.
    #[error("store `{store}` is damaged: {reason}")]
    Damaged {
        /// The store.
        store: StoreUrl,
        /// What makes none.
        reason: String,
    },
    /// Memory could not be had.
    #[error("out of memory")]
    OutOfMemory,
    /// Reading failed for another reason.
    #[error("cannot read from store `{store}`: {reason}")]
    Read {
        /// The store.
        store: StoreUrl,
        /// What the database said.
        reason: String,
    },
    /// Writing failed for another reason.
    #[error("cannot write to store `{store}`: {reason}")]
    Write {
        /// The store.
        store: StoreUrl,
        /// What the database said.
        reason: String,
    },
}

impl Error {
    /// The code that a tool answers with.
    #[must_use]
    pub fn code(&self) -> ToolCode {
        match self {
            Self::NotFound(_) | Self::NoVersion { .. } => ToolCode::FileNotFound,
            Self::StringNotFound => ToolCode::NotFound,
            Self::StringNotUnique(_) => ToolCode::NotUnique,
            Self::Path(_)
            | Self::Agent(_)
            | Self::Url(_)
            | Self::EmptyString
            | Self::TooLarge { .. }
            | Self::Unpinnable(_) => ToolCode::InvalidArg,
            Self::BudgetExceeded(_) => ToolCode::BudgetExceeded,
            Self::ReadOnly(_) | Self::StoreReadOnly(_) => ToolCode::ReadOnly,
            Self::Full(_) | Self::Overfull(_) => ToolCode::NoSpace,
            Self::OutOfMemory => ToolCode::OutOfMemory,
            // Not `PermissionDenied`: to a tool that says that it is not granted assets,
            // and here it is the host that the store does not let in.
            Self::Unauthenticated(_)
            | Self::Denied { .. }
            | Self::Unsafe { .. }
            | Self::Locked { .. }
            | Self::Slow { .. }
            | Self::Unreachable { .. }
            | Self::NotAStore { .. }
            | Self::Newer { .. } => ToolCode::OpenFailed,
            Self::Damaged { .. } | Self::Read { .. } => ToolCode::ReadFailed,
            Self::Changed { .. } | Self::Contended(_) | Self::Write { .. } => ToolCode::WriteFailed,
        }
    }

    /// What whoever sees the error may do about it, where the message does not say so.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NotFound(_) => Some("`ikigai asset list` shows the assets"),
            Self::NoVersion { .. } => Some("`ikigai asset log PATH` shows the versions"),
            Self::Changed { .. } => Some("read it again and make the change anew"),
            Self::Contended(_) => Some("try again"),
            Self::ReadOnly(_) => Some("write to another path, or let its owner lift that"),
            Self::TooLarge { .. } => Some("split it, or keep it as a file"),
            Self::StoreReadOnly(_) => Some("see who may write to the file and to its directory"),
            Self::Overfull(_) => Some("`ikigai asset rm` removes assets; `--capacity` allows more"),
            Self::Full(_) => Some("free space on the device, or remove old outputs"),
            Self::Locked { .. } => Some("end the process that holds it, or try again later"),
            Self::Slow { .. } => Some("see how the server is doing"),
            Self::Unreachable { .. } => Some("see whether it is there; `--store` names another"),
            Self::Unauthenticated(_) => Some("see the user and the password in its address"),
            Self::Unsafe { .. } => {
                Some("`chmod go-w` it if it is yours, or put the store elsewhere")
            }
            Self::NotAStore { .. } => Some("`--store` names another"),
            Self::Newer { .. } => Some("use the newer ikigai; nothing was changed"),
            _ => None,
        }
    }
}
