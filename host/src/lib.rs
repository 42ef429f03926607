//! ikigai: a host for tools that language models call.
//!
//! docs/architecture.md says who may depend on whom. From low to high: `policy`,
//! `exec`, `registry`, `cli`.

pub mod digest;
pub mod exec;
pub mod policy;
