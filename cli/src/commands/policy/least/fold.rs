//! Folds the paths that calls accessed into the list `fs` of a policy, as short and as narrow as
//! possible.
//!
//! This is a pure function: [`look`](super::look) has found out what each path is, and [`Ground`]
//! has the surroundings of the tool. The list never contradicts itself: a directory and everything
//! in it have one access.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::{Component, Path, PathBuf};

use ikigai_host::policy::{is_of_kernel, path_in_policy};
use ikigai_protocol::Access;

use super::places::Ground;
use super::{AccessedPath, ExistingEntry, Folded, OmittedPath, PathEntry, PathKind, Why};

/// From this number of files in one directory, the directory itself is proposed.
const MANY: usize = 3;

/// The length of the longest path in bytes, as in the kernel.
pub(super) const LONGEST: usize = 4096;

/// The most entries that are proposed. The user has to read them before agreeing.
pub(crate) const MOST_ENTRIES: usize = 48;

/// Folds paths into a list, which includes the entries that stay.
pub(crate) fn fold(seen: &[AccessedPath], kept: &[ExistingEntry], ground: &Ground<'_>) -> Folded {
    let (writes, places, left) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let mut fold = Fold { ground, kept, writes, places, left, missing: 0 };
    let seen: BTreeSet<&AccessedPath> = seen.iter().collect();
    let wanted: Vec<&AccessedPath> = seen.into_iter().filter(|seen| fold.is_wanted(seen)).collect();
    fold.add_writes(&wanted);
    let reads = fold.reads(&wanted);
    fold.finish(reads)
}

struct Fold<'a> {
    ground: &'a Ground<'a>,
    kept: &'a [ExistingEntry],
    /// The directories and files to write. None of them contains another, except the `places`.
    writes: BTreeSet<PathBuf>,
    /// The new places that other programs execute. A grant around one does not open it.
    places: BTreeSet<PathBuf>,
    left: BTreeSet<OmittedPath>,
    missing: usize,
}

impl Fold<'_> {
    fn leave(&mut self, seen: &AccessedPath, why: Why) {
        self.left.insert(OmittedPath { path: seen.path.clone(), access: seen.access, why });
    }

    /// Returns whether to propose the path. Notes the reason if not, unless the tool has access
    /// anyway.
    fn is_wanted(&mut self, seen: &AccessedPath) -> bool {
        let (ground, path) = (self.ground, seen.path.as_path());
        let is_write = seen.access == Access::ReadWrite;
        let why = if !is_nameable(path) {
            Why::Unnameable
        } else if let Some(holds) = ground.secrets_at(path) {
            Why::Secret(holds)
        } else if ground.has_kernel(path)
            || !is_write && ground.is_shown(path)
            // A read can mean the machine's file if there is one with this name.
            || ground.is_temporary(path) && (is_write || seen.kind != PathKind::File)
        {
            return false;
        } else if ground.is_protected(path) {
            Why::Own
        } else if is_of_kernel(path) {
            Why::Kernel
        } else if is_write && ground.is_of_system(path) {
            Why::System
        } else if seen.kind == PathKind::Other {
            Why::NoFile
        } else if !is_write && matches!(seen.kind, PathKind::Missing(_)) {
            self.missing += 1;
            return false;
        } else {
            return true;
        };
        self.leave(seen, why);
        false
    }

    /// Adds the grants for written paths: the directory, because programs replace files, or only
    /// the file if the directory is too broad.
    fn add_writes(&mut self, wanted: &[&AccessedPath]) {
        let all_kept = self.kept;
        let kept = all_kept.iter().filter(|kept| kept.access == Access::ReadWrite);
        self.writes.extend(kept.map(|kept| kept.path.clone()));
        for seen in wanted.iter().filter(|seen| seen.access == Access::ReadWrite) {
            if let Some(place) = self.ground.executed_place(&seen.path) {
                self.add_place(seen, place);
                continue;
            }
            let dir = dir_of(seen);
            let is_grantable = !self.ground.is_broad(dir) && !self.ground.holds_protected(dir);
            let target = match &seen.kind {
                _ if is_grantable => dir,
                PathKind::File => seen.path.as_path(),
                _ => {
                    self.leave(seen, Why::Broad);
                    continue;
                }
            };
            // A read-only entry around it stays as the user wrote it.
            let around = all_kept.iter().find(|kept| {
                kept.access == Access::ReadOnly
                    && target.starts_with(&kept.path)
                    && *target != *kept.path
            });
            match around {
                Some(kept) => self.leave(seen, Why::Contradicts(kept.path.clone())),
                None => {
                    self.writes.insert(target.to_owned());
                }
            }
        }
        keep_outermost(&mut self.writes);
        self.writes.extend(self.places.iter().cloned());
    }

    /// Adds the grant of a place that other programs execute, by its name.
    fn add_place(&mut self, seen: &AccessedPath, place: PathBuf) {
        let all_kept = self.kept;
        let around = all_kept.iter().find(|kept| place.starts_with(&kept.path));
        let is_there = match &seen.kind {
            PathKind::Missing(dir) => dir.starts_with(&place),
            PathKind::File | PathKind::Dir | PathKind::Other => true,
        };
        match around {
            // A read-only entry around it stays as the user wrote it.
            Some(kept) if kept.access == Access::ReadOnly && kept.path != place => {
                self.leave(seen, Why::Contradicts(kept.path.clone()));
            }
            // A policy names a place that does not exist only in a directory that it grants.
            None if !is_there => self.leave(seen, Why::Executed),
            _ if self.ground.holds_protected(&place) => self.leave(seen, Why::Own),
            _ => {
                self.places.insert(place);
            }
        }
    }

    /// Returns the directories and files to read.
    fn reads(&mut self, wanted: &[&AccessedPath]) -> BTreeSet<PathBuf> {
        let is_covered = |path: &Path| {
            path.ancestors().any(|around| self.writes.contains(around))
                || self.kept.iter().any(|kept| path.starts_with(&kept.path))
        };
        let read = wanted.iter().copied().filter(|it| it.access == Access::ReadOnly);
        let read = read.filter(|it| !is_covered(&it.path));
        let (inside, outside): (Vec<&AccessedPath>, Vec<&AccessedPath>) =
            read.partition(|it| it.path.starts_with(self.ground.workspace));
        let mut reads = BTreeSet::new();
        if let Some(common) = common_dir(&inside) {
            self.cover(&common, &inside, &mut reads);
        }
        let mut by_dir: BTreeMap<&Path, Vec<&AccessedPath>> = BTreeMap::new();
        for it in outside {
            by_dir.entry(dir_of(it)).or_default().push(it);
        }
        for (dir, members) in by_dir {
            let is_listed = members.iter().any(|it| it.kind == PathKind::Dir);
            if is_listed || members.len() >= MANY {
                self.cover(dir, &members, &mut reads);
            } else {
                reads.extend(members.iter().map(|it| it.path.clone()));
            }
        }
        keep_outermost(&mut reads);
        reads
    }

    /// Adds the directory for its members, or narrower entries if the directory cannot be granted
    /// as a whole.
    fn cover(&mut self, dir: &Path, members: &[&AccessedPath], reads: &mut BTreeSet<PathBuf>) {
        // The paths in a directory sort after it.
        let next = self.writes.range::<Path, _>((Bound::Included(dir), Bound::Unbounded)).next();
        let held = next.filter(|write| write.starts_with(dir)).cloned();
        let is_broad = self.ground.is_broad(dir);
        if held.is_none() && !is_broad {
            reads.insert(dir.to_owned());
            return;
        }
        let mut below: BTreeMap<PathBuf, Vec<&AccessedPath>> = BTreeMap::new();
        for it in members {
            let Ok(rest) = it.path.strip_prefix(dir) else { continue };
            match (rest.components().next(), &it.kind) {
                // The call listed the directory itself.
                (None, _) => {
                    let why = match &held {
                        Some(write) if !is_broad => Why::Contradicts(write.clone()),
                        _ => Why::Broad,
                    };
                    self.leave(it, why);
                }
                (Some(_), PathKind::File) if it.path.parent() == Some(dir) => {
                    reads.insert(it.path.clone());
                }
                (Some(first), _) => below.entry(dir.join(first)).or_default().push(it),
            }
        }
        for members in below.into_values() {
            if let Some(common) = common_dir(&members) {
                self.cover(&common, &members, reads);
            }
        }
    }

    /// Returns the list of the entries that stay, the writes and the reads.
    fn finish(mut self, reads: BTreeSet<PathBuf>) -> Folded {
        let mut entries: Vec<PathEntry> = Vec::new();
        for kept in self.kept {
            let is_repeated = |others: &BTreeSet<PathBuf>| {
                kept.path.ancestors().filter(|around| others.contains(*around)).any(|around| {
                    match around == kept.path {
                        true => kept.access == Access::ReadOnly,
                        // If the user wrote both, the inner one may be a reserved place.
                        false => self.kept.iter().all(|it| it.path != around),
                    }
                })
            };
            if !is_repeated(&self.writes) && !is_repeated(&reads) {
                let (access, path) = (kept.access, kept.path.clone());
                entries.push(PathEntry { access, path, written: kept.written.clone() });
            }
        }
        let writes = std::mem::take(&mut self.writes);
        let new = writes.into_iter().map(|path| (Access::ReadWrite, path));
        let new = new.chain(reads.into_iter().map(|path| (Access::ReadOnly, path)));
        for (access, path) in new {
            if entries.iter().any(|entry| entry.path == path) {
                continue;
            }
            let is_place = self.places.contains(&path);
            let is_open = |it: &PathEntry| {
                is_place && it.access == Access::ReadWrite && path.starts_with(&it.path)
            };
            // A granted file may have become a directory since.
            let nested = entries.iter().find(|it| {
                !is_open(it) && (path.starts_with(&it.path) || it.path.starts_with(&path))
            });
            if let Some(other) = nested.map(|entry| entry.path.clone()) {
                self.left.insert(OmittedPath { path, access, why: Why::Contradicts(other) });
                continue;
            }
            let Some(written) = path_in_policy(&path, self.ground.workspace) else { continue };
            if entries.len() < MOST_ENTRIES.max(self.kept.len()) {
                entries.push(PathEntry { access, path, written });
            } else {
                self.left.insert(OmittedPath { path, access, why: Why::TooMany });
            }
        }
        Folded { entries, left: self.left.into_iter().collect(), missing: self.missing }
    }
}

/// Removes the paths that lie in another path of the set.
fn keep_outermost(paths: &mut BTreeSet<PathBuf>) {
    let mut outer: Option<PathBuf> = None;
    // The paths in a directory sort after it.
    paths.retain(|path| {
        let is_inner = outer.as_ref().is_some_and(|outer| path.starts_with(outer));
        if !is_inner {
            outer = Some(path.clone());
        }
        !is_inner
    });
}

/// Returns the path if it is a directory, or else the directory that it lies in.
fn dir_of(seen: &AccessedPath) -> &Path {
    match &seen.kind {
        PathKind::Dir => &seen.path,
        PathKind::Missing(dir) => dir,
        PathKind::File | PathKind::Other => seen.path.parent().unwrap_or(&seen.path),
    }
}

/// Returns the innermost directory that contains all of the paths; `None` without paths.
fn common_dir(members: &[&AccessedPath]) -> Option<PathBuf> {
    let mut dirs = members.iter().map(|it| dir_of(it));
    let first = dirs.next()?.to_owned();
    Some(dirs.fold(first, |common, dir| {
        let shared = common.components().zip(dir.components()).take_while(|(a, b)| a == b);
        shared.map(|(part, _)| part).collect()
    }))
}

/// Returns whether a policy can name the path.
fn is_nameable(path: &Path) -> bool {
    let is_plain = |part| matches!(part, Component::RootDir | Component::Normal(_));
    path.as_os_str().len() <= LONGEST
        && path.is_absolute()
        && path.components().all(is_plain)
        && path.to_str().is_some_and(|text| !text.contains(['\n', '\0']))
}

#[cfg(test)]
mod tests;
