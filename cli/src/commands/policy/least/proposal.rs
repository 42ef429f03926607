//! The proposal for an entry: the keys that change, the command that writes them, and notes for the
//! user.

use std::collections::BTreeSet;
use std::path::PathBuf;

use ikigai_host::host::{CallTarget, Host, request};
use ikigai_host::policy::{
    AssetAccess, EntryLists, Net, NewKey, NewValue, Permissions, WrittenPath, path_in_policy,
};
use ikigai_host::registry::Tool;
use ikigai_protocol::{Access, is_invisible};
use serde_json::{Value, json};

use super::look::ToolSurroundings;
use super::peers::{self, AskedPeer, Peers};
use super::touch::ToolAccess;
use super::{ExistingEntry, Folded, OmittedPath, PathEntry, fold, one_line};
use crate::commands::policy::grant::contents_key;
use crate::remedy::policy::command;

/// The most paths that are listed as left out.
const MOST_LISTED: usize = 20;

/// The accesses that calls of a tool used or were refused.
#[derive(Clone, Debug, Default)]
pub(crate) struct ObservedAccess {
    pub(crate) paths: BTreeSet<(Access, PathBuf)>,
    pub(crate) peers: BTreeSet<AskedPeer>,
    pub(crate) assets: AssetAccess,
    /// True if the policy denied a call as a whole.
    pub(crate) run: bool,
    /// True if the host did not record all of it.
    pub(crate) cut: bool,
}

impl ObservedAccess {
    /// Adds one access.
    pub(crate) fn add(&mut self, touch: &ToolAccess) {
        match touch {
            ToolAccess::Run => self.run = true,
            ToolAccess::Path(access, path) => {
                self.paths.insert((*access, path.clone()));
            }
            ToolAccess::Peer(peer) => {
                self.peers.insert(peer.clone());
            }
            ToolAccess::Assets(access) => self.assets = self.assets.max(*access),
            ToolAccess::Other(_) => {}
        }
    }
}

/// The present grant of a tool, as the user's file has it.
#[derive(Clone, Debug, Default)]
pub(crate) struct CurrentGrant {
    pub(crate) dirs: Vec<ExistingEntry>,
    pub(crate) net: Net,
    pub(crate) assets: AssetAccess,
}

impl CurrentGrant {
    /// Returns the grants in a tool's entry, and the built-in rules where the entry has no list.
    pub(crate) fn for_tool(host: &Host, tool: &Tool) -> Self {
        let entry = host.authority().written(tool.name()).unwrap_or_default();
        let decision = host.decide(tool.into()).ok();
        let decision = decision.filter(|it| !it.is_unconfined(tool.build.backend()));
        let workspace = host.authority().workspace();
        let dirs = match entry.fs {
            Some(paths) => paths
                .into_iter()
                .map(|rule| ExistingEntry {
                    access: rule.access,
                    written: rule.written,
                    path: rule.path.canonicalize().unwrap_or(rule.path),
                })
                .collect(),
            None => {
                let dirs = decision.iter().flat_map(|decision| &decision.grant.dirs);
                let kept = dirs.filter_map(|dir| {
                    let written = path_in_policy(&dir.path, workspace)?;
                    Some(ExistingEntry { access: dir.access, written, path: dir.path.clone() })
                });
                kept.collect()
            }
        };
        let granted = decision.map(|decision| decision.grant);
        let of_profile = granted.unwrap_or_default();
        Self {
            dirs,
            net: entry.net.unwrap_or(of_profile.net),
            assets: entry.assets.unwrap_or(of_profile.assets),
        }
    }
}

/// A change of a tool's entry. A key that does not change is `None`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Proposed {
    /// The whole list `fs`.
    pub(crate) fs: Option<Vec<PathEntry>>,
    /// The whole list `net`.
    pub(crate) net: Option<Vec<String>>,
    pub(crate) assets: Option<AssetAccess>,
    /// Limits, as keys of the entry.
    pub(crate) limits: Vec<NewKey>,
    /// The paths that are not proposed.
    pub(crate) left: Vec<OmittedPath>,
    /// The hosts that are not proposed.
    pub(crate) left_peers: Vec<AskedPeer>,
    /// New entries of `net` that are addresses of this machine or of a private network.
    pub(crate) private: Vec<String>,
    /// The number of paths that calls looked for and that do not exist.
    pub(crate) missing: usize,
    /// True if calls accessed more than was recorded or examined.
    pub(crate) cut: bool,
    /// The present permissions of the tool. A command that adds to them does not name them.
    pub(crate) has: Permissions,
    /// True if the lists replace the present ones.
    pub(crate) replaces: bool,
}

impl Proposed {
    /// Returns the change that covers the accesses of calls, in addition to the present grant.
    pub(crate) fn new(
        reach: &ObservedAccess,
        standing: &CurrentGrant,
        around: &ToolSurroundings,
    ) -> Self {
        let paths = reach.paths.iter().map(|(access, path)| (*access, path.as_path()));
        let (seen, beyond) = around.look_at(paths);
        let Folded { entries, left, missing } = fold::fold(&seen, &standing.dirs, &around.ground());
        let Peers { entries: net, left: left_peers, private } =
            peers::fold(&reach.peers, &standing.net);
        let is_as_before = entries.len() == standing.dirs.len()
            && entries
                .iter()
                .zip(&standing.dirs)
                .all(|(entry, kept)| entry.access == kept.access && entry.written == kept.written);
        let had = standing.net.peers.len() + usize::from(standing.net.any);
        Self {
            fs: (!is_as_before).then_some(entries),
            net: (net.len() != had).then_some(net),
            assets: (reach.assets > standing.assets).then_some(reach.assets),
            limits: Vec::new(),
            left,
            left_peers,
            private,
            missing,
            cut: reach.cut || beyond > 0,
            has: Permissions {
                dirs: standing.dirs.iter().map(|it| (it.access, it.written.clone())).collect(),
                net: standing.net.clone(),
                ..Permissions::default()
            },
            replaces: false,
        }
    }

    /// Returns whether no key changes.
    pub(crate) fn is_empty(&self) -> bool {
        let Self { fs, net, assets, limits, .. } = self;
        fs.is_none() && net.is_none() && assets.is_none() && limits.is_empty()
    }

    /// Returns the keys for the user's file, bound to the contents of the tool's files.
    pub(crate) fn keys(&self, host: &Host, tool: &Tool) -> Vec<NewKey> {
        let mut keys: Vec<NewKey> = contents_key(host, tool).into_iter().collect();
        let mut add = |key: &str, value| keys.push((key.to_owned(), value));
        if let Some(fs) = &self.fs {
            add("fs", NewValue::List(fs.iter().map(PathEntry::rule).collect()));
        } else if !self.replaces {
            let contents = [tool.build.digest];
            let request = request(CallTarget::from(tool), &contents);
            let has = EntryLists::in_force(host.authority(), &request).fs;
            // An entry without directories would take away those of the profile.
            if has != EntryLists::unchanged(host.authority(), &request).fs {
                add("fs", NewValue::List(has.iter().map(WrittenPath::rule).collect()));
            }
        }
        if let Some(net) = &self.net {
            add("net", NewValue::List(net.clone()));
        }
        if let Some(assets) = self.assets {
            add("assets", NewValue::Word(assets.as_str().to_owned()));
        }
        keys.extend(self.limits.iter().cloned());
        keys
    }

    /// Returns the command that makes the change, on one line. Returns `None` if a list becomes
    /// empty, since no flag does that.
    pub(crate) fn command(&self, tool: &str) -> Option<String> {
        let becomes_empty = self.fs.as_ref().is_some_and(Vec::is_empty)
            || self.net.as_ref().is_some_and(Vec::is_empty);
        if becomes_empty {
            return None;
        }
        let is_named = |dir: &(Access, String)| self.replaces || !self.has.dirs.contains(dir);
        let dirs = self.fs.iter().flatten().map(|entry| (entry.access, entry.written.clone()));
        // Each entry was parsed before.
        let mut net = Net::parse(self.net.iter().flatten().map(String::as_str)).unwrap_or_default();
        if !self.replaces {
            net.any &= !self.has.net.any;
            net.peers.retain(|peer| !self.has.net.peers.contains(peer));
        }
        let permissions = Permissions {
            dirs: dirs.filter(is_named).collect(),
            net,
            env: Vec::new(),
            assets: self.assets.unwrap_or_default(),
        };
        let mut line = command(tool, &permissions);
        for (key, value) in &self.limits {
            let name = key.trim_start_matches("limits.");
            match value {
                NewValue::Word(value) => line += &format!(" --limit {name}={value}"),
                NewValue::Number(value) => line += &format!(" --limit {name}={value}"),
                NewValue::List(_) | NewValue::Absent => {}
            }
        }
        if self.replaces {
            line += " --replace";
        }
        Some(one_line(&line))
    }

    /// Returns whether the printed command has escaped characters, so that it cannot be used as it
    /// is.
    pub(crate) fn is_written_out(&self) -> bool {
        self.fs.iter().flatten().any(|entry| entry.written.contains(is_invisible))
    }

    /// Returns the notes for the user, one per line.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for left in self.left.iter().take(MOST_LISTED) {
            notes.push(format!("not proposed: {}: {}", left.what(), left.why));
        }
        match self.left.len().saturating_sub(MOST_LISTED) {
            0 => {}
            more => notes.push(format!("not proposed: {more} more paths; --json has them")),
        }
        for peer in self.left_peers.iter().take(MOST_LISTED) {
            let peer = one_line(&peer.written());
            notes.push(format!(
                "not proposed: connect `{peer}`: no policy can name it, or there are too many"
            ));
        }
        for address in &self.private {
            notes.push(format!(
                "`{address}` is an address of this machine or of your own network, not of the \
                 internet"
            ));
        }
        if self.net.iter().flatten().any(|entry| entry == "*") {
            notes.push("`net = [\"*\"]` stays: it is every public host".to_owned());
        }
        if self.cut {
            notes.push("not every access was recorded: grant this, and look again".to_owned());
        }
        if self.is_written_out() {
            notes.push(
                "a path has characters that are escaped here: write it in the policy file yourself"
                    .to_owned(),
            );
        }
        notes
    }

    /// Returns the change as JSON.
    pub(crate) fn as_json(&self, tool: &str) -> Value {
        let rules = |fs: &Vec<PathEntry>| fs.iter().map(PathEntry::rule).collect::<Vec<_>>();
        let limits = self.limits.iter().map(|(key, value)| {
            let value = match value {
                NewValue::Number(number) => json!(number),
                NewValue::Word(word) => json!(word),
                NewValue::List(_) | NewValue::Absent => Value::Null,
            };
            (key.trim_start_matches("limits.").to_owned(), value)
        });
        json!({
            "fs": self.fs.as_ref().map(rules),
            "net": self.net,
            "assets": self.assets.map(AssetAccess::as_str),
            "limits": limits.collect::<serde_json::Map<_, _>>(),
            "command": self.command(tool),
        })
    }

    /// Returns the omitted paths and hosts as JSON.
    pub(crate) fn left_as_json(&self) -> Value {
        let paths = self.left.iter().map(|left| {
            json!({
                "access": left.access.as_str(),
                "path": left.path.to_string_lossy(),
                "reason": left.why.to_string(),
            })
        });
        json!({
            "paths": paths.collect::<Vec<_>>(),
            "peers": self.left_peers.iter().map(AskedPeer::written).collect::<Vec<_>>(),
            "missing_paths": self.missing,
            "complete": !self.cut,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(access: Access, written: &str) -> PathEntry {
        PathEntry { access, path: written.into(), written: written.to_owned() }
    }

    #[test]
    fn the_command_names_what_the_tool_does_not_have() {
        let proposed = Proposed {
            fs: Some(vec![entry(Access::ReadWrite, "out"), entry(Access::ReadOnly, "/it's here")]),
            net: Some(vec!["api.example.com:443".to_owned()]),
            assets: Some(AssetAccess::Read),
            limits: vec![
                ("limits.memory".to_owned(), NewValue::Word("64MiB".to_owned())),
                ("limits.fuel".to_owned(), NewValue::Number(5)),
            ],
            ..Proposed::default()
        };
        let expected = "ikigai policy grant tool --write out --read '/it'\\''s here' --net \
                        api.example.com:443 --assets read --limit memory=64MiB --limit fuel=5";
        assert_eq!(proposed.command("tool").as_deref(), Some(expected));
        assert!(!proposed.is_empty() && !proposed.is_written_out());
        let more = Proposed {
            fs: Some(vec![entry(Access::ReadOnly, "docs"), entry(Access::ReadOnly, "src")]),
            net: Some(vec!["a.example:1".to_owned(), "b.example:2".to_owned()]),
            has: Permissions {
                dirs: vec![(Access::ReadOnly, "docs".to_owned())],
                net: Net::parse(["a.example:1"]).expect("a list"),
                ..Permissions::default()
            },
            ..Proposed::default()
        };
        let added = "ikigai policy grant tool --read src --net b.example:2";
        assert_eq!(more.command("tool").as_deref(), Some(added));
        let whole = "ikigai policy grant tool --read docs --read src --net a.example:1 --net \
                     b.example:2 --replace";
        let narrower = Proposed { replaces: true, ..more };
        assert_eq!(narrower.command("tool").as_deref(), Some(whole));
        let bare = Proposed::default().command("tool");
        assert_eq!(bare.as_deref(), Some("ikigai policy grant tool"));
        // No flag empties a list.
        let none = Proposed { fs: Some(Vec::new()), ..Proposed::default() };
        assert_eq!(none.command("tool"), None);
    }

    #[test]
    fn a_name_that_deceives_is_written_out() {
        let fs = vec![entry(Access::ReadOnly, "/data/\u{202e}txt\u{1b}[2J")];
        let proposed = Proposed { fs: Some(fs), ..Proposed::default() };
        let command = proposed.command("tool").expect("a command");
        assert!(!command.contains(['\u{202e}', '\u{1b}']), "{command}");
        assert!(command.contains("\\u{202e}") && proposed.is_written_out(), "{command}");
        let notes = proposed.notes().join("\n");
        assert!(notes.contains("escaped here"), "{notes}");
    }
}
