//! The right to compile a component, so that hosts that need the same code at once compile it once.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use ikigai_protocol::Digest;
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

use crate::paths::lock_holder;

/// The pause between two attempts to take the lock.
const LOCK_RETRY: Duration = Duration::from_millis(20);

/// The times for which a host waits for another host that compiles the same component.
#[derive(Clone, Copy, Debug)]
pub(in crate::exec::wasm) struct LockTimeouts {
    /// The time after which the wait is reported.
    silent: Duration,
    /// The time after which this host compiles the component as well.
    longest: Duration,
}

impl LockTimeouts {
    /// The patience of a host. Most compilations end sooner.
    pub(in crate::exec::wasm) const OF_A_HOST: Self =
        Self { silent: Duration::from_secs(5), longest: Duration::from_secs(30) };
    /// The patience of the process that optimises in the background. No call waits for it.
    #[cfg(feature = "compiler")]
    pub(in crate::exec::wasm) const OF_A_PROCESS_BEHIND: Self =
        Self { silent: Duration::MAX, longest: Duration::MAX };
}

/// The wait for another host that compiles the same component.
struct LockWait {
    begun: Instant,
    patience: LockTimeouts,
    was_told: bool,
}

impl LockWait {
    fn begin(patience: LockTimeouts) -> Self {
        Self { begun: Instant::now(), patience, was_told: false }
    }

    /// Returns whether the wait for the lock at `path` is over. Reports the process that this host
    /// waits for.
    fn is_over(&mut self, path: &Path, digest: &Digest) -> bool {
        let waited = self.begun.elapsed();
        if waited >= self.patience.longest {
            tracing::warn!(
                "{} still compiles the component {digest}: compiling it here too",
                lock_holder(path)
            );
            return true;
        }
        if waited >= self.patience.silent && !self.was_told {
            self.was_told = true;
            let most = humantime::format_duration(self.patience.longest);
            tracing::warn!(
                "waiting for at most {most}: {} compiles the component {digest}",
                lock_holder(path)
            );
        }
        false
    }
}

/// The right to compile one component into one cache: a file that is locked. The kernel
/// releases the lock when its host ends, however it ends.
pub(in crate::exec::wasm) struct CompileLock {
    path: PathBuf,
    waited: bool,
    /// `None` if another host has had the lock for too long.
    locked: Option<File>,
}

impl CompileLock {
    /// Waits for the lock at `path`. Returns nothing once `goes_on` returns false.
    pub(super) fn wait_for(
        path: PathBuf,
        digest: &Digest,
        patience: LockTimeouts,
        goes_on: impl Fn() -> bool,
    ) -> io::Result<Option<Self>> {
        let mut waiting = None;
        while goes_on() {
            if let Some(locked) = try_lock(&path)? {
                return Ok(Some(Self { path, waited: waiting.is_some(), locked: Some(locked) }));
            }
            let waiting = waiting.get_or_insert_with(|| LockWait::begin(patience));
            if waiting.is_over(&path, digest) {
                return Ok(Some(Self { path, waited: true, locked: None }));
            }
            thread::sleep(LOCK_RETRY);
        }
        Ok(None)
    }

    /// Returns whether another host, which may have compiled the component, had the lock before.
    pub(in crate::exec::wasm) fn was_waited_for(&self) -> bool {
        self.waited
    }
}

/// Takes the lock. Returns nothing while another host has it.
pub(super) fn try_lock(path: &Path) -> io::Result<Option<File>> {
    let mut options = fs::OpenOptions::new();
    let options = options.write(true).create(true).truncate(false).mode(0o600);
    let file = options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    }
    // The host that had it before may have removed it since it was opened here.
    let own = file.metadata()?;
    let is_there = fs::symlink_metadata(path)
        .is_ok_and(|there| (there.dev(), there.ino()) == (own.dev(), own.ino()));
    Ok(is_there.then_some(file))
}

impl Drop for CompileLock {
    fn drop(&mut self) {
        if self.locked.is_none() {
            return;
        }
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::debug!("cannot remove the lock `{}`: {error}", self.path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_does_not_end_its_compilation_is_waited_for_no_longer() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = scratch.path().join("component.lock");
        let digest = Digest::from_bytes(b"component");
        let none = LockTimeouts { silent: Duration::ZERO, longest: Duration::ZERO };
        let wait = |patience, goes_on: bool| {
            CompileLock::wait_for(path.clone(), &digest, patience, || goes_on).expect("a lock")
        };
        let held = wait(LockTimeouts::OF_A_HOST, true).expect("nobody has it");
        assert!(!held.was_waited_for());
        let impatient = wait(none, true).expect("compiles as well");
        assert!(impatient.was_waited_for() && impatient.locked.is_none());
        drop(impatient);
        assert!(path.exists(), "it is still the lock of the other one");
        assert!(wait(LockTimeouts::OF_A_HOST, false).is_none());
        drop(held);
        assert!(!path.exists());
    }
}
