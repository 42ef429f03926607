//! The description of a server's tool as text, short or in full, for the user who approves it.

use std::fmt::Write as _;

use ikigai_host::exec::mcp::ToolDescription;
use ikigai_host::registry::{ApprovalState, ListedTool};
use ikigai_protocol::written_out;
use serde_json::{Map, Value};
use similar::TextDiff;

/// The most characters of a description on a line.
const LINE: usize = 100;

/// Returns the name of a tool and the first line of its description.
pub(crate) fn in_short(tool: &ListedTool) -> String {
    let name = written_out(&tool.description.name);
    let description = tool.description.description.trim();
    let first = description.lines().next().unwrap_or_default();
    let mut line: String = first.chars().take(LINE).collect();
    if line.len() < description.len() {
        line.push_str(" …");
    }
    format!("{name} ({})  {}\n", standing(tool), written_out(&line))
}

fn standing(tool: &ListedTool) -> &str {
    match &tool.standing {
        ApprovalState::Approved => "approved",
        ApprovalState::New => "new",
        ApprovalState::Changed => "changed since it was approved",
        ApprovalState::NotChosen => "not chosen by the definition",
        ApprovalState::Forbidden(reason) => reason,
    }
}

/// Returns the description of a tool. If `before` is its approved description, returns the
/// difference from that.
pub(crate) fn render(tool: &ListedTool, before: Option<&ToolDescription>) -> String {
    let name = written_out(&tool.description.name);
    let mut text = format!("{name} ({}), offered as {}\n", standing(tool), tool.name);
    let now = full(&tool.description);
    let Some(before) = before else {
        text.push_str(&now);
        return text;
    };
    let before = full(before);
    for change in TextDiff::from_lines(&before, &now).iter_all_changes() {
        // Writing to a string cannot fail.
        let _ = write!(text, "{}{}", change.tag(), change.value());
    }
    text
}

/// Returns everything that a server declares about a tool, one fact per line. Escapes invisible
/// characters.
fn full(description: &ToolDescription) -> String {
    let ToolDescription { title, description, parameters, returns, annotations, .. } = description;
    let mut text = String::new();
    let mut add = |head: &str, lines: &str| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {head}");
        for line in lines.lines() {
            let _ = writeln!(text, "    {}", written_out(line));
        }
    };
    if let Some(title) = title {
        add("title", title);
    }
    add("description", description);
    add("arguments", &indented(parameters));
    if let Some(returns) = returns {
        add("result", &indented(returns));
    }
    if let Some(annotations) = annotations {
        add("annotations, which ikigai does not rely on", &indented(annotations));
    }
    text
}

fn indented(schema: &Map<String, Value>) -> String {
    // A map of JSON values has only strings as keys.
    serde_json::to_string_pretty(schema).unwrap_or_default()
}
