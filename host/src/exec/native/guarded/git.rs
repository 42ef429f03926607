//! The names by which repositories, and the directories of their submodules, are recognised.

use std::fs::symlink_metadata;
use std::path::Path;

use crate::policy::{GIT, MODULES, WORKTREES};

/// The names by which a repository is recognised: it has some of them.
pub(super) const OF_REPOSITORIES: &[&str] =
    &["HEAD", "config", "commondir", "gitdir", "hooks", "index", "objects", "refs"];

/// The names by which git recognises a repository: it has all of the first, or, if it shares the
/// objects of another one, all of the second.
const NEEDED: [&[&str]; 2] = [&["HEAD", "objects", "refs"], &["HEAD", "commondir"]];

/// Returns whether git takes a directory for a repository.
pub(super) fn is_repository(dir: &Path) -> bool {
    let is_there = |name: &str| symlink_metadata(dir.join(name)).is_ok();
    NEEDED.iter().any(|names| names.iter().all(|name| is_there(name)))
}

/// Returns whether a path is the directory of a repository's submodules or working trees.
pub(super) fn holds_repositories(path: &Path) -> bool {
    let is_called = |path: &Path, known: &str| {
        path.file_name().is_some_and(|name| name.eq_ignore_ascii_case(known))
    };
    [MODULES, WORKTREES].iter().any(|known| is_called(path, known))
        && path.parent().is_some_and(|git| is_called(git, GIT))
}
