//! The check that no tool could have written the host's own files in an earlier run.
//!
//! A tool cannot write to the host's own directories while they are the host's. But a variable such
//! as `XDG_CACHE_HOME` may name a directory in which tools could write before. A tool may then have
//! put machine code, an approval or a policy there.
//!
//! Knows only the runs of this user that had the present state directory, or the usual one.

use std::path::{Path, PathBuf};

use super::writable_record::WritableRecord;
use crate::paths::{self, Paths};

/// The directories in which tools could write in earlier runs, as far as they are recorded.
#[derive(Debug)]
pub struct EarlierReach {
    records: Vec<WritableRecord>,
}

/// One of the host's own files or directories lies where tools could write in an earlier run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{}` lies in `{}`, where tools could write in an earlier run",
    place.display(),
    dir.display()
)]
pub struct InEarlierReach {
    /// The file or directory.
    pub place: PathBuf,
    /// The directory around it in which tools could write.
    pub dir: PathBuf,
}

impl InEarlierReach {
    /// The step that the user can take.
    pub const HINT: &str = "use a directory in which no tool could write, such as one in your home";
}

impl EarlierReach {
    /// Returns the directories that are recorded for this user.
    #[must_use]
    pub fn from_paths(paths: &Paths) -> Self {
        let records = paths.states().into_iter().map(|state| WritableRecord::new(Some(state)));
        Self { records: records.collect() }
    }

    /// Checks that no tool could have written a file or a directory, or a link on the way to it. It
    /// need not exist.
    ///
    /// # Errors
    ///
    /// Fails if a record has a directory around it.
    pub fn check(&self, place: &Path) -> Result<(), InEarlierReach> {
        let steps = paths::resolution_steps(place);
        for record in &self.records {
            // A tool cannot make a record unreadable.
            let Ok(dirs) = record.dirs() else { continue };
            let mut around = steps.iter().flat_map(|step| step.ancestors());
            if let Some(dir) = around.find(|dir| dirs.contains(*dir)) {
                return Err(InEarlierReach { place: place.to_owned(), dir: dir.to_owned() });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use ikigai_protocol::{Access, GrantedDir};

    use super::*;

    #[test]
    fn a_place_is_checked_against_the_record_of_each_state() {
        let scratch = tempfile::tempdir().expect("a directory");
        let root = scratch.path().canonicalize().expect("resolved");
        let home = root.join("home");
        let moved = root.join("moved/.state/ikigai");
        for dir in [&home, &root.join("w"), &root.join("moved"), &root.join("free")] {
            fs::create_dir(dir).expect("made");
        }
        symlink(root.join("free"), root.join("w/link")).expect("linked");
        symlink(root.join("w"), root.join("alias")).expect("linked");
        let usual = home.join(".local/state/ikigai");
        for (state, dir) in [(&usual, "moved"), (&moved, "w")] {
            let dir = GrantedDir { access: Access::ReadWrite, path: root.join(dir) };
            WritableRecord::new(Some(state.clone())).record(&[dir]).expect("recorded");
        }
        let mut paths = Paths::of_installation("/nonexistent");
        (paths.home, paths.state) = (Some(home), Some(moved));
        let dir_around = |paths: &Paths, place: &str| {
            let checked = EarlierReach::from_paths(paths).check(&root.join(place));
            checked.err().map(|found| found.dir)
        };
        for (place, dir) in [
            ("w/.cache/ikigai", Some("w")),
            ("alias/.cache/ikigai", Some("w")),
            ("w/link/ikigai", Some("w")),
            ("w", Some("w")),
            // The record of the moved state may be a tool's, but not the usual one.
            ("moved/.state/ikigai", Some("moved")),
            ("free/ikigai", None),
            ("ww", None),
        ] {
            assert_eq!(dir_around(&paths, place), dir.map(|dir| root.join(dir)), "{place}");
        }
        paths.state = Some(usual);
        assert_eq!(dir_around(&paths, "w/.cache"), None);
        paths.state = None;
        assert_eq!(dir_around(&paths, "moved/.cache"), None);
    }
}
