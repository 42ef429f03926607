//! What the tests of whole programs share.

pub mod component;
pub mod conformance;
pub mod fidelity;
pub mod host;
pub mod leftovers;
pub mod places;
