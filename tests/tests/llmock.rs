//! The clients of models against llmock, which fails as the vendors do, watches what a
//! client makes of it, and judges. It is an opinion from outside: neither our reading of
//! the vendors' documentation is in it nor that of our own servers.
//!
//! Where Python or the network was missing, nothing is tested, and the tests say so.

#[path = "llmock/asking.rs"]
mod asking;
#[path = "llmock/failures.rs"]
mod failures;
#[path = "llmock/flow.rs"]
mod flow;
#[path = "llmock/server.rs"]
mod server;
#[path = "llmock/streams.rs"]
mod streams;
