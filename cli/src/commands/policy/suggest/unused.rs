//! The narrower grant, without the parts that no recorded call used.

use std::collections::BTreeSet;

use ikigai_host::host::Host;
use ikigai_host::policy::{Backend, Net};
use ikigai_host::registry::Tool;
use ikigai_protocol::Access;

use super::Suggestion;
use super::gather::{Gathered, Uses};
use crate::commands::policy::least::peers::AskedPeer;
use crate::commands::policy::least::proposal::{CurrentGrant, Proposed};
use crate::commands::policy::least::{ExistingEntry, PathEntry};

/// Returns the narrower grant of a tool with its basis; `None` for a tool without records.
pub(super) fn suggest(host: &Host, tool: &Tool, gathered: &Gathered) -> Option<Suggestion> {
    if gathered.calls == 0 {
        return None;
    }
    let standing = CurrentGrant::for_tool(host, tool);
    let entry = host.authority().written(tool.name()).unwrap_or_default();
    let mut notes = Vec::new();
    let files = KnownFiles::from_uses(tool.build.backend(), &gathered.uses);
    let proposed = if gathered.uses.is_empty() {
        notes.push("ikigai does not know what it used".to_owned());
        Proposed::default()
    } else {
        notes.push(format!(
            "based on {} of {} calls: another call may need what these did not use",
            gathered.uses.len(),
            gathered.calls
        ));
        narrower(&standing, &gathered.uses, files)
    };
    if files == KnownFiles::Yes && tool.build.backend() == Backend::Native {
        notes.push(format!(
            "its directories are based on {} calls: those in which ikigai could ask you, or that \
             were recorded",
            gathered.uses.iter().filter(|uses| uses.has_files()).count()
        ));
    }
    if files == KnownFiles::No {
        notes.push(
            "its directories stay: ikigai notes which of them a native tool uses only if it can \
             ask you, or in `ikigai policy record`"
                .to_owned(),
        );
    }
    if entry.env.is_some_and(|names| !names.is_empty()) {
        notes.push("its variables stay: ikigai cannot see which of them a tool reads".to_owned());
    }
    Some(Suggestion { proposed, toolchains: None, to_run: false, notes })
}

/// Tells whether the records show which files the calls used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KnownFiles {
    Yes,
    /// The records do not list files. A call without recorded files may still need some.
    No,
}

impl KnownFiles {
    /// Returns whether these uses show the files. The host opens and records the files of a
    /// component. For a native tool it records files only if it watches the call, but always the
    /// peers.
    fn from_uses(backend: Backend, uses: &[Uses]) -> Self {
        match backend {
            Backend::Native if !uses.iter().any(Uses::has_files) => Self::No,
            Backend::Native | Backend::Wasm | Backend::Mcp => Self::Yes,
        }
    }
}

/// Returns the grant without the directories and hosts that no call used. A directory becomes
/// read-only if every call that used it is known to have only read there.
fn narrower(standing: &CurrentGrant, uses: &[Uses], files: KnownFiles) -> Proposed {
    let entries: Vec<PathEntry> =
        standing.dirs.iter().filter_map(|kept| narrowed(kept, uses)).collect();
    let is_as_before = files == KnownFiles::No
        || entries.len() == standing.dirs.len()
            && entries.iter().zip(&standing.dirs).all(|(entry, kept)| entry.access == kept.access);
    let peers: BTreeSet<&AskedPeer> = uses.iter().flat_map(|uses| &uses.peers).collect();
    let any = standing.net.any.then(|| "*".to_owned());
    let all: Vec<String> =
        any.into_iter().chain(standing.net.peers.iter().map(ToString::to_string)).collect();
    let is_used = |entry: &&String| {
        // Each entry is from a list that was parsed before.
        let net = Net::parse([entry.as_str()]).unwrap_or_default();
        peers.iter().any(|peer| peer.is_in(&net))
    };
    let left: Vec<String> = all.iter().filter(is_used).cloned().collect();
    Proposed {
        fs: (!is_as_before).then_some(entries),
        net: (left.len() != all.len()).then_some(left),
        replaces: true,
        ..Proposed::default()
    }
}

/// Returns the entry with the access that calls used; `None` if no call used it.
fn narrowed(kept: &ExistingEntry, uses: &[Uses]) -> Option<PathEntry> {
    let of_entry = |uses: &&Uses| {
        uses.dirs.iter().any(|dir| dir.starts_with(&kept.path))
            || uses.files.iter().any(|(_, file)| file.starts_with(&kept.path))
    };
    let mut users = uses.iter().filter(of_entry).peekable();
    users.peek()?;
    let only_read = users.all(|uses| {
        // Only recordings report the files of a call, and they report all of them.
        let mut files =
            uses.files.iter().filter(|(_, file)| file.starts_with(&kept.path)).peekable();
        files.peek().is_some() && files.all(|(access, _)| *access == Access::ReadOnly)
    });
    let access = if only_read { Access::ReadOnly } else { kept.access };
    Some(PathEntry { access, path: kept.path.clone(), written: kept.written.clone() })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn kept(access: Access, path: &str) -> ExistingEntry {
        ExistingEntry { access, written: path.to_owned(), path: path.into() }
    }

    fn standing() -> CurrentGrant {
        CurrentGrant {
            dirs: vec![
                kept(Access::ReadOnly, "/docs"),
                kept(Access::ReadWrite, "/out"),
                kept(Access::ReadWrite, "/never"),
            ],
            net: Net::parse(["a.example:443", "b.example:*", "10.0.0.0/8:5432"]).expect("a list"),
            ..CurrentGrant::default()
        }
    }

    fn uses(dirs: &[&str], files: &[(Access, &str)], peers: &[(&str, u16)]) -> Uses {
        let peer =
            |(host, port): &(&str, u16)| AskedPeer { host: (*host).to_owned(), port: Some(*port) };
        Uses {
            dirs: dirs.iter().map(PathBuf::from).collect(),
            files: files.iter().map(|(access, path)| (*access, PathBuf::from(path))).collect(),
            peers: peers.iter().map(peer).collect(),
        }
    }

    fn rules(proposed: &Proposed) -> Option<Vec<String>> {
        proposed.fs.as_ref().map(|fs| fs.iter().map(PathEntry::rule).collect())
    }

    #[test]
    fn what_no_call_used_is_dropped() {
        let calls = [uses(&["/docs"], &[], &[("a.example", 443)]), uses(&["/out"], &[], &[])];
        let proposed = narrower(&standing(), &calls, KnownFiles::Yes);
        assert_eq!(rules(&proposed).expect("changed"), ["ro:/docs", "rw:/out"]);
        assert_eq!(proposed.net.expect("changed"), ["a.example:443"]);
        let all = uses(
            &["/docs", "/out", "/never"],
            &[],
            &[("a.example", 443), ("b.example", 1), ("10.1.1.1", 5432)],
        );
        assert!(narrower(&standing(), &[all], KnownFiles::Yes).is_empty());
    }

    #[test]
    fn the_directories_of_a_native_tool_stay_where_no_record_can_tell_of_its_files() {
        let peers_alone = [uses(&[], &[], &[("a.example", 443)])];
        let files = KnownFiles::from_uses(Backend::Native, &peers_alone);
        let proposed = narrower(&standing(), &peers_alone, files);
        assert_eq!(rules(&proposed), None);
        assert_eq!(proposed.net.expect("changed"), ["a.example:443"]);
        // A component that used no files needs no files.
        let files = KnownFiles::from_uses(Backend::Wasm, &peers_alone);
        assert_eq!(rules(&narrower(&standing(), &peers_alone, files)), Some(Vec::new()));
        let recorded = [peers_alone[0].clone(), uses(&["/docs"], &[], &[])];
        let files = KnownFiles::from_uses(Backend::Native, &recorded);
        assert_eq!(rules(&narrower(&standing(), &recorded, files)).expect("changed"), ["ro:/docs"]);
    }

    #[test]
    fn writing_is_taken_away_only_where_the_records_can_tell() {
        let read = (Access::ReadOnly, "/out/a");
        let can_tell = uses(&["/docs", "/out", "/never"], &[read], &[]);
        let cannot = uses(&["/out"], &[], &[]);
        let writes = uses(&["/out"], &[read, (Access::ReadWrite, "/out/b")], &[]);
        let of = |calls: &[Uses]| rules(&narrower(&standing(), calls, KnownFiles::Yes));
        let all = |out: &str| vec!["ro:/docs".to_owned(), out.to_owned(), "rw:/never".to_owned()];
        assert_eq!(of(std::slice::from_ref(&can_tell)), Some(all("ro:/out")));
        assert_eq!(of(&[can_tell.clone(), cannot]), None);
        assert_eq!(of(&[can_tell, writes]), None);
    }
}
