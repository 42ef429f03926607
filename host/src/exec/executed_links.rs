//! The files to which links lead from the places that other programs execute. Changing such a file
//! changes the place.
//!
//! Owns the bounds of the search: links in a place beyond these bounds are not followed.

use std::collections::HashSet;
use std::fs::{read_dir, symlink_metadata};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::paths::{LinkEnd, Resolution, resolve_within};
use crate::policy::{EXECUTED_PLACES, GIT, Grant, IN_GIT, MODULES, WORKTREES};

/// The largest number of entries that are searched in one place.
const MOST_ENTRIES: usize = 2_000;

/// The number of components that are looked at on the way of one link. A tool can make links that
/// take the kernel a second each.
pub(super) const LONGEST_WAY: usize = 128;

/// The largest number of components of the ways of all links.
pub(super) const MOST_OF_ALL_WAYS: usize = 131_072;

/// The depth to which the directories in a place are searched.
const DEPTH: usize = 4;

/// Returns the links in a place, and in the directories to which they lead, each as `resolve`
/// resolved it.
///
/// # Errors
///
/// Fails if a directory cannot be listed although it is there, for example for want of descriptors.
pub(super) fn links_in(
    place: &Path,
    resolve: &mut dyn FnMut(&Path) -> Resolution,
) -> io::Result<Vec<(PathBuf, Resolution)>> {
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    let mut dirs = vec![(place.to_owned(), 0)];
    let mut left = MOST_ENTRIES;
    while let Some((dir, depth)) = dirs.pop() {
        if depth > DEPTH || !seen.insert(dir.clone()) {
            continue;
        }
        let entries = match read_dir(&dir) {
            Ok(entries) => entries,
            // The directory itself is guarded, so no tool can open it again.
            Err(error) if is_gone(&error) || error.kind() == ErrorKind::PermissionDenied => {
                continue;
            }
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            let Some(rest) = left.checked_sub(1) else { return Ok(found) };
            left = rest;
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                dirs.push((entry.path(), depth + 1));
            } else if kind.is_symlink() {
                let way = resolve(&entry.path());
                if let LinkEnd::At(real) = &way.end
                    && real.is_dir()
                {
                    dirs.push((real.clone(), depth + 1));
                }
                found.push((entry.path(), way));
            }
        }
    }
    Ok(found)
}

/// Returns whether a directory is not there any more.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// A file or directory to which a link in a place leads, or which is on its way.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LinkTarget {
    pub(super) path: PathBuf,
    pub(super) place: PathBuf,
    /// Set if the way leads only through the directory, so that its contents do not matter.
    pub(super) is_passed: bool,
}

impl LinkTarget {
    /// Returns whether a change of this path changes the target.
    pub(super) fn is_changed_by(&self, path: &Path) -> bool {
        if self.is_passed { path == self.path } else { path.starts_with(&self.path) }
    }
}

/// Returns the targets of the links in those places that lie in the writable directories of a
/// grant. The targets are every link on the way, the end, which need not exist, and the directories
/// that the way leaves by `..`. Places that the grant names are left out, and so is what lies beyond
/// the bounds of a way: a repository of another person can have links over millions of components.
///
/// # Errors
///
/// Fails if a place cannot be looked at or listed, or if a link leads into a writable directory
/// that cannot be looked into.
pub(super) fn targets(grant: &Grant) -> io::Result<Vec<LinkTarget>> {
    let mut ways_left = MOST_OF_ALL_WAYS;
    let mut resolve = |link: &Path| resolve_within(link, LONGEST_WAY, &mut ways_left);
    let names = EXECUTED_PLACES.iter().map(|place| PathBuf::from(place.name));
    let in_git = IN_GIT.iter().map(|name| Path::new(GIT).join(name));
    let names: Vec<PathBuf> = names.chain([PathBuf::from(GIT)]).chain(in_git).collect();
    let dirs: Vec<&Path> = grant.writable_dirs().collect();
    let is_writable = |real: &Path| {
        dirs.iter().any(|dir| real.starts_with(dir)) && !grant.reserved.names_writable_in(real)
    };
    let may_be_moved =
        |passed: &Path| dirs.iter().any(|dir| passed.starts_with(dir) && passed != *dir);
    let mut found = Vec::new();
    for path in dirs.iter().flat_map(|dir| names.iter().map(|name| dir.join(name))) {
        let metadata = match symlink_metadata(&path) {
            Ok(metadata) => metadata,
            Err(error) if is_gone(&error) => continue,
            // Its links are unknown.
            Err(error) => return Err(error),
        };
        let Some(place) = grant.reserved.executed_place(&path) else { continue };
        // They hold repositories, which have their own places.
        if metadata.is_dir() && [MODULES, WORKTREES].iter().any(|name| path.ends_with(name)) {
            continue;
        }
        // Apart from its places, a repository has no links that matter.
        let is_searched = !path.ends_with(GIT) || metadata.is_symlink();
        let inner = match is_searched && path.is_dir() {
            true => links_in(&path, &mut resolve)?,
            false => Vec::new(),
        };
        let itself = metadata.is_symlink().then(|| resolve(&path));
        let ways: Vec<Resolution> =
            itself.into_iter().chain(inner.into_iter().map(|(_, way)| way)).collect();
        // The rest of such a way is unknown, and another tool could open the directory again.
        let is_closed = |way: &Resolution| {
            let LinkEnd::Closed(at) = &way.end else { return false };
            dirs.iter().any(|dir| at.starts_with(dir))
        };
        if ways.iter().any(is_closed) {
            return Err(ErrorKind::PermissionDenied.into());
        }
        for way in ways {
            let passed = way.left.into_iter().filter(|left| may_be_moved(left));
            let steps = way.steps.into_iter().filter(|real| is_writable(real));
            let all = steps.map(|path| (path, false)).chain(passed.map(|path| (path, true)));
            let all = all.filter(|(path, _)| !path.starts_with(&place));
            found.extend(all.map(|(path, is_passed)| {
                let place = place.clone();
                LinkTarget { path, place, is_passed }
            }));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::fs::{create_dir_all, write};
    use std::os::unix::fs::symlink;

    use ikigai_protocol::{Access, GrantedDir};

    use super::*;
    use crate::policy::Reserved;

    #[test]
    fn links_over_many_components_take_no_more_than_the_bounds() {
        let scratch = tempfile::tempdir().expect("a directory");
        let root = scratch.path().canonicalize().expect("a path");
        create_dir_all(root.join(".husky")).expect("made");
        // Each link leads down and up again, and then to the next one.
        let away = "d/../".repeat(500);
        create_dir_all(root.join(".husky/d")).expect("made");
        for link in 0..30 {
            let next = format!("{away}h{}", link + 1);
            symlink(next, root.join(format!(".husky/h{link}"))).expect("linked");
        }
        symlink("../kept", root.join(".husky/near")).expect("linked");
        let dirs = vec![GrantedDir { access: Access::ReadWrite, path: root.clone() }];
        let reserved = Reserved::guarding(dirs.clone());
        let found = targets(&Grant { dirs, reserved, ..Grant::default() }).expect("listed");
        let place = root.join(".husky");
        let expected = LinkTarget { path: root.join("kept"), place, is_passed: false };
        assert_eq!(found, [expected]);
    }

    #[test]
    fn links_are_found_in_what_they_lead_to_as_well() {
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
        let resolve = &mut |link: &Path| resolve_within(link, LONGEST_WAY, &mut 1_000);
        let found = links_in(&root.join("place"), resolve).expect("listed");
        let mut found: Vec<PathBuf> = found.into_iter().map(|(link, _)| link).collect();
        found.sort();
        let expected = ["place/dangling", "place/hook", "place/inner/skills", "skills/loop"];
        assert_eq!(found, expected.map(|path| root.join(path)));
    }
}
