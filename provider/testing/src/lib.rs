//! Servers that answer as the vendors of models do, for tests: they speak each vendor's
//! stream as the vendor documents it, refuse what the vendor refuses, and fail on request
//! in every way in which a network and a vendor can.
//!
//! Depends on nothing of ikigai: what is written here comes from the vendors'
//! documentation alone, so that a misreading in the client meets another reader.

#![warn(missing_docs)]

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
