//! Registries for tests: real ones, where they are installed; a small one that can be told to
//! misbehave; a proxy that cuts, stalls and lies; and one that counts round trips.
//!
//! From the distribution specification alone, without code of ours.

mod fake;
mod http;
mod proxy;
mod real;
mod serving;
mod waves;

pub use fake::{Fake, Style};
pub use http::{Received, Reply};
pub use proxy::{Fault, Proxy};
pub use real::{REQUIRE_VARIABLE, Real};
pub use waves::Waves;
