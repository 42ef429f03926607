//! Finds a source that was changed after its tool was built.
//!
//! Compares modification times, as make does, since it does not know which files the compiler
//! reads.

use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use ignore::WalkBuilder;

use super::cases::Cases;

/// Returns a file of a project that was changed after `built`. Skips hidden files, files that
/// `.gitignore` names, the directory `dist` and the files of cases.
pub(super) fn changed_since(
    built: &Path,
    project: &Path,
    cases: &Cases,
) -> io::Result<Option<PathBuf>> {
    let time = built.metadata()?.modified()?;
    let dist = built.parent().map(Path::to_owned);
    let of_cases = cases.files_of_the_project(project);
    let walk = WalkBuilder::new(project)
        .require_git(false)
        // The user's global git rules may be about other projects.
        .git_global(false)
        .filter_entry(move |entry| dist.as_deref() != Some(entry.path()))
        .build();
    for entry in walk {
        let entry = entry.map_err(io::Error::other)?;
        let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
        if is_file && !of_cases.contains(entry.path()) && modified(&entry)? > time {
            return Ok(Some(entry.into_path()));
        }
    }
    Ok(None)
}

fn modified(entry: &ignore::DirEntry) -> io::Result<SystemTime> {
    entry.metadata().map_err(io::Error::other)?.modified()
}
