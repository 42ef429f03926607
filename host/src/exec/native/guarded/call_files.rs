//! The files in which running calls show their places to the user's other processes.
//!
//! Each call writes one file, and holds a lock on it (`fcntl`) until the call ends and removes it. A
//! file without a lock belongs to a process that was killed. Its tool ended with it, so the next call
//! removes the file.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::fs::{AtFlags, Dir, FlockOperation, Mode, OFlags, fcntl_lock, openat, unlinkat};
use rustix::io::Errno;
use rustix::process::{Flock, FlockType, fcntl_getlk};
use uuid::Uuid;

use crate::paths::{is_own, make_private, open_trusted_dir};

/// The beginning of the names of this process's files. Process IDs would not do: two containers can
/// share the directory.
static OWN: LazyLock<String> = LazyLock::new(|| format!("{}-", Uuid::now_v7().simple()));

/// The age at which an empty file was left by a process that was killed before it wrote its places.
const ABANDONED: Duration = Duration::from_secs(60 * 60);

/// The directory of the files.
#[derive(Debug)]
pub(super) struct CallFiles(OwnedFd);

/// The file of a running call. It is removed when this is dropped.
#[derive(Debug)]
pub(super) struct CallFile {
    dir: OwnedFd,
    name: String,
    /// Closing it releases the lock. Nothing else in this process may open the file: closing that
    /// would release the lock too.
    locked: File,
}

impl CallFiles {
    /// Opens the directory. Creates it unless it exists.
    pub(super) fn open(dir: &Path) -> io::Result<Self> {
        make_private(dir)?;
        Ok(Self(open_trusted_dir(dir, is_own)?))
    }

    /// Returns the files of the running calls of other processes, by name, except those that the
    /// caller `knows`. Removes the files of processes that were killed.
    pub(super) fn read_others(
        &self,
        knows: impl Fn(&OsStr) -> bool,
    ) -> io::Result<Vec<(OsString, Vec<u8>)>> {
        let mut found = Vec::new();
        for entry in Dir::read_from(&self.0)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            let is_of_this_process = name.as_bytes().starts_with(OWN.as_bytes());
            if name == "." || name == ".." || is_of_this_process || knows(name) {
                continue;
            }
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let mut file = match openat(&self.0, name, flags, Mode::empty()) {
                Ok(file) => File::from(file),
                // Its call has ended.
                Err(Errno::NOENT) => continue,
                Err(errno) => return Err(errno.into()),
            };
            let mut content = Vec::new();
            file.read_to_end(&mut content)?;
            let is_running = fcntl_getlk(&file, &Flock::from(FlockType::ReadLock))?.is_some();
            let is_abandoned = || -> io::Result<bool> {
                let age = file.metadata()?.modified()?.elapsed().unwrap_or_default();
                Ok(!is_running && (!content.is_empty() || age > ABANDONED))
            };
            if is_abandoned()? {
                // Another process may have removed it.
                let _ = unlinkat(&self.0, name, AtFlags::empty());
            } else if !content.is_empty() {
                found.push((name.to_owned(), content));
            }
        }
        Ok(found)
    }

    /// Writes the file of a call that begins.
    pub(super) fn write(&self, content: &[u8]) -> io::Result<CallFile> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let name = format!("{}{}", *OWN, NUMBER.fetch_add(1, Ordering::Relaxed));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = openat(&self.0, &name, flags, Mode::RUSR | Mode::WUSR)?;
        let dir = self.0.try_clone()?;
        let mut file = CallFile { dir, name, locked: File::from(file) };
        fcntl_lock(&file.locked, FlockOperation::NonBlockingLockExclusive)?;
        file.locked.write_all(content)?;
        Ok(file)
    }
}

impl Drop for CallFile {
    fn drop(&mut self) {
        if let Err(error) = unlinkat(&self.dir, &self.name, AtFlags::empty()) {
            tracing::debug!(%error, "the file of a call is left to the next call");
        }
    }
}
