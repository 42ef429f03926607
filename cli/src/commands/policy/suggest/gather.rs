//! The records of one tool in the audit log: its refusals and its uses.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use ikigai_host::audit::Record;
use ikigai_host::policy::{AssetAccess, RequestedAccess};
use ikigai_host::registry::Tool;
use ikigai_protocol::{Access, EnvelopeCode};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::commands::policy::grant::contents;
use crate::commands::policy::least::peers::AskedPeer;
use crate::commands::policy::least::proposal::ObservedAccess;
use crate::commands::policy::least::recorded::GrantUse;
use crate::commands::policy::least::touch::ToolAccess;

/// The most distinct refusals of one tool that are examined. A tool chooses what it tries to use.
const MOST: usize = 20_000;

/// The number of refusals that the log keeps for each call.
const KEPT: usize = 64;

/// The number of calls in which an access was refused, and the time of the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) calls: u64,
    pub(super) last: Timestamp,
}

/// The uses of one call.
#[derive(Clone, Debug, Default)]
pub(super) struct Uses {
    pub(super) dirs: BTreeSet<PathBuf>,
    /// Files, which only recordings report.
    pub(super) files: BTreeSet<(Access, PathBuf)>,
    pub(super) peers: BTreeSet<AskedPeer>,
}

impl Uses {
    /// Returns whether the record lists files or directories.
    pub(super) fn has_files(&self) -> bool {
        !self.dirs.is_empty() || !self.files.is_empty()
    }
}

/// The records of a tool.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// The calls with its present contents.
    pub(super) calls: u64,
    /// The calls with other contents, which are ignored.
    pub(super) of_other_contents: u64,
    pub(super) refused: BTreeMap<ToolAccess, Tally>,
    pub(super) reach: ObservedAccess,
    /// The other workspaces in which a path was refused that lies there. It is proposed there.
    pub(super) elsewhere: BTreeSet<String>,
    /// The uses of each call that recorded them.
    pub(super) uses: Vec<Uses>,
}

impl Gathered {
    pub(super) fn refused_as_json(&self) -> Vec<Value> {
        let one = |(touch, tally): (&ToolAccess, &Tally)| {
            let mut value = touch.as_json();
            value["what"] = json!(touch.in_words());
            value["calls"] = json!(tally.calls);
            value["last"] = json!(tally.last.to_string());
            value
        };
        self.refused.iter().map(one).collect()
    }
}

/// Adds one record of the tool, for a proposal in a workspace.
pub(super) fn gather(gathered: &mut Gathered, tool: &Tool, workspace: &Path, record: &Record) {
    if record.installed.is_some() {
        return;
    }
    let Some(program) = &record.program else { return };
    if !contents(tool).contains(&program.digest) {
        gathered.of_other_contents += 1;
        return;
    }
    gathered.calls += 1;
    let (found, is_cut) = refusals(record);
    gathered.reach.cut |= is_cut;
    for touch in found {
        let is_known = gathered.refused.contains_key(&touch);
        if !is_known && gathered.refused.len() >= MOST {
            gathered.reach.cut = true;
            continue;
        }
        if is_of_another_workspace(&touch, workspace, record) {
            gathered.elsewhere.insert(record.workspace.clone());
        } else {
            gathered.reach.add(&touch);
        }
        let tally = gathered.refused.entry(touch);
        let tally = tally.or_insert(Tally { calls: 0, last: record.time });
        tally.calls += 1;
        tally.last = tally.last.max(record.time);
    }
    gathered.uses.extend(uses(record));
}

/// Returns whether a path lies in the workspace of the call, and not in this one.
fn is_of_another_workspace(touch: &ToolAccess, workspace: &Path, record: &Record) -> bool {
    let ToolAccess::Path(_, path) = touch else { return false };
    let is_known = !record.workspace.is_empty();
    is_known && path.starts_with(&record.workspace) && !path.starts_with(workspace)
}

/// Returns the distinct refusals of the call, and true if the record does not have all of them.
pub(super) fn refusals(record: &Record) -> (BTreeSet<ToolAccess>, bool) {
    let mut found: BTreeSet<ToolAccess> = record.reached.iter().map(ToolAccess::from).collect();
    // A refused lookup is in both lists. The entry in `reached` says what would allow it.
    let is_known = |text: &&String| match text.strip_prefix("net ") {
        Some(name) => record
            .reached
            .iter()
            .any(|it| matches!(it, RequestedAccess::Host { host } if host == name)),
        None => false,
    };
    let texts = record.denied.iter().filter(|text| !is_known(text));
    found.extend(texts.flat_map(|text| denied(text)));
    // Older records do not say that the policy denied the call, but they have no decision.
    let was_denied = record.outcome == EnvelopeCode::PermissionDenied.as_str()
        && record.grant.is_none()
        && record.exit_code.is_none();
    if was_denied {
        found.insert(ToolAccess::Run);
    }
    // The count includes repetitions, so it shows nothing on its own.
    (found, record.reached_count.is_some() && record.reached.len() >= KEPT)
}

/// Returns the accesses that a text of the field `denied` describes.
fn denied(text: &str) -> Vec<ToolAccess> {
    let other = || vec![ToolAccess::Other(text.to_owned())];
    if let Some(assets) = text.strip_prefix("assets ") {
        return match assets.split(' ').next() {
            Some("read" | "list") => vec![ToolAccess::Assets(AssetAccess::Read)],
            Some("write") => vec![ToolAccess::Assets(AssetAccess::Write)],
            _ => other(),
        };
    }
    let Some(peer) = text.strip_prefix("net ") else { return other() };
    // `NAME:PORT (ADDRESS)`: the name is granted, but leads to an address that needs a grant as
    // well.
    let (peer, address) = match peer.split_once(" (") {
        Some((peer, rest)) => (peer, rest.strip_suffix(')')),
        None => (peer, None),
    };
    let Some(peer) = parse_peer(peer) else { return other() };
    let address = address.map(|ip| AskedPeer { host: ip.to_owned(), port: peer.port });
    [Some(peer), address].into_iter().flatten().map(ToolAccess::Peer).collect()
}

/// Returns a peer of the form `HOST:PORT` or `HOST:*`; nothing for a name that was only looked up,
/// and for other actions.
fn parse_peer(text: &str) -> Option<AskedPeer> {
    let (host, port) = text.rsplit_once(':')?;
    let is_one = !host.is_empty() && !host.contains(char::is_whitespace);
    // A server that could not look the name up did not say which port it meant.
    let port = if port == "*" { None } else { Some(port.parse().ok()?) };
    is_one.then(|| AskedPeer { host: host.trim_matches(['[', ']']).to_owned(), port })
}

/// Returns the uses of a call, if they are known.
fn uses(record: &Record) -> Option<Uses> {
    let mut uses = Uses::default();
    for it in record.used.iter().map(GrantUse::from) {
        match it {
            GrantUse::Dir(path) => {
                uses.dirs.insert(path);
            }
            GrantUse::File(access, path) => {
                uses.files.insert((access, path));
            }
            GrantUse::Peer(peer) => {
                uses.peers.insert(peer);
            }
        }
    }
    (!record.used.is_empty()).then_some(uses)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(host: &str, port: u16) -> ToolAccess {
        ToolAccess::Peer(AskedPeer { host: host.to_owned(), port: Some(port) })
    }

    #[test]
    fn the_texts_of_refusals_are_understood() {
        assert_eq!(denied("net api.example.com:443"), [peer("api.example.com", 443)]);
        assert_eq!(denied("net [::1]:80"), [peer("::1", 80)]);
        let every_port = AskedPeer { host: "api.example.com".to_owned(), port: None };
        assert_eq!(denied("net api.example.com:*"), [ToolAccess::Peer(every_port)]);
        assert_eq!(
            denied("net db.internal:5432 (10.1.2.3)"),
            [peer("db.internal", 5432), peer("10.1.2.3", 5432)]
        );
        assert_eq!(denied("assets read blocks/a.md"), [ToolAccess::Assets(AssetAccess::Read)]);
        assert_eq!(denied("assets write a"), [ToolAccess::Assets(AssetAccess::Write)]);
        for text in
            ["net api.example.com", "net bind 0.0.0.0:80", "net :80", "net a:99999", "", "x"]
        {
            assert_eq!(denied(text), [ToolAccess::Other(text.to_owned())], "{text}");
        }
    }

    #[test]
    fn a_path_in_the_workspace_of_another_call_is_of_that_workspace() {
        let line = r#"{"time":"2026-01-31T12:00:00.000Z","id":"1","via":"call","tool":"t",
            "workspace":"/w","outcome":"ok","total_us":1,"exit_code":0}"#;
        let record: Record = serde_json::from_str(line).expect("a record");
        let is_elsewhere = |path: &str, workspace: &str| {
            let touch = ToolAccess::Path(Access::ReadWrite, path.into());
            is_of_another_workspace(&touch, Path::new(workspace), &record)
        };
        assert!(is_elsewhere("/w/.vscode", "/other") && is_elsewhere("/w/a", "/w/sub"));
        assert!(!is_elsewhere("/w/.vscode", "/w") && !is_elsewhere("/w/sub/a", "/w/sub"));
        assert!(!is_elsewhere("/data", "/other"));
    }

    #[test]
    fn a_lookup_that_was_refused_counts_once() {
        let line = r#"{"time":"2026-01-31T12:00:00.000Z","id":"1","via":"call","tool":"t",
            "workspace":"/w","outcome":"ok","total_us":1,"exit_code":0,
            "denied":["net a.example", "net b.example"],
            "reached":[{"kind":"host","host":"a.example"}]}"#;
        let record: Record = serde_json::from_str(line).expect("a record");
        let (found, _) = refusals(&record);
        let name = ToolAccess::Peer(AskedPeer { host: "a.example".to_owned(), port: None });
        let other = ToolAccess::Other("net b.example".to_owned());
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [name, other]);
    }

    #[test]
    fn a_record_without_the_fields_says_what_it_can() {
        let line = r#"{"time":"2026-01-31T12:00:00.000Z","id":"1","via":"call","tool":"t",
            "workspace":"/w","outcome":"PERMISSION_DENIED","total_us":1,
            "denied":["net a.example:443"]}"#;
        let record: Record = serde_json::from_str(line).expect("a record");
        let (found, is_cut) = refusals(&record);
        assert_eq!(
            found.into_iter().collect::<Vec<_>>(),
            [ToolAccess::Run, peer("a.example", 443)]
        );
        assert!(!is_cut && uses(&record).is_none());
    }
}
