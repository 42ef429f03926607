//! The assets of a session.

use std::sync::Arc;

use ikigai_assets::{Agent, AssetPath};
use ikigai_protocol::AssetError;

use crate::assets::{StoredAssets, private};

/// The assets of a session, and the agent that reads and writes them.
#[derive(Clone, Debug)]
pub struct SessionAssets {
    /// The store, which is opened when it is first needed.
    pub store: Arc<StoredAssets>,
    /// The most tokens that an agent may have pinned, as the model reads it.
    pub budget: u64,
    /// The agent whose pins are in the model's context.
    pub agent: Agent,
    /// True if the agent is a principal that came over a network. No other principal reads its long
    /// results.
    pub is_principal: bool,
}

impl SessionAssets {
    /// Returns whether an asset is kept for the agent, which is a principal.
    #[must_use]
    pub fn is_own(&self, path: &AssetPath) -> bool {
        self.is_principal && private::is_kept_for(self.agent.as_str(), path)
    }

    /// Returns whether an asset is kept for another principal than the agent.
    #[must_use]
    pub fn is_of_another(&self, path: &AssetPath) -> bool {
        self.is_principal && path.is_output() && !self.is_own(path)
    }

    /// Keeps a long result of a tool. See [`StoredAssets::keep_output`].
    pub(crate) async fn keep_output(&self, id: &str, text: &str) -> Result<AssetPath, AssetError> {
        let folder = self.is_principal.then(|| private::folder(self.agent.as_str()));
        self.store.keep_output(&self.agent, folder.as_deref(), id, text).await
    }
}
