//! The file `NAME.part` of a download, locked by the process that downloads.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use http::header::HeaderValue;
use ikigai_protocol::Digest;
use sha2::{Digest as _, Sha256};
use tokio::time::sleep;

use super::{CachedFile, DownloadError, TellWait};

/// The longest wait for another process whose download makes no progress. A running download makes
/// five attempts, and gives each up after 40 seconds of silence.
pub(super) const STALLED: Duration = Duration::from_secs(5 * 60);

/// The time after which the wait is reported.
const SILENT: Duration = Duration::from_secs(1);

/// The pause between two attempts to lock the file.
const LOCK_RETRY: Duration = Duration::from_millis(50);

/// The size of each read in bytes.
const PIECE: usize = 64 << 10;

/// The beginning of a file, and its hash.
pub(super) struct Partial {
    path: PathBuf,
    file: File,
    hasher: Sha256,
    length: u64,
    /// The server's validator for the version of the file that these bytes belong to.
    validator: Option<HeaderValue>,
    /// True until the server has sent the first bytes.
    is_fresh: bool,
}

impl Partial {
    /// Opens and locks the file, and waits while another process has it locked. If that takes long,
    /// `tell` is called once with the path.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be opened, or if another process has it locked and makes no
    /// progress.
    pub(super) async fn lock(path: PathBuf, tell: TellWait) -> Result<Self, DownloadError> {
        let mut wait = DownloadWait::begin(Instant::now());
        loop {
            let failed = |error| DownloadError::file(&path, error);
            let file = open(&path).map_err(failed)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let metadata = file.metadata().map_err(failed)?;
                    let state = (metadata.len(), metadata.modified().map_err(failed)?);
                    match wait.next(Instant::now(), state) {
                        WaitStep::Retry => {}
                        WaitStep::Tell => tell(&path),
                        WaitStep::GiveUp => return Err(DownloadError::Held { path }),
                    }
                    sleep(LOCK_RETRY).await;
                    continue;
                }
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
            // The other process may have renamed or removed the file.
            let (ours, there) = (file.metadata().map_err(failed)?, fs::metadata(&path));
            let is_same = |it: &fs::Metadata| (it.dev(), it.ino()) == (ours.dev(), ours.ino());
            if there.is_ok_and(|there| is_same(&there)) {
                let (hasher, length, validator) = (Sha256::new(), 0, None);
                return Ok(Self { path, file, hasher, length, validator, is_fresh: true });
            }
        }
    }

    /// Hashes the bytes that an earlier download left, so that this one can continue after them.
    pub(super) async fn hash_again(&mut self) -> Result<(), DownloadError> {
        let file = self.file.try_clone().map_err(|error| DownloadError::file(&self.path, error))?;
        let hashed = tokio::task::spawn_blocking(move || hash_file(&file)).await;
        let hashed = hashed.map_err(|error| DownloadError::file(&self.path, error.into()))?;
        let (hasher, length) = hashed.map_err(|error| DownloadError::file(&self.path, error))?;
        (self.hasher, self.length) = (hasher, length);
        Ok(())
    }

    /// Discards everything that was downloaded.
    pub(super) fn restart(&mut self) -> Result<(), DownloadError> {
        let emptied = if self.length() > 0 || self.file.metadata().is_ok_and(|it| it.len() > 0) {
            self.file.set_len(0).and_then(|()| self.file.seek(SeekFrom::Start(0)).map(|_| ()))
        } else {
            Ok(())
        };
        emptied.map_err(|error| DownloadError::file(&self.path, error))?;
        (self.hasher, self.length, self.validator) = (Sha256::new(), 0, None);
        Ok(())
    }

    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<(), DownloadError> {
        self.file.write_all(bytes).map_err(|error| DownloadError::file(&self.path, error))?;
        self.hasher.update(bytes);
        self.length += bytes.len() as u64;
        self.is_fresh = false;
        Ok(())
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Returns whether this download has received no bytes yet.
    pub(super) fn is_fresh(&self) -> bool {
        self.is_fresh
    }

    pub(super) fn digest(&self) -> Digest {
        digest(self.hasher.clone())
    }

    pub(super) fn validator(&self) -> Option<&HeaderValue> {
        self.validator.as_ref()
    }

    pub(super) fn set_validator(&mut self, validator: Option<HeaderValue>) {
        self.validator = validator;
    }

    /// Removes the file. A process that waits for it starts from the beginning.
    pub(super) fn remove(&mut self) -> Result<(), DownloadError> {
        fs::remove_file(&self.path).map_err(|error| DownloadError::file(&self.path, error))
    }

    /// Syncs the file to the disk, and renames it to its digest.
    pub(super) async fn place(self, directory: &Path) -> Result<CachedFile, DownloadError> {
        let (digest, size) = (self.digest(), self.length);
        let path = directory.join(digest.to_string());
        let (part, to, directory) = (self.path.clone(), path.clone(), directory.to_owned());
        let file = self.file;
        let placed = tokio::task::spawn_blocking(move || {
            file.sync_all()?;
            fs::rename(&part, &to)?;
            File::open(&directory)?.sync_all()
        });
        let placed = placed.await.map_err(|error| DownloadError::file(&path, error.into()))?;
        placed.map_err(|error| DownloadError::file(&path, error))?;
        Ok(CachedFile { path, digest, size })
    }
}

/// Returns the digest and the size of a file, or `None` if it does not exist.
pub(super) fn hash(path: &Path) -> io::Result<Option<(Digest, u64)>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let (hasher, length) = hash_file(&file)?;
    Ok(Some((digest(hasher), length)))
}

fn hash_file(mut file: &File) -> io::Result<(Sha256, u64)> {
    let (mut hasher, mut length, mut piece) = (Sha256::new(), 0, vec![0; PIECE]);
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Ok((hasher, length)),
            Ok(read) => {
                hasher.update(&piece[..read]);
                length += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn digest(hasher: Sha256) -> Digest {
    Digest::from(<[u8; 32]>::from(hasher.finalize()))
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// The wait for another process that downloads the same file.
#[derive(Debug)]
pub(super) struct DownloadWait {
    begun: Instant,
    was_told: bool,
    /// The last seen size and modification time of the file. `since` is when they were first seen.
    state: Option<(u64, SystemTime)>,
    since: Instant,
}

/// The next step of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitStep {
    Retry,
    /// Report the wait, and try again.
    Tell,
    GiveUp,
}

impl DownloadWait {
    pub(super) fn begin(now: Instant) -> Self {
        Self { begun: now, was_told: false, state: None, since: now }
    }

    /// Returns the next step after an attempt that found the file locked, in this state.
    pub(super) fn next(&mut self, now: Instant, state: (u64, SystemTime)) -> WaitStep {
        if self.state != Some(state) {
            (self.state, self.since) = (Some(state), now);
        }
        if now.duration_since(self.since) >= STALLED {
            return WaitStep::GiveUp;
        }
        if !self.was_told && now.duration_since(self.begun) >= SILENT {
            self.was_told = true;
            return WaitStep::Tell;
        }
        WaitStep::Retry
    }
}
