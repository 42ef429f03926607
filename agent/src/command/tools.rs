//! `/tool`: the tools of a snapshot in a few lines.

use std::fmt::Write as _;

use ikigai_host::host::Host;
use ikigai_host::registry::{Snapshot, Tool};

/// Returns a line for each tool.
pub(super) fn list(snapshot: &Snapshot) -> String {
    let tools = snapshot.tools();
    if tools.len() == 0 {
        return "No tools.".to_owned();
    }
    let width = snapshot.tools().map(|tool| tool.name().len()).max().unwrap_or_default();
    let line = |tool: &Tool| {
        let about = tool.schema.description.lines().next().unwrap_or_default();
        format!("  {:width$}  {about}", tool.name())
    };
    let lines: Vec<String> = tools.map(line).collect();
    format!("Tools ({}):\n{}", lines.len(), lines.join("\n"))
}

/// Returns a description of one tool.
pub(super) fn show(host: &Host, tool: &Tool) -> String {
    let mut text = format!("{}: {}\n", tool.name(), tool.schema.description);
    let build = &tool.build;
    // Writing to a `String` cannot fail.
    let _ = writeln!(text, "From: {}, {}", tool.source(), build.path.display());
    let _ = writeln!(text, "Runs as: {} ({})", build.backend().as_str(), tool.reason);
    if let Err(denial) = host.decide(tool.into()) {
        let _ = writeln!(text, "May not be called: {denial}");
    }
    let parameters = serde_json::to_string_pretty(&tool.schema.parameters).unwrap_or_default();
    let _ = write!(text, "Parameters: {parameters}");
    text
}
