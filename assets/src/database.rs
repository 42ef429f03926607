//! A database of either kind, with one way to run a statement.
//!
//! Both databases number their parameters `$1`, `$2`, …, so each statement is written only once.
//! The differences stay here: opening a store (`sqlite`, `postgres`), its tables (`schema`,
//! `tables`), locks, and the codes of errors (`failure`). Nothing here knows the purpose of a
//! statement.

mod digest;
mod failure;
mod postgres;
mod row;
mod schema;
mod sqlite;
mod tables;

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sqlx::PgPool;

use crate::error::{Error, Result};
use crate::options::StoreOptions;
use crate::store_url::{StoreLocation, StoreUrl};

pub(crate) use digest::{RowDigest, row_digest};
use failure::DatabaseAccess;
pub(crate) use failure::DatabaseFailure;
pub(crate) use row::{Column, Row};

/// The connections to one store.
#[derive(Clone)]
pub(crate) struct Database {
    pool: StorePool,
    url: StoreUrl,
    /// The time after which waiting for another process that holds the file ends.
    busy_timeout: Duration,
    /// The time after which a server ends a statement.
    statement_timeout: Duration,
    place: CallerThread,
}

#[derive(Clone)]
enum StorePool {
    Sqlite(Arc<sqlite::SqlitePool>),
    Postgres(PgPool),
}

/// The caller's thread, which decides where SQLite waits for a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallerThread {
    /// It has other tasks, and must not wait.
    Shared,
    /// It has nothing else to do.
    Own,
}

/// A parameter of a statement.
#[derive(Clone, Copy)]
pub(crate) enum SqlParameter<'a> {
    Text(&'a str),
    OptionalText(Option<&'a str>),
    Bytes(&'a [u8]),
    Int(i64),
    Flag(bool),
}

/// A lock in PostgreSQL that a transaction holds to its end. Every transaction locks assets
/// before agents and the total last, and locks of one kind in the order of their keys, so two
/// transactions never wait for each other.
#[derive(Clone, Copy)]
pub(crate) enum TransactionLock<'a> {
    /// The tables themselves.
    Schema,
    /// An asset, its history, and its pins.
    Asset(&'a str),
    /// The pins of an agent, and the sum of their tokens.
    Agent(&'a str),
    /// The sum of all assets, for a change that may increase it.
    Total,
    /// A session, its events, and its lease. No transaction locks both a session and an asset.
    Session(&'a str),
}

impl Database {
    /// Connects, and creates the tables if they are missing.
    pub(crate) async fn open(url: &StoreUrl, options: &StoreOptions) -> Result<Self> {
        let pool = match &url.0 {
            StoreLocation::Memory => StorePool::Sqlite(sqlite::memory(options)),
            StoreLocation::Sqlite(path) => StorePool::Sqlite(sqlite::file(path, options)?),
            StoreLocation::Postgres(address) => {
                StorePool::Postgres(postgres::pool(address, options).await?)
            }
        };
        let database = Self {
            pool,
            url: url.clone(),
            busy_timeout: options.busy_timeout,
            statement_timeout: options.statement_timeout,
            place: CallerThread::Shared,
        };
        schema::ensure(&database).await?;
        Ok(database)
    }

    /// Returns the same database for a caller on this kind of thread.
    pub(crate) fn at(&self, place: CallerThread) -> Self {
        Self { place, ..self.clone() }
    }

    pub(crate) fn url(&self) -> &StoreUrl {
        &self.url
    }

    /// Runs a statement that reads, outside any transaction.
    pub(crate) async fn rows<T>(
        &self,
        statement: &'static str,
        values: &[SqlParameter<'_>],
        read: impl Fn(&Row<'_>) -> Column<T>,
    ) -> Result<Vec<T>> {
        let rows = async {
            match &self.pool {
                StorePool::Sqlite(connections) => connections.rows(statement, values, read).await,
                StorePool::Postgres(pool) => postgres::rows(pool, statement, values, read).await,
            }
        };
        self.within(DatabaseAccess::Read, rows).await
    }

    /// Returns the time that the users of the store agree on.
    pub(crate) async fn clock(&self) -> Result<i64> {
        match &self.pool {
            StorePool::Sqlite(_) => Ok(host_clock()),
            StorePool::Postgres(_) => {
                let found = self.rows(CLOCK, &[], |row| row.int("now")).await?;
                self.told(found)
            }
        }
    }

    fn told(&self, found: Vec<i64>) -> Result<i64> {
        found.first().copied().ok_or_else(|| Error::Damaged {
            store: self.url.clone(),
            reason: "it does not tell the time".to_owned(),
        })
    }

    /// Begins a transaction that may write. It is rolled back if it is dropped before the
    /// commit.
    pub(crate) async fn begin(&self) -> Result<Transaction<'_>> {
        let inner = async {
            Ok(match &self.pool {
                StorePool::Sqlite(connections) => {
                    BackendTransaction::Sqlite(connections.begin().await?)
                }
                // Explicit, since the server's default may differ: each statement must see the
                // commits that came while the previous statement waited for a lock.
                StorePool::Postgres(pool) => {
                    let begin = "BEGIN ISOLATION LEVEL READ COMMITTED";
                    BackendTransaction::Postgres(pool.begin_with(begin).await?)
                }
            })
        };
        let inner = self.within(DatabaseAccess::Write, inner).await?;
        Ok(Transaction { inner, database: self })
    }

    pub(crate) async fn close(&self) {
        match &self.pool {
            StorePool::Sqlite(connections) => connections.close().await,
            StorePool::Postgres(pool) => pool.close().await,
        }
    }

    /// Runs `work`, which talks to the database. If the server does not end a statement in its
    /// time itself, because it hangs or is cut off, ikigai gives up shortly after.
    async fn within<T>(
        &self,
        access: DatabaseAccess,
        work: impl Future<Output = std::result::Result<T, DatabaseFailure>>,
    ) -> Result<T> {
        let timeout = self.statement_timeout + Duration::from_secs(5);
        let done = match &self.pool {
            // The wait for a file has its own timeout.
            StorePool::Sqlite(_) => Ok(work.await),
            StorePool::Postgres(_) => tokio::time::timeout(timeout, work).await,
        };
        match done {
            Ok(done) => done.map_err(self.failed(access)),
            Err(_) => Err(Error::Slow { store: self.url.clone(), waited: timeout }),
        }
    }

    fn failed(&self, access: DatabaseAccess) -> impl Fn(DatabaseFailure) -> Error + '_ {
        move |failure| failure::translate(self, access, failure)
    }
}

/// A transaction of either database.
pub(crate) struct Transaction<'a> {
    inner: BackendTransaction,
    database: &'a Database,
}

enum BackendTransaction {
    Sqlite(sqlite::PooledConnection),
    Postgres(sqlx::Transaction<'static, sqlx::Postgres>),
}

impl Transaction<'_> {
    /// Runs a statement that reads.
    pub(crate) async fn rows<T>(
        &mut self,
        statement: &'static str,
        values: &[SqlParameter<'_>],
        read: impl Fn(&Row<'_>) -> Column<T>,
    ) -> Result<Vec<T>> {
        let inner = &mut self.inner;
        let rows = async {
            match inner {
                BackendTransaction::Sqlite(inner) => inner.rows(statement, values, read).await,
                BackendTransaction::Postgres(inner) => {
                    postgres::rows(&mut **inner, statement, values, read).await
                }
            }
        };
        self.database.within(DatabaseAccess::Read, rows).await
    }

    /// Runs a statement that writes, and returns the number of rows that it changed.
    pub(crate) async fn execute(
        &mut self,
        statement: &'static str,
        values: &[SqlParameter<'_>],
    ) -> Result<u64> {
        let inner = &mut self.inner;
        let changed = async {
            match inner {
                BackendTransaction::Sqlite(inner) => inner.execute(statement, values).await,
                BackendTransaction::Postgres(inner) => {
                    postgres::execute(inner, statement, values).await
                }
            }
        };
        self.database.within(DatabaseAccess::Write, changed).await
    }

    /// Makes the tables of an empty store.
    async fn create_tables(&mut self) -> Result<()> {
        let inner = &mut self.inner;
        let done = async {
            match inner {
                BackendTransaction::Sqlite(inner) => inner.script(&tables::for_sqlite()).await,
                BackendTransaction::Postgres(inner) => {
                    postgres::script(inner, tables::FOR_POSTGRES).await
                }
            }
        };
        self.database.within(DatabaseAccess::Write, done).await
    }

    /// Waits for these locks, in the order of [`TransactionLock`]. In SQLite a transaction has the whole
    /// store already.
    pub(crate) async fn lock(&mut self, locks: &[TransactionLock<'_>]) -> Result<()> {
        if matches!(self.inner, BackendTransaction::Sqlite(_)) {
            return Ok(());
        }
        let mut keys: Vec<i64> = locks.iter().map(|lock| lock.key()).collect();
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            // Not `SELECT … FOR UPDATE`: neither the sum of an agent nor a new asset has a row
            // to lock.
            self.rows("SELECT pg_advisory_xact_lock($1)", &[SqlParameter::Int(key)], |_| Ok(()))
                .await?;
        }
        Ok(())
    }

    /// Returns the time that the users of the store agree on. It advances within a transaction.
    pub(crate) async fn clock(&mut self) -> Result<i64> {
        match self.inner {
            BackendTransaction::Sqlite(_) => Ok(host_clock()),
            BackendTransaction::Postgres(_) => {
                let found = self.rows(CLOCK, &[], |row| row.int("now")).await?;
                self.database.told(found)
            }
        }
    }

    /// Commits the transaction.
    pub(crate) async fn commit(self) -> Result<()> {
        let Self { inner, database } = self;
        let committed = async {
            match inner {
                BackendTransaction::Sqlite(inner) => inner.commit(database.place).await,
                BackendTransaction::Postgres(inner) => Ok(inner.commit().await?),
            }
        };
        database.within(DatabaseAccess::Write, committed).await
    }

    /// Returns the error for a transaction that must begin anew, since another changed its rows.
    pub(crate) fn contended(&self) -> Error {
        Error::Contended(self.database.url.clone())
    }
}

impl TransactionLock<'_> {
    /// Returns the key of the lock: the kind, then 32 bits of a hash of the name. Names that
    /// share a key sometimes wait for each other, without harm.
    fn key(self) -> i64 {
        /// Distinguishes the keys from those of other programs on the same database.
        const IKIGAI: i64 = 0x696b_0000;
        let (kind, name) = match self {
            Self::Schema => (0, ""),
            Self::Asset(path) => (1, path),
            Self::Agent(name) => (2, name),
            Self::Total => (3, ""),
            Self::Session(id) => (4, id),
        };
        // FNV-1a. All builds that share a store must agree, and the standard library's hash may
        // differ from one build to the next.
        let hash = name
            .bytes()
            .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        (IKIGAI | kind) << 32 | i64::from(hash)
    }
}

/// The clock of a server, in microseconds since 1970. Not `now()`, which is the start of the
/// transaction.
const CLOCK: &str = "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT) AS now";

/// Returns the clock of this host, in microseconds since 1970. All users of an SQLite file are
/// on one host.
fn host_clock() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::TransactionLock;

    #[test]
    fn assets_are_locked_before_agents_and_the_total_last() {
        let assets = ["", "a", "blocks/x.md", "zzz"].map(|path| TransactionLock::Asset(path).key());
        let agents = ["", "a", "ann@host", "zzz"].map(|name| TransactionLock::Agent(name).key());
        assert!(TransactionLock::Schema.key() < assets.into_iter().min().expect("some"));
        assert!(assets.into_iter().max() < agents.into_iter().min());
        assert!(agents.into_iter().max().expect("some") < TransactionLock::Total.key());
        // The published value of FNV-1a for "a": all builds must agree on it.
        assert_eq!(TransactionLock::Asset("a").key() & 0xffff_ffff, 0xe40c_292c);
    }
}
