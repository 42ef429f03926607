//! The parts of a proposed entry that would have no effect, because a bound takes them away.

use ikigai_protocol::Access;

use super::decision::Decision;
use super::propose::Proposal;
use super::provenance::Provenance;
use super::reached::RequestedAccess;
use super::rule::{DirRule, LimitKey};
use super::{Backend, Net};

/// A part of a proposed entry that a bound takes away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortfall {
    /// The key and value, such as `net db.internal:5432`.
    pub what: String,
    /// The rules that remove it.
    pub decided_by: Vec<Provenance>,
}

impl Proposal {
    /// Returns the parts of this proposal that are missing in `decision`, which
    /// [`Authority::decide_with`](super::Authority::decide_with) returned for the proposal and a
    /// build of this kind.
    #[must_use]
    pub fn shortfalls(&self, backend: Backend, decision: &Decision) -> Vec<Shortfall> {
        let Some(entry) = self.entry() else { return Vec::new() };
        if decision.is_unconfined(backend) {
            return Vec::new();
        }
        let grant = &decision.grant;
        let mut missing: Vec<(&str, String)> = Vec::new();
        let set = |key: &str| self.sets(key);
        if let Some(at) = entry.fs.as_ref().filter(|_| set("fs")) {
            let lost = at.value.iter().filter(|rule| !grant.covers(&reached_by(rule)));
            missing.extend(lost.map(|rule| ("fs", written(rule.access, &rule.raw))));
        }
        if let Some(at) = entry.net.as_ref().filter(|_| set("net")) {
            if at.value.any && !grant.net.any {
                missing.push(("net", "*".to_owned()));
            }
            let is_lost = |peer: &&super::Peer| {
                let alone = Net { any: false, peers: vec![(*peer).clone()] };
                !grant.net.peers.contains(peer) && grant.net.meet(&alone).is_none()
            };
            let lost = at.value.peers.iter().filter(is_lost);
            missing.extend(lost.map(|peer| ("net", peer.to_string())));
        }
        if let Some(at) = entry.env.as_ref().filter(|_| set("env")) {
            let has = |name: &&String| decision.variables.iter().any(|it| it.name == **name);
            let lost = at.value.iter().filter(|name| !has(name));
            missing.extend(lost.map(|name| ("env", name.clone())));
        }
        if let Some(at) = entry.assets.as_ref().filter(|_| set("assets"))
            && grant.assets < at.value
        {
            missing.push(("assets", at.value.to_string()));
        }
        if let Some(at) = entry.sandbox.as_ref().filter(|_| set("sandbox"))
            && backend != Backend::Wasm
            && grant.sandbox > at.value
        {
            missing.push(("sandbox", at.value.as_str().to_owned()));
        }
        let narrowed_by = |capability: &str| {
            decision
                .provenance
                .for_capability(capability)
                .iter()
                .skip(1)
                .cloned()
                .collect::<Vec<_>>()
        };
        let is_of_file = |by: &Provenance| matches!(by, Provenance::File { .. });
        let limits = entry.limits.keys().map(|key: &LimitKey| key.as_str());
        let limits = limits.filter(|key| set(&format!("limits.{key}")));
        let limits = limits.filter(|key| narrowed_by(key).iter().any(is_of_file));
        let limits = limits.map(|key| Shortfall {
            what: format!("limits.{key}"),
            decided_by: narrowed_by(key).into_iter().filter(is_of_file).collect(),
        });
        let others = missing.into_iter().map(|(key, value)| Shortfall {
            what: format!("{key} {value}"),
            decided_by: narrowed_by(key),
        });
        others.chain(limits).collect()
    }
}

/// Returns the access that a rule grants, with links resolved in the same way as in a decision.
fn reached_by(rule: &DirRule) -> RequestedAccess {
    let path = rule.path.canonicalize().unwrap_or_else(|_| rule.path.clone());
    RequestedAccess::Path { access: rule.access, path }
}

fn written(access: Access, path: &str) -> String {
    format!("{}:{path}", access.as_str())
}
