//! The asset store of a call: whose assets it shows, and the caller's highest access to them.

use std::sync::Arc;

use super::Host;
use super::own::{granted_assets, own_request};
use crate::exec::assets::{AssetCaller, AssetHandle};
use crate::policy::{AssetAccess, Backend, CLIENTS, PolicySnapshot};

impl Host {
    /// Returns a handle of the asset store for one call. It shows the assets of the principal that
    /// makes the call, or of this host's agent.
    pub(super) fn handle(
        &self,
        look: &PolicySnapshot,
        principal: Option<&Arc<str>>,
        without_assets: bool,
    ) -> Option<AssetHandle> {
        let (assets, agent) = self.assets.as_ref()?;
        let is_principal = principal.is_some();
        let agent = Arc::clone(principal.unwrap_or(agent));
        let caller = AssetCaller { agent, is_principal, own_thread: false };
        let most = match is_principal {
            false => AssetAccess::Write,
            true if without_assets => AssetAccess::None,
            true => self.access_of_clients(look),
        };
        Some(AssetHandle { assets: Arc::clone(assets), caller, most })
    }

    /// Returns a principal's highest access to assets, for any tool that it calls: the access that
    /// the policy grants to clients.
    fn access_of_clients(&self, look: &PolicySnapshot) -> AssetAccess {
        match self.authority().decide_by(look, &own_request(CLIENTS), &[]) {
            Ok(decision) if !decision.needs_consent(Backend::Wasm) => granted_assets(&decision),
            Ok(_) | Err(_) => AssetAccess::None,
        }
    }
}
