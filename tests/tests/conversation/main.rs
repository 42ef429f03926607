//! Conversations with models: `ikigai ask`, the terminal and what is kept.

mod agent;
mod llmock;
mod repl;
mod sessions;
