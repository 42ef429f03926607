//! The upkeep of a cache by the process that compiles behind the calls of a host.

use std::io::{self, Write as _};
use std::path::Path;
use std::time::Duration;

use ikigai_protocol::Digest;

use super::{
    ComponentCache, UNFINISHED, entries, file_name, is_younger, listed, named, remove, unfinished,
    unoptimised,
};
use crate::paths;

/// The age at which an unfinished file has no writer any more: no compilation takes as long.
const LEFT_BEHIND: Duration = Duration::from_secs(24 * 60 * 60);

impl ComponentCache {
    /// Removes code of the engine `worse` if there is code of `better`. Removes the files of
    /// processes that were killed while they stored code.
    pub(in crate::exec::wasm) fn sweep(&self, worse: u64, better: u64) {
        let Some(dir) = self.own.as_deref() else { return };
        let (worse, better) = (entries(dir, worse), entries(dir, better));
        for path in listed(&worse) {
            let digest = digest_in(&path);
            if digest.is_some_and(|digest| named(&better, &digest).next().is_some()) {
                remove(&path);
            }
        }
        for path in listed(&worse).chain(listed(&better)) {
            let is_unfinished = file_name(&path).starts_with(UNFINISHED);
            if is_unfinished && !is_younger(&path, LEFT_BEHIND) {
                remove(&path);
            }
        }
    }

    /// Notes the reason that an attempt to make the optimised code of a component failed.
    pub(in crate::exec::wasm) fn note_unoptimised(
        &self,
        fingerprint: u64,
        digest: &Digest,
        reason: &str,
    ) {
        let Some(dir) = self.own.as_deref() else { return };
        let note = || -> io::Result<()> {
            let dir = self.make_entries(dir, fingerprint)?;
            let mut file = unfinished(&dir)?;
            file.write_all(reason.as_bytes())?;
            file.persist(dir.join(unoptimised(digest)))?;
            Ok(())
        };
        if let Err(error) = note() {
            paths::log_uncached(dir, &error);
        }
    }
}

/// Returns the digest of the component whose code is in the entry at this path.
fn digest_in(path: &Path) -> Option<Digest> {
    let name = file_name(path);
    name.strip_suffix(".cwasm")?.split_once('.')?.0.parse().ok()
}
