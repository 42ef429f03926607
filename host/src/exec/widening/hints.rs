//! The hints about one call: the steps that would allow what the tool was refused.

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use super::Widening;
use crate::policy::{Backend, Remedy, RequestedAccess, ToolOrigin};
use crate::toolchain::ToolchainOffer;

/// The address of the loopback in the hint about it.
const LOOPBACK: &str = "127.0.0.1";

impl Widening {
    /// Returns what the user can do if this machine's sandbox cannot confine the tool. Returns
    /// nothing if the tool does not run without a sandbox.
    pub(crate) fn without_sandbox(&self) -> Option<Remedy> {
        let request = self.program.request();
        if request.origin != ToolOrigin::User || request.backend != Backend::Native {
            return None;
        }
        let Some(name) = request.name else { return Some(Remedy::InstallAsTool) };
        self.authority.propose_unconfined(&request)?;
        Some(Remedy::RunUnconfined { tool: name.to_owned() })
    }

    /// Returns the toolchains that the run lacked, if all of their directories may be allowed.
    pub(super) fn lacking_toolchains(
        &self,
        may: &dyn Fn(&RequestedAccess) -> bool,
    ) -> Option<ToolchainOffer> {
        let (paths, programs) = {
            let notes = self.notes.lock();
            let refused = notes.refused.iter().filter_map(|reached| match reached {
                RequestedAccess::Path { path, .. } => Some(path),
                _ => None,
            });
            let paths: Vec<PathBuf> = refused.chain(&notes.links).cloned().collect();
            (paths, notes.programs.clone())
        };
        let request = self.program.request();
        let offer = ToolchainOffer::find(&paths, &programs, &self.authority, &request)?;
        let accesses = offer.accesses();
        (!accesses.is_empty() && accesses.iter().all(may)).then_some(offer)
    }

    /// Returns the command that would allow the refused accesses, if some of them may be allowed. A
    /// call that `succeeded` did not need the accesses that it only probed.
    pub(crate) fn allow_with(&self, succeeded: impl FnOnce() -> bool) -> Option<String> {
        let request = self.program.request();
        let may = |it: &RequestedAccess| {
            !self.is_of_the_host(it)
                && !self.is_granted(it)
                && self.authority.could_allow(&request, it)
        };
        let (mut refused, mut probed, mut links, lacks_programs) = {
            let notes = self.notes.lock();
            let lacks_programs = !notes.programs.is_empty();
            (notes.refused.clone(), notes.probed.clone(), notes.links.clone(), lacks_programs)
        };
        if refused.is_empty() && links.is_empty() && !lacks_programs {
            return None;
        }
        let has_failed = lacks_programs || probed.is_empty() && links.is_empty();
        let succeeded = !has_failed && succeeded();
        if !succeeded && let Some(offer) = self.lacking_toolchains(&may) {
            let toolchains = offer.found.iter().map(|found| found.toolchain.name.to_owned());
            let (tool, toolchains) = (request.name?.to_owned(), toolchains.collect());
            return self.authority.hint(&Remedy::WidenByToolchains { tool, toolchains });
        }
        if succeeded {
            refused.retain(|it| !probed.contains(it));
            probed.clear();
            links.clear();
        }
        let mut refused: Vec<RequestedAccess> = refused.into_iter().filter(may).collect();
        if !links.is_empty() || refused.iter().any(|it| probed.contains(it)) {
            refused = self.authority.places_of(&refused, &links, &may);
        }
        self.authority.command_for(&request, &refused)
    }

    /// Returns the reason why no command allows a refused path, if a command cannot name one.
    pub(crate) fn unnameable_hint(&self) -> Option<String> {
        let notes = self.notes.lock();
        let is_meant = |it: &&RequestedAccess| !it.is_nameable() && !notes.probed.contains(*it);
        let first = notes.refused.iter().find(is_meant)?;
        Some(format!(
            "no command can allow the tool to {first}, because that path has a control character \
             or is not UTF-8"
        ))
    }

    /// Returns the hint for a tool that found no server on the sandbox's own loopback: it may have
    /// meant a server of this machine.
    pub(crate) fn loopback_hint(&self) -> Option<String> {
        let ports = self.notes.lock().own_loopback.clone();
        let first = ports.first()?;
        let request = self.program.request();
        let peer = |port: &u16| RequestedAccess::Peer { host: LOOPBACK.to_owned(), port: *port };
        let may = |it: &RequestedAccess| {
            !self.is_of_the_host(it) && self.authority.could_allow(&request, it)
        };
        let peers: Vec<RequestedAccess> = ports.iter().map(peer).filter(may).collect();
        let text = format!(
            "{LOOPBACK} in the sandbox is the tool's own, and nothing answered there on port {first}"
        );
        Some(match self.authority.command_for(&request, &peers) {
            Some(command) => format!("{text}; to reach a server of this machine: {command}"),
            None => text,
        })
    }

    /// Returns the hint for a tool that said that a file was not found, if nobody saw which files
    /// it was refused, but somebody would who can be asked.
    pub(crate) fn unwatched_hint(&self) -> Option<String> {
        let would_ask = self.asks.load(Ordering::Relaxed) && !self.watches();
        if !would_ask || !self.notes.lock().misses_files {
            return None;
        }
        let tool = self.program.request().name?.to_owned();
        self.authority.hint(&Remedy::WatchAtTerminal { tool })
    }
}
