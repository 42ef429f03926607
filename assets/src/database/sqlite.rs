//! A store that is a file of SQLite, or in memory. The file is created so that its owner
//! alone can write to it, and opened so that commits survive a loss of power.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

use backon::Retryable as _;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions as _, Connection as _, SqliteConnection, SqlitePool};

use super::{Database, Pool};
use crate::backoff::PAUSES;
use crate::error::{Error, Result};
use crate::options::Options;
use crate::store_url::{Location, StoreUrl};

/// The application id in the header of a store's file: `ikig`.
pub(super) const APPLICATION_ID: i64 = 0x696b_6967;

/// Sets [`APPLICATION_ID`]. A PRAGMA takes no parameters.
pub(super) const MARK: &str = "PRAGMA application_id = 0x696b6967";

/// The connections of a process to a file. One writes at a time; the others read meanwhile.
const CONNECTIONS: u32 = 4;

/// The memory that a connection may keep pages in: 8 MiB, where the default is 2,000 KiB. The pages
/// of 10,000 sessions do not fit the default, and a list would read every one of them again. Not
/// `mmap_size`: an error of the disk would then end the process.
const CACHE: &str = "-8192";

/// The suffixes of the files that SQLite keeps beside a database, and trusts like it.
const COMPANIONS: [&str; 3] = ["-wal", "-shm", "-journal"];

/// Makes a store in memory. It has one connection, since a second would be another store.
pub(super) fn memory(options: &Options) -> SqlitePool {
    SqlitePoolOptions::new()
        .max_connections(1)
        .idle_timeout(None)
        .max_lifetime(None)
        .test_before_acquire(false)
        .connect_lazy_with(connection(options))
}

/// Prepares the file, and makes a pool of connections to it.
pub(super) fn file(path: &Path, options: &Options) -> Result<SqlitePool> {
    // Absolute, so that the prepared file is the one that is opened: SQLite takes a relative
    // path that starts with `file:` for a URI, and the process may have changed its directory
    // when the pool connects.
    let path = std::path::absolute(path).map_err(|error| unreachable(path, &error))?;
    prepare(&path)?;
    let connection = connection(options).filename(path);
    Ok(SqlitePoolOptions::new()
        .max_connections(CONNECTIONS)
        // A connection may wait for another process before it is handed out.
        .acquire_timeout(options.busy_timeout + Duration::from_secs(5))
        .test_before_acquire(false)
        .before_acquire(|connection, _| Box::pin(is_free(connection)))
        .connect_lazy_with(connection))
}

/// Returns whether a connection of the pool can begin a transaction. The pool replaces one that
/// cannot.
///
/// SQLite rolls back a transaction itself when the disk is full. sqlx does not notice, counts
/// the transaction as open for ever, and refuses to begin another.
async fn is_free(connection: &mut SqliteConnection) -> sqlx::Result<bool> {
    if connection.is_in_transaction() {
        // A ping waits for the rollback of a transaction that was dropped.
        connection.ping().await?;
    }
    Ok(!connection.is_in_transaction())
}

/// Returns the options that every connection has.
fn connection(options: &Options) -> SqliteConnectOptions {
    let connection = SqliteConnectOptions::new()
        // `prepare` creates the file, with the right mode.
        .create_if_missing(false)
        .busy_timeout(options.busy_timeout)
        .foreign_keys(true)
        // With NORMAL, WAL mode loses the last commits when the power fails.
        .synchronous(SqliteSynchronous::Full)
        .pragma("cache_size", CACHE)
        .disable_statement_logging();
    match options.sqlite_max_pages {
        Some(pages) => connection.pragma("max_page_count", pages.to_string()),
        None => connection,
    }
}

/// Puts a new file into WAL mode, in which readers and a writer do not wait for each other.
/// The mode is kept in the file. The switch needs an exclusive lock, for which SQLite does not
/// wait, so it is retried here.
pub(super) async fn enter_wal(database: &Database) -> Result<()> {
    if matches!(database.pool, Pool::Postgres(_)) || database.url.0 == Location::Memory {
        return Ok(());
    }
    let deadline = Instant::now() + database.busy_timeout;
    let enter = || database.rows("PRAGMA journal_mode = WAL", &[], |_| Ok(()));
    let may_retry =
        |error: &Error| matches!(error, Error::Locked { .. }) && Instant::now() < deadline;
    enter.retry(PAUSES).when(may_retry).await.map(|_| ())
}

/// Checks the file and its directory, and creates them if they are missing, with the modes
/// 0600 and 0700.
///
/// Only the user and root may write to the directory, so nobody else can replace the file
/// before it is opened, or add one beside it later.
fn prepare(path: &Path) -> Result<()> {
    // The root has no parent, and is refused as no file.
    let directory = path.parent().unwrap_or(path);
    let unreachable = |error| unreachable(path, &error);
    if !directory.exists() {
        DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(unreachable)?;
    }
    check_directory(directory, &fs::metadata(directory).map_err(unreachable)?)?;
    for suffix in COMPANIONS {
        let mut companion = path.as_os_str().to_owned();
        companion.push(suffix);
        check_file(Path::new(&companion))?;
    }
    if check_file(path)? {
        return Ok(());
    }
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => Ok(()),
        // Another process has created it meanwhile.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => check_file(path).map(|_| ()),
        Err(error) => Err(unreachable(error)),
    }
}

/// Refuses a directory to which others may write. That includes a sticky one, such as `/tmp`:
/// others cannot replace the file there, but can create a missing `-journal` or `-wal`, which
/// SQLite would apply to the store.
fn check_directory(path: &Path, metadata: &fs::Metadata) -> Result<()> {
    let refused = |reason| Err(Error::Unsafe { path: path.to_owned(), reason });
    if !metadata.is_dir() {
        return refused("its parent is not a directory");
    }
    if metadata.mode() & 0o022 != 0 {
        return refused("others may make files in its directory");
    }
    if !is_trusted(metadata) {
        return refused("its directory belongs to another user");
    }
    Ok(())
}

/// Returns whether the file belongs to the user or to root, which can do anything anyway. For
/// root too, the file of another user is not trusted: that user could make it a link.
fn is_trusted(metadata: &fs::Metadata) -> bool {
    [0, rustix::process::geteuid().as_raw()].contains(&metadata.uid())
}

/// Returns whether the file exists. Refuses one that others can change.
fn check_file(path: &Path) -> Result<bool> {
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(unreachable(path, &error)),
    };
    let refused = |reason| Err(Error::Unsafe { path: path.to_owned(), reason });
    if metadata.is_symlink() {
        return refused("it is a symbolic link");
    }
    if !metadata.is_file() {
        return refused("it is not a regular file");
    }
    if metadata.mode() & 0o022 != 0 {
        return refused("others may write to it");
    }
    if !is_trusted(&metadata) {
        return refused("it belongs to another user");
    }
    Ok(true)
}

/// Translates an error of the file system.
fn unreachable(path: &Path, error: &io::Error) -> Error {
    let reason = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            return Error::Full(StoreUrl::sqlite(path));
        }
        _ => error.to_string(),
    };
    Error::Unreachable { store: StoreUrl::sqlite(path), reason }
}
