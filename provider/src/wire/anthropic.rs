//! Anthropic's Messages API: <https://docs.anthropic.com/en/api/messages>, streamed as
//! <https://docs.anthropic.com/en/docs/build-with-claude/streaming> describes.

mod request;
mod stream;

pub(super) use request::outgoing;
pub(super) use stream::Stream;
