//! Answers of an offer, in the form of the protocol.

use rmcp::model::{self, CallToolResult, ContentBlock, ErrorData, MetaObject};
use serde_json::Value;

use crate::offer::{Answer, Resource, Unanswered};

/// Returns the result of a call.
pub(crate) fn of(answer: Result<Answer, Unanswered>) -> Result<CallToolResult, ErrorData> {
    let Answer { text, is_error, structured, whole, meta } = match answer {
        Ok(answer) => answer,
        Err(Unanswered::Invalid(message)) => return Err(ErrorData::invalid_params(message, None)),
    };
    let mut content = vec![ContentBlock::text(text)];
    content.extend(whole.as_ref().map(|whole| ContentBlock::resource_link(resource(whole))));
    let mut result =
        if is_error { CallToolResult::error(content) } else { CallToolResult::success(content) };
    result.structured_content = structured.map(Value::Object);
    result.meta = (!meta.is_empty()).then_some(MetaObject(meta));
    Ok(result)
}

/// Returns an entry of a list of resources.
pub(crate) fn resource(resource: &Resource) -> model::Resource {
    let Resource { uri, name, size } = resource;
    let entry = model::Resource::new(uri, name).with_mime_type("text/plain");
    match size {
        Some(size) => entry.with_size(*size),
        None => entry,
    }
}

/// Returns the result of a call that did not run.
pub(crate) fn error(text: &str) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(text)])
}
