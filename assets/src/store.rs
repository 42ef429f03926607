//! The operations of the asset store, which stay consistent however many run at once.
//!
//! Reading is here, and the rest is in these modules:
//!
//! - `change`: changes.
//! - `pins`: pins.
//! - `sums`: the checks of budgets and of the capacity.
//! - `history`: older versions.
//! - `sessions`: kept conversations.
//! - `spending`: the tokens of other conversations.
//! - `digests`: digests.
//! - `check`: the search for damage.
//!
//! Each operation is one statement or one transaction. If a future is dropped or a process dies,
//! either the whole operation has happened or nothing.

/// Makes a statement that selects the columns of `rows::metadata`, further columns if they are
/// given, and continues with the rest.
macro_rules! select_metadata {
    ($(with $further:literal)? from $rest:literal) => {
        concat!(
            "SELECT path, CAST(octet_length(content) AS BIGINT) AS size, tokens, version, \
             read_only, updated_at",
            $(", ", $further,)?
            " FROM ",
            $rest
        )
    };
}

mod change;
mod check;
mod digests;
mod history;
mod kept;
mod pins;
mod rows;
mod sessions;
mod spending;
mod sums;

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::agent::Agent;
use crate::asset::{Asset, AssetMetadata, StoreUsage};
use crate::budget::Budget;
use crate::capacity::Capacity;
use crate::database::{CallerThread, Database, SqlParameter};
use crate::error::{Error, Result};
use crate::options::{Retention, StoreOptions};
use crate::path::{AssetPath, OUTPUTS, SCHEME, successor};
use crate::store_url::StoreUrl;

/// An open asset store. Its operations take `&self` and may run at once; share it in an `Arc`.
///
/// It needs a Tokio runtime of either kind, with time enabled, and I/O for a server. Waiting for
/// a server or for another process blocks no thread. SQLite answers on the caller's thread. Work
/// there that waits for the disk, such as a commit, goes to a thread for that, except with
/// [`Store::on_own_thread`]. An edit searches and copies the content, of up to
/// [`crate::MAX_ASSET_BYTES`], on the caller's thread.
#[derive(Clone)]
pub struct Store {
    database: Database,
    budget: Budget,
    capacity: Capacity,
    retention: Retention,
}

impl Store {
    /// Opens a store, and creates it if its file is missing or its database empty.
    ///
    /// A file and its directory must belong to the user or to root, and no other user may be
    /// able to write to them. Both are created that way. A directory for all users, such as
    /// `/tmp`, is refused.
    ///
    /// Any number of processes may open a store at once. Opening an up-to-date store takes two
    /// statements, which only read.
    ///
    /// # Errors
    ///
    /// Fails with [`Error::Unreachable`], [`Error::Slow`], [`Error::Locked`] or
    /// [`Error::Unauthenticated`] if the store cannot be opened. Fails with [`Error::Unsafe`],
    /// [`Error::NotAStore`] or [`Error::Newer`] if it must not be opened.
    pub async fn open(url: &StoreUrl, options: &StoreOptions) -> Result<Self> {
        let database = Database::open(url, options).await?;
        let StoreOptions { budget, capacity, retention, .. } = *options;
        Ok(Self { database, budget, capacity, retention })
    }

    /// Returns the address, which is displayed without user and password.
    #[must_use]
    pub fn url(&self) -> &StoreUrl {
        self.database.url()
    }

    /// Returns the same store for a caller whose thread has no other work, and so may wait for a
    /// disk. If the store is a file, no other thread is woken for its operations.
    #[must_use]
    pub fn on_own_thread(&self) -> Self {
        let Self { budget, capacity, retention, .. } = *self;
        Self { database: self.database.at(CallerThread::Own), budget, capacity, retention }
    }

    /// Closes the connections, including the ones of [`Store::on_own_thread`], and waits for
    /// that. Dropping the store does not wait.
    pub async fn close(self) {
        self.database.close().await;
    }

    /// Returns the current version of an asset.
    ///
    /// # Errors
    ///
    /// Fails with [`Error::NotFound`], or if the database fails.
    pub async fn read(&self, path: &AssetPath) -> Result<Asset> {
        let statement =
            select_metadata!(with "digest, content" from "stored_assets WHERE path = $1");
        let found = self.database.rows(statement, &[path.value()], rows::asset).await?;
        one(found).ok_or_else(|| Error::NotFound(path.clone()))
    }

    /// Returns an asset without its content, which is not read from the database.
    ///
    /// # Errors
    ///
    /// Fails with [`Error::NotFound`], or if the database fails.
    pub async fn metadata(&self, path: &AssetPath) -> Result<AssetMetadata> {
        let found = self.database.rows(METADATA, &[path.value()], rows::metadata).await?;
        one(found).ok_or_else(|| Error::NotFound(path.clone()))
    }

    /// Lists the assets whose path starts with `prefix`, in the order of bytes. An empty prefix
    /// lists all assets, and the prefix may begin with the scheme. Returns at most the first
    /// `limit`; all for `None`. Reads no content.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn list(&self, prefix: &str, limit: Option<u32>) -> Result<Vec<AssetMetadata>> {
        let prefix = match prefix.strip_prefix(SCHEME) {
            Some(rest) => rest.strip_prefix('/').unwrap_or(rest),
            None => prefix,
        };
        if prefix.contains('\0') {
            // A path never contains a NUL, and PostgreSQL does not allow it in text.
            return Ok(Vec::new());
        }
        // A range instead of LIKE, which needs escapes and often cannot use the primary key.
        let (from, below) = (SqlParameter::Text(prefix), successor(prefix));
        // The databases have no common syntax for a statement without a limit.
        let limit = SqlParameter::Int(limit.map_or(i64::MAX, i64::from));
        match &below {
            Some(below) => {
                let statement = select_metadata!(from "stored_assets \
                    WHERE path >= $1 AND path < $2 ORDER BY path LIMIT $3");
                let values = [from, SqlParameter::Text(below), limit];
                self.database.rows(statement, &values, rows::metadata).await
            }
            None => {
                let statement = select_metadata!(from "stored_assets \
                    WHERE path >= $1 ORDER BY path LIMIT $2");
                self.database.rows(statement, &[from, limit], rows::metadata).await
            }
        }
    }

    /// Returns the sums of an agent's pins and of the store.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn usage(&self, agent: &Agent) -> Result<StoreUsage> {
        let statement = "SELECT \
            (SELECT COUNT(*) FROM asset_pins WHERE agent = $1) AS pinned_assets, \
            (SELECT CAST(COALESCE(SUM(d.tokens), 0) AS BIGINT) FROM asset_pins p \
                JOIN stored_assets d ON d.path = p.path WHERE p.agent = $1) AS pinned_tokens, \
            (SELECT COUNT(*) FROM stored_assets) AS assets, \
            (SELECT CAST(COALESCE(SUM(tokens), 0) AS BIGINT) FROM stored_assets) AS tokens, \
            (SELECT COUNT(*) FROM stored_assets WHERE path >= $2 AND path < $3) AS outputs, \
            (SELECT CAST(COALESCE(SUM(tokens), 0) AS BIGINT) FROM stored_assets \
                WHERE path >= $2 AND path < $3) AS output_tokens, \
            (SELECT COUNT(*) FROM asset_versions) AS old_versions";
        let above = successor(OUTPUTS).unwrap_or_default();
        let values = [
            SqlParameter::Text(agent.as_str()),
            SqlParameter::Text(OUTPUTS),
            SqlParameter::Text(&above),
        ];
        let found =
            self.database.rows(statement, &values, |row| rows::usage(row, self.budget)).await?;
        one(found).ok_or_else(|| Error::Damaged {
            store: self.url().clone(),
            reason: "it does not return its sums".to_owned(),
        })
    }
}

/// Selects an asset without its content, by its path.
const METADATA: &str = select_metadata!(from "stored_assets WHERE path = $1");

impl AssetPath {
    fn value(&self) -> SqlParameter<'_> {
        SqlParameter::Text(self.as_str())
    }
}

/// Returns the first row, if there is one.
fn one<T>(rows: Vec<T>) -> Option<T> {
    rows.into_iter().next()
}

/// Returns the time by the clock of this host, in the form of the database.
fn now() -> i64 {
    micros(SystemTime::now())
}

/// Returns the time `age` ago, in the form of the database.
fn before_now(age: Duration) -> i64 {
    SystemTime::now().checked_sub(age).map_or(0, micros)
}

/// Converts a time to microseconds since 1970; an earlier one becomes 1970.
fn micros(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// Converts a length of time to microseconds. A length that does not fit becomes the longest.
fn micros_of(length: Duration) -> i64 {
    i64::try_from(length.as_micros()).unwrap_or(i64::MAX)
}

/// Converts a count to the form of the database, whose integers have a sign. A count that does
/// not fit becomes the largest integer, which is larger than any stored count.
fn int(count: u64) -> SqlParameter<'static> {
    SqlParameter::Int(i64::try_from(count).unwrap_or(i64::MAX))
}

impl fmt::Debug for Store {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Store").field("url", self.url()).finish_non_exhaustive()
    }
}
