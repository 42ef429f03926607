//! The files of a release, installed from nothing, run, upgraded and removed.
//!
//! [`script`] needs no build: it installs releases that the test makes up. The other modules test
//! the files that `cargo xtask dist` made; see [`artifacts`].

mod archive;
mod artifacts;
mod debian;
mod npm;
mod script;
mod wheel;
