//! The toolchains that a tool lacks, so that a question or a hint about single files can offer the
//! whole toolchains.
//!
//! Decides which toolchains fit, and proposes the change that `ikigai policy grant --toolchain`
//! would write. Writes nothing.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ikigai_protocol::Access;

use super::{InstalledPlace, TOOLCHAINS, ToolchainContext, ToolchainInstallation, add};
use crate::policy::{Authority, EntryLists, PolicyRequest, Proposal, RequestedAccess};

/// The toolchains that a tool lacks, and the change of the user's policy file that grants them.
#[derive(Clone, Debug)]
pub struct ToolchainOffer {
    /// The toolchains, as installed on this machine.
    pub found: Vec<ToolchainInstallation>,
    /// The change.
    pub proposal: Proposal,
}

impl ToolchainOffer {
    /// Finds the toolchains whose directories contain one of these paths, and the toolchains that
    /// have one of these programs. Returns `None` if it finds nothing, if the tool already has
    /// everything, or if a bound of the policy would remove a part.
    #[must_use]
    pub fn find(
        paths: &[PathBuf],
        programs: &BTreeSet<&str>,
        authority: &Authority,
        request: &PolicyRequest<'_>,
    ) -> Option<Self> {
        if paths.is_empty() && programs.is_empty() {
            return None;
        }
        let held = EntryLists::in_force(authority, request);
        let seen: Vec<PathBuf> = held.fs.iter().map(|dir| dir.path.clone()).collect();
        let decision = authority.decide(request).ok()?;
        let machine = ToolchainContext {
            home: authority.home()?,
            variable: &|name| authority.variable(name),
            seen: &seen,
            downloads: !decision.grant.net.is_none(),
        };
        let is_wanted = |found: &ToolchainInstallation| {
            paths.iter().any(|path| found.has(path))
                || found.programs.iter().any(|(name, _)| programs.contains(name))
        };
        let found = TOOLCHAINS.iter().filter_map(|toolchain| toolchain.find(&machine));
        let found: Vec<ToolchainInstallation> = found.filter(is_wanted).collect();
        let mut lists = held.clone();
        add(&found, &mut lists, authority.workspace()).ok()?;
        if lists == held {
            return None;
        }
        let keys = lists.keys(&EntryLists::unchanged(authority, request));
        let proposal = authority.propose_bound(request, keys)?;
        let decision = authority.decide_with(&proposal, request).ok()?;
        let is_whole = proposal.shortfalls(request.backend, &decision).is_empty();
        is_whole.then_some(Self { found, proposal })
    }

    /// Returns the accesses to the directories of the toolchains, with links resolved.
    pub(crate) fn accesses(&self) -> Vec<RequestedAccess> {
        let places = self.found.iter().flat_map(|found| &found.places);
        let access = |InstalledPlace { access, path, .. }: &InstalledPlace| {
            Some(RequestedAccess::Path { access: *access, path: path.canonicalize().ok()? })
        };
        places.filter_map(access).collect()
    }
}

impl ToolchainInstallation {
    /// Returns whether a directory of the toolchains contains the path. The path's links may be
    /// resolved or not.
    fn has(&self, path: &Path) -> bool {
        self.grants(Access::ReadOnly, path)
    }

    /// Returns whether a grant of the toolchain has this access. The links of the path may be
    /// resolved or not.
    #[must_use]
    pub fn grants(&self, access: Access, path: &Path) -> bool {
        let is_in = |place: &InstalledPlace| {
            let real = || place.path.canonicalize();
            path.starts_with(&place.path) || real().is_ok_and(|real| path.starts_with(real))
        };
        self.places.iter().any(|place| place.access >= access && is_in(place))
    }
}
