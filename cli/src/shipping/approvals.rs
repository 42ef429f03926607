//! The tools that this user approved, with which the signer of a new file is compared.
//!
//! A workspace's lock is not an approval: everybody who can write to the workspace can write it.

use ikigai_supply::{Lock, LockedTool};

use super::staging::Source;

/// The locks that only this user writes. An earlier one counts before a later one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Approvals(Vec<Lock>);

impl Approvals {
    /// Returns the approvals in these locks.
    pub(super) fn new(locks: Vec<Lock>) -> Self {
        Self(locks)
    }

    /// Returns the approvals in the user's own lock.
    pub(crate) fn of_user(lock: Lock) -> Self {
        Self(vec![lock])
    }

    /// Returns the approved tool whose signer a file must have: the tool of its name, or otherwise the tool
    /// that came from its own reference. The path of a layout does not count, because a layout has many tools.
    pub(crate) fn find<'a>(
        &'a self,
        name: &'a str,
        source: &Source,
    ) -> Option<(&'a str, &'a LockedTool)> {
        let by_name = self.0.iter().find_map(|lock| Some((name, lock.get(name)?)));
        by_name.or_else(|| {
            let reference = source.reference.as_deref()?;
            self.0.iter().find_map(|lock| lock.of_source(reference))
        })
    }
}
