//! The lists of a tool's entry in the user's file, and the additions of a grant.
//!
//! Adding never removes anything: if a directory would have two accesses, the wider one stays. A
//! list that would contradict itself is refused. Writes nothing.

use std::path::{Path, PathBuf};

use super::decision::PolicyRequest;
use super::edit::{NewKey, NewValue};
use super::rule::{Located, PolicyEntry};
use super::secret_places::is_secret;
use super::widen::{self, WidenContext};
use super::written::{EntryPermissions, WrittenPath};
use super::{Access, AssetAccess, Authority, Net, ToolOrigin, standard};

/// The lists of an entry that a grant can extend, and the access to assets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntryLists {
    /// The directories and single files.
    pub fs: Vec<WrittenPath>,
    /// The peers.
    pub net: Net,
    /// The variables.
    pub env: Vec<String>,
    /// The directories before those of `PATH`.
    pub path: Vec<PathBuf>,
    /// The access to assets.
    pub assets: AssetAccess,
    /// The home of the user, whose secrets only a grant by name opens.
    pub(crate) home: Option<PathBuf>,
    /// The known places of secrets, with what their links lead to.
    pub(crate) secrets: Vec<PathBuf>,
}

/// A contradiction in a list `fs`: a directory and everything in it must have one access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The existing rule of the list.
    pub held: WrittenPath,
    /// The rule to be added.
    pub new: WrittenPath,
}

impl EntryLists {
    /// Returns the tool's present permissions: the lists of its entry in the user's file, and the
    /// profile's permissions for each key that the entry does not have.
    #[must_use]
    pub fn in_force(authority: &Authority, request: &PolicyRequest<'_>) -> Self {
        authority.entry_lists(request)
    }

    /// Returns the permissions that an entry gives the tool if a grant leaves these lists
    /// unchanged. It differs from [`in_force`](Self::in_force) for a user native tool whose entry
    /// does not name directories: the profile gives the workspace only to a tool without a grant.
    #[must_use]
    pub fn unchanged(authority: &Authority, request: &PolicyRequest<'_>) -> Self {
        let mut lists = Self::in_force(authority, request);
        let written = request.name.and_then(|name| authority.written(name));
        let names_dirs = written.is_some_and(|written| written.fs.is_some());
        if request.origin == ToolOrigin::User && !names_dirs {
            lists.fs = Vec::new();
        }
        lists
    }

    /// Returns the lists of an entry. `every` is the part of `[tools."*"]` that applies to the
    /// tool.
    pub(super) fn of_entry(
        entry: Option<&PolicyEntry>,
        every: Option<&PolicyEntry>,
        request: &PolicyRequest<'_>,
        around: WidenContext<'_>,
    ) -> Self {
        fn value<T: Clone + Default>(at: Option<&Located<T>>) -> T {
            at.map(|at| at.value.clone()).unwrap_or_default()
        }
        let of_profile = match (request.origin, request.name) {
            (ToolOrigin::System, Some(name)) => standard::assets(name),
            _ => AssetAccess::None,
        };
        let bound = every.and_then(|every| every.assets.as_ref()).map(|at| at.value);
        let of_profile = bound.map_or(of_profile, |bound| bound.min(of_profile));
        let assets = entry.and_then(|entry| entry.assets.as_ref()).map(|at| at.value);
        Self {
            fs: widen::directories(entry, every, request, around),
            net: value(entry.and_then(|entry| entry.net.as_ref())),
            env: value(entry.and_then(|entry| entry.env.as_ref())),
            path: value(entry.and_then(|entry| entry.path.as_ref())),
            assets: assets.unwrap_or(of_profile),
            home: around.home.map(ToOwned::to_owned),
            secrets: around.secrets.to_vec(),
        }
    }

    /// Adds a directory or a file. Returns the rule that already covers it, if there is one.
    ///
    /// # Errors
    ///
    /// Fails if another rule names a directory around it or a path inside it, and neither access
    /// can apply to both.
    pub fn add_dir(&mut self, new: WrittenPath) -> Result<Option<WrittenPath>, Box<Conflict>> {
        let same = self.fs.iter().position(|held| held.path == new.path);
        if let Some(held) = same.map(|at| &self.fs[at])
            && held.access >= new.access
        {
            return Ok(Some(held.clone()));
        }
        // Secrets in a granted directory need their own rule.
        let is_by_name = |path: &Path| is_secret(path, self.home.as_deref(), &self.secrets);
        let conflict =
            |held: &WrittenPath| Err(Box::new(Conflict { held: held.clone(), new: new.clone() }));
        let others = self.fs.iter().filter(|held| held.path != new.path);
        for outer in others.clone().filter(|held| new.path.starts_with(&held.path)) {
            if outer.access < new.access {
                return conflict(outer);
            }
            // A rule that allows writing protects and opens places of its own directory.
            let is_covered = new.access == Access::ReadOnly && !is_by_name(&new.path);
            if is_covered {
                return Ok(Some(outer.clone()));
            }
            if outer.access > new.access {
                return conflict(outer);
            }
        }
        for inner in others.filter(|held| held.path.starts_with(&new.path)) {
            let is_lost = inner.access < new.access && is_by_name(&inner.path);
            if inner.access > new.access || is_lost {
                return conflict(inner);
            }
        }
        let covered: Vec<PathBuf> = self
            .fs
            .iter()
            .filter(|held| held.path != new.path && held.path.starts_with(&new.path))
            .filter(|held| held.access == Access::ReadOnly && !is_by_name(&held.path))
            .map(|held| held.path.clone())
            .collect();
        match same {
            Some(at) => self.fs[at].access = new.access,
            None => self.fs.push(new),
        }
        self.fs.retain(|held| !covered.contains(&held.path));
        Ok(None)
    }

    /// Adds the peers of a list.
    pub fn add_net(&mut self, net: &Net) {
        self.net.any |= net.any;
        for peer in &net.peers {
            if !self.net.peers.contains(peer) {
                self.net.peers.push(peer.clone());
            }
        }
    }

    /// Adds a variable.
    pub fn add_variable(&mut self, name: &str) {
        if !self.env.iter().any(|own| own == name) {
            self.env.push(name.to_owned());
        }
    }

    /// Returns the keys that change an entry's lists from `before` to these lists.
    #[must_use]
    pub fn keys(&self, before: &Self) -> Vec<NewKey> {
        let mut keys: Vec<NewKey> = Vec::new();
        let mut add = |key: &str, words: Vec<String>| {
            keys.push((key.to_owned(), NewValue::List(words)));
        };
        if self.fs != before.fs {
            add("fs", self.fs.iter().map(WrittenPath::rule).collect());
        }
        if self.net != before.net {
            let any = self.net.any.then(|| "*".to_owned());
            let peers = self.net.peers.iter().map(ToString::to_string);
            add("net", any.into_iter().chain(peers).collect());
        }
        if self.env != before.env {
            add("env", self.env.clone());
        }
        if self.path != before.path {
            add("path", self.path.iter().map(|dir| dir.to_string_lossy().into_owned()).collect());
        }
        if self.assets != before.assets {
            keys.push(("assets".to_owned(), NewValue::Word(self.assets.as_str().to_owned())));
        }
        keys
    }
}

impl From<EntryPermissions> for EntryLists {
    /// Returns the lists that an entry names; the others are empty.
    fn from(written: EntryPermissions) -> Self {
        let EntryPermissions { fs, net, env, path, assets, .. } = written;
        Self {
            fs: fs.unwrap_or_default(),
            net: net.unwrap_or_default(),
            env: env.unwrap_or_default(),
            path: path.unwrap_or_default(),
            assets: assets.unwrap_or_default(),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn rule(text: &str) -> WrittenPath {
        let (access, written) = text.split_once(':').expect("an access");
        let access = if access == "rw" { Access::ReadWrite } else { Access::ReadOnly };
        let path = Path::new("/w").join(written.trim_start_matches('.'));
        WrittenPath { access, written: written.to_owned(), path }
    }

    fn lists(rules: &[&str]) -> EntryLists {
        let fs = rules.iter().map(|text| rule(text)).collect();
        EntryLists { fs, home: Some(PathBuf::from("/h")), ..EntryLists::default() }
    }

    fn rules(lists: &EntryLists) -> Vec<String> {
        lists.fs.iter().map(WrittenPath::rule).collect()
    }

    #[test]
    fn a_directory_is_added_and_the_wider_access_stays() {
        for (held, new, after) in [
            (&["rw:."][..], "ro:/data", &["rw:.", "ro:/data"][..]),
            (&["rw:."], "ro:.", &["rw:."]),
            (&["rw:."], "ro:/w/docs", &["rw:."]),
            (&["ro:."], "rw:.", &["rw:."]),
            (&["ro:/w/docs", "ro:/x"], "rw:.", &["ro:/x", "rw:."]),
            // The inner rule stays, because it protects the places directly in its own directory.
            (&["rw:/w/a"], "rw:.", &["rw:/w/a", "rw:."]),
            (&["rw:."], "rw:/w/.git/config", &["rw:.", "rw:/w/.git/config"]),
            // Secrets need a grant by name.
            (&["ro:/h"], "ro:/h/.ssh/config", &["ro:/h", "ro:/h/.ssh/config"]),
            (&["ro:/h/.ssh/config"], "ro:/h", &["ro:/h/.ssh/config", "ro:/h"]),
        ] {
            let mut lists = lists(held);
            let covering = lists.add_dir(rule(new)).unwrap_or_else(|_| panic!("{held:?} {new}"));
            assert_eq!(rules(&lists), after, "{held:?} and {new}");
            assert_eq!(covering.is_some(), held == after, "{held:?} and {new}");
            // Adding it again changes nothing.
            let before = lists.clone();
            lists.add_dir(rule(new)).expect("the same rule");
            assert_eq!(lists, before);
        }
    }

    #[test]
    fn a_rule_that_would_widen_another_directory_is_refused() {
        for (held, new) in [
            ("ro:.", "rw:/w/out"),
            ("rw:/w/out", "ro:."),
            ("rw:/h", "ro:/h/.ssh/config"),
            ("ro:/h/.ssh/config", "rw:/h"),
        ] {
            let mut lists = lists(&[held]);
            let conflict = lists.add_dir(rule(new)).expect_err("a conflict");
            assert_eq!((conflict.held, conflict.new), (rule(held), rule(new)));
            assert_eq!(rules(&lists), [held]);
        }
    }

    #[test]
    fn only_what_changes_becomes_a_key() {
        let before = lists(&["rw:."]);
        assert_eq!(before.keys(&before), []);
        let mut after = before.clone();
        after.add_net(&Net::parse(["a.example:443", "*"]).expect("a list"));
        after.add_net(&Net::parse(["a.example:443"]).expect("a list"));
        after.add_variable("A");
        after.add_variable("A");
        after.assets = AssetAccess::Read;
        let list =
            |words: &[&str]| NewValue::List(words.iter().map(|it| (*it).to_owned()).collect());
        assert_eq!(
            after.keys(&before),
            [
                ("net".to_owned(), list(&["*", "a.example:443"])),
                ("env".to_owned(), list(&["A"])),
                ("assets".to_owned(), NewValue::Word("read".to_owned())),
            ]
        );
        // An entry that would remove the profile's directories names them explicitly.
        let without = EntryLists { fs: Vec::new(), ..before.clone() };
        assert_eq!(before.keys(&without), [("fs".to_owned(), list(&["rw:."]))]);
    }
}
