//! The description of a tool of a server as text, in full, for a person who is to approve it.

use std::fmt::Write as _;

use ikigai_host::exec::mcp::ToolDescription;
use ikigai_host::registry::{ListedTool, Standing};
use ikigai_protocol::written_out;
use serde_json::{Map, Value};
use similar::TextDiff;

/// Returns the description of a tool. Of one that changed since it was approved as `before`, it is
/// the difference.
pub(crate) fn of(tool: &ListedTool, before: Option<&ToolDescription>) -> String {
    let standing = match &tool.standing {
        Standing::Approved => "approved",
        Standing::New => "new",
        Standing::Changed => "changed since it was approved",
        Standing::NotChosen => "not chosen by the definition",
        Standing::Forbidden(reason) => reason,
    };
    let name = written_out(&tool.description.name);
    let mut text = format!("{name} ({standing}), offered as {}\n", tool.name);
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

/// Returns everything that a server says of a tool, a fact a line. Characters that leave no mark
/// are written out.
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
        add("annotations, on which nobody relies", &indented(annotations));
    }
    text
}

fn indented(schema: &Map<String, Value>) -> String {
    // A map of JSON values has only strings as keys.
    serde_json::to_string_pretty(schema).unwrap_or_default()
}
