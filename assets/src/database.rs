//! A database of either kind, behind one way to run a statement.
//!
//! Both number their parameters `$1`, `$2`, …, so that a statement stands once, where it is
//! used. What differs stays below here: how a store is opened (`sqlite`, `postgres`), what
//! its tables are made with (`schema`), what is locked, and how a failure reads
//! (`failure`). Nothing here knows what the statements are for.

mod failure;
mod postgres;
mod row;
mod schema;
mod sqlite;

use std::future::Future;
use std::time::Duration;

use sqlx::{Executor, PgPool, Postgres, Sqlite, SqlitePool};
use tokio::sync::{Mutex, MutexGuard};

use crate::error::{Error, Result};
use crate::options::Options;
use crate::store_url::{Location, StoreUrl};

pub(crate) use failure::Doing;
pub(crate) use row::Row;

/// The connections to one store.
pub(crate) struct Database {
    pool: Pool,
    url: StoreUrl,
    /// Held by whoever writes to SQLite, so that tasks of one process wait in turn: those
    /// who wait for another process poll, and would now and then starve each other.
    turn: Mutex<()>,
    /// How long another process may hold a store that is a file.
    busy_timeout: Duration,
    /// How long a server gives a statement.
    statement_timeout: Duration,
}

enum Pool {
    Sqlite(SqlitePool),
    Postgres(PgPool),
}

/// What is handed over with a statement.
#[derive(Clone, Copy)]
pub(crate) enum Value<'a> {
    Text(&'a str),
    Bytes(&'a [u8]),
    Int(i64),
    Flag(bool),
}

/// Locks in PostgreSQL that a transaction holds to its end. Every transaction takes those
/// of assets before those of agents, the total's last, and several of one kind in the order of their
/// keys; so no two ever wait for each other.
#[derive(Clone, Copy)]
pub(crate) enum Lock<'a> {
    /// The tables themselves.
    Schema,
    /// An asset, its history, and who has pinned it.
    Asset(&'a str),
    /// What an agent has pinned, and the tokens of all that.
    Agent(&'a str),
    /// The sum of all assets, whenever it may become more.
    Total,
}

impl Database {
    /// Connects, and makes the tables where there are none yet.
    pub(crate) async fn open(url: &StoreUrl, options: &Options) -> Result<Self> {
        let pool = match &url.0 {
            Location::Memory => Pool::Sqlite(sqlite::memory(options)),
            Location::Sqlite(path) => Pool::Sqlite(sqlite::file(path, options)?),
            Location::Postgres(address) => Pool::Postgres(postgres::pool(address, options).await?),
        };
        let database = Self {
            pool,
            url: url.clone(),
            turn: Mutex::new(()),
            busy_timeout: options.busy_timeout,
            statement_timeout: options.statement_timeout,
        };
        schema::ensure(&database).await?;
        Ok(database)
    }

    pub(crate) fn url(&self) -> &StoreUrl {
        &self.url
    }

    /// Runs a statement that reads, outside any transaction.
    pub(crate) async fn rows<T>(
        &self,
        statement: &'static str,
        values: &[Value<'_>],
        read: impl Fn(&Row) -> std::result::Result<T, sqlx::Error>,
    ) -> Result<Vec<T>> {
        let rows = async {
            match &self.pool {
                Pool::Sqlite(pool) => sqlite_rows(pool, statement, values).await,
                Pool::Postgres(pool) => postgres_rows(pool, statement, values).await,
            }
        };
        let rows = self.within(Doing::Read, rows).await?;
        rows.iter()
            .map(read)
            .collect::<std::result::Result<_, _>>()
            .map_err(self.failed(Doing::Read))
    }

    /// Begins a transaction that may write. Dropped before it is committed, it is undone.
    pub(crate) async fn begin(&self) -> Result<Transaction<'_>> {
        let turn = match &self.pool {
            Pool::Sqlite(_) => Some(self.turn.lock().await),
            Pool::Postgres(_) => None,
        };
        let inner = async {
            Ok(match &self.pool {
                // Takes the lock for writing before anything is read, so that what is read
                // holds until the commit. A transaction that asked for it later could be
                // refused for what others wrote in between.
                Pool::Sqlite(pool) => Inner::Sqlite(pool.begin_with("BEGIN IMMEDIATE").await?),
                // Said anew, whatever the server's default is: each statement shall see
                // what was committed while the one before waited for a lock.
                Pool::Postgres(pool) => {
                    let begin = "BEGIN ISOLATION LEVEL READ COMMITTED";
                    Inner::Postgres(pool.begin_with(begin).await?)
                }
            })
        };
        let inner = self.within(Doing::Write, inner).await?;
        Ok(Transaction { inner, database: self, _turn: turn })
    }

    pub(crate) async fn close(&self) {
        match &self.pool {
            Pool::Sqlite(pool) => pool.close().await,
            Pool::Postgres(pool) => pool.close().await,
        }
    }

    /// Runs what talks to the database. A server that has not ended a statement in time
    /// itself, because it hangs or is cut off, is given up shortly after.
    async fn within<T>(
        &self,
        doing: Doing,
        work: impl Future<Output = std::result::Result<T, sqlx::Error>>,
    ) -> Result<T> {
        let patience = self.statement_timeout + Duration::from_secs(5);
        let done = match &self.pool {
            // A file is waited for by SQLite itself.
            Pool::Sqlite(_) => Ok(work.await),
            Pool::Postgres(_) => tokio::time::timeout(patience, work).await,
        };
        match done {
            Ok(done) => done.map_err(self.failed(doing)),
            Err(_) => Err(Error::Slow { store: self.url.clone(), waited: patience }),
        }
    }

    fn failed(&self, doing: Doing) -> impl Fn(sqlx::Error) -> Error + '_ {
        move |error| failure::translate(self, doing, error)
    }
}

/// Statements that hold together.
pub(crate) struct Transaction<'a> {
    // Dropped before the turn is given on: the rollback is under way by then.
    inner: Inner,
    database: &'a Database,
    _turn: Option<MutexGuard<'a, ()>>,
}

enum Inner {
    Sqlite(sqlx::Transaction<'static, Sqlite>),
    Postgres(sqlx::Transaction<'static, Postgres>),
}

impl Transaction<'_> {
    /// Runs a statement that reads.
    pub(crate) async fn rows<T>(
        &mut self,
        statement: &'static str,
        values: &[Value<'_>],
        read: impl Fn(&Row) -> std::result::Result<T, sqlx::Error>,
    ) -> Result<Vec<T>> {
        let inner = &mut self.inner;
        let rows = async {
            match inner {
                Inner::Sqlite(inner) => sqlite_rows(&mut **inner, statement, values).await,
                Inner::Postgres(inner) => postgres_rows(&mut **inner, statement, values).await,
            }
        };
        let rows = self.database.within(Doing::Read, rows).await?;
        let failed = self.database.failed(Doing::Read);
        rows.iter().map(read).collect::<std::result::Result<_, _>>().map_err(failed)
    }

    /// Runs a statement that writes; gives the number of rows that it changed.
    pub(crate) async fn execute(
        &mut self,
        statement: &'static str,
        values: &[Value<'_>],
    ) -> Result<u64> {
        let inner = &mut self.inner;
        let changed = async {
            Ok(match inner {
                Inner::Sqlite(inner) => {
                    let query = values.iter().fold(sqlx::query(statement), bind_sqlite);
                    query.execute(&mut **inner).await?.rows_affected()
                }
                Inner::Postgres(inner) => {
                    let query = values.iter().fold(sqlx::query(statement), bind_postgres);
                    query.execute(&mut **inner).await?.rows_affected()
                }
            })
        };
        self.database.within(Doing::Write, changed).await
    }

    /// Waits for these locks, in the order that [`Lock`] lays down. In SQLite a transaction
    /// has the whole store to itself already.
    pub(crate) async fn lock(&mut self, locks: &[Lock<'_>]) -> Result<()> {
        if matches!(self.inner, Inner::Sqlite(_)) {
            return Ok(());
        }
        let mut keys: Vec<i64> = locks.iter().map(|lock| lock.key()).collect();
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            // Not `SELECT … FOR UPDATE`: the sums of an agent are no row, and an asset
            // that is about to be made has none yet.
            self.rows("SELECT pg_advisory_xact_lock($1)", &[Value::Int(key)], |_| Ok(())).await?;
        }
        Ok(())
    }

    /// Makes it final.
    pub(crate) async fn commit(self) -> Result<()> {
        let Self { inner, database, _turn } = self;
        let committed = async {
            match inner {
                Inner::Sqlite(inner) => inner.commit().await,
                Inner::Postgres(inner) => inner.commit().await,
            }
        };
        database.within(Doing::Write, committed).await
    }

    /// Another has changed what this transaction was about: it must begin anew.
    pub(crate) fn contended(&self) -> Error {
        Error::Contended(self.database.url.clone())
    }
}

impl Lock<'_> {
    /// The key of the lock: the kind, then 32 bits of the name. Names that share a key wait
    /// for each other now and then, and that is all.
    fn key(self) -> i64 {
        /// Keeps the keys apart from those of other programs on the same database.
        const IKIGAI: i64 = 0x696b_0000;
        let (kind, name) = match self {
            Self::Schema => (0, ""),
            Self::Asset(path) => (1, path),
            Self::Agent(name) => (2, name),
            Self::Total => (3, ""),
        };
        // FNV-1a. The standard library's hash may differ from one build to the next, and
        // all builds that share a store must agree.
        let hash = name
            .bytes()
            .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        (IKIGAI | kind) << 32 | i64::from(hash)
    }
}

type SqliteQuery = sqlx::query::Query<'static, Sqlite, sqlx::sqlite::SqliteArguments>;
type PostgresQuery = sqlx::query::Query<'static, Postgres, sqlx::postgres::PgArguments>;

fn bind_sqlite(query: SqliteQuery, value: &Value<'_>) -> SqliteQuery {
    match *value {
        Value::Text(text) => query.bind(text.to_owned()),
        Value::Bytes(bytes) => query.bind(bytes.to_vec()),
        Value::Int(number) => query.bind(number),
        Value::Flag(flag) => query.bind(flag),
    }
}

fn bind_postgres(query: PostgresQuery, value: &Value<'_>) -> PostgresQuery {
    match *value {
        Value::Text(text) => query.bind(text.to_owned()),
        Value::Bytes(bytes) => query.bind(bytes.to_vec()),
        Value::Int(number) => query.bind(number),
        Value::Flag(flag) => query.bind(flag),
    }
}

async fn sqlite_rows<'e, E: Executor<'e, Database = Sqlite>>(
    executor: E,
    statement: &'static str,
    values: &[Value<'_>],
) -> std::result::Result<Vec<Row>, sqlx::Error> {
    let query = values.iter().fold(sqlx::query(statement), bind_sqlite);
    Ok(query.fetch_all(executor).await?.into_iter().map(Row::Sqlite).collect())
}

async fn postgres_rows<'e, E: Executor<'e, Database = Postgres>>(
    executor: E,
    statement: &'static str,
    values: &[Value<'_>],
) -> std::result::Result<Vec<Row>, sqlx::Error> {
    let query = values.iter().fold(sqlx::query(statement), bind_postgres);
    Ok(query.fetch_all(executor).await?.into_iter().map(Row::Postgres).collect())
}

#[cfg(test)]
mod tests {
    use super::Lock;

    #[test]
    fn assets_are_locked_before_agents_and_the_total_last() {
        let assets = ["", "a", "blocks/x.md", "zzz"].map(|path| Lock::Asset(path).key());
        let agents = ["", "a", "ann@host", "zzz"].map(|name| Lock::Agent(name).key());
        assert!(Lock::Schema.key() < assets.into_iter().min().expect("some"));
        assert!(assets.into_iter().max() < agents.into_iter().min());
        assert!(agents.into_iter().max().expect("some") < Lock::Total.key());
        // The published value of FNV-1a for "a": all builds must agree on it.
        assert_eq!(Lock::Asset("a").key() & 0xffff_ffff, 0xe40c_292c);
    }
}
