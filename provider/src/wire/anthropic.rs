//! Anthropic's Messages API: <https://docs.anthropic.com/en/api/messages>, streamed as in
//! <https://docs.anthropic.com/en/docs/build-with-claude/streaming>.

mod request;
mod stream;

pub(super) use request::outgoing;
pub(super) use stream::AnthropicStream;
