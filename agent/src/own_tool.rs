//! The schema of `slash_command`, the one tool that is the host's own.

use ikigai_host::policy;
use ikigai_protocol::{ResultKind, ToolSchema};
use serde_json::json;

/// The name of the host's own tool. No other tool can have this name
/// ([`ikigai_protocol::RESERVED_NAMES`]).
pub const SLASH_COMMAND: &str = policy::OWN_TOOL;

/// Returns the schema of the tool.
pub(super) fn schema() -> ToolSchema {
    ToolSchema {
        name: SLASH_COMMAND.to_owned(),
        description: "Manage the assets in your context. `/pinned` lists those that are \
                      pinned; `/pin PATH` and `/unpin PATH` put one in and take one out; \
                      `/compact PATH [TOKENS]` has it rewritten shorter; `/tool [NAME]` shows \
                      the tools."
            .to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {
                "command": {
                    "type": "string",
                    "description": "The command, such as `/compact blocks/decisions.md 4000`",
                },
            },
            "required": ["command"],
            "additionalProperties": false,
        }),
        returns: None,
        result: ResultKind::Json,
    }
}
