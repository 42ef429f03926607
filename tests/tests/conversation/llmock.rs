//! The clients of models against llmock, a server of other authors that fails as the vendors do and
//! judges how a client reacts. It shares no code and no reading of the vendors' documentation with
//! our own servers for tests.
//!
//! If llmock is not installed because Python or the network was missing, each test reports that it
//! tests nothing.

mod asking;
mod failures;
mod flow;
mod server;
mod streams;
