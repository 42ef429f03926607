//! The description of a tool, extended by the schema of its results.
//!
//! Two vendors have a member for this schema: OpenAI's Responses (`output_schema`) and Google
//! (`responseJsonSchema`). Other servers with the same interface refuse a request with a member
//! that they do not know. So every model reads the schema in the description.

use ikigai_protocol::ToolSchema;
use serde_json::Value;

use crate::loss::{Loss, LossEffect, LossReason};

/// The end of a description that was shortened.
const CUT: char = '…';

/// Returns the description that is sent, at most `limit` characters long. The schema of the results
/// is omitted first; then the description itself is cut.
pub(super) fn description(
    schema: &ToolSchema,
    limit: Option<usize>,
    losses: &mut Vec<Loss>,
) -> String {
    let own = &schema.description;
    let full = match schema.model_returns() {
        Some(returns) => with_returns(own, returns),
        None => own.clone(),
    };
    let (Some(limit), found) = (limit, full.chars().count()) else { return full };
    if found <= limit {
        return full;
    }
    let mut lost = |at: &str, effect, found| {
        let reason = LossReason::Limit { what: "characters of the description", found, limit };
        losses.push(Loss { at: at.to_owned(), effect, reason });
    };
    if schema.model_returns().is_some() {
        lost("returns", LossEffect::Removed, found);
    }
    let found = own.chars().count();
    if found <= limit {
        return own.clone();
    }
    lost("description", LossEffect::Cut, found);
    own.chars().take(limit.saturating_sub(1)).chain([CUT]).collect()
}

/// Adds the schema of the results, inside the envelope that the host puts around them.
fn with_returns(own: &str, returns: &Value) -> String {
    let between = if own.trim().is_empty() { "" } else { "\n\n" };
    format!(
        "{own}{between}A call that succeeds answers {{\"tool_success\":true,\"result\":…}}, with a \
         result of this schema: {returns}"
    )
}
