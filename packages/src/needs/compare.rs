//! The comparison of the needs of two versions of a tool.

use super::{AssetNeed, Need, Needs};

impl Needs {
    /// Returns the needs that ask for more than `old` does. If the list is empty, an update may
    /// keep its grant after one confirmation by the user. Reasons are ignored.
    ///
    /// In doubt a need counts as asking for more: networks are not checked for containment, and a
    /// limit that `old` left to the policy counts as raised.
    #[must_use]
    pub fn beyond<'a>(&'a self, old: &Self) -> Vec<Need<'a>> {
        self.iter().filter(|need| !old.covers(*need)).collect()
    }

    /// Returns whether these needs ask for more than `old` does.
    #[must_use]
    pub fn grown(&self, old: &Self) -> bool {
        !self.beyond(old).is_empty()
    }

    /// Returns whether a grant of all these needs includes `need`.
    fn covers(&self, need: Need<'_>) -> bool {
        match need {
            Need::Net(new) => self.net.iter().any(|old| old.peer.covers(&new.peer)),
            Need::Env(new) => self.env.iter().any(|old| old.name == new.name),
            Need::Fs(new) => self
                .fs
                .iter()
                .any(|old| new.dir.is_in(&old.dir) && new.dir.access() <= old.dir.access()),
            Need::Assets(new) => new <= self.assets.unwrap_or(AssetNeed::None),
            Need::Limit(name, new) => {
                self.limits.get(&name).is_some_and(|old| new.value <= old.value)
            }
        }
    }
}
