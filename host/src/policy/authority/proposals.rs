//! The changes of the user's file that are proposed, and the decision that each would bring.

use std::path::Path;
use std::sync::Arc;

use super::Authority;
use crate::paths;
use crate::policy::decision::{Decision, Denial, PolicyRequest};
use crate::policy::edit::{EntryTable, NewKey};
use crate::policy::propose::Proposal;
use crate::policy::reached::RequestedAccess;
use crate::policy::remedy::{Permissions, Remedy};
use crate::policy::rule::PolicyLayers;
use crate::policy::widen::{self, FileScope};
use crate::policy::{Backend, ToolOrigin, decide};
use crate::toml_file::TomlError;

impl Authority {
    /// Proposes the user's file with these accesses added to the tool's grant. For a file, grants
    /// its whole directory, unless the directory is too broad. Writes nothing.
    ///
    /// # Errors
    ///
    /// Fails like [`propose_grant`](Self::propose_grant), or if the entry cannot have these
    /// accesses.
    pub fn propose_widened(
        &self,
        request: &PolicyRequest<'_>,
        reached: &[RequestedAccess],
    ) -> Result<Proposal, TomlError> {
        let file = self.user_file()?;
        let Some(name) = request.name else {
            return Err(TomlError::whole(file, "a program that is named by its path has no entry"));
        };
        let permissions = self.permissions_with(request, reached, FileScope::Directory);
        let permissions = permissions.ok_or_else(|| {
            TomlError::whole(file, "a policy file cannot name what the tool tried to use")
        })?;
        let keys = widen::keys(request, &permissions);
        self.propose_grant(name, &keys)
    }

    /// Proposes the user's file with an entry that lets a user native tool run unconfined, with all
    /// rights of the user. Returns `None` if the request is not for such a tool, or if a bound
    /// confines it anyway. Writes nothing.
    #[must_use]
    pub fn propose_unconfined(&self, request: &PolicyRequest<'_>) -> Option<Proposal> {
        if request.origin != ToolOrigin::User || request.backend != Backend::Native {
            return None;
        }
        let proposal = self.propose_bound(request, widen::unconfining_keys())?;
        let decision = self.decide_with(&proposal, request).ok()?;
        decision.is_unconfined(request.backend).then_some(proposal)
    }

    /// Proposes the user's file with these keys of the tool's entry set, and, for a user tool, with
    /// the digests that the entry is bound to. Returns `None` if the program has no name, or if the
    /// file cannot be used. Writes nothing.
    pub(crate) fn propose_bound(
        &self,
        request: &PolicyRequest<'_>,
        keys: Vec<NewKey>,
    ) -> Option<Proposal> {
        let mut all = widen::keys(request, &Permissions::default());
        all.extend(keys);
        self.propose_grant(request.name?, &all).ok()
    }

    /// Proposes the user's file with these keys of the tool's entry set. Writes nothing.
    ///
    /// # Errors
    ///
    /// Fails if the present or the proposed file cannot be used, or if the user has no such file
    /// because [`Paths::policy`](crate::Paths::policy) is `None`.
    pub fn propose_grant(&self, name: &str, keys: &[NewKey]) -> Result<Proposal, TomlError> {
        Proposal::grant(
            self.user_file()?,
            self.live.base(),
            EntryTable::Tool(name.to_owned()),
            keys,
        )
    }

    /// Proposes the user's file with these keys of the server's entry set. Writes nothing.
    ///
    /// # Errors
    ///
    /// Fails like [`propose_grant`](Self::propose_grant).
    pub fn propose_server(&self, name: &str, keys: &[NewKey]) -> Result<Proposal, TomlError> {
        Proposal::grant(
            self.user_file()?,
            self.live.base(),
            EntryTable::Server(name.to_owned()),
            keys,
        )
    }

    /// Proposes the user's file without the server's entry. Returns `None` if it has no such entry.
    /// Writes nothing.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be used.
    pub fn propose_revoke_server(&self, name: &str) -> Result<Option<Proposal>, TomlError> {
        Proposal::revoke(self.user_file()?, self.live.base(), EntryTable::Server(name.to_owned()))
    }

    /// Proposes the user's file without the tool's entry. Returns `None` if it has no such entry.
    /// Writes nothing.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be used.
    pub fn propose_revoke(&self, name: &str) -> Result<Option<Proposal>, TomlError> {
        Proposal::revoke(self.user_file()?, self.live.base(), EntryTable::Tool(name.to_owned()))
    }

    /// Decides as if the proposal were the user's file.
    ///
    /// # Errors
    ///
    /// Fails if the tool may not run even then.
    pub fn decide_with(
        &self,
        proposal: &Proposal,
        request: &PolicyRequest<'_>,
    ) -> Result<Decision, Denial> {
        let layers = PolicyLayers { user: Arc::clone(&proposal.layer), ..self.current()? };
        let signing = self.signing.apart();
        let context = self.context(&signing, &[]);
        decide::decide(&layers, &self.overrides, &context, request)
    }

    fn user_file(&self) -> Result<&Path, TomlError> {
        self.live.user_file().ok_or_else(|| {
            let error =
                TomlError::whole(Path::new(paths::POLICY), "there is no home to keep a policy in");
            match self.hint(&Remedy::NamePolicyFile) {
                Some(hint) => error.hint(hint),
                None => error,
            }
        })
    }
}
