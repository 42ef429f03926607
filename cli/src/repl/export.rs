//! `/export`: the conversation as a file.

use std::io;
use std::path::{Path, PathBuf};

use ikigai_assets::SessionId;

use super::Repl;
use crate::error::CliError;

impl Repl {
    /// Writes the conversation to a new file. Without `file`, the file is named after the
    /// conversation. A relative path starts in the workspace.
    pub(super) async fn export(&mut self, file: Option<&str>) -> io::Result<()> {
        let Some(id) = self.session.kept() else {
            return self.out.line("error: nothing of this conversation is saved yet");
        };
        if let Some(warning) = self.session.write_kept().await {
            self.out.line(&format!("warning: {warning}"))?;
        }
        let path = self.session.workspace().join(file.map_or_else(|| name(&id), PathBuf::from));
        match self.write_to(&id, &path).await {
            Ok(()) => self.out.line(&format!("Wrote {}", path.display())),
            Err(error) => self.out.line(error.text().trim_end()),
        }
    }

    async fn write_to(&self, id: &SessionId, path: &Path) -> Result<(), CliError> {
        // A saved conversation has a store.
        let Some(assets) = self.session.assets() else { return Ok(()) };
        let store = assets.store.open().await?;
        let session = store.session(id).await?;
        let as_lines = path.extension().is_some_and(|extension| extension == "jsonl");
        (self.shared.export)(store, &session, path, as_lines).await
    }
}

fn name(id: &SessionId) -> PathBuf {
    format!("conversation-{id}.md").into()
}
