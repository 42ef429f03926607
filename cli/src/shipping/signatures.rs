//! The signers of installed tools. The host asks for them before a call if the policy requires a
//! signature.
//!
//! A signature is verified once, when its file is installed. The user's lock has the signer. For
//! the tools of a workspace, the signer is in the approved copy of its lock.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use ikigai_host::Digest;
use ikigai_host::policy::{Signatures, SignerRule, SignersInForce};
use ikigai_packages::ToolsLock;
use ikigai_packages::trust::Trust;
use parking_lot::Mutex;

use super::lock_file::read_lock;
use super::verdict;

/// The signers from the locks of this user.
pub(crate) struct LockedSignatures {
    locks: Vec<WatchedLock>,
    trust: Mutex<Option<(Arc<SignersInForce>, Arc<Trust>)>>,
}

/// A lock that is read again when its file has changed.
struct WatchedLock {
    path: PathBuf,
    seen: Mutex<Option<(FileFingerprint, Arc<ToolsLock>)>>,
}

/// The metadata that change with the contents of a file; `None` for a missing file.
type FileFingerprint = Option<[i64; 6]>;

impl LockedSignatures {
    /// Returns the signers from the locks in these files, which need not exist.
    pub(crate) fn new(locks: impl IntoIterator<Item = PathBuf>) -> Self {
        let watched = |path| WatchedLock { path, seen: Mutex::default() };
        Self { locks: locks.into_iter().map(watched).collect(), trust: Mutex::default() }
    }

    fn trust(&self, signers: &Arc<SignersInForce>) -> Result<Arc<Trust>, String> {
        let mut known = self.trust.lock();
        if let Some((of, trust)) = &*known
            && Arc::ptr_eq(of, signers)
        {
            return Ok(Arc::clone(trust));
        }
        let trust = Arc::new(verdict::trust(signers).map_err(|error| error.reason())?);
        *known = Some((Arc::clone(signers), Arc::clone(&trust)));
        Ok(trust)
    }
}

impl WatchedLock {
    fn lock(&self) -> Result<Arc<ToolsLock>, String> {
        let identity = fs::metadata(&self.path).ok().map(|it| {
            let ino = it.ino().cast_signed();
            [
                it.dev().cast_signed(),
                ino,
                it.size().cast_signed(),
                it.mtime(),
                it.mtime_nsec(),
                it.ctime_nsec(),
            ]
        });
        let mut seen = self.seen.lock();
        if let Some((known, lock)) = &*seen
            && *known == identity
        {
            return Ok(Arc::clone(lock));
        }
        let lock = Arc::new(read_lock(&self.path).map_err(|error| error.reason())?);
        *seen = Some((identity, Arc::clone(&lock)));
        Ok(lock)
    }
}

impl Signatures for LockedSignatures {
    fn check(&self, rule: &SignerRule) -> Result<(), String> {
        verdict::trusted(rule).map(drop)
    }

    fn admit(
        &self,
        tool: &str,
        contents: &[Digest],
        signers: &Arc<SignersInForce>,
    ) -> Result<(), String> {
        let trust = self.trust(signers)?;
        for digest in contents {
            let mut refusal = None;
            let mut is_admitted = false;
            for watched in &self.locks {
                let lock = watched.lock()?;
                let Some(locked) = lock.get(tool).filter(|locked| locked.sha256 == *digest) else {
                    continue;
                };
                match trust.admit_call(tool, &locked.signer) {
                    Ok(()) => is_admitted = true,
                    Err(reason) => refusal = Some(reason.to_string()),
                }
            }
            if !is_admitted {
                return Err(refusal.unwrap_or_else(|| {
                    format!(
                        "`{tool}` was not installed by `ikigai tool install`, so its signer is unknown; install \
                         it from its author's source"
                    )
                }));
            }
        }
        if contents.is_empty() {
            return Err(format!("the file of `{tool}` cannot be read"));
        }
        Ok(())
    }
}
