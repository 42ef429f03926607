//! Answers of an offer, converted to the protocol's types.

use rmcp::model::{self, CallToolResult, ContentBlock, ErrorData, MetaObject};

use crate::offer::{AnswerBody, CallAnswer, Resource, Unanswered};

/// Returns the result of a call.
pub(crate) fn from_answer(
    answer: Result<CallAnswer, Unanswered>,
) -> Result<CallToolResult, ErrorData> {
    let CallAnswer { body, is_error, structured, whole, meta } = match answer {
        Ok(answer) => answer,
        Err(Unanswered::Invalid(message)) => return Err(ErrorData::invalid_params(message, None)),
    };
    let mut content = match body {
        AnswerBody::Text(text) => vec![ContentBlock::text(text)],
        AnswerBody::Blocks(blocks) => serde_json::from_str(&blocks).map_err(|error| {
            let text = format!("the answer of the tool has no content blocks: {error}");
            ErrorData::internal_error(text, None)
        })?,
    };
    content.extend(whole.as_ref().map(|whole| ContentBlock::resource_link(resource(whole))));
    let mut result =
        if is_error { CallToolResult::error(content) } else { CallToolResult::success(content) };
    result.structured_content = structured;
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
