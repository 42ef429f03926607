//! The rule that keeps all assets of a store within what its disk can bear, and the words
//! in which a model is told that there is no room.
//!
//! Arithmetic only, as in `budget`.

use std::fmt;

/// The bytes that the assets of a store may come to, pinned or not. Those below `outputs/`
/// and what was replaced are kept in bounds of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity(pub u64);

/// The room that an asset takes beside its content, in bytes: its row, its name, its place in the
/// indexes. Without it, empty assets would fill a disk.
pub(crate) const EACH: u64 = 1024;

impl Default for Capacity {
    /// 1 GiB: some thousand budgets.
    fn default() -> Self {
        Self(1 << 30)
    }
}

/// A capacity that a change would have exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overfull {
    /// The sum of all other assets, in bytes.
    pub others: u64,
    /// The capacity.
    pub capacity: Capacity,
    /// The size that the asset would have, in bytes.
    pub wanted: u64,
}

impl Capacity {
    /// Checks that an asset of `size` bytes fits beside `others`, which have so many bytes
    /// together.
    pub(crate) fn admits(self, size: u64, others: u64) -> Result<(), Overfull> {
        let wanted = size.saturating_add(EACH);
        match others.saturating_add(wanted) <= self.0 {
            true => Ok(()),
            false => Err(Overfull { others, capacity: self, wanted }),
        }
    }
}

/// Bytes for a person: whole KiB, or MiB of more than a few.
fn shown(bytes: u64) -> String {
    match bytes >> 20 {
        0..10 => format!("{} KiB", bytes.div_ceil(1 << 10)),
        mebibytes => format!("{mebibytes} MiB"),
    }
}

impl fmt::Display for Overfull {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [others, capacity, wanted] = [self.others, self.capacity.0, self.wanted].map(shown);
        write!(
            out,
            "No room for this asset: the others take {others} of {capacity}, and it would \
             take {wanted}. Remove or shorten assets to make room."
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_full_is_within() {
        let capacity = Capacity(10 * EACH);
        assert_eq!(capacity.admits(0, 9 * EACH), Ok(()));
        assert_eq!(capacity.admits(EACH, 8 * EACH), Ok(()));
        let refused = capacity.admits(1, 9 * EACH).expect_err("no room");
        assert_eq!(
            refused.to_string(),
            "No room for this asset: the others take 9 KiB of 10 KiB, and it would take \
             2 KiB. Remove or shorten assets to make room."
        );
        assert!(capacity.admits(u64::MAX, u64::MAX).is_err());
        let refused = Capacity::default().admits(4 << 20, 1 << 30).expect_err("no room");
        assert!(refused.to_string().contains("1024 MiB of 1024 MiB"), "{refused}");
    }
}
