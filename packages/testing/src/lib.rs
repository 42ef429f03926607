//! Registries for tests: real ones, if they are installed; a small one that can misbehave; a proxy
//! that cuts, stalls and lies; and a proxy that counts round trips.
//!
//! Written only from the distribution specification, without ikigai's own code.

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
