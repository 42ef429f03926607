//! Calls to tools that are part of the host and don't run a program.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use ikigai_protocol::EnvelopeCode;

use super::{Host, NOBODY};
use crate::audit::Requester;
use crate::consent::ConsentAnswer;
use crate::exec::envelope::Envelope;
use crate::exec::scrub::SecretValues;
use crate::policy::{
    AssetAccess, Backend, Decision, Grant, PolicyRequest, Provenance, Requirement, ToolOrigin,
};

impl Host {
    /// Answers a call to a tool that is part of the host and doesn't run a program: one of
    /// [`RESERVED_NAMES`](ikigai_protocol::RESERVED_NAMES). The policy decides on its access to
    /// assets, and the call is recorded like any other.
    #[doc(hidden)]
    pub async fn call_own<A>(
        &self,
        requester: &Requester,
        name: &str,
        arguments: Bytes,
        answer: impl FnOnce(AssetAccess) -> A,
    ) -> Envelope
    where
        A: Future<Output = Envelope>,
    {
        let mut entry = self.audit.begin(requester, name);
        entry.arguments(arguments);
        let decided = self.authority().decide(&own_request(name)).map(|decision| {
            let requirement = decision.requirement(Backend::Wasm, None);
            (decision, requirement)
        });
        let denied = |reason| Envelope::refused(EnvelopeCode::PermissionDenied, reason);
        let envelope = match decided {
            Ok((decision, Requirement::Nothing)) => {
                let assets = own_assets(requester, &decision);
                let grant = Grant { assets, ..Grant::default() };
                let sources =
                    decision.provenance.for_capability("assets").iter().map(ToString::to_string);
                entry.granted(&grant, Backend::Wasm, sources.collect(), SecretValues::default());
                answer(grant.assets).await
            }
            Ok((_, Requirement::Consent { by, .. })) => {
                entry.asked(&ConsentAnswer::Unavailable(String::new()), None, Duration::ZERO);
                denied(self.unasked(&by, NOBODY))
            }
            Ok((_, Requirement::Denied { reason })) => denied(reason),
            Err(denial) => denied(denial.to_string()),
        };
        entry.answered(&envelope);
        entry.end(envelope.failure());
        envelope
    }

    /// Returns a front end's access to assets through a tool that is part of the host. Does not
    /// record the request.
    #[doc(hidden)]
    #[must_use]
    pub fn own_access(&self, requester: &Requester, name: &str) -> AssetAccess {
        match self.authority().decide(&own_request(name)) {
            Ok(decision) if !decision.needs_consent(Backend::Wasm) => {
                own_assets(requester, &decision)
            }
            Ok(_) | Err(_) => AssetAccess::None,
        }
    }
}

/// Returns the request to the policy for a tool that is part of the host.
pub(super) fn own_request(name: &str) -> PolicyRequest<'_> {
    PolicyRequest {
        name: Some(name),
        names: &[],
        registered: &[],
        origin: ToolOrigin::System,
        // The host confines it like a component.
        backend: Backend::Wasm,
        fell_back: false,
        path: Path::new(name),
        program: None,
        contents: &[],
        wasi: &[],
        tool: None,
    }
}

/// Returns the access to assets of a tool that is part of the host. By default it is the access of
/// the user who started the host. A principal that connected over a network has the access that a
/// policy file grants.
fn own_assets(requester: &Requester, decision: &Decision) -> AssetAccess {
    match requester {
        Requester { without_assets: true, .. } => AssetAccess::None,
        Requester { principal: Some(_), .. } => granted_assets(decision),
        _ => decision.grant.assets,
    }
}

/// Returns the access to assets that a policy file grants, without defaults.
pub(super) fn granted_assets(decision: &Decision) -> AssetAccess {
    match decision.provenance.for_capability("assets").first() {
        Some(Provenance::File { .. } | Provenance::Override(_)) => decision.grant.assets,
        _ => AssetAccess::None,
    }
}
