//! OpenAI's Responses API: <https://platform.openai.com/docs/api-reference/responses>, streamed as
//! in <https://platform.openai.com/docs/api-reference/responses-streaming>. Nothing is stored at
//! the provider: every request has the whole conversation.

mod request;
mod stream;

pub(super) use request::outgoing;
pub(super) use stream::OpenAiStream;

/// The member of a message that is kept as the blob of its text:
/// <https://platform.openai.com/docs/api-reference/responses/object#responses-object-output>.
const PHASE: &str = "phase";
