//! References, registries, downloads and credentials, against real registries and a small one that
//! misbehaves.

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
