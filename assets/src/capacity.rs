//! The rule that bounds the bytes of all assets of a store, and the message for a change that
//! breaks it.
//!
//! Arithmetic only, as in `budget`.

use std::fmt;

/// The bytes that the assets of a store may have together, pinned or not. Assets below
/// `outputs/` and replaced versions do not count; they have separate bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity(pub u64);

/// The bytes that count for each asset in addition to its content: its row, its path, its
/// entries in indexes. Without them, empty assets could fill a disk.
pub(crate) const OVERHEAD: u64 = 1024;

impl Default for Capacity {
    /// 1 GiB: some thousand budgets.
    fn default() -> Self {
        Self(1 << 30)
    }
}

/// The refusal of a change that would exceed the capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overfull {
    /// The bytes of all other assets.
    pub others: u64,
    /// The capacity.
    pub capacity: Capacity,
    /// The bytes that would count for the asset.
    pub wanted: u64,
}

impl Capacity {
    /// Checks that an asset of `size` bytes fits next to the others, which have `others` bytes.
    pub(crate) fn admits(self, size: u64, others: u64) -> Result<(), Overfull> {
        let wanted = size.saturating_add(OVERHEAD);
        match others.saturating_add(wanted) <= self.0 {
            true => Ok(()),
            false => Err(Overfull { others, capacity: self, wanted }),
        }
    }
}

/// Formats bytes for display: whole KiB, from 10 MiB on whole MiB.
fn format_bytes(bytes: u64) -> String {
    match bytes >> 20 {
        0..10 => format!("{} KiB", bytes.div_ceil(1 << 10)),
        mebibytes => format!("{mebibytes} MiB"),
    }
}

impl fmt::Display for Overfull {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [others, capacity, wanted] =
            [self.others, self.capacity.0, self.wanted].map(format_bytes);
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
        let capacity = Capacity(10 * OVERHEAD);
        assert_eq!(capacity.admits(0, 9 * OVERHEAD), Ok(()));
        assert_eq!(capacity.admits(OVERHEAD, 8 * OVERHEAD), Ok(()));
        let refused = capacity.admits(1, 9 * OVERHEAD).expect_err("no room");
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
