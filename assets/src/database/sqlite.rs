//! A store that is a file of SQLite: made so that its owner alone can write to it, opened
//! so that what is committed stays.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions as _, Connection as _, SqliteConnection, SqlitePool};

use super::{Database, Pool};
use crate::backoff::Backoff;
use crate::error::{Error, Result};
use crate::options::Options;
use crate::store_url::{Location, StoreUrl};

/// What the header of a file says that is a store: `ikig`, at the place that SQLite keeps
/// for the program a file belongs to.
pub(super) const APPLICATION_ID: i64 = 0x696b_6967;

/// Puts [`APPLICATION_ID`] there; a PRAGMA takes no parameters.
pub(super) const MARK: &str = "PRAGMA application_id = 0x696b6967";

/// Connections of a process to a file. One writes at a time; the others read meanwhile.
const CONNECTIONS: u32 = 4;

/// The files that SQLite keeps beside a database, and believes as it believes the database.
const COMPANIONS: [&str; 3] = ["-wal", "-shm", "-journal"];

/// A store in memory is one connection: with another it would be another store.
pub(super) fn memory(options: &Options) -> SqlitePool {
    SqlitePoolOptions::new()
        .max_connections(1)
        .idle_timeout(None)
        .max_lifetime(None)
        .test_before_acquire(false)
        .connect_lazy_with(connection(options))
}

pub(super) fn file(path: &Path, options: &Options) -> Result<SqlitePool> {
    // What is opened is what was prepared: a relative path that starts with `file:` would be
    // a URI to SQLite, and connections are made after this returns, wherever the process
    // is by then.
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

/// Whether a connection of the pool can begin a transaction; one that cannot is closed, and
/// another made.
///
/// A full disk makes SQLite undo a transaction by itself. sqlx does not hear of it, counts
/// the transaction as open for ever, and would refuse to begin another.
async fn is_free(connection: &mut SqliteConnection) -> sqlx::Result<bool> {
    if connection.is_in_transaction() {
        // One that was dropped is being undone: this waits for it.
        connection.ping().await?;
    }
    Ok(!connection.is_in_transaction())
}

fn connection(options: &Options) -> SqliteConnectOptions {
    let connection = SqliteConnectOptions::new()
        // The file is made by `prepare`, with the mode that it shall have.
        .create_if_missing(false)
        .busy_timeout(options.busy_timeout)
        .foreign_keys(true)
        // In WAL mode NORMAL would lose the last commits with the power.
        .synchronous(SqliteSynchronous::Full)
        .disable_statement_logging();
    match options.sqlite_max_pages {
        Some(pages) => connection.pragma("max_page_count", pages.to_string()),
        None => connection,
    }
}

/// Puts a new file into WAL mode, in which readers and a writer do not wait for each
/// other; the file remembers. That needs the file for itself for a moment, and SQLite does
/// not wait for that moment, so it is waited for here.
pub(super) async fn enter_wal(database: &Database) -> Result<()> {
    if matches!(database.pool, Pool::Postgres(_)) || database.url.0 == Location::Memory {
        return Ok(());
    }
    let deadline = Instant::now() + database.busy_timeout;
    let mut backoff = Backoff::new(u32::MAX);
    loop {
        match database.rows("PRAGMA journal_mode = WAL", &[], |_| Ok(())).await {
            Err(Error::Locked { .. }) if Instant::now() < deadline => backoff.pause().await,
            done => return done.map(|_| ()),
        };
    }
}

/// Sees to the file and to its directory, and makes those that are missing: 0700 and 0600.
///
/// Between these checks and the opening nobody else can put another file into the place,
/// and later nobody can put one beside it: only the user and root may write to the directory.
fn prepare(path: &Path) -> Result<()> {
    // The root, which has no parent, is no file.
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
        // Another process has made it meanwhile: then it is there, and as safe.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => check_file(path).map(|_| ()),
        Err(error) => Err(unreachable(error)),
    }
}

/// A sticky directory, such as `/tmp`, is refused too: nobody can take the file away there,
/// but anyone can make a `-journal` or `-wal` that is missing, and SQLite would put what that
/// says into the store.
fn check_directory(path: &Path, metadata: &fs::Metadata) -> Result<()> {
    let refused = |reason| Err(Error::Unsafe { path: path.to_owned(), reason });
    if !metadata.is_dir() {
        return refused("its directory is none");
    }
    if metadata.mode() & 0o022 != 0 {
        return refused("others may make files in its directory");
    }
    if !is_trusted(metadata) {
        return refused("its directory belongs to another user");
    }
    Ok(())
}

/// Whether it belongs to the user or to root, who can do anything anyway. To root another
/// user's is as foreign as to anyone: that user could have it write elsewhere.
fn is_trusted(metadata: &fs::Metadata) -> bool {
    [0, rustix::process::geteuid().as_raw()].contains(&metadata.uid())
}

/// Whether the file is there; refused where others have a hand in it.
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

fn unreachable(path: &Path, error: &io::Error) -> Error {
    let reason = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            return Error::Full(StoreUrl::sqlite(path));
        }
        _ => error.to_string(),
    };
    Error::Unreachable { store: StoreUrl::sqlite(path), reason }
}
