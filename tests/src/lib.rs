//! What the tests of whole programs share.

pub mod component;
pub mod conformance;
pub mod draw;
pub mod fidelity;
pub mod host;
pub mod leftovers;
#[cfg(target_os = "linux")]
pub mod openings;
pub mod places;
