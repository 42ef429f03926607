//! The environment of a conversation: the host, the assets and the model that its turns and
//! commands work with.

use std::path::PathBuf;
use std::sync::Arc;

use ikigai_assets::{Agent, AssetPath};
use ikigai_host::front_end::FrontEnd;
use ikigai_host::host::Host;
use ikigai_protocol::AssetError;
use ikigai_provider::{AnswerSettings, ModelClient};

use crate::assets::{StoredAssets, private};
use crate::confined::Remarks;
use crate::guidance::Guidance;
use crate::offer::ToolOffer;
use crate::recent::Recent;
use crate::undo::Undo;
use crate::usage::UsageMeter;

/// A model, and how to reach it.
#[derive(Debug)]
pub struct Model {
    /// The client that sends its requests.
    pub client: ModelClient,
    /// The provider's name for the model.
    pub name: String,
    /// The most tokens of an answer, if the user sets a limit. Otherwise the model's own limit
    /// applies, or 32,000 for Anthropic, which requires a limit.
    pub max_tokens: Option<u32>,
    /// The tokens that the model takes in together with its answer, if the user sets them.
    /// Otherwise the number is read from a refusal that names it.
    pub context: Option<u64>,
    /// The settings of its answers.
    pub settings: AnswerSettings,
    /// The tools that it is offered.
    pub offer: ToolOffer,
}

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

/// Everything that turns and commands work with, except the conversation.
pub(super) struct SessionEnvironment {
    pub(super) host: Arc<Host>,
    pub(super) workspace: PathBuf,
    pub(super) assets: Option<SessionAssets>,
    /// True if the model may use the host's own tool. It needs assets too.
    pub(super) offers_own_tool: bool,
    pub(super) model: Option<Model>,
    /// The user who is asked if a call needs more than it was granted, if there is one.
    pub(super) front_end: Option<Arc<dyn FrontEnd>>,
    /// The notes for agents in files of the workspace and of the user.
    pub(super) guidance: Guidance,
    /// The summary of earlier conversations in this workspace.
    pub(super) recent: Recent,
    /// The user's own part of the system prompt.
    pub(super) system: Option<String>,
    /// The files that the last turn changed.
    pub(super) undo: Undo,
    /// The remarks on the sandbox that were made.
    pub(super) remarks: Remarks,
    /// The cost of requests that are not part of the conversation.
    pub(super) other_usage: UsageMeter,
}

impl SessionEnvironment {
    /// Returns whether the model has the host's own tool, whose commands are for assets.
    pub(super) fn has_own_tool(&self) -> bool {
        self.offers_own_tool && self.assets.is_some()
    }
}
