//! Test servers that answer as model vendors do. They stream each vendor's documented format,
//! refuse what the vendor refuses, and on request fail as a network or a vendor can.
//!
//! This crate depends on no other crate of ikigai. The servers are written only from the vendors'
//! documentation, so that the tests notice if the client misreads it.

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
