//! Conversations with models: `ikigai ask`, the terminal and stored sessions.

mod agent;
mod repl;
mod sessions;
