//! The values of kept conversations: sessions, their events, and the leases for writing. The
//! events are text that nothing here reads, and the values are independent of the database.

use std::fmt;
use std::str::FromStr;
use std::time::SystemTime;

use ikigai_protocol::is_deceptive;
use uuid::Uuid;

use crate::agent::Agent;
use crate::asset::MAX_ASSET_BYTES;

/// The longest title of a session, in bytes. Names of providers, models and owners have the
/// same bound.
pub const MAX_TITLE_BYTES: usize = 512;

/// The longest name of a workspace, in bytes: `PATH_MAX` of Linux.
pub const MAX_WORKSPACE_BYTES: usize = 4096;

/// The size of the largest event, 64 MiB, the same as for the largest asset.
pub const MAX_EVENT_BYTES: u64 = MAX_ASSET_BYTES;

/// The longest kind of an event, in bytes: a word.
const MAX_KIND_BYTES: usize = 64;

/// The id of a session: a UUID of version 7, so that the order of ids is the order of creation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(Uuid);

/// The error for a text that is not a valid session id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a session id, which is a UUID")]
pub struct InvalidSessionId(String);

/// The error for a text that a session cannot have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the {field} of a session has 1 to {most} bytes and no {excluded}")]
pub struct InvalidSessionText {
    field: &'static str,
    most: usize,
    excluded: &'static str,
}

/// The description of a session that is to be made.
#[derive(Clone, Copy, Debug)]
pub struct NewSession<'a> {
    /// The workspace: a path, or another name without NUL.
    pub workspace: &'a str,
    /// The title, without control characters. Titles may be alike.
    pub title: Option<&'a str>,
    /// The provider of the model.
    pub provider: Option<&'a str>,
    /// The model.
    pub model: Option<&'a str>,
}

/// The changes of a session's description. `None` leaves a value unchanged.
#[derive(Clone, Copy, Debug, Default)]
pub struct SessionChanges<'a> {
    /// The new title.
    pub title: Option<&'a str>,
    /// The new provider.
    pub provider: Option<&'a str>,
    /// The new model.
    pub model: Option<&'a str>,
}

/// A filter for a list of sessions.
#[derive(Clone, Copy, Debug)]
pub struct SessionFilter<'a> {
    /// The agent. Sessions of others are left out.
    pub agent: &'a Agent,
    /// The workspace that they belong to; `None` for all.
    pub workspace: Option<&'a str>,
}

/// A session without its events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionSummary {
    /// Its name.
    pub id: SessionId,
    /// The agent that made it.
    pub agent: Agent,
    /// The workspace that it belongs to.
    pub workspace: String,
    /// Its title.
    pub title: Option<String>,
    /// The provider that it last used.
    pub provider: Option<String>,
    /// The model that it last used.
    pub model: Option<String>,
    /// The session that it was forked from, which may have been removed since.
    pub forked_from: Option<SessionId>,
    /// The time at which it was made. This and all other times of sessions are by the clock of
    /// this host for SQLite, and by the server's for PostgreSQL.
    pub created_at: SystemTime,
    /// The time at which its last event was written, or it was made.
    pub updated_at: SystemTime,
    /// The number of its events, which is the number of the last one.
    pub events: u64,
    /// The number of events that begin a turn.
    pub turns: u64,
    /// Bytes of its events.
    pub bytes: u64,
    /// The holder of its lease, if there is one.
    pub holder: Option<Holder>,
}

/// The holder of a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The name that the holder gave.
    pub owner: String,
    /// The end of the lease, if it is not renewed.
    pub until: SystemTime,
}

/// An event that is to be appended.
#[derive(Clone, Copy, Debug)]
pub struct NewEvent<'a> {
    /// The kind, a word of at most 64 bytes.
    pub kind: &'a str,
    /// The content, of at most [`MAX_EVENT_BYTES`]. It is kept byte by byte.
    pub json: &'a str,
    /// True if a turn begins with it, which [`SessionSummary::turns`] counts.
    pub begins_turn: bool,
}

/// An event of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionEvent {
    /// The number: 1 for the first event of a session, one more for each next.
    pub seq: u64,
    /// The kind.
    pub kind: String,
    /// The content.
    pub json: String,
    /// True if a turn begins with it.
    pub begins_turn: bool,
    /// The time at which it was written. A fork keeps it.
    pub written_at: SystemTime,
}

/// The right to write to a session, for a time. It ends early if the lease is released. After
/// its time, another process may take the session over, and the lease ends then. Every use of an
/// ended lease is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub(crate) session: SessionId,
    pub(crate) owner: String,
    /// The number of the lease, one more than the session's previous lease.
    pub(crate) fence: u64,
}

impl Lease {
    /// Returns the session.
    #[must_use]
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// Returns the name that the holder gave.
    #[must_use]
    pub fn owner(&self) -> &str {
        &self.owner
    }
}

impl SessionId {
    /// Makes the name of a new session.
    pub(crate) fn new() -> Self {
        Self(Uuid::now_v7())
    }
}

impl FromStr for SessionId {
    type Err = InvalidSessionId;

    fn from_str(text: &str) -> Result<Self, InvalidSessionId> {
        let parsed = Uuid::parse_str(text).map(Self);
        // The message shows the text, which may be anything.
        parsed.map_err(|_| {
            let shown = text.chars().take(64).filter(|c| !is_deceptive(*c));
            InvalidSessionId(shown.collect())
        })
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.as_hyphenated(), out)
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

impl NewSession<'_> {
    pub(crate) fn check(&self) -> Result<(), InvalidSessionText> {
        // A path may have any character except NUL, which PostgreSQL does not allow in text.
        bounded("workspace", self.workspace, MAX_WORKSPACE_BYTES, "NUL", |c| c == '\0')?;
        let Self { title, provider, model, .. } = *self;
        SessionChanges { title, provider, model }.check()
    }
}

impl SessionChanges<'_> {
    pub(crate) fn check(&self) -> Result<(), InvalidSessionText> {
        let texts = [("title", self.title), ("provider", self.provider), ("model", self.model)];
        texts
            .into_iter()
            .try_for_each(|(field, text)| text.map_or(Ok(()), |text| line(field, text)))
    }
}

/// Checks the name of a holder.
pub(crate) fn check_owner(owner: &str) -> Result<(), InvalidSessionText> {
    line("owner", owner)
}

/// Checks the kind of an event.
pub(crate) fn check_kind(kind: &str) -> Result<(), InvalidSessionText> {
    bounded("kind of an event", kind, MAX_KIND_BYTES, "control characters", is_deceptive)
}

fn line(field: &'static str, text: &str) -> Result<(), InvalidSessionText> {
    bounded(field, text, MAX_TITLE_BYTES, "control characters", is_deceptive)
}

fn bounded(
    field: &'static str,
    text: &str,
    most: usize,
    excluded: &'static str,
    is_excluded: impl Fn(char) -> bool,
) -> Result<(), InvalidSessionText> {
    let valid = !text.is_empty() && text.len() <= most && !text.contains(is_excluded);
    if valid { Ok(()) } else { Err(InvalidSessionText { field, most, excluded }) }
}
