//! The names of the registered tools that a file is, if a caller names the file by its path. The
//! policy's entries with these names narrow its calls.
//!
//! Does not decide anything. A file that is no registered tool has no name here, even if its schema
//! or its file name has one.

use std::collections::BTreeSet;

use super::candidate::{self, Candidate};
use super::file;
use super::scan_context::ScanContext;
use crate::policy::{Backend, ToolOrigin};

impl ScanContext {
    /// Returns the names of the tools in the tool directories and of the workspace that are also
    /// this file. Asks such a tool for its name if the name is not known yet.
    pub(super) async fn names_of(&self, file: &Candidate) -> Vec<String> {
        // Only entries use the names.
        if !self.authority.has_tool_entries() {
            return Vec::new();
        }
        let mut names: BTreeSet<String> = self.workspace_names(file).into_iter().collect();
        for tool in self.files_that_are(file) {
            let asked = self.ask(&tool).await;
            // A tool that does not answer is known by the name of its file.
            let name =
                asked.map_or_else(|_| file::tool_name(&tool.path), |(_, schema)| schema.name);
            names.insert(name);
        }
        names.into_iter().collect()
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

    fn workspace_names(&self, file: &Candidate) -> Vec<String> {
        let approved = self.workspace_tools.as_ref().map(|tools| tools()).unwrap_or_default();
        let digest = file.digest(&self.memo).ok();
        let is_file = |path| {
            let tool = Candidate::at(path, ToolOrigin::User);
            tool.is_ok_and(|tool| tool.is_also(file, &self.memo))
        };
        let named = approved
            .into_iter()
            .filter(|tool| digest == Some(tool.digest) || is_file(tool.path.clone()));
        named.map(|tool| tool.name).collect()
    }
}
