//! What a model is told of a tool in words: its description, and what comes back of a call.
//!
//! Two vendors have a member for the second, OpenAI's Responses (`output_schema`) and Google
//! (`responseJsonSchema`). Other servers that speak as they do refuse a member that they do not
//! know, and with it the request; so every model reads it in the description.

use ikigai_protocol::ToolSchema;
use serde_json::Value;

use crate::loss::{Effect, Loss, Reason};

/// What stands for the end of a description that was cut.
const CUT: char = '…';

/// The description as it is sent, at most `limit` characters long. What comes back is left
/// out first; then the description itself is cut.
pub(super) fn description(
    schema: &ToolSchema,
    limit: Option<usize>,
    losses: &mut Vec<Loss>,
) -> String {
    let own = &schema.description;
    let full = match &schema.returns {
        Some(returns) => with_returns(own, returns),
        None => own.clone(),
    };
    let (Some(limit), found) = (limit, full.chars().count()) else { return full };
    if found <= limit {
        return full;
    }
    let mut lost = |at: &str, effect, found| {
        let reason = Reason::Limit { what: "characters of the description", found, limit };
        losses.push(Loss { at: at.to_owned(), effect, reason });
    };
    if schema.returns.is_some() {
        lost("returns", Effect::Removed, found);
    }
    let found = own.chars().count();
    if found <= limit {
        return own.clone();
    }
    lost("description", Effect::Cut, found);
    own.chars().take(limit.saturating_sub(1)).chain([CUT]).collect()
}

/// The envelope around the result is the host's, and the same for every tool.
fn with_returns(own: &str, returns: &Value) -> String {
    let between = if own.trim().is_empty() { "" } else { "\n\n" };
    format!(
        "{own}{between}A call that succeeds answers {{\"tool_success\":true,\"result\":…}}, with a \
         result of this schema: {returns}"
    )
}
