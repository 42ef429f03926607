//! The comparison of the needs of two versions of a tool.

use super::{AssetAccess, Need, Needs};

impl Needs {
    /// Returns the needs that ask for more than `old` does. An update without any may keep its
    /// grant with one word of a person; reasons do not matter here.
    ///
    /// In doubt a need asks for more: a network is not looked for in a larger one, and a limit that
    /// `old` left to the policy counts as raised.
    #[must_use]
    pub fn beyond<'a>(&'a self, old: &Self) -> Vec<Need<'a>> {
        self.iter().filter(|need| !old.covers(*need)).collect()
    }

    /// Returns whether these needs ask for more than `old` does.
    #[must_use]
    pub fn grown(&self, old: &Self) -> bool {
        !self.beyond(old).is_empty()
    }

    /// Returns whether a grant of all these needs grants `need`.
    fn covers(&self, need: Need<'_>) -> bool {
        match need {
            Need::Net(new) => self.net.iter().any(|old| old.peer.covers(&new.peer)),
            Need::Env(new) => self.env.iter().any(|old| old.name == new.name),
            Need::Fs(new) => self
                .fs
                .iter()
                .any(|old| new.dir.is_in(&old.dir) && new.dir.access() <= old.dir.access()),
            Need::Assets(new) => new <= self.assets.unwrap_or(AssetAccess::None),
            Need::Limit(name, new) => {
                self.limits.get(&name).is_some_and(|old| new.value <= old.value)
            }
        }
    }
}
