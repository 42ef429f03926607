//! References, registries, downloads and credentials against real registries and against a small one
//! that misbehaves: the tables *what happens* and *bad input* of the supply.

#[path = "registries/artifacts.rs"]
mod artifacts;
#[path = "registries/credentials.rs"]
mod credentials;
#[path = "registries/downloads.rs"]
mod downloads;
#[path = "registries/files.rs"]
mod files;
#[path = "registries/scene.rs"]
mod scene;
