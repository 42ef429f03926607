//! The steps that would allow what a call lacked: a command, a higher limit, or a place.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::Authority;
use crate::limits::{CallLimits, LONGEST_TIMEOUT, Limit};
use crate::policy::decision::{Decision, PolicyRequest};
use crate::policy::entry_lists::EntryLists;
use crate::policy::missed_places::missed_places;
use crate::policy::reached::RequestedAccess;
use crate::policy::remedy::{Permissions, Remedy};
use crate::policy::rule::{PolicyEntry, PolicyLayers};
use crate::policy::widen::{self, FileScope};
use crate::policy::{Backend, LimitKey, decide};

/// The factor in [`Authority::raise`] for a wall clock. The shell's two minutes become ten.
const MORE_TIME: u32 = 5;

/// The factor in [`Authority::raise`] for a memory limit.
const MORE_MEMORY: u64 = 2;

impl Authority {
    /// Returns the command of the embedding program that grants the tool these accesses in addition
    /// to its present ones, or `None` if the program has no command for that.
    pub(crate) fn command_for(
        &self,
        request: &PolicyRequest<'_>,
        reached: &[RequestedAccess],
    ) -> Option<String> {
        let tool = request.name?.to_owned();
        if reached.is_empty() {
            return None;
        }
        let has = self.permissions_with(request, &[], FileScope::Exact)?;
        let permissions = self.permissions_with(request, reached, FileScope::Exact)?.beyond(&has);
        self.hint(&Remedy::Widen { tool, permissions })
    }

    /// Returns the step that raises the limit that ended a call under `limits`. Returns `None` if a
    /// flag or another rule than the tool's own entry bounds the limit, because the user's file
    /// cannot raise such a limit.
    pub(crate) fn raise(
        &self,
        request: &PolicyRequest<'_>,
        decision: &Decision,
        limit: Limit,
        limits: &CallLimits,
    ) -> Option<Remedy> {
        let can_raise = |key: LimitKey| {
            let by_flag = self.overrides.limits.iter().any(|(own, _)| *own == key);
            !by_flag && decision.provenance.for_capability(key.as_str()).len() == 1
        };
        let tool = request.name.filter(|_| request.backend != Backend::Mcp)?.to_owned();
        match limit {
            Limit::WallClock if can_raise(LimitKey::WallClock) => {
                let time = limits.wall_clock.saturating_mul(MORE_TIME).min(LONGEST_TIMEOUT);
                (time > limits.wall_clock).then_some(Remedy::AllowTime { tool, time })
            }
            Limit::Memory if can_raise(LimitKey::Memory) => {
                let bytes = match request.backend {
                    Backend::Wasm => limits.wasm_memory,
                    Backend::Native | Backend::Mcp => limits.native_memory,
                };
                Some(Remedy::AllowMemory { tool, bytes: bytes.saturating_mul(MORE_MEMORY) })
            }
            _ => None,
        }
    }

    /// Returns the places of the accesses that a tool was refused, and of the links by which it
    /// named them. `may` says whether a place can be allowed.
    pub(crate) fn places_of(
        &self,
        refused: &[RequestedAccess],
        links: &BTreeSet<PathBuf>,
        may: &dyn Fn(&RequestedAccess) -> bool,
    ) -> Vec<RequestedAccess> {
        let home = self.canonical_home();
        match self.current() {
            Ok(layers) => {
                let secrets = self.secrets.places();
                let around = self.around(&layers, home.as_deref(), &secrets);
                missed_places(refused, links, around, may)
            }
            Err(_) => refused.to_vec(),
        }
    }

    /// Returns the permissions from the tool's entry, or from the profile, together with these
    /// accesses. Returns `None` if a policy file cannot name them.
    pub(crate) fn permissions_with(
        &self,
        request: &PolicyRequest<'_>,
        reached: &[RequestedAccess],
        scope: FileScope,
    ) -> Option<Permissions> {
        self.with_entry(request, |entries, around| {
            widen::permissions(entries, request, reached, scope, around)
        })?
    }

    /// Returns the lists of a tool's entry, with the profile's lists for keys that the entry does
    /// not have. The result is empty if a ceiling cannot be used.
    pub(in crate::policy) fn entry_lists(&self, request: &PolicyRequest<'_>) -> EntryLists {
        let lists = self.with_entry(request, |(entry, every), around| {
            EntryLists::of_entry(entry, every, request, around)
        });
        lists.unwrap_or_default()
    }

    /// Calls `then` with the tool's entry in the user's file, the part of `[tools."*"]` there that
    /// applies to the tool, and the places around it. Returns `None` if a ceiling cannot be used.
    fn with_entry<T>(
        &self,
        request: &PolicyRequest<'_>,
        then: impl FnOnce((Option<&PolicyEntry>, Option<&PolicyEntry>), widen::WidenContext<'_>) -> T,
    ) -> Option<T> {
        let layers = self.current().ok()?;
        let entry = request.name.and_then(|name| layers.user.entry(request.backend, name));
        let every = layers.user.every_beside(entry);
        let home = self.canonical_home();
        let secrets = self.secrets.places();
        let around = self.around(&layers, home.as_deref(), &secrets);
        Some(then((entry, every), around))
    }

    fn canonical_home(&self) -> Option<PathBuf> {
        let home = self.home();
        home.map(|home| home.canonicalize().unwrap_or_else(|_| home.to_owned()))
    }

    fn around<'a>(
        &'a self,
        layers: &PolicyLayers,
        home: Option<&'a Path>,
        secrets: &'a [PathBuf],
    ) -> widen::WidenContext<'a> {
        let (workspace, protected) = (self.workspace.as_path(), self.protected.as_slice());
        let (profile, _) = decide::profile(layers, &self.overrides);
        widen::WidenContext { workspace, home, protected, secrets, profile }
    }
}
