//! The store: what can be done with assets, and what holds whoever else does something
//! at the same time.
//!
//! Reading is here; changing assets is in `change`, what is in an agent's context in
//! `pins`, whether it fits there in `sums`, older versions in `history`. Each operation is
//! one statement or one transaction: a future that is dropped, or a process that dies,
//! leaves all of it or nothing.

/// Selects what `rows::metadata` reads, with what else is named, from `stored_assets` as the
/// rest of the statement has it. A macro, since a statement is one literal.
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
mod history;
mod pins;
mod rows;
mod sums;

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::agent::Agent;
use crate::asset::{Asset, Metadata, Usage};
use crate::budget::Budget;
use crate::capacity::Capacity;
use crate::database::{Database, Value};
use crate::error::{Error, Result};
use crate::options::{Options, Retention};
use crate::path::{AssetPath, OUTPUTS, SCHEME, successor};
use crate::store_url::StoreUrl;

/// An open store. Its operations take `&self` and may run at once; share it in an `Arc`.
///
/// It needs a Tokio runtime with time and I/O enabled, of either kind. The database is
/// waited for without holding a thread; what an operation computes and copies itself, such
/// as the occurrences that an edit replaces, holds the caller's for as long as an asset of
/// up to [`crate::MAX_ASSET_BYTES`] takes.
pub struct Store {
    database: Database,
    budget: Budget,
    capacity: Capacity,
    retention: Retention,
}

impl Store {
    /// Opens a store, and makes it if it is a file that is not there or an empty database.
    ///
    /// A file and its directory must belong to the user or to root, and nobody else may be
    /// able to write to them; what is missing of both is made so. A directory for all, such
    /// as `/tmp`, will not do.
    ///
    /// Any number of processes may open one at once. A store that is up to date is asked two
    /// things and left as it is.
    ///
    /// # Errors
    ///
    /// [`Error::Unreachable`], [`Error::Slow`], [`Error::Locked`] and
    /// [`Error::Unauthenticated`] where it cannot be opened; [`Error::Unsafe`],
    /// [`Error::NotAStore`] and [`Error::Newer`] where it must not be.
    pub async fn open(url: &StoreUrl, options: &Options) -> Result<Self> {
        let database = Database::open(url, options).await?;
        let Options { budget, capacity, retention, .. } = *options;
        Ok(Self { database, budget, capacity, retention })
    }

    /// Where it is; shown without user and password.
    #[must_use]
    pub fn url(&self) -> &StoreUrl {
        self.database.url()
    }

    /// Lets the connections go. Dropping the store does too, only not before this returns.
    pub async fn close(self) {
        self.database.close().await;
    }

    /// An asset as it is now.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], and those of the database.
    pub async fn read(&self, path: &AssetPath) -> Result<Asset> {
        let statement = select_metadata!(with "content" from "stored_assets WHERE path = $1");
        let found = self.database.rows(statement, &[path.value()], rows::asset).await?;
        one(found).ok_or_else(|| Error::NotFound(path.clone()))
    }

    /// What is known of an asset; its content is not fetched.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], and those of the database.
    pub async fn metadata(&self, path: &AssetPath) -> Result<Metadata> {
        let found = self.database.rows(METADATA, &[path.value()], rows::metadata).await?;
        one(found).ok_or_else(|| Error::NotFound(path.clone()))
    }

    /// The assets whose path starts with `prefix`, in the order of their bytes; all of
    /// them for an empty one. The scheme may stand before it. Of more than `limit`, the
    /// first are given; `None` is for those who need all. No content is fetched.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn list(&self, prefix: &str, limit: Option<u32>) -> Result<Vec<Metadata>> {
        let prefix = match prefix.strip_prefix(SCHEME) {
            Some(rest) => rest.strip_prefix('/').unwrap_or(rest),
            None => prefix,
        };
        if prefix.contains('\0') {
            // No path has one, and PostgreSQL takes none in text.
            return Ok(Vec::new());
        }
        // Bounds and not LIKE, which would need its wildcards escaped and uses the primary
        // key only under conditions.
        let (from, below) = (Value::Text(prefix), successor(prefix));
        // Neither database has a word for no limit that the other knows.
        let limit = Value::Int(limit.map_or(i64::MAX, i64::from));
        match &below {
            Some(below) => {
                let statement = select_metadata!(from "stored_assets \
                    WHERE path >= $1 AND path < $2 ORDER BY path LIMIT $3");
                let values = [from, Value::Text(below), limit];
                self.database.rows(statement, &values, rows::metadata).await
            }
            None => {
                let statement = select_metadata!(from "stored_assets \
                    WHERE path >= $1 ORDER BY path LIMIT $2");
                self.database.rows(statement, &[from, limit], rows::metadata).await
            }
        }
    }

    /// Goes through all assets with their contents, one in memory at a time: to see
    /// whether their references lead anywhere.
    #[must_use]
    pub fn scan(&self) -> Scan<'_> {
        Scan { store: self, after: String::new() }
    }

    /// What an agent has pinned, and what the store holds.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn usage(&self, agent: &Agent) -> Result<Usage> {
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
        let values = [Value::Text(agent.as_str()), Value::Text(OUTPUTS), Value::Text(&above)];
        let found =
            self.database.rows(statement, &values, |row| rows::usage(row, self.budget)).await?;
        one(found).ok_or_else(|| Error::Damaged {
            store: self.url().clone(),
            reason: "it does not answer what it holds".to_owned(),
        })
    }
}

/// An asset without its content, by its path.
const METADATA: &str = select_metadata!(from "stored_assets WHERE path = $1");

/// Where a walk through all assets is. An asset that is written meanwhile is seen if
/// its path is still ahead.
pub struct Scan<'a> {
    store: &'a Store,
    after: String,
}

impl Scan<'_> {
    /// The next asset in the order of paths, until there is none.
    ///
    /// # Errors
    ///
    /// Those of the database; it may be asked again.
    pub async fn next(&mut self) -> Result<Option<Asset>> {
        let statement = select_metadata!(with "content" from "stored_assets \
            WHERE path > $1 ORDER BY path LIMIT 1");
        let values = [Value::Text(&self.after)];
        let found = one(self.store.database.rows(statement, &values, rows::asset).await?);
        if let Some(asset) = &found {
            asset.metadata.path.as_str().clone_into(&mut self.after);
        }
        Ok(found)
    }
}

impl AssetPath {
    fn value(&self) -> Value<'_> {
        Value::Text(self.as_str())
    }
}

/// What a statement gives that finds one row or none.
fn one<T>(rows: Vec<T>) -> Option<T> {
    rows.into_iter().next()
}

/// The clock of this host, in the database's form.
fn now() -> i64 {
    micros(SystemTime::now())
}

/// The moment that is `age` past, in the database's form.
fn before_now(age: Duration) -> i64 {
    SystemTime::now().checked_sub(age).map_or(0, micros)
}

/// Microseconds since 1970; what lies before is 1970.
fn micros(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// A count in the form of the database, whose integers have a sign. What is too large for
/// it is larger than anything that is stored.
fn int(count: u64) -> Value<'static> {
    Value::Int(i64::try_from(count).unwrap_or(i64::MAX))
}

impl fmt::Debug for Store {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Store").field("url", self.url()).finish_non_exhaustive()
    }
}
