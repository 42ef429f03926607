//! The history of lines, in a file that only its user can read.

use std::fs::{OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use reedline::{
    FileBackedHistory, HistoryItem, HistoryItemId, HistorySessionId, ReedlineError, SearchQuery,
};

use crate::sanitize;

/// The earlier lines, and the file that contains them.
#[derive(Debug)]
pub struct History {
    pub(super) lines: FileBackedHistory,
}

/// The reason why the history cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// The file cannot be created, read or given its mode.
    #[error("the history `{}` cannot be used", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The content of the file is not a history.
    #[error("the history `{}` cannot be read; remove it to begin another", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// reedline's error.
        #[source]
        source: reedline::ReedlineError,
    },
}

impl History {
    /// Opens or creates the file at `path`, of at most `most` entries, with mode 0600, because
    /// people type secrets. Its directory must exist.
    ///
    /// # Errors
    ///
    /// Fails with a [`HistoryError`]. An editor also works without a history.
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

/// A history that keeps no line that begins with one of the given prefixes, even after white space:
/// reedline's own rule compares only the very first characters. Entries are sanitized when they are
/// shown, because other programs may write to the file.
pub(super) struct FilteredHistory {
    pub(super) lines: FileBackedHistory,
    pub(super) unsaved: Vec<String>,
}

impl reedline::History for FilteredHistory {
    fn save(&mut self, item: HistoryItem) -> Result<HistoryItem, ReedlineError> {
        let line = item.command_line.trim_start();
        if self.unsaved.iter().any(|unsaved| line.starts_with(unsaved)) {
            return Ok(item);
        }
        self.lines.save(item)
    }

    fn load(&self, id: HistoryItemId) -> Result<HistoryItem, ReedlineError> {
        self.lines.load(id).map(sanitized)
    }

    fn count(&self, query: SearchQuery) -> Result<i64, ReedlineError> {
        self.lines.count(query)
    }

    fn search(&self, query: SearchQuery) -> Result<Vec<HistoryItem>, ReedlineError> {
        let found = self.lines.search(query)?;
        Ok(found.into_iter().map(sanitized).collect())
    }

    fn update(
        &mut self,
        id: HistoryItemId,
        updater: &dyn Fn(HistoryItem) -> HistoryItem,
    ) -> Result<(), ReedlineError> {
        self.lines.update(id, updater)
    }

    fn clear(&mut self) -> Result<(), ReedlineError> {
        self.lines.clear()
    }

    fn delete(&mut self, id: HistoryItemId) -> Result<(), ReedlineError> {
        self.lines.delete(id)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.lines.sync()
    }

    fn session(&self) -> Option<HistorySessionId> {
        self.lines.session()
    }
}

fn sanitized(item: HistoryItem) -> HistoryItem {
    HistoryItem { command_line: sanitize(&item.command_line).into_owned(), ..item }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use reedline::{History as _, SearchDirection};

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
    fn an_unsaved_line_is_not_saved_with_white_space_before_it_either() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let path = folder.path().join("history");
        let History { lines } = History::open(&path, 9).expect("a history");
        let mut history =
            FilteredHistory { lines, unsaved: vec!["/env".to_owned(), "/key".to_owned()] };
        for line in ["/env A=1", "  /env A=2", "\t/env A=3", " /key k", "about /env", " said"] {
            history.save(HistoryItem::from_command_line(line)).expect("an entry");
        }
        history.sync().expect("a file");
        let kept = fs::read_to_string(&path).expect("a file");
        assert_eq!(kept, "about /env\n said\n");
    }

    #[test]
    fn control_characters_of_an_entry_are_not_shown() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let path = folder.path().join("history");
        fs::write(&path, "say \x1b[2J<\\n>\u{202e}so\n").expect("a file");
        let History { lines } = History::open(&path, 9).expect("a history");
        let history = FilteredHistory { lines, unsaved: Vec::new() };
        let everything = SearchQuery::everything(SearchDirection::Backward, None);
        let found = history.search(everything).expect("entries");
        assert_eq!(found[0].command_line, "say ␛[2J\n\u{fffd}so");
        let loaded = history.load(HistoryItemId::new(0)).expect("an entry");
        assert_eq!(loaded.command_line, found[0].command_line);
    }

    #[test]
    fn a_directory_or_a_link_is_refused_with_its_name() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let error = History::open(folder.path(), 3).expect_err("a directory");
        assert!(error.to_string().contains(&*folder.path().to_string_lossy()), "{error}");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/dev/null", &link).expect("a link");
        History::open(&link, 3).expect_err("a link");
    }
}
