//! The registered tools that a file is, if a caller names the file by its path. The policy's
//! entries with their names narrow its calls.
//!
//! Does not decide anything. A file that is no registered tool has no name here, even if its schema
//! or its file name has one.

use std::collections::BTreeSet;

use super::candidate::{self, Candidate};
use super::file;
use super::scan_context::ScanContext;
use crate::policy::{Backend, RegisteredTool, ToolOrigin};

impl ScanContext {
    /// Returns the tools in the tool directories and of the workspace that are also this file, in
    /// the order of their names. Asks such a tool for its name if the name is not known yet.
    pub(super) async fn tools_that_are(&self, file: &Candidate) -> Vec<RegisteredTool> {
        // Only entries use the tools.
        if !self.authority.has_tool_entries() {
            return Vec::new();
        }
        let mut tools: BTreeSet<RegisteredTool> = self.workspace_tools_that_are(file).collect();
        for tool in self.files_that_are(file) {
            let asked = self.ask(&tool).await;
            // A tool that does not answer is known by the name of its file.
            let name =
                asked.map_or_else(|_| file::tool_name(&tool.path), |(_, schema)| schema.name);
            tools.insert(RegisteredTool { name, digest: tool.digest(&self.memo).ok() });
        }
        tools.into_iter().collect()
    }

    /// Returns the files of the tool directories that are also this file, even if another tool
    /// replaces them.
    fn files_that_are(&self, file: &Candidate) -> Vec<Candidate> {
        let listed =
            self.dirs.iter().filter_map(|(dir, origin)| candidate::list(dir, *origin).ok());
        let tools = listed.flat_map(|listing| listing.candidates);
        tools
            .filter(|tool| tool.backend != Backend::Mcp && tool.is_also(file, &self.memo))
            .collect()
    }

    fn workspace_tools_that_are(&self, file: &Candidate) -> impl Iterator<Item = RegisteredTool> {
        let approved = self.workspace_tools.as_ref().map(|tools| tools()).unwrap_or_default();
        let digest = file.digest(&self.memo).ok();
        approved.into_iter().filter_map(move |tool| {
            if digest == Some(tool.digest) {
                return Some(RegisteredTool { name: tool.name, digest });
            }
            let present = Candidate::at(tool.path, ToolOrigin::User).ok()?;
            let is_file = present.is_also(file, &self.memo);
            let digest = present.digest(&self.memo).ok();
            is_file.then_some(RegisteredTool { name: tool.name, digest })
        })
    }
}
