//! The environment of a conversation: the host, the assets and the model that its turns and
//! commands work with.

use std::path::PathBuf;
use std::sync::Arc;

use ikigai_host::front_end::FrontEnd;
use ikigai_host::host::Host;

use crate::confined::Remarks;
use crate::guidance::Guidance;
use crate::model::Model;
use crate::recent::state::Recent;
use crate::session_assets::SessionAssets;
use crate::undo::Undo;
use crate::usage::UsageMeter;

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
