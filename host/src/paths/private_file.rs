//! Files of the user that several hosts append to, each under a lock.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::make_private;
use super::trust::{check_trusted, is_own, open_trusted_dir};

/// Opens a file for appending and reading that belongs to the user alone, in such a directory, and
/// makes both if they do not exist. Returns the directory and the file. Never waits, as opening a
/// FIFO would.
///
/// # Errors
///
/// One of them is of another kind or a link, or another user may write to it.
pub(crate) fn open_private(dir: &Path, name: &str) -> io::Result<(OwnedFd, File)> {
    make_private(dir)?;
    let dir = open_trusted_dir(dir, is_own)?;
    let flags = OFlags::RDWR
        | OFlags::APPEND
        | OFlags::CREATE
        // A FIFO without a reader, and a terminal that would become that of this process.
        | OFlags::NONBLOCK
        | OFlags::NOCTTY
        | OFlags::NOFOLLOW
        | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(&dir, name, flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => File::from(file),
        Err(Errno::LOOP) => return Err(io::Error::other("it is a link")),
        Err(error) => return Err(error.into()),
    };
    check_trusted(&file.metadata()?, is_own)?;
    Ok((dir, file))
}

/// Locks a file for this host alone, unless another one holds the lock for longer than
/// `timeout`. Returns whether the file is locked.
///
/// # Errors
///
/// It cannot be locked at all.
pub(crate) fn lock(file: &File, timeout: Duration) -> io::Result<bool> {
    let begun = Instant::now();
    let mut pause = Duration::from_micros(20);
    loop {
        match rustix::fs::flock(file.as_fd(), FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(true),
            Err(Errno::WOULDBLOCK) if begun.elapsed() >= timeout => return Ok(false),
            Err(Errno::WOULDBLOCK) => {
                thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(5));
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
