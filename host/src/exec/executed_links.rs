//! The files to which links lead from the places that other programs execute. To change one of these files is to
//! change the place.
//!
//! Owns the bounds of the search: a place with more in it has links that nobody looks at.

use std::collections::HashSet;
use std::fs::{read_dir, symlink_metadata};
use std::path::{Path, PathBuf};

use crate::policy::{EXECUTED_PLACES, GIT, Grant, IN_GIT, MODULES, WORKTREES};

/// The most entries of one place that are looked at.
const MOST_ENTRIES: usize = 2_000;

/// The depth of the directories in a place that are looked at.
const DEPTH: usize = 4;

/// Returns the paths, without links, to which the links in a place lead.
pub(super) fn link_targets(place: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    let mut dirs = vec![(place.to_owned(), 0)];
    let mut left = MOST_ENTRIES;
    while let Some((dir, depth)) = dirs.pop() {
        if depth > DEPTH || !seen.insert(dir.clone()) {
            continue;
        }
        // What this user cannot list, the tool cannot change.
        for entry in read_dir(&dir).into_iter().flatten().flatten() {
            let Some(rest) = left.checked_sub(1) else { return found };
            left = rest;
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                dirs.push((entry.path(), depth + 1));
            } else if kind.is_symlink()
                && let Ok(real) = entry.path().canonicalize()
            {
                if real.is_dir() {
                    dirs.push((real.clone(), depth + 1));
                }
                found.push(real);
            }
        }
    }
    found
}

/// Returns what the places in the writable directories of a grant lead to by links, each with its place. It leaves out
/// places that the grant names.
pub(super) fn targets(grant: &Grant) -> Vec<(PathBuf, PathBuf)> {
    let names = EXECUTED_PLACES.iter().map(|place| PathBuf::from(place.name));
    let in_git = IN_GIT.iter().filter(|name| ![MODULES, WORKTREES].contains(name));
    let in_git = in_git.map(|name| Path::new(GIT).join(name));
    let names: Vec<PathBuf> = names.chain([PathBuf::from(GIT)]).chain(in_git).collect();
    let dirs: Vec<&Path> = grant.writable_dirs().collect();
    let is_writable = |real: &Path| {
        dirs.iter().any(|dir| real.starts_with(dir))
            && !dirs.iter().any(|dir| dir.starts_with(real))
    };
    let mut found = Vec::new();
    for path in dirs.iter().flat_map(|dir| names.iter().map(|name| dir.join(name))) {
        let Ok(metadata) = symlink_metadata(&path) else { continue };
        let Some(place) = grant.reserved.executed_place(&path) else { continue };
        let mut reals = Vec::new();
        if metadata.is_symlink() {
            reals.extend(path.canonicalize());
        }
        // A repository has no links in it that matter, except in its places.
        let is_searched = !path.ends_with(GIT) || metadata.is_symlink();
        if is_searched && path.is_dir() {
            reals.extend(link_targets(&path));
        }
        reals.retain(|real| is_writable(real));
        found.extend(reals.into_iter().map(|real| (real, place.clone())));
    }
    found
}

#[cfg(test)]
mod tests {
    use std::fs::{create_dir_all, write};
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_in_a_place_are_followed_to_their_ends() {
        let scratch = tempfile::tempdir().expect("a directory");
        let root = scratch.path().canonicalize().expect("a path");
        for dir in ["place/inner", "skills", "scripts"] {
            create_dir_all(root.join(dir)).expect("made");
        }
        write(root.join("scripts/hook"), "").expect("written");
        symlink("../scripts/hook", root.join("place/hook")).expect("linked");
        symlink("../../skills", root.join("place/inner/skills")).expect("linked");
        symlink("../place", root.join("skills/loop")).expect("linked");
        symlink("nowhere", root.join("place/dangling")).expect("linked");
        let mut found = link_targets(&root.join("place"));
        found.sort();
        assert_eq!(found, ["place", "scripts/hook", "skills"].map(|path| root.join(path)));
    }
}
