//! Installed tools: the program installs, updates, verifies, removes, shares and pushes them,
//! against registries and web servers that may also disconnect, stall and lie.
//!
//! Every failure ends with one sentence, and the earlier tool still runs.

mod artifacts;
mod credentials;
mod downloads;
mod full;
mod grants;
mod installed;
mod killed;
mod layouts;
mod locks;
mod manifests;
mod person;
mod places;
mod pushing;
mod required;
mod round_trips;
pub(crate) mod scene;
mod signers;
pub(crate) mod signing;
mod sources;
mod workspace;
