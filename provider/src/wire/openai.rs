//! OpenAI's Responses API: <https://platform.openai.com/docs/api-reference/responses>, streamed
//! as <https://platform.openai.com/docs/api-reference/responses-streaming> describes. Nothing
//! is stored at the provider: every request carries the whole conversation.

mod request;
mod stream;

pub(super) use request::outgoing;
pub(super) use stream::Stream;

/// The member of a message that its text carries along as a blob:
/// <https://platform.openai.com/docs/api-reference/responses/object#responses-object-output>.
const PHASE: &str = "phase";
