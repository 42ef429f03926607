//! A PostgreSQL server of a test's own: private, on a Unix socket only, and gone with the
//! test, however the test ends.
//!
//! Knows nothing of ikigai's stores; a test opens what it likes at the address.

mod server;

pub use server::{REQUIRE_VARIABLE, Server};
