//! Drafts of files that are written completely or not at all, and the drafts that killed commands
//! left behind.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use tempfile::NamedTempFile;

/// The prefix of the names of drafts, which other programs do not use.
const PREFIX: &str = ".ikigai-draft-";

/// The age at which a draft counts as abandoned. Commands finish their drafts much sooner.
const LEFT_BEHIND: Duration = Duration::from_secs(60 * 60);

/// Returns a new file in a directory. It is removed unless it is persisted. Drafts older than one
/// hour are removed first.
pub(crate) fn draft_in(directory: &Path) -> io::Result<NamedTempFile> {
    sweep(directory);
    tempfile::Builder::new().prefix(PREFIX).tempfile_in(directory)
}

/// Removes the drafts that killed commands left in a directory. If a draft cannot be removed now,
/// the next command tries again.
fn sweep(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        if !entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
            continue;
        }
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        if modified.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > LEFT_BEHIND)) {
            let _ = fs::remove_file(entry.path());
        }
    }
}
