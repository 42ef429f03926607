//! The six built-in tools, written once over capability traits.
//!
//! A program that contains a tool is three lines: it calls one of the functions below with the
//! tool's port.
//!
//! 1. [`run_bash`], [`run_file_read`], [`run_file_write`], [`run_file_edit`], [`run_glob`] and
//!    [`run_grep`] are the tools: each prints its schema for `--schema`, or reads one JSON object
//!    from standard input and prints the answer.
//! 2. [`ports`] has the traits that a platform implements: [`Files`](ports::Files),
//!    [`Assets`](ports::Assets) and [`Shell`](ports::Shell).
//! 3. [`beneath`], [`join`] and [`names_above`] help a port to find the granted directory of a path.
//!
//! This crate decides the answers of the tools. The ports open files, run as a native program or
//! as a component, and know the grants.

#![deny(missing_docs)]

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

#[cfg(feature = "answers")]
pub use command::{answer, schema};
pub use command::{run_bash, run_file_edit, run_file_read, run_file_write, run_glob, run_grep};
pub use grants::{beneath, join, names_above};
