//! Lists of granted directories: the check that a list does not contradict itself, and the
//! intersection of two lists. Directories are compared only by path, without opening them.

use std::path::Path;

use ikigai_protocol::{Access, GrantedDir};

/// Returns the indexes of an inner and an outer entry with different access, for the first such
/// inner entry of the list. A narrower grant inside a wider one would have no effect.
pub(super) fn overlap(dirs: &[(Access, &Path)]) -> Option<(usize, usize)> {
    let mut order: Vec<usize> = (0..dirs.len()).collect();
    order.sort_by_key(|index| dirs[*index].1);
    // The entries inside a directory directly follow it. `holders` are the entries around the
    // present one, with the innermost last.
    let mut holders: Vec<usize> = Vec::new();
    let contradiction = |inner: usize| {
        let (access, path) = dirs[inner];
        while holders.pop_if(|outer| !path.starts_with(dirs[*outer].1)).is_some() {}
        let outer = holders.last().copied().filter(|outer| dirs[*outer].0 != access);
        holders.push(inner);
        outer.map(|outer| (inner, outer))
    };
    order.into_iter().filter_map(contradiction).min()
}

/// Removes the entries that lie in an entry with the same or more access, and sorts the rest by
/// path. If an entry remains inside another, it has more access, because the user may widen a part
/// of a file's grant.
pub(super) fn without_repeats(mut dirs: Vec<GrantedDir>) -> Vec<GrantedDir> {
    dirs.sort_by(|a, b| a.path.cmp(&b.path));
    // Entries inside a directory follow it.
    let mut kept: Vec<GrantedDir> = Vec::with_capacity(dirs.len());
    for dir in dirs {
        // If a path appears twice, keep the entry with more access.
        kept.retain(|other| other.path != dir.path || other.access > dir.access);
        let holds =
            |outer: &GrantedDir| dir.path.starts_with(&outer.path) && outer.access >= dir.access;
        if !kept.iter().any(holds) {
            kept.push(dir);
        }
    }
    kept
}

/// Returns the access that both lists allow. The lists and the result have the form that
/// [`without_repeats`] returns.
pub(super) fn meet(one: &[GrantedDir], other: &[GrantedDir]) -> Vec<GrantedDir> {
    let common = within(one, other).chain(within(other, one));
    // An entry of both lists appears twice, with the same access.
    without_repeats(common.collect())
}

/// Returns the entries of `inner` that lie in an entry of `outer`, with the access that both allow.
fn within<'a>(
    inner: &'a [GrantedDir],
    outer: &'a [GrantedDir],
) -> impl Iterator<Item = GrantedDir> {
    inner.iter().filter_map(|dir| {
        // The innermost entry around it has the most access, and comes last.
        let before = outer.partition_point(|outer| outer.path <= dir.path);
        let holder =
            outer[..before].iter().rev().find(|outer| dir.path.starts_with(&outer.path))?;
        Some(GrantedDir { access: dir.access.min(holder.access), path: dir.path.clone() })
    })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// Returns every list of up to three directories, with each access.
    fn lists() -> Vec<Vec<GrantedDir>> {
        let paths = ["/a", "/a/b", "/a/b/c", "/a-b", "/a/b-c", "/d"];
        let dirs: Vec<GrantedDir> = paths
            .into_iter()
            .flat_map(|path| {
                [Access::ReadOnly, Access::ReadWrite]
                    .map(|access| GrantedDir { access, path: PathBuf::from(path) })
            })
            .collect();
        let mut lists = vec![Vec::new()];
        for length in 0..3 {
            let longest: Vec<_> = lists.iter().filter(|list| list.len() == length).collect();
            let longer = longest.into_iter().flat_map(|list| {
                dirs.iter().map(|dir| [list.as_slice(), std::slice::from_ref(dir)].concat())
            });
            let longer: Vec<_> = longer.collect();
            lists.extend(longer);
        }
        lists
    }

    fn named(dirs: &[GrantedDir]) -> Vec<(Access, &Path)> {
        dirs.iter().map(|dir| (dir.access, dir.path.as_path())).collect()
    }

    /// Returns the access at `path`, by checking every entry.
    fn access_at(dirs: &[GrantedDir], path: &Path) -> Option<Access> {
        dirs.iter().filter(|dir| path.starts_with(&dir.path)).map(|dir| dir.access).max()
    }

    #[test]
    fn every_contradiction_is_found_and_nothing_else() {
        for list in lists() {
            let contradicts = |inner: &GrantedDir| {
                list.iter().any(|outer| {
                    inner.access != outer.access && inner.path.starts_with(&outer.path)
                })
            };
            let found = overlap(&named(&list));
            assert_eq!(found.is_some(), list.iter().any(contradicts), "{list:?}");
            if let Some((inner, outer)) = found {
                assert!(list[inner].path.starts_with(&list[outer].path), "{list:?}");
                assert_ne!(list[inner].access, list[outer].access, "{list:?}");
            }
        }
    }

    #[test]
    fn what_is_met_allows_what_both_allow() {
        let lists: Vec<_> = lists()
            .into_iter()
            .filter(|list| overlap(&named(list)).is_none())
            .map(without_repeats)
            .collect();
        let places = ["/", "/a", "/a/b", "/a/b/c", "/a/b/c/d", "/a-b", "/a/b-c", "/d", "/d/e"];
        for one in &lists {
            for other in lists.iter().step_by(7) {
                let met = meet(one, other);
                for place in places.map(Path::new) {
                    let both = access_at(one, place).min(access_at(other, place));
                    assert_eq!(access_at(&met, place), both, "{one:?} {other:?} {place:?}");
                }
                assert_eq!(without_repeats(met.clone()), met, "{one:?} {other:?}");
            }
        }
    }
}
