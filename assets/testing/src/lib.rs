//! A private PostgreSQL server for a test, only on a Unix socket. It ends with the test, even if
//! the test is killed.
//!
//! Knows nothing of ikigai's stores.

mod server;

pub use server::{REQUIRE_VARIABLE, Server};
