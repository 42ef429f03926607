//! The workspace tools that, according to the embedding program, the user approved.
//!
//! Decides which of them are used. Does not read the lock file, and approves nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::candidate::Candidate;
use super::file;
use super::scan_context::{
    ASKED_PER_CORE, CandidateRefusal, CheckedBuild, ScanContext, ScanTarget, in_tasks,
};
use super::tool::Tool;
use super::workspace_tool::WorkspaceTool;
use super::{Skipped, Snapshot};
use crate::exec::wasm::processors;
use crate::policy::{Backend, ToolOrigin, is_standard};

/// The names that the installation's tools have or may have. A component that was not asked yet is
/// known only by its file.
#[derive(Default)]
pub(super) struct InstalledNames {
    names: Vec<String>,
    files: Vec<PathBuf>,
}

impl InstalledNames {
    pub(super) fn add_file(&mut self, path: &Path) {
        self.files.push(path.to_owned());
    }

    pub(super) fn add_name(&mut self, name: &str) {
        self.names.push(name.to_owned());
    }

    fn has(&self, name: &str) -> bool {
        is_standard(name)
            || self.names.iter().any(|known| known == name)
            || self.files.iter().any(|path| file::is_called(path, name))
    }
}

/// Adds the workspace tools to a snapshot, and returns whether all of them were asked.
pub(super) async fn add_tools(
    scan: &Arc<ScanContext>,
    snapshot: &mut Snapshot,
    installed: &InstalledNames,
) -> bool {
    let Some(tools) = &scan.workspace_tools else { return true };
    let mut approved: Vec<WorkspaceTool> = Vec::new();
    for tool in tools() {
        if installed.has(&tool.name) {
            let reason = format!("`{}` is the name of an installed tool", tool.name);
            skip(snapshot, &tool, reason, false);
        } else if approved.iter().any(|other| other.name == tool.name) {
            let reason = format!("the workspace has another tool named `{}`", tool.name);
            skip(snapshot, &tool, reason, false);
        } else {
            approved.push(tool);
        }
    }
    let mut is_whole = true;
    for (tool, answer) in ask_all(scan, approved).await {
        match answer {
            Ok(found) => add(scan, snapshot, &tool, found),
            Err(refusal) => {
                let is_left_out = matches!(refusal, CandidateRefusal::NotCompiled);
                is_whole &= !is_left_out;
                snapshot.is_late |= matches!(refusal, CandidateRefusal::Late);
                skip(snapshot, &tool, refusal.reason().to_owned(), !is_left_out);
            }
        }
    }
    is_whole
}

/// Asks several tools at once, and returns their answers in the same order.
async fn ask_all(
    scan: &Arc<ScanContext>,
    tools: Vec<WorkspaceTool>,
) -> Vec<(WorkspaceTool, Result<CheckedBuild, CandidateRefusal>)> {
    in_tasks(tools, ASKED_PER_CORE * processors(), |tool| {
        let scan = Arc::clone(scan);
        async move {
            let answer = scan.ask_of_workspace(&tool).await;
            (tool, answer)
        }
    })
    .await
}

impl ScanContext {
    /// Asks a workspace tool for its schema, if its file is the approved one.
    async fn ask_of_workspace(
        &self,
        tool: &WorkspaceTool,
    ) -> Result<CheckedBuild, CandidateRefusal> {
        let failed = |reason: String| Err(CandidateRefusal::Failed(reason));
        let candidate = match Candidate::at(tool.path.clone(), ToolOrigin::User) {
            Ok(candidate) => candidate,
            Err(unfit) => return failed(unfit.to_string()),
        };
        if candidate.backend == Backend::Mcp {
            return failed("it defines a server, and a workspace brings none".to_owned());
        }
        let build = self.build(&candidate).await.map_err(CandidateRefusal::Failed)?;
        if build.digest != tool.digest {
            let (found, approved) = (build.digest, tool.digest);
            return failed(format!(
                "it is not the file that was approved for this workspace: its sha256 is {found}, \
                 approved was {approved}"
            ));
        }
        let is_wanted = match &self.wanted {
            ScanTarget::All => true,
            ScanTarget::Tool(name) if *name == tool.name => true,
            ScanTarget::Known | ScanTarget::Servers | ScanTarget::Tool(_) => build.is_compiled(),
        };
        let (build, schema) = self.ask_build(&candidate, build, |_| is_wanted).await?;
        if schema.name != tool.name {
            return failed(format!(
                "its schema has the name `{}`, and `{}` was approved for this workspace",
                schema.name, tool.name
            ));
        }
        Ok((build, schema))
    }
}

/// Adds one tool, unless the policy does not allow its build, or a server has a tool with its name.
fn add(
    scan: &ScanContext,
    snapshot: &mut Snapshot,
    tool: &WorkspaceTool,
    (build, schema): CheckedBuild,
) {
    let asked = scan.authority.choose(&tool.name, ToolOrigin::User).backend;
    if !asked.allows(build.backend()) {
        let kind = build.backend().as_str();
        let reason = format!("its only build is {kind}, and the backend is set to {asked}");
        return skip(snapshot, tool, reason, false);
    }
    if let Some(hidden) = snapshot.tools.get(&tool.name) {
        if let Some((server, _)) = hidden.build.of_a_server() {
            let reason = format!("the server `{}` has a tool of its name", server.name);
            return skip(snapshot, tool, reason, false);
        }
        let reason = format!(
            "the tool `{}` of the workspace with the same name replaces it",
            tool.path.display()
        );
        let path = hidden.build.path.clone();
        snapshot.skipped.push(Skipped { path, reason, failed: false });
    }
    let reason = "the workspace brings it".into();
    let tool = Tool::new(schema, ToolOrigin::User, build, reason, None).of_workspace();
    snapshot.tools.insert(tool.name().to_owned(), tool);
}

fn skip(snapshot: &mut Snapshot, tool: &WorkspaceTool, reason: String, failed: bool) {
    snapshot.skipped.push(Skipped { path: tool.path.clone(), reason, failed });
}
