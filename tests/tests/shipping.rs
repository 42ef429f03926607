//! Tools that come from elsewhere: installed, updated, verified, removed, shared and pushed by the
//! program, against registries and web servers that also cut, stall and lie.
//!
//! Whatever goes wrong ends in one sentence, and the tool that was there runs as it did.

#[path = "shipping/artifacts.rs"]
mod artifacts;
#[path = "shipping/credentials.rs"]
mod credentials;
#[path = "shipping/downloads.rs"]
mod downloads;
#[path = "shipping/full.rs"]
mod full;
#[path = "shipping/grants.rs"]
mod grants;
#[path = "shipping/installed.rs"]
mod installed;
#[path = "shipping/killed.rs"]
mod killed;
#[path = "shipping/layouts.rs"]
mod layouts;
#[path = "shipping/locks.rs"]
mod locks;
#[path = "shipping/manifests.rs"]
mod manifests;
#[path = "shipping/person.rs"]
mod person;
#[path = "shipping/places.rs"]
mod places;
#[path = "shipping/pushing.rs"]
mod pushing;
#[path = "shipping/required.rs"]
mod required;
#[path = "shipping/round_trips.rs"]
mod round_trips;
#[path = "shipping/scene.rs"]
mod scene;
#[path = "shipping/signers.rs"]
mod signers;
#[path = "shipping/signing.rs"]
mod signing;
#[path = "shipping/sources.rs"]
mod sources;
#[path = "shipping/workspace.rs"]
mod workspace;
