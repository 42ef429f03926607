//! Tools that come from elsewhere: installed, updated, verified, removed, shared and pushed by the
//! program, against registries and web servers that also cut, stall and lie.
//!
//! Whatever goes wrong ends in one sentence, and the tool that was there runs as it did.

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
mod scene;
mod signers;
mod signing;
mod sources;
mod workspace;
