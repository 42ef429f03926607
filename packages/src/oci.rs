//! Artifacts of registries: the OCI formats, the CNCF's Wasm artifact format, and the client of the
//! distribution API.
//!
//! A [`ContentSource`] is the source of an artifact, so that the same code reads and checks a registry
//! and a layout on disk. `download` downloads files.

mod artifact;
mod challenge;
mod error;
mod fallback;
mod login;
mod manifest;
mod pack;
mod push;
mod repository;

pub use artifact::{ContentSource, Referrer, ToolArtifact, referrers, resolve, signature};
pub use error::OciError;
pub use manifest::{
    Descriptor, Index, MANIFEST_MEDIA_TYPE, ManifestOrIndex, OciManifest, WASM_MEDIA_TYPE,
};
pub use pack::{ArtifactDetails, Attached, ComponentInterfaces, Packed};
pub use repository::Repository;

/// The largest manifest or index in bytes. The distribution specification asks registries to accept
/// this size.
pub const LARGEST_MANIFEST: usize = 4 << 20;

/// The largest configuration of an artifact in bytes.
pub const LARGEST_CONFIG: usize = 1 << 20;

/// The most referrers of one manifest.
pub const MOST_REFERRERS: usize = 64;
