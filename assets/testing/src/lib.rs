//! A private PostgreSQL server for a test, on a Unix socket only, which ends with the test,
//! also if the test is killed.
//!
//! Knows nothing of ikigai's stores.

mod server;

pub use server::{REQUIRE_VARIABLE, Server};
