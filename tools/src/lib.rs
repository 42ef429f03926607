//! The six standard tools, written once over capability traits ([`ports`]).
//!
//! This crate decides what a tool answers. It deliberately does not know how a
//! file is opened, whether it runs as a native program or as a component, or
//! what it was granted: the ports do.

#![warn(missing_docs)]

mod answer;
mod args;
mod bash;
mod command;
#[cfg(feature = "fake")]
pub mod fake;
mod file_edit;
mod file_read;
mod file_write;
mod glob;
mod grants;
mod grep;
mod json;
pub mod ports;
mod schemas;
mod target;

#[cfg(feature = "fake")]
pub use command::answer;
pub use command::{run_bash, run_file_edit, run_file_read, run_file_write, run_glob, run_grep};
pub use grants::{beneath, names_above};
