//! Translates the errors of a database into errors of the store. Only this module knows the
//! codes of either database.

use std::borrow::Cow;
use std::time::Duration;

use ikigai_protocol::is_deceptive;

use super::sqlite::shortage::Shortage;
use super::{Database, tables};
use crate::damage::StoredText;
use crate::error::Error;
use crate::store_url::StoreUrl;

/// The access that failed, for an error whose code gives no detail.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DatabaseAccess {
    Read,
    Write,
}

/// The failure of a statement, or of a value that it returned.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DatabaseFailure {
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    #[error(transparent)]
    Postgres(#[from] sqlx::Error),
    /// The store would never write this value there.
    #[error("column `{column}`: {reason}")]
    Value { column: String, reason: Box<dyn std::error::Error + Send + Sync> },
    /// A text differs from the one that was written.
    #[error("{0} is not what was written")]
    Altered(StoredText),
    /// A newer ikigai has changed the tables to this version.
    #[error("its tables have version {0}")]
    Newer(u64),
    /// Other users have all connections to a file.
    #[error("no connection was free in time")]
    NoConnection,
    /// The path of a file now leads to another file, or to no file.
    #[error(
        "its file was removed or replaced while this program used it, so that a change would be lost; \
         put the file back, or start this program again"
    )]
    Moved,
    /// The runtime ends, or the store was closed.
    #[error("the store is being closed")]
    Ended,
}

impl DatabaseFailure {
    pub(crate) fn value(
        column: &str,
        reason: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Value { column: column.to_owned(), reason: reason.into() }
    }

    /// Returns whether the statement was written for other tables than the file has. The
    /// statements are fixed, and obey the constraints.
    pub(super) fn is_of_tables(&self) -> bool {
        let code = match self {
            Self::Sqlite(error) => sqlite_code(error),
            _ => None,
        };
        code.is_some_and(|code| OF_TABLES.contains(&(code & 0xff)))
    }

    /// Returns whether another connection holds the lock of a file. A later attempt may succeed.
    pub(super) fn is_busy(&self) -> bool {
        matches!(self, Self::Sqlite(error)
            if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy))
    }
}

/// Translates the failure of a statement.
pub(super) fn translate(
    database: &Database,
    access: DatabaseAccess,
    failure: DatabaseFailure,
) -> Error {
    let store = database.url.clone();
    let reason = match &failure {
        // Without the statement, which would fill the line.
        DatabaseFailure::Sqlite(rusqlite::Error::SqlInputError { msg, .. }) => msg.clone(),
        other => other.to_string(),
    };
    let reason = sanitize(&store, &reason);
    match failure {
        DatabaseFailure::Sqlite(error) => {
            let code = sqlite_code(&error);
            let is_vague = code.is_some_and(|code| matches!(code & 0xff, IOERR | CANTOPEN));
            let shortage = store.file().filter(|_| is_vague).and_then(Shortage::at);
            if let Some(shortage) = shortage {
                return shortage.error(store);
            }
            let known = code.and_then(|code| sqlite(&store, database.busy_timeout, code, &reason));
            known.unwrap_or_else(|| access.failed(store, reason))
        }
        DatabaseFailure::Postgres(error) => of_postgres(database, access, error, reason),
        DatabaseFailure::Value { .. } => Error::Damaged { store, reason },
        DatabaseFailure::Altered(text) => Error::Altered { store, text },
        DatabaseFailure::Newer(found) => Error::Newer { store, found, known: tables::KNOWN },
        DatabaseFailure::NoConnection => Error::Locked { store, waited: database.busy_timeout },
        DatabaseFailure::Moved | DatabaseFailure::Ended => Error::Unreachable { store, reason },
    }
}

/// Returns the extended result code of SQLite, even if SQLite could not prepare a statement.
fn sqlite_code(error: &rusqlite::Error) -> Option<i32> {
    match error {
        rusqlite::Error::SqliteFailure(error, _) | rusqlite::Error::SqlInputError { error, .. } => {
            Some(error.extended_code)
        }
        _ => None,
    }
}

/// Translates the error of a server. `reason` is its whole text.
fn of_postgres(
    database: &Database,
    access: DatabaseAccess,
    error: sqlx::Error,
    reason: String,
) -> Error {
    let store = database.url.clone();
    match error {
        sqlx::Error::Database(error) => {
            let code = error.code().unwrap_or(Cow::Borrowed(""));
            let reason = sanitize(&store, error.message());
            let known = postgres(&store, database.statement_timeout, &code, &reason);
            known.unwrap_or_else(|| access.failed(store, reason))
        }
        sqlx::Error::PoolTimedOut => {
            let reason = "no connection was free or could be made in time".to_owned();
            Error::Unreachable { store, reason }
        }
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::PoolClosed
        | sqlx::Error::WorkerCrashed
        | sqlx::Error::Configuration(_)
        | sqlx::Error::Protocol(_) => Error::Unreachable { store, reason },
        sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => {
            Error::Damaged { store, reason }
        }
        _ => access.failed(store, reason),
    }
}

/// Translates the error of an attempt to connect to a server.
pub(super) fn connecting(store: StoreUrl, error: sqlx::Error) -> Error {
    let (code, reason) = match &error {
        sqlx::Error::Database(error) => {
            (error.code().map(Cow::into_owned), sanitize(&store, error.message()))
        }
        other => (None, sanitize(&store, &other.to_string())),
    };
    let known = code.and_then(|code| postgres(&store, Duration::ZERO, &code, &reason));
    known.unwrap_or(Error::Unreachable { store, reason })
}

/// Sanitizes the message of a server, which may be hostile. Replaces passwords, which some
/// servers repeat, and characters that move a terminal's cursor. Cuts the message to 300
/// characters.
fn sanitize(store: &StoreUrl, message: &str) -> String {
    const MAX_CHARS: usize = 300;
    let from_environment = std::env::var("PGPASSWORD").ok().filter(|it| !it.is_empty());
    let mut message = message.to_owned();
    for password in store.passwords().into_iter().chain(from_environment) {
        message = message.replace(&password, "***");
    }
    let visible = |c: char| if is_deceptive(c) { char::REPLACEMENT_CHARACTER } else { c };
    let mut sanitized: String = message.chars().take(MAX_CHARS).map(visible).collect();
    if message.chars().nth(MAX_CHARS).is_some() {
        sanitized.push('…');
    }
    sanitized
}

impl DatabaseAccess {
    /// Returns the error without more detail.
    fn failed(self, store: StoreUrl, reason: String) -> Error {
        match self {
            Self::Read => Error::Read { store, reason },
            Self::Write => Error::Write { store, reason },
        }
    }
}

/// A call of the system failed; SQLite does not say why.
const IOERR: i32 = 10;

/// A file of the store could not be opened; SQLite does not say why.
const CANTOPEN: i32 = 14;

/// An unknown table or column, a value of 1 GB or more, a broken constraint, and a value of the
/// wrong type.
const OF_TABLES: [i32; 4] = [1, 18, 19, 20];

/// Translates a result code of SQLite, <https://www.sqlite.org/rescode.html>: the low byte is
/// the class, the rest a detail.
fn sqlite(store: &StoreUrl, waited: Duration, code: i32, reason: &str) -> Option<Error> {
    const BUSY: i32 = 5;
    const LOCKED: i32 = 6;
    const NOMEM: i32 = 7;
    const READONLY: i32 = 8;
    const CORRUPT: i32 = 11;
    const FULL: i32 = 13;
    const NOTADB: i32 = 26;
    let store = store.clone();
    let reason = reason.to_owned();
    Some(match code & 0xff {
        BUSY | LOCKED => Error::Locked { store, waited },
        NOMEM => Error::OutOfMemory,
        READONLY => Error::StoreReadOnly(store),
        CORRUPT => Error::Damaged { store, reason },
        class if OF_TABLES.contains(&class) => Error::Damaged { store, reason },
        FULL => Error::Full(store),
        CANTOPEN => Error::Unreachable { store, reason },
        NOTADB => Error::NotAStore { store, reason: "the file is not a database of SQLite" },
        _ => return None,
    })
}

/// Translates an SQLSTATE, <https://www.postgresql.org/docs/current/errcodes-appendix.html>:
/// the first two characters are the class.
fn postgres(store: &StoreUrl, waited: Duration, code: &str, reason: &str) -> Option<Error> {
    let store = store.clone();
    let reason = reason.to_owned();
    Some(match code {
        "53100" => Error::Full(store),
        "53200" => Error::OutOfMemory,
        // A hot standby, or a server set to `default_transaction_read_only`.
        "25006" => Error::StoreReadOnly(store),
        "42501" => Error::Denied { store, reason },
        // Serialization failure, deadlock, and a row that another transaction made first.
        "40001" | "40P01" | "23505" => Error::Contended(store),
        // `statement_timeout` and `idle_in_transaction_session_timeout` ran out at the server.
        "57014" | "25P03" => Error::Slow { store, waited },
        _ => match code.get(..2)? {
            "28" => Error::Unauthenticated(store),
            // No such database, connection lost, no connections left, shutting down.
            "3D" | "08" | "53" | "57" => Error::Unreachable { store, reason },
            "XX" => Error::Damaged { store, reason },
            _ => return None,
        },
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{postgres, sanitize};
    use crate::error::Error;
    use crate::store_url::StoreUrl;

    #[test]
    fn the_message_of_a_server_is_sanitized() {
        let store = StoreUrl::parse("postgres://ann:s3%2Fcret@db.example/team").expect("valid");
        let message = "no\u{1b}[2J\r\nhint: s3/cret, s3%2Fcret\u{202e}";
        let sanitized = sanitize(&store, message);
        assert_eq!(sanitized, "no\u{fffd}[2J\u{fffd}\u{fffd}hint: ***, ***\u{fffd}");
        assert_eq!(sanitize(&store, &"x".repeat(1 << 20)).chars().count(), 301);
        assert_eq!(sanitize(&store, "plain"), "plain");
    }

    #[test]
    fn a_transaction_that_paused_too_long_was_slow() {
        let store = StoreUrl::parse("postgres://db.example/team").expect("an address");
        let waited = Duration::from_secs(30);
        for code in ["57014", "25P03"] {
            let error = postgres(&store, waited, code, "terminating");
            assert!(matches!(error, Some(Error::Slow { .. })), "{code}: {error:?}");
        }
    }
}
