//! The connections of a process to one SQLite database, and the statements that run on them.
//!
//! SQLite answers on the thread that calls it: a statement runs on the thread that polls its
//! future, and no other thread is woken. Two kinds of waits are kept away from that thread.
//! SQLite itself never waits for a lock of another process: the statement is tried again after
//! pauses, in which the thread is free and the future may be dropped. Waits for the disk, as in
//! a commit, happen on a blocking thread of the runtime, unless the caller has said that its own
//! thread may wait.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use backon::BackoffBuilder as _;
use parking_lot::Mutex;
use rusqlite::config::DbConfig;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, OpenFlags, ToSql};
use tokio::sync::{Mutex as Turn, OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};

use crate::backoff::PAUSES;
use crate::database::failure::DatabaseFailure;
use crate::database::row::{Column, Row};
use crate::database::{CallerThread, SqlParameter, tables};

/// The longest pause between two attempts at a lock, without jitter. It is shorter than between
/// attempts at a transaction: with long pauses, a process would rarely meet a free moment of a
/// busy file.
const LONGEST_PAUSE: Duration = Duration::from_millis(25);

/// The prepared statements that a connection keeps: more than the store has.
const STATEMENTS: usize = 100;

/// The time to wait for a connection, in addition to the time for a lock: tasks that have the
/// other connections may be waiting for a lock themselves.
const QUEUE: Duration = Duration::from_secs(5);

/// The database of a pool, and the settings of each connection.
pub(super) struct PoolSettings {
    /// The file; `None` for a database in memory.
    pub(super) path: Option<PathBuf>,
    /// The statements that set up a connection.
    pub(super) settings: String,
    /// The maximum number of connections at one time.
    pub(super) connections: u32,
    /// The time after which waiting for another process that holds the file ends.
    pub(super) busy_timeout: Duration,
}

/// The connections of a process to one database.
pub(in crate::database) struct SqlitePool {
    target: PoolSettings,
    /// The device and the number of the file, since the first connection.
    file: OnceLock<(u64, u64)>,
    idle: Mutex<Vec<rusqlite::Connection>>,
    /// A permit for each connection that may be in use.
    permits: Arc<Semaphore>,
    /// Held by the task that writes, so that the tasks of one process wait in turn. Tasks that
    /// wait for the lock of the file poll it, and can starve each other.
    turn: Arc<Turn<()>>,
}

impl SqlitePool {
    pub(super) fn new(target: PoolSettings) -> Arc<Self> {
        let permits = Arc::new(Semaphore::new(target.connections as usize));
        let (file, idle) = (OnceLock::new(), Mutex::default());
        Arc::new(Self { target, file, idle, permits, turn: Arc::default() })
    }

    /// Returns a connection for exclusive use. A connection that is not open yet is opened by
    /// its first statement.
    async fn connection(
        self: &Arc<Self>,
        turn: Option<OwnedMutexGuard<()>>,
    ) -> Result<PooledConnection, DatabaseFailure> {
        let permits = Arc::clone(&self.permits);
        let permit = match Arc::clone(&permits).try_acquire_owned() {
            Ok(permit) => permit,
            // Only tasks that have to wait need a timer.
            Err(_) => {
                let wait = self.target.busy_timeout + QUEUE;
                let waited = tokio::time::timeout(wait, permits.acquire_owned()).await;
                waited
                    .map_err(|_| DatabaseFailure::NoConnection)?
                    .map_err(|_| DatabaseFailure::Ended)?
            }
        };
        if let Some(file) = self.file.get() {
            self.check_file(*file)?;
        }
        let open = self.idle.lock().pop();
        Ok(PooledConnection { open, pool: Arc::clone(self), _permit: permit, _turn: turn })
    }

    /// Runs a statement that reads, outside any transaction.
    pub(in crate::database) async fn rows<T>(
        self: &Arc<Self>,
        statement: &'static str,
        values: &[SqlParameter<'_>],
        read: impl Fn(&Row<'_>) -> Column<T>,
    ) -> Result<Vec<T>, DatabaseFailure> {
        self.connection(None).await?.rows(statement, values, read).await
    }

    /// Begins a transaction. It has the lock for writing before its first read, so no other
    /// writer changes what it read. A transaction that took the lock later would fail if another
    /// had written in between.
    pub(in crate::database) async fn begin(
        self: &Arc<Self>,
    ) -> Result<PooledConnection, DatabaseFailure> {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        let mut connection = self.connection(Some(turn)).await?;
        connection.run(|open| Ok(open.prepare_cached("BEGIN IMMEDIATE")?.raw_execute()?)).await?;
        Ok(connection)
    }

    /// Puts a file into WAL mode, if no other process uses it at this moment.
    pub(super) async fn enter_wal(self: &Arc<Self>) -> Result<(), DatabaseFailure> {
        let enter = |open: &rusqlite::Connection| {
            open.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))
                .map_err(DatabaseFailure::from)
        };
        self.connection(None).await?.run_aside(CallerThread::Shared, enter).await
    }

    /// Closes the connections when they are no longer in use. The last connection to a file
    /// moves the contents of its log into the file.
    pub(in crate::database) async fn close(&self) {
        // Fails only if they have been closed.
        let _all = self.permits.acquire_many(self.target.connections).await;
        self.permits.close();
        let idle = std::mem::take(&mut *self.idle.lock());
        // Fails only if the runtime ends, which drops the connections.
        let _ = tokio::task::spawn_blocking(|| drop(idle)).await;
    }

    /// Checks that the path still leads to the connections' file. SQLite also writes into a
    /// removed file, and such a change would be lost.
    fn check_file(&self, file: (u64, u64)) -> Result<(), DatabaseFailure> {
        match &self.target.path {
            Some(path) if identity(path).ok() != Some(file) => Err(DatabaseFailure::Moved),
            _ => Ok(()),
        }
    }

    fn open(&self) -> Result<rusqlite::Connection, DatabaseFailure> {
        // Not `CREATE`: the file has been made, with the right mode. A connection is never
        // shared, so SQLite needs no mutex for it.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let open = match &self.target.path {
            Some(path) => rusqlite::Connection::open_with_flags(path, flags)?,
            None => rusqlite::Connection::open_in_memory_with_flags(flags)?,
        };
        open.busy_timeout(Duration::ZERO)?;
        open.set_prepared_statement_cache_capacity(STATEMENTS);
        open.execute_batch(&self.target.settings)?;
        if let Some(path) = &self.target.path {
            // After opening: on an overlay, opening the file for writing may make another file
            // of it.
            let now = identity(path).map_err(|_| DatabaseFailure::Moved)?;
            self.check_file(*self.file.get_or_init(|| now))?;
        }
        Ok(open)
    }
}

/// Returns the device and the number of the file at a path.
fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::metadata(path).map(|metadata| (metadata.dev(), metadata.ino()))
}

/// A dropped store does not wait for a disk: its log stays next to the file, for the next
/// process that opens it.
impl Drop for SqlitePool {
    fn drop(&mut self) {
        let idle = self.idle.get_mut();
        for open in idle {
            // If this fails, the connection still closes, but moves the log first.
            let _ = open.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        }
    }
}

/// A connection in use. When it is dropped, it goes back to the pool. A transaction that was not
/// committed is rolled back before that.
pub(in crate::database) struct PooledConnection {
    /// `None` until the first statement.
    open: Option<rusqlite::Connection>,
    pool: Arc<SqlitePool>,
    // Dropped after the connection went back.
    _permit: OwnedSemaphorePermit,
    /// Present in a transaction.
    _turn: Option<OwnedMutexGuard<()>>,
}

impl PooledConnection {
    /// Runs a statement that reads.
    pub(in crate::database) async fn rows<T>(
        &mut self,
        statement: &'static str,
        values: &[SqlParameter<'_>],
        read: impl Fn(&Row<'_>) -> Column<T>,
    ) -> Result<Vec<T>, DatabaseFailure> {
        self.run(|open| {
            let mut statement = bound(open, statement, values)?;
            let names: Vec<Box<str>> = statement.column_names().map(Box::from).collect();
            let mut found = statement.raw_query();
            let mut rows = Vec::new();
            while let Some(row) = found.next()? {
                rows.push(read(&Row::of_sqlite(row, &names))?);
            }
            Ok(rows)
        })
        .await
    }

    /// Runs a statement that writes, and returns the number of rows that it changed.
    pub(in crate::database) async fn execute(
        &mut self,
        statement: &'static str,
        values: &[SqlParameter<'_>],
    ) -> Result<u64, DatabaseFailure> {
        self.run(|open| Ok(bound(open, statement, values)?.raw_execute()? as u64)).await
    }

    /// Runs statements without parameters. Either all of them take effect, or none.
    pub(in crate::database) async fn script(
        &mut self,
        statements: &str,
    ) -> Result<(), DatabaseFailure> {
        self.run(|open| {
            open.execute_batch("SAVEPOINT script")?;
            let done = open.execute_batch(statements);
            if done.is_err() {
                open.execute_batch("ROLLBACK TO script")?;
            }
            open.execute_batch("RELEASE script")?;
            Ok(done?)
        })
        .await
    }

    /// Commits the transaction. When this returns, the disk has it.
    pub(in crate::database) async fn commit(
        self,
        place: CallerThread,
    ) -> Result<(), DatabaseFailure> {
        let commit = |open: &rusqlite::Connection| {
            open.prepare_cached("COMMIT")?.raw_execute()?;
            Ok(())
        };
        self.run_aside(place, commit).await
    }

    /// Runs work on the thread that polls this future. Repeats it after a pause as long as
    /// another process has the lock that it needs.
    async fn run<T>(
        &mut self,
        mut work: impl FnMut(&rusqlite::Connection) -> Result<T, DatabaseFailure>,
    ) -> Result<T, DatabaseFailure> {
        let mut pauses = Pauses::for_target(&self.pool.target);
        loop {
            // Without a yield in between, many statements would keep the thread from other work,
            // and a caller's timeout would not be noticed.
            tokio::task::coop::consume_budget().await;
            match self.attempt(&mut work) {
                StatementAttempt::Done(done) => return done,
                StatementAttempt::Locked(failure) => pauses.pause_after(failure).await?,
            }
        }
    }

    /// Runs work that waits for the disk, on a thread that may wait.
    async fn run_aside<T: Send + 'static>(
        mut self,
        place: CallerThread,
        work: fn(&rusqlite::Connection) -> Result<T, DatabaseFailure>,
    ) -> Result<T, DatabaseFailure> {
        if place == CallerThread::Own || self.pool.target.path.is_none() {
            return self.run(work).await;
        }
        let mut pauses = Pauses::for_target(&self.pool.target);
        loop {
            // The connection goes along. If this future is dropped, the work still ends, and the
            // next writer's turn comes after it.
            let aside = tokio::task::spawn_blocking(move || {
                let attempt = self.attempt(&mut { work });
                (self, attempt)
            });
            let (connection, attempt) =
                aside.await.map_err(|error| match error.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    Err(_) => DatabaseFailure::Ended,
                })?;
            match attempt {
                StatementAttempt::Done(done) => return done,
                StatementAttempt::Locked(failure) => pauses.pause_after(failure).await?,
            }
            self = connection;
        }
    }

    fn attempt<T>(
        &mut self,
        work: &mut impl FnMut(&rusqlite::Connection) -> Result<T, DatabaseFailure>,
    ) -> StatementAttempt<T> {
        let before = self.in_transaction();
        let open = match self.open.take().map_or_else(|| self.pool.open(), Ok) {
            Ok(open) => self.open.insert(open),
            Err(failure) if failure.is_busy() => return StatementAttempt::Locked(failure),
            Err(failure) => return StatementAttempt::Done(Err(failure)),
        };
        match work(open) {
            Err(failure) if failure.is_of_tables() => {
                StatementAttempt::Done(Err(newer(open).unwrap_or(failure)))
            }
            // SQLite may have rolled back the transaction, and it then cannot be continued.
            Err(failure) if failure.is_busy() && self.in_transaction() == before => {
                StatementAttempt::Locked(failure)
            }
            done => StatementAttempt::Done(done),
        }
    }

    fn in_transaction(&self) -> bool {
        self.open.as_ref().is_some_and(|open| !open.is_autocommit())
    }
}

impl Drop for PooledConnection {
    fn drop(&mut self) {
        let Some(open) = self.open.take() else { return };
        if !open.is_autocommit() {
            // Without effect if SQLite has rolled it back itself, as it does on a full disk.
            let _ = open.execute_batch("ROLLBACK");
        }
        // A database in memory ends with its connection.
        if open.is_autocommit() || self.pool.target.path.is_none() {
            self.pool.idle.lock().push(open);
        }
    }
}

/// Returns the failure for tables that a newer ikigai has changed while this process had them open.
fn newer(open: &rusqlite::Connection) -> Option<DatabaseFailure> {
    let version = open.query_row(tables::VERSION, [], |row| row.get::<_, i64>(0));
    let version = u64::try_from(version.ok()?).ok()?;
    (version > tables::KNOWN).then_some(DatabaseFailure::Newer(version))
}

/// The outcome of an attempt at a statement.
enum StatementAttempt<T> {
    Done(Result<T, DatabaseFailure>),
    /// Another process has the lock. Nothing was changed.
    Locked(DatabaseFailure),
}

/// The pauses between attempts at a lock, from the first failed attempt until the time for it
/// ends.
struct Pauses {
    time: Duration,
    left: Option<(Instant, backon::ExponentialBackoff)>,
}

impl Pauses {
    fn for_target(target: &PoolSettings) -> Self {
        Self { time: target.busy_timeout, left: None }
    }

    /// Pauses, or returns the failure if the time is used up.
    async fn pause_after(&mut self, failure: DatabaseFailure) -> Result<(), DatabaseFailure> {
        let time = self.time;
        let begin = || (Instant::now() + time, PAUSES.with_max_delay(LONGEST_PAUSE).build());
        let (deadline, lengths) = self.left.get_or_insert_with(begin);
        let left = deadline.saturating_duration_since(Instant::now());
        match lengths.next() {
            Some(length) if !left.is_zero() => {
                tokio::time::sleep(length.min(left)).await;
                Ok(())
            }
            _ => Err(failure),
        }
    }
}

/// Prepares a statement, unless the connection has it, and binds its parameters.
fn bound<'c>(
    open: &'c rusqlite::Connection,
    statement: &str,
    values: &[SqlParameter<'_>],
) -> Result<CachedStatement<'c>, rusqlite::Error> {
    let mut statement = open.prepare_cached(statement)?;
    for index in 1..=statement.parameter_count() {
        // To SQLite, `$1` is a name, and SQLite numbers names in the order in which they appear.
        let name = statement.parameter_name(index).unwrap_or_default();
        let number = name.strip_prefix('$').and_then(|number| number.parse::<usize>().ok());
        let value = number.and_then(|number| values.get(number.checked_sub(1)?));
        let value = value.ok_or_else(|| rusqlite::Error::InvalidParameterName(name.to_owned()))?;
        statement.raw_bind_parameter(index, value)?;
    }
    Ok(statement)
}

impl ToSql for SqlParameter<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match *self {
            SqlParameter::Text(text) => text.into(),
            SqlParameter::OptionalText(text) => text.map_or(ValueRef::Null, ValueRef::from),
            SqlParameter::Bytes(bytes) => ValueRef::Blob(bytes),
            SqlParameter::Int(number) => ValueRef::Integer(number),
            SqlParameter::Flag(flag) => ValueRef::Integer(flag.into()),
        }))
    }
}
