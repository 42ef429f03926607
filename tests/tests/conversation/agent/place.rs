//! A store of sessions, and the directory of the hosts that use it.

use std::sync::Arc;

use ikigai_agent::assets::StoredAssets;
use ikigai_agent::{Session, SessionAssets};
use ikigai_assets::{Agent, Budget, Capacity, StoreUrl};
use ikigai_provider_testing::FakeServer;
use tempfile::TempDir;

use crate::agent::session::{host, model};

pub(crate) struct Place {
    pub(crate) store: Arc<StoredAssets>,
    budget: u64,
    pub(crate) scratch: TempDir,
}

impl Place {
    /// Creates a place whose store is in memory.
    pub(crate) fn new() -> Self {
        Self::at(StoreUrl::memory())
    }

    pub(crate) fn at(url: StoreUrl) -> Self {
        Self::with(url, Budget::default())
    }

    pub(crate) fn with_budget(budget: Budget) -> Self {
        Self::with(StoreUrl::memory(), budget)
    }

    fn with(url: StoreUrl, budget: Budget) -> Self {
        let store = StoredAssets::at(Ok(url), budget, Capacity::default());
        let scratch = tempfile::tempdir().expect("a directory");
        Self { store: Arc::new(store), budget: budget.0, scratch }
    }

    pub(crate) fn assets(&self) -> SessionAssets {
        let store = Arc::clone(&self.store);
        SessionAssets { store, budget: self.budget, agent: agent(), is_principal: false }
    }

    pub(crate) fn session(&self, server: &FakeServer) -> Session {
        Session::new(host(&self.scratch), Some(self.assets()), Some(model(server)))
    }
}

/// Returns the agent of every session.
pub(crate) fn agent() -> Agent {
    Agent::new("tester@here").expect("a name")
}
