//! The descriptions that the user approved, so that a later change can be shown as a diff.
//!
//! The approval itself is the digest in the policy. A description from here is only shown if its
//! digest matches.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;

use anyhow::Context as _;
use ikigai_host::exec::mcp::ToolDescription;
use ikigai_host::host::Host;
use ikigai_host::paths::draft_in;
use ikigai_host::registry::ListedTool;

/// The directory below the state directory with a file for each server.
const DIRECTORY: &str = "servers";

/// The approved descriptions of one server.
pub(crate) struct Approved {
    server: String,
    path: Option<PathBuf>,
    known: BTreeMap<String, ToolDescription>,
}

impl Approved {
    /// Reads the descriptions of a server. Ignores a file that cannot be read.
    pub(crate) fn for_server(host: &Host, server: &str) -> Self {
        let state = host.registry().paths().state.as_ref();
        let path = state.map(|state| state.join(DIRECTORY).join(format!("{server}.json")));
        let text = path.as_ref().and_then(|path| fs::read(path).ok());
        let known = text.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
        Self { server: server.to_owned(), path, known }
    }

    /// Returns the approved description of a tool, if it is known and differs from the present one.
    pub(crate) fn before(&self, host: &Host, tool: &ListedTool) -> Option<ToolDescription> {
        let name = &tool.description.name;
        let approved = *host.authority().approved(&self.server).get(name)?;
        let known = self.known.get(name)?;
        (known.digest() == approved && approved != tool.digest).then(|| known.clone())
    }

    /// Stores the descriptions of newly approved tools.
    pub(crate) fn keep(mut self, tools: &[&ListedTool]) -> anyhow::Result<()> {
        let Some(path) = self.path.take() else { return Ok(()) };
        let what = || format!("cannot write `{}`", path.display());
        for tool in tools {
            self.known.insert(tool.description.name.clone(), tool.description.clone());
        }
        let dir = path.parent().context("no directory")?;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).with_context(what)?;
        let mut file = draft_in(dir, 0o600).with_context(what)?;
        file.write_all(&serde_json::to_vec(&self.known)?).with_context(what)?;
        file.persist(&path).with_context(what)?;
        Ok(())
    }

    /// Forgets the server.
    pub(crate) fn remove(self) -> anyhow::Result<()> {
        let Some(path) = self.path else { return Ok(()) };
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot remove `{}`", path.display()))
            }
            _ => Ok(()),
        }
    }
}
