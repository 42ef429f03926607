//! The errors of the store, each with the code that a tool answers with and with a remedy.
//! `database::failure` translates the errors of a database into them.

mod remedy;

use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use ikigai_protocol::ToolCode;

use crate::agent::InvalidAgent;
use crate::asset::MAX_ASSET_BYTES;
use crate::budget::BudgetExcess;
use crate::capacity::Overfull;
use crate::damage::StoredText;
use crate::path::{AssetPath, PathError};
use crate::session::{InvalidSessionId, InvalidSessionText, MAX_EVENT_BYTES, SessionId};
use crate::store_url::{InvalidStoreUrl, StoreUrl};

pub use remedy::StoreRemedy;

/// The result of an operation of the store.
pub type Result<T> = std::result::Result<T, Error>;

/// The error of an operation of the store. Unless a variant says otherwise, nothing was
/// changed.
///
/// The message of a database is kept as sanitized text and not as a source: the error of a
/// driver may hold names and passwords.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The text is not a valid path of an asset.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The text is not a valid name of an agent.
    #[error(transparent)]
    Agent(#[from] InvalidAgent),
    /// The text is not a valid address of a store.
    #[error(transparent)]
    Url(#[from] InvalidStoreUrl),
    /// The asset does not exist.
    #[error("no asset `{0}`")]
    NotFound(AssetPath),
    /// The asset never had this version, or the version was deleted.
    #[error("no version {version} of asset `{path}` is kept")]
    NoVersion {
        /// The asset.
        path: AssetPath,
        /// The version that was asked for.
        version: u64,
    },
    /// The string to replace is empty.
    #[error("old_string cannot be empty")]
    EmptyString,
    /// The string to replace does not occur. The text is the same as in the tool for files.
    #[error("String not found in file")]
    StringNotFound,
    /// The string to replace occurs more than once.
    #[error("String found {0} times, use replace_all to replace all")]
    StringNotUnique(u64),
    /// The asset would be larger than [`MAX_ASSET_BYTES`].
    #[error("asset `{path}` would have {size} bytes; the largest has {MAX_ASSET_BYTES}")]
    TooLarge {
        /// The asset.
        path: AssetPath,
        /// The bytes that it would have.
        size: u64,
    },
    /// The change does not fit the budget of an agent.
    #[error("{0}")]
    BudgetExceeded(BudgetExcess),
    /// The change does not fit the capacity of the store.
    #[error("{0}")]
    Overfull(Overfull),
    /// The asset is a long output of a tool, which is never pinned.
    #[error("asset `{0}` is an output of a tool and cannot be pinned")]
    Unpinnable(AssetPath),
    /// The asset refuses changes.
    #[error("asset `{0}` is read-only")]
    ReadOnly(AssetPath),
    /// The asset is not in the state that the change requires.
    #[error("asset `{path}` has changed: {}", found.map_or("it does not exist".to_owned(), |version| format!("it has version {version}")))]
    Changed {
        /// The asset.
        path: AssetPath,
        /// The version that it has; `None` if it does not exist.
        found: Option<u64>,
    },
    /// The text is not a valid session id.
    #[error(transparent)]
    SessionId(#[from] InvalidSessionId),
    /// A text in the description of a session, such as its title, is not allowed.
    #[error(transparent)]
    SessionText(#[from] InvalidSessionText),
    /// The session does not exist.
    #[error("no session `{0}`")]
    NoSession(SessionId),
    /// The session has no event with this number.
    #[error("session `{session}` has no event {seq}")]
    NoEvent {
        /// The session.
        session: SessionId,
        /// The number that was asked for.
        seq: u64,
    },
    /// The event would be larger than [`MAX_EVENT_BYTES`].
    #[error(
        "an event of session `{session}` would have {size} bytes; the largest has {MAX_EVENT_BYTES}"
    )]
    EventTooLarge {
        /// The session.
        session: SessionId,
        /// The bytes that it would have.
        size: u64,
    },
    /// Another process holds the session.
    #[error("session `{session}` is in use by `{owner}`")]
    SessionHeld {
        /// The session.
        session: SessionId,
        /// The name that the holder gave.
        owner: String,
        /// The end of its lease, if it is not renewed.
        until: SystemTime,
    },
    /// The lease has ended, because another process took the session over or the lease was
    /// released.
    #[error("session `{0}` was taken over, so that nothing more can be added to it here")]
    SessionLost(SessionId),
    /// The session's last event is not the event after which events were to be appended.
    #[error("session `{session}` has {found} events, not {expected}")]
    SessionChanged {
        /// The session.
        session: SessionId,
        /// The number of its last event.
        found: u64,
        /// The number that was expected.
        expected: u64,
    },
    /// Other processes changed the same at the same time, in every attempt.
    #[error("store `{0}` is contended: other processes change the same data at the same time")]
    Contended(StoreUrl),
    /// The store refuses all changes.
    #[error("store `{0}` is read-only")]
    StoreReadOnly(StoreUrl),
    /// A limit of this process keeps it from the store.
    #[error("store `{store}` cannot be used: this process {limit}")]
    Limited {
        /// The store.
        store: StoreUrl,
        /// The limit that is reached.
        limit: ProcessLimit,
    },
    /// The device or the file of the store has no room.
    #[error("store `{0}` is full")]
    Full(StoreUrl),
    /// Another process holds the store.
    #[error("store `{store}` is locked by another process and was not free within {waited:?}")]
    Locked {
        /// The store.
        store: StoreUrl,
        /// The time after which waiting for it ended.
        waited: Duration,
    },
    /// The server does not answer in time. If it was asked to commit a change, the change may
    /// have been made.
    #[error("store `{store}` did not answer within {waited:?}")]
    Slow {
        /// The store.
        store: StoreUrl,
        /// The time after which waiting for it ended.
        waited: Duration,
    },
    /// The store cannot be reached. If the connection was lost during a commit, the change may
    /// have been made.
    #[error("cannot reach store `{store}`: {reason}")]
    Unreachable {
        /// The store.
        store: StoreUrl,
        /// The message of the system or the server.
        reason: String,
    },
    /// The server rejects the user or the password. Its message is left out, since it names
    /// the user.
    #[error("store `{0}` does not accept the user or the password")]
    Unauthenticated(StoreUrl),
    /// The user lacks a permission.
    #[error("store `{store}` refuses access: {reason}")]
    Denied {
        /// The store.
        store: StoreUrl,
        /// The message of the server.
        reason: String,
    },
    /// Other users could change the file: they may write to it or to its directory, or own one
    /// of them. Both must belong to the user or to root.
    #[error("store `{}` is not safe to use: {reason}", path.display())]
    Unsafe {
        /// The file or the directory.
        path: PathBuf,
        /// The rule that it breaks.
        reason: &'static str,
    },
    /// The file or the database is something else.
    #[error("`{store}` is not an ikigai store: {reason}")]
    NotAStore {
        /// The address that was opened.
        store: StoreUrl,
        /// The sign of it that was found.
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
    /// The database does not contain what the store wrote.
    #[error("store `{store}` is damaged: {reason}")]
    Damaged {
        /// The store.
        store: StoreUrl,
        /// The mistake that was found.
        reason: String,
    },
    /// A text of the store differs from the one that was written. The rest of the store can be
    /// used.
    #[error("store `{store}` is damaged: {text} is not what was written")]
    Altered {
        /// The store.
        store: StoreUrl,
        /// The text.
        text: StoredText,
    },
    /// An allocation failed.
    #[error("out of memory")]
    OutOfMemory,
    /// Reading failed for another reason.
    #[error("cannot read from store `{store}`: {reason}")]
    Read {
        /// The store.
        store: StoreUrl,
        /// The message of the database.
        reason: String,
    },
    /// Writing failed for another reason.
    #[error("cannot write to store `{store}`: {reason}")]
    Write {
        /// The store.
        store: StoreUrl,
        /// The message of the database.
        reason: String,
    },
}

/// A limit of a process (setrlimit(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessLimit {
    /// The number of open files.
    OpenFiles(u64),
    /// The bytes of a file that it writes.
    FileSize(u64),
}

impl fmt::Display for ProcessLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OpenFiles(most) => {
                write!(f, "has as many files open as it may have, {most} (`ulimit -n`)")
            }
            Self::FileSize(most) => {
                write!(f, "may write no file of more than {most} bytes (`ulimit -f`)")
            }
        }
    }
}

impl Error {
    /// Returns the code that a tool answers with.
    #[must_use]
    pub fn code(&self) -> ToolCode {
        match self {
            Self::NotFound(_)
            | Self::NoVersion { .. }
            | Self::NoSession(_)
            | Self::NoEvent { .. } => ToolCode::FileNotFound,
            Self::StringNotFound => ToolCode::NotFound,
            Self::StringNotUnique(_) => ToolCode::NotUnique,
            Self::Path(_)
            | Self::Agent(_)
            | Self::Url(_)
            | Self::EmptyString
            | Self::TooLarge { .. }
            | Self::Unpinnable(_)
            | Self::SessionId(_)
            | Self::SessionText(_)
            | Self::EventTooLarge { .. } => ToolCode::InvalidArg,
            Self::BudgetExceeded(_) => ToolCode::BudgetExceeded,
            Self::ReadOnly(_) | Self::StoreReadOnly(_) => ToolCode::ReadOnly,
            Self::Full(_) | Self::Overfull(_) => ToolCode::NoSpace,
            Self::Limited { limit: ProcessLimit::FileSize(_), .. } => ToolCode::WriteFailed,
            Self::OutOfMemory => ToolCode::OutOfMemory,
            // Not `PermissionDenied`, which tells a tool that it lacks a grant: here the store
            // refuses the host.
            Self::Unauthenticated(_)
            | Self::Denied { .. }
            | Self::Unsafe { .. }
            | Self::Limited { limit: ProcessLimit::OpenFiles(_), .. }
            | Self::Locked { .. }
            | Self::Slow { .. }
            | Self::Unreachable { .. }
            | Self::NotAStore { .. }
            | Self::Newer { .. } => ToolCode::OpenFailed,
            Self::Damaged { .. } | Self::Altered { .. } | Self::Read { .. } => ToolCode::ReadFailed,
            Self::Changed { .. }
            | Self::SessionHeld { .. }
            | Self::SessionLost(_)
            | Self::SessionChanged { .. }
            | Self::Contended(_)
            | Self::Write { .. } => ToolCode::WriteFailed,
        }
    }
}
