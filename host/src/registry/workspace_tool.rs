//! A workspace tool as the embedding program names it. Does not decide whether it is used.

use std::path::PathBuf;
use std::sync::Arc;

use ikigai_protocol::Digest;

/// A workspace tool that the user approved:
/// [`HostBuilder::workspace_tools`](crate::HostBuilder::workspace_tools).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkspaceTool {
    /// Its name, which its schema must have.
    pub name: String,
    /// The path of its file, in [`Paths::workspace_tools`](crate::Paths::workspace_tools), which no
    /// tool can write.
    pub path: PathBuf,
    /// The digest that its file must have.
    pub digest: Digest,
}

/// A function that returns the currently approved tools of the workspace.
pub type WorkspaceToolsFn = Arc<dyn Fn() -> Vec<WorkspaceTool> + Send + Sync>;
