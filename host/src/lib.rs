//! ikigai: a host for tools that language models call.
//!
//! docs/architecture.md says who may depend on whom. From low to high: `digest`,
//! `limits`, `nearest` and `paths`, `toml_file`, `policy`, `exec`, `audit` and
//! `registry`, `host`.

pub mod audit;
pub mod digest;
pub mod exec;
pub mod host;
pub mod limits;
pub mod nearest;
pub mod paths;
pub mod policy;
pub mod registry;
pub mod toml_file;

pub use host::{BuildError, Host, HostBuilder};
pub use paths::Paths;
