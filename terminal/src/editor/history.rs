//! Earlier lines, in a file that only its user can read.

use std::fs::{OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use reedline::FileBackedHistory;

/// Earlier lines, and the file that they are kept in.
#[derive(Debug)]
pub struct History {
    pub(super) lines: FileBackedHistory,
}

/// Why there is no history.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// The file cannot be made, read or kept to its user.
    #[error("the history `{}` cannot be used", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// The file's content is no history.
    #[error("the history `{}` cannot be read; remove it to begin another", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What reedline says.
        #[source]
        source: reedline::ReedlineError,
    },
}

impl History {
    /// Opens or makes the file at `path`, of at most `most` entries, with mode 0600:
    /// people type secrets. Its directory must be there.
    ///
    /// # Errors
    ///
    /// [`HistoryError`], after which there can still be an editor without a history.
    pub fn open(path: &Path, most: usize) -> Result<Self, HistoryError> {
        let failed = |source| HistoryError::File { path: path.to_owned(), source };
        let mut options = OpenOptions::new();
        options
            .create(true)
            .append(true)
            .mode(0o600)
            .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
        let file = options.open(path).map_err(failed)?;
        file.set_permissions(Permissions::from_mode(0o600)).map_err(failed)?;
        if !file.metadata().map_err(failed)?.is_file() {
            return Err(failed(io::Error::from(io::ErrorKind::InvalidInput)));
        }
        let lines = FileBackedHistory::with_file(most, path.to_owned())
            .map_err(|source| HistoryError::Content { path: path.to_owned(), source })?;
        Ok(Self { lines })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use reedline::{History as _, HistoryItem, SearchDirection, SearchQuery};

    use super::*;

    fn lines(history: &History) -> Vec<String> {
        let everything = SearchQuery::everything(SearchDirection::Forward, None);
        let found = history.lines.search(everything).expect("entries");
        found.into_iter().map(|item| item.command_line).collect()
    }

    #[test]
    fn entries_are_kept_for_their_user_up_to_a_number() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let path = folder.path().join("history");
        fs::write(&path, "old\n").expect("a file");
        fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("a mode");
        let mut history = History::open(&path, 3).expect("a history");
        for line in ["one", "two\nlines", "three"] {
            history.lines.save(HistoryItem::from_command_line(line)).expect("an entry");
        }
        history.lines.sync().expect("a file");
        let mode = fs::metadata(&path).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(
            lines(&History::open(&path, 3).expect("a history")),
            ["one", "two\nlines", "three"]
        );
    }

    #[test]
    fn what_is_no_file_is_refused_by_its_name() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let error = History::open(folder.path(), 3).expect_err("a directory");
        assert!(error.to_string().contains(&*folder.path().to_string_lossy()), "{error}");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/dev/null", &link).expect("a link");
        History::open(&link, 3).expect_err("a link");
    }
}
