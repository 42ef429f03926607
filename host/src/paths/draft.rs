//! Drafts for replacing whole files, and the removal of drafts that killed commands left behind.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::Duration;

use tempfile::{NamedTempFile, TempDir};

use super::trust::is_own;

/// The beginning of the names of drafts, not used by other programs.
const PREFIX: &str = ".ikigai-draft-";

/// The age at which a draft counts as abandoned: no command takes that long to write a draft.
pub(super) const LEFT_BEHIND: Duration = Duration::from_secs(60 * 60);

/// Returns a new file with this mode in the directory of the file that it will replace. It is
/// removed when dropped, unless it is persisted. Also removes drafts older than an hour.
///
/// # Errors
///
/// Fails if the directory cannot be written.
pub fn draft_in(dir: &Path, mode: u32) -> io::Result<NamedTempFile> {
    sweep(dir);
    named().permissions(Permissions::from_mode(mode)).tempfile_in(dir)
}

/// Creates a directory in another directory. It is removed when the value is dropped. Also removes
/// drafts older than an hour.
///
/// # Errors
///
/// Fails if the directory cannot be written.
pub fn draft_directory_in(dir: &Path) -> io::Result<TempDir> {
    sweep(dir);
    named().tempdir_in(dir)
}

fn named() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(PREFIX);
    builder
}

/// Removes the drafts that killed commands of this user left in a directory. If a draft cannot be
/// removed now, the next command tries again.
fn sweep(dir: &Path) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    let is_draft = |name: &OsStr| name.as_encoded_bytes().starts_with(PREFIX.as_bytes());
    for entry in entries.flatten().filter(|entry| is_draft(&entry.file_name())) {
        // This reads the metadata of the entry itself: it does not follow a link.
        let Ok(metadata) = entry.metadata() else { continue };
        let age = metadata.modified().map(|at| at.elapsed().unwrap_or_default());
        if !is_own(metadata.uid()) || age.is_ok_and(|age| age < LEFT_BEHIND) {
            continue;
        }
        let _ = match metadata.is_dir() {
            true => fs::remove_dir_all(entry.path()),
            false => fs::remove_file(entry.path()),
        };
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn what_killed_commands_left_is_removed_and_nothing_else() {
        let scratch = tempfile::tempdir().expect("a directory");
        let dir = scratch.path();
        let names = || {
            let listed = fs::read_dir(dir).expect("read").flatten().map(|it| it.file_name());
            let mut names: Vec<_> = listed.map(|it| it.into_string().expect("UTF-8")).collect();
            names.sort();
            names
        };
        let past = SystemTime::now() - 2 * LEFT_BEHIND;
        for name in [".ikigai-draft-old", ".ikigai-other", "mine"] {
            let file = fs::File::create(dir.join(name)).expect("made");
            file.set_modified(past).expect("set");
        }
        let kept = dir.join(".ikigai-draft-dir");
        fs::create_dir(&kept).expect("made");
        fs::write(kept.join("part"), "x").expect("written");
        symlink(dir.join("mine"), kept.join("link")).expect("linked");
        fs::File::open(&kept).expect("opened").set_modified(past).expect("set");
        fs::write(dir.join(".ikigai-draft-new"), "x").expect("written");
        let draft = draft_in(dir, 0o600).expect("a draft");
        assert_eq!(draft.as_file().metadata().expect("there").mode() & 0o777, 0o600);
        draft.persist(dir.join("new")).expect("persisted");
        assert_eq!(names(), [".ikigai-draft-new", ".ikigai-other", "mine", "new"]);
        drop(draft_directory_in(dir).expect("a directory"));
        assert_eq!(names().len(), 4);
    }
}
