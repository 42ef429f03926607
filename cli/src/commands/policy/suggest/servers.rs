//! The hosts that MCP servers were refused, with the command that grants them.
//!
//! A server is granted access as a whole, so the refusals of all its tools count together.

use std::collections::BTreeMap;

use ikigai_host::audit::Record;
use ikigai_host::exec::mcp::ServerTarget;
use ikigai_host::host::Host;
use ikigai_host::policy::{Access, EntryPermissions, Sandbox, shell_quoted};
use ikigai_host::registry::{KnownServer, Snapshot};
use serde_json::{Value, json};

use super::gather::{Tally, refusals};
use super::text::{calls_in_words, table_of};
use crate::commands::policy::grant::server::command;
use crate::commands::policy::least::peers::AskedPeer;
use crate::commands::policy::least::touch::ToolAccess;
use crate::remedy::policy::limit_flag;

/// The most distinct hosts of one server that are examined. A server chooses the hosts that it asks
/// for.
const MOST: usize = 1000;

/// A server, with the refusals of its calls.
pub(super) struct ServerRefusals<'a> {
    server: &'a KnownServer,
    calls: u64,
    refused: BTreeMap<ToolAccess, Tally>,
}

impl<'a> ServerRefusals<'a> {
    /// Returns the servers of this name, or all of them, without refusals yet.
    pub(super) fn from_snapshot(snapshot: &'a Snapshot, name: Option<&str>) -> Vec<Self> {
        let servers = snapshot.servers().iter();
        let servers = servers.filter(|server| name.is_none_or(|name| server.name == name));
        servers.map(|server| Self { server, calls: 0, refused: BTreeMap::new() }).collect()
    }

    /// Adds the record of a call, if the definition of the server has not changed since.
    pub(super) fn add(&mut self, record: &Record) {
        let Some(program) = &record.program else { return };
        let defined = self.server.definition.as_ref().map(|it| it.server.digest);
        if program.server.as_deref() != Some(&self.server.name) || defined != Some(program.digest) {
            return;
        }
        self.calls += 1;
        let (found, _) = refusals(record);
        for touch in found.into_iter().filter(|touch| matches!(touch, ToolAccess::Peer(_))) {
            if self.refused.len() >= MOST && !self.refused.contains_key(&touch) {
                continue;
            }
            let tally = self.refused.entry(touch);
            let tally = tally.or_insert(Tally { calls: 0, last: record.time });
            tally.calls += 1;
            tally.last = tally.last.max(record.time);
        }
    }

    /// Returns whether nothing was refused.
    pub(super) fn is_empty(&self) -> bool {
        self.refused.is_empty()
    }

    /// Returns the command that keeps the grant of the server and adds the refused hosts. Returns
    /// `None` if the server has them by now, or if no entry can name them.
    fn command(&self, host: &Host) -> Option<String> {
        let written = host.authority().written_server(&self.server.name).unwrap_or_default();
        let net = written.net.unwrap_or_default();
        let peers = self.refused.keys().filter_map(|touch| match touch {
            ToolAccess::Peer(peer) => Some(peer),
            _ => None,
        });
        let new: Vec<String> = peers
            .filter(|peer| peer.is_nameable() && !peer.is_in(&net))
            .map(AskedPeer::written)
            .collect();
        if new.is_empty() {
            return None;
        }
        Some(command_with(host, self.server, &new))
    }

    pub(super) fn text(&self, host: &Host) -> String {
        let calls = calls_in_words(self.calls);
        let mut text =
            format!("server {} ({calls})\n{}", self.server.name, table_of(&self.refused));
        let line = self.command(host).unwrap_or_else(|| "nothing to change".to_owned());
        text.push_str(&format!("  {line}\n\n"));
        text
    }

    pub(super) fn as_json(&self, host: &Host) -> Value {
        let refused = self.refused.iter().map(|(touch, tally)| {
            let mut value = touch.as_json();
            value["what"] = json!(touch.in_words());
            value["calls"] = json!(tally.calls);
            value["last"] = json!(tally.last.to_string());
            value
        });
        json!({
            "server": self.server.name,
            "calls": self.calls,
            "refused": refused.collect::<Vec<_>>(),
            "command": self.command(host),
        })
    }
}

/// Returns what the log cannot tell of a server in the sandbox that lacks the machine's network,
/// with the command that grants it a host.
pub(super) fn untold(host: &Host, server: &KnownServer) -> Option<String> {
    let target = server.definition.as_ref().map(|definition| &definition.server.target);
    let written = host.authority().written_server(&server.name).unwrap_or_default();
    let has_network = written.net.is_some_and(|net| net.any);
    let is_free = written.sandbox == Some(Sandbox::Off);
    if !matches!(target, Some(ServerTarget::Process { .. })) || has_network || is_free {
        return None;
    }
    let name = &server.name;
    let command = command_with(host, server, &["HOST:PORT".to_owned()]);
    Some(format!(
        "ikigai records a host only if `{name}` asks the proxy for it, or an error of `{name}` \
         names it\nto grant a host: {command}\n"
    ))
}

/// Returns the command that keeps the grant of a server and adds these hosts.
fn command_with(host: &Host, server: &KnownServer, peers: &[String]) -> String {
    let written = host.authority().written_server(&server.name).unwrap_or_default();
    let mut flags = flags(&written);
    flags.extend(peers.iter().map(|peer| format!("--net {}", shell_quoted(peer))));
    command(&server.name, server.definition.as_deref(), &flags)
}

/// Returns the flags of `mcp add` that grant what an entry grants.
fn flags(written: &EntryPermissions) -> Vec<String> {
    let EntryPermissions { fs, net, env, sandbox, limits, .. } = written;
    let dirs = fs.iter().flatten().map(|dir| {
        let flag = if dir.access == Access::ReadWrite { "--write" } else { "--read" };
        format!("{flag} {}", shell_quoted(&dir.written))
    });
    let net = net.iter().flat_map(|net| {
        let any = net.any.then(|| "*".to_owned());
        any.into_iter().chain(net.peers.iter().map(ToString::to_string))
    });
    let net = net.map(|peer| format!("--net {}", shell_quoted(&peer)));
    let env = env.iter().flatten().map(|name| format!("--env {}", shell_quoted(name)));
    let limits = limits.iter().map(|(key, value)| limit_flag(*key, *value));
    let is_off = *sandbox == Some(Sandbox::Off);
    let unconfined = is_off.then(|| "--unconfined".to_owned());
    dirs.chain(net).chain(env).chain(limits).chain(unconfined).collect()
}
