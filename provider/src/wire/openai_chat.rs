//! OpenAI's Chat Completions: <https://platform.openai.com/docs/api-reference/chat>, streamed
//! as <https://platform.openai.com/docs/api-reference/chat-streaming> describes, and as Ollama,
//! vLLM, llama.cpp and others speak it.

mod calls;
mod request;
mod stream;

pub(super) use request::outgoing;
pub(super) use stream::Stream;
