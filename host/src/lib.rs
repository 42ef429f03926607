//! ikigai: a host for tools that language models call.
//!
//! docs/architecture.md says who may depend on whom. From low to high: `digest`,
//! `limits`, `nearest` and `places`, `toml_file`, `config` and `policy`, `exec`, `audit`
//! and `registry`, `assets`, `host`, `agent`, `repl`, `cli`.

pub mod agent;
pub mod assets;
pub mod audit;
pub mod cli;
pub mod config;
pub mod digest;
pub mod exec;
pub mod host;
pub mod limits;
pub mod nearest;
pub mod places;
pub mod policy;
pub mod registry;
pub mod repl;
pub mod toml_file;
