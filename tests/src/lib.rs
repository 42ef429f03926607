//! What the tests of whole programs share.

pub mod host;
pub mod places;
