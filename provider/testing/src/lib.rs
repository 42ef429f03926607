//! Servers for tests that answer as the vendors of models do: they stream each vendor's documented
//! format, refuse what the vendor refuses, and fail on request as a network and a vendor can.
//!
//! Depends on nothing of ikigai: the servers are written from the vendors' documentation alone, so
//! that a misreading in the client is noticed.

#![warn(missing_docs)]

mod answer;
mod check;
mod gate;
mod http;
mod issued;
mod refusal;
mod reply;
mod server;
mod stream;
mod trouble;
mod vendor;

pub use gate::Gate;
pub use http::Received;
pub use reply::Reply;
pub use server::{Builder, FakeServer};
pub use trouble::Trouble;
pub use vendor::Vendor;
