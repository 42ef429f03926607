//! Conversations with models: `ikigai ask`, the terminal and stored sessions.

mod agent;
mod llmock;
mod repl;
mod sessions;
