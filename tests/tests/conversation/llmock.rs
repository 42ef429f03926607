//! The model clients, tested against llmock, another author's server. It fails as the vendors do,
//! and checks how a client reacts. It shares no code with our own test servers, and was written
//! from an independent reading of the vendors' documentation.
//!
//! If llmock is not installed because Python or the network was missing, each test reports that it
//! tests nothing.

mod asking;
mod failures;
mod flow;
mod server;
mod streams;
