//! Artifacts of registries: the formats of OCI and of the CNCF's Wasm artifact, and the client of the
//! distribution API.
//!
//! A [`Content`] is the source of an artifact, so that a registry and a layout on disk are read and
//! judged by the same code. Files are downloaded by `download`.

mod artifact;
mod challenge;
mod error;
mod fallback;
mod login;
mod manifest;
mod pack;
mod push;
mod repository;

pub use artifact::{Artifact, Content, Referrer, referrers, resolve, signature};
pub use error::OciError;
pub use manifest::{Descriptor, Document, Index, MANIFEST_MEDIA_TYPE, Manifest, WASM_MEDIA_TYPE};
pub use pack::{Attached, Details, Packed};
pub use repository::Repository;

/// The most bytes of a manifest or an index, as the distribution specification asks of registries.
pub const LARGEST_MANIFEST: usize = 4 << 20;

/// The most bytes of the configuration of an artifact.
pub const LARGEST_CONFIG: usize = 1 << 20;

/// The most referrers of one manifest.
pub const MOST_REFERRERS: usize = 64;
