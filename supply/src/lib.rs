//! The supply of tools: what a file says about itself, where files come from, who signed them, and
//! what was installed.
//!
//! Nothing here knows a grant or a call, and nothing here decides whether a tool may run.

pub mod section;
mod signer;

pub use signer::{Identity, Signer, SignerError};
