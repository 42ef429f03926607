//! OpenAI's Chat Completions: <https://platform.openai.com/docs/api-reference/chat>, streamed as in
//! <https://platform.openai.com/docs/api-reference/chat-streaming>, and as Ollama, vLLM, llama.cpp
//! and others implement it.

mod calls;
mod request;
mod stream;

pub(super) use request::outgoing;
pub(super) use stream::ChatStream;
