//! Lists of granted directories: whether one contradicts itself, and what two
//! have in common. By path alone; nothing is opened.

use std::path::Path;

use ikigai_protocol::{Access, GrantedDir};

/// Two entries of which the first lies in the second and has another access, by
/// their indexes. A narrower grant inside a wider one takes nothing away.
pub(super) fn overlap(dirs: &[(Access, &Path)]) -> Option<(usize, usize)> {
    let contradicts = |inner: usize, outer: usize| {
        inner != outer && dirs[inner].0 != dirs[outer].0 && dirs[inner].1.starts_with(dirs[outer].1)
    };
    let indexes = 0..dirs.len();
    indexes
        .clone()
        .flat_map(|inner| indexes.clone().map(move |outer| (inner, outer)))
        .find(|(inner, outer)| contradicts(*inner, *outer))
}

/// Without what lies in another of the same access.
pub(super) fn without_repeats(mut dirs: Vec<GrantedDir>) -> Vec<GrantedDir> {
    dirs.sort_by(|a, b| a.path.cmp(&b.path));
    // A parent sorts before what lies in it.
    let mut kept: Vec<GrantedDir> = Vec::with_capacity(dirs.len());
    for dir in dirs {
        if !kept.iter().any(|outer| dir.path.starts_with(&outer.path)) {
            kept.push(dir);
        }
    }
    kept
}

/// What may be done under both lists. Neither contradicts itself.
pub(super) fn meet(one: &[GrantedDir], other: &[GrantedDir]) -> Vec<GrantedDir> {
    let common = |a: &GrantedDir, b: &GrantedDir| {
        let inner = if a.path.starts_with(&b.path) {
            a
        } else if b.path.starts_with(&a.path) {
            b
        } else {
            return None;
        };
        Some(GrantedDir { access: a.access.min(b.access), path: inner.path.clone() })
    };
    let pairs = one.iter().flat_map(|a| other.iter().filter_map(move |b| common(a, b)));
    without_repeats(pairs.collect())
}
