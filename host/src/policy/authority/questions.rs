//! The questions that the user may be asked about a call, and the answers of this session.

use super::Authority;
use crate::policy::decision::PolicyRequest;
use crate::policy::reached::RequestedAccess;
use crate::policy::session::SessionAnswer;
use crate::policy::standard;

impl Authority {
    /// Returns whether the user may be asked to allow the tool this access, in addition to the
    /// accesses in `once`. A ceiling, the workspace or the key `ask` can forbid the question. The
    /// user is never asked about the host's own files, or again about an access that they refused
    /// in this session.
    pub(crate) fn may_ask(
        &self,
        request: &PolicyRequest<'_>,
        once: &[RequestedAccess],
        reached: &RequestedAccess,
    ) -> bool {
        if let RequestedAccess::Path { path, .. } = reached
            && standard::protected_path_in(path, &self.protected).is_some()
        {
            return false;
        }
        if self.session.was_refused(request, reached) {
            return false;
        }
        let allowed: Vec<RequestedAccess> = once.iter().chain([reached]).cloned().collect();
        self.decide_widened(request, &allowed)
            .is_ok_and(|decision| decision.ask && decision.grant.shows(reached))
    }

    /// Returns whether the user allowed the tool this access in this session.
    pub(crate) fn was_allowed(
        &self,
        request: &PolicyRequest<'_>,
        reached: &RequestedAccess,
    ) -> bool {
        self.session.allowed(request).contains(reached)
    }

    /// Returns whether the user refused the tool this access, or a directory around it, in this
    /// session.
    pub(crate) fn was_refused_around(
        &self,
        request: &PolicyRequest<'_>,
        reached: &RequestedAccess,
    ) -> bool {
        self.session.was_refused_around(request, reached)
    }

    /// Returns whether the user's file could grant the tool this access, even if the user may not
    /// be asked.
    pub(crate) fn could_allow(
        &self,
        request: &PolicyRequest<'_>,
        reached: &RequestedAccess,
    ) -> bool {
        if let RequestedAccess::Path { path, .. } = reached
            && standard::protected_path_in(path, &self.protected).is_some()
        {
            return false;
        }
        if !reached.is_nameable() {
            return false;
        }
        let is_host =
            matches!(reached, RequestedAccess::Peer { .. } | RequestedAccess::Host { .. });
        // No policy file can name such a host.
        if is_host && reached.peers().is_none() {
            return false;
        }
        self.decide_widened(request, std::slice::from_ref(reached))
            .is_ok_and(|decision| decision.grant.shows(reached))
    }

    /// Returns the accesses that the user allowed or refused tools in this session, with the oldest
    /// answer first.
    #[must_use]
    pub fn session_answers(&self) -> Vec<SessionAnswer> {
        self.session.answers()
    }

    /// Forgets an answer of this session. It no longer grants an access, and the user may be asked
    /// again about a refused access. Changes that the answer made to a policy file stay.
    pub fn forget_answer(&self, answer: &SessionAnswer) {
        self.session.forget(answer);
    }

    /// Notes the user's answer for this session.
    pub(crate) fn answered(
        &self,
        request: &PolicyRequest<'_>,
        reached: &RequestedAccess,
        allowed: bool,
    ) {
        self.session.note(request, reached, allowed);
    }
}
