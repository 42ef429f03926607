//! A store in an SQLite file, or in memory. The file is created so that only its owner can write
//! to it, and opened so that commits survive a loss of power. Statements run in `connection`.

mod connection;
pub(super) mod shortage;

use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::connection::PoolSettings;
use super::{Database, DatabaseAccess, StorePool};
use crate::error::{Error, Result};
use crate::options::StoreOptions;
use crate::store_url::{StoreLocation, StoreUrl, companions};

pub(super) use self::connection::{PooledConnection, SqlitePool};

/// The application id in the header of a store's file: `ikig`.
pub(super) const APPLICATION_ID: i64 = 0x696b_6967;

/// Sets [`APPLICATION_ID`]. A PRAGMA takes no parameters.
pub(super) const MARK: &str = "PRAGMA application_id = 0x696b6967";

/// The connections of a process to a file. One writes at a time, and the others can read at the
/// same time.
const CONNECTIONS: u32 = 4;

/// The memory in which a connection may keep pages: 8 MiB instead of the default of 2,000 KiB.
/// The pages of 10,000 sessions exceed the default, and a list would read all of them again. Not
/// `mmap_size`: a disk error would then end the process.
const CACHE: &str = "-8192";

/// Makes a store in memory. It has one connection, since a second would be another store.
pub(super) fn memory(options: &StoreOptions) -> Arc<SqlitePool> {
    SqlitePool::new(target(None, 1, options))
}

/// Prepares the file, and makes a pool. Connections are opened when they are needed.
pub(super) fn file(path: &Path, options: &StoreOptions) -> Result<Arc<SqlitePool>> {
    // Absolute, so that the prepared file is the one that is opened. SQLite takes a relative
    // path that starts with `file:` for a URI, and the process may have changed its directory
    // before it connects.
    let path = std::path::absolute(path).map_err(|error| unreachable(path, &error))?;
    prepare(&path)?;
    Ok(SqlitePool::new(target(Some(path), CONNECTIONS, options)))
}

/// Returns a database with the settings that every connection has.
fn target(path: Option<PathBuf>, connections: u32, options: &StoreOptions) -> PoolSettings {
    // With `synchronous = NORMAL`, WAL mode loses the last commits when the power fails.
    let mut settings =
        format!("PRAGMA foreign_keys = ON; PRAGMA synchronous = FULL; PRAGMA cache_size = {CACHE}");
    if let Some(pages) = options.sqlite_max_pages {
        settings += &format!("; PRAGMA max_page_count = {pages}");
    }
    PoolSettings { path, settings, connections, busy_timeout: options.busy_timeout }
}

/// Puts a new file into WAL mode, in which readers and a writer do not wait for each other.
/// The mode is kept in the file.
pub(super) async fn enter_wal(database: &Database) -> Result<()> {
    match &database.pool {
        StorePool::Sqlite(connections) if database.url.0 != StoreLocation::Memory => {
            connections.enter_wal().await.map_err(database.failed(DatabaseAccess::Read))
        }
        _ => Ok(()),
    }
}

/// Checks the file and its directory, and creates them if they are missing, with the modes
/// 0600 and 0700.
///
/// Only the user and root may write to the directory. So another user can neither replace the
/// file before it is opened, nor add a file next to it later.
fn prepare(path: &Path) -> Result<()> {
    // The root directory has no parent, and is refused because it is not a file.
    let directory = path.parent().unwrap_or(path);
    let unreachable = |error| unreachable(path, &error);
    if !directory.exists() {
        check_above(directory)?;
        DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(unreachable)?;
    }
    check_directory(directory, &fs::metadata(directory).map_err(unreachable)?)?;
    for companion in companions(path) {
        check_file(&companion)?;
    }
    if check_file(path)? {
        return Ok(());
    }
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => Ok(()),
        // Another process has created it in the meantime.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => check_file(path).map(|_| ()),
        Err(error) => Err(unreachable(error)),
    }
}

/// Refuses to make a directory in another user's directory, which root could do.
fn check_above(directory: &Path) -> Result<()> {
    let above = directory.ancestors().find_map(|above| fs::metadata(above).ok());
    if above.is_some_and(|above| !is_trusted(&above)) {
        let reason = "the directory above its directory belongs to another user";
        return Err(Error::Unsafe { path: directory.to_owned(), reason });
    }
    Ok(())
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

/// Returns whether the file belongs to the user or to root, which can do anything anyway. Not
/// even root trusts the file of another user: that user could make it a link.
fn is_trusted(metadata: &fs::Metadata) -> bool {
    [0, rustix::process::geteuid().as_raw()].contains(&metadata.uid())
}

/// Returns whether the file exists. Refuses a file that others can change.
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
    let store = StoreUrl::sqlite(path);
    match shortage::descriptors(error) {
        Some(limit) => Error::Limited { store, limit },
        None if shortage::is_full(error) => Error::Full(store),
        None => Error::Unreachable { store, reason: error.to_string() },
    }
}
