//! The bounds of the search for guarded places.

use crate::exec::executed_links::{LONGEST_WAY, MOST_OF_ALL_WAYS};

/// The bounds of the search. What exceeds one is read-only as a whole: a tool may have made it, and
/// later calls must not fail because of that.
#[derive(Clone, Copy)]
pub(super) struct GuardBounds {
    /// The number of names among the submodules and working trees of a repository.
    pub(super) inner: usize,
    /// The number of names in a place that the grant opens in part.
    pub(super) names: usize,
    /// The number of places in a repository, or in a place that the grant opens in part. Each place
    /// that exists is a mount.
    pub(super) places: usize,
    /// The number of components on the way of one link.
    pub(super) way: usize,
    /// The number of components on the ways of all links of a granted directory, and again of all
    /// links among its submodules and working trees: a tool may have made those, and must not use
    /// up the share of the others.
    pub(super) ways: usize,
}

impl Default for GuardBounds {
    fn default() -> Self {
        let (way, ways) = (LONGEST_WAY, MOST_OF_ALL_WAYS);
        Self { inner: 256, names: 65_536, places: 2_048, way, ways }
    }
}
