//! Packages of tools: what a tool's file says about itself, where files come from, who signed
//! them, and which tools were installed.
//!
//! This crate knows no grants, and runs no tools. It decides only by signatures whether a tool may
//! be installed or called.

pub mod credentials;
mod document;
pub mod download;
mod draft;
mod file_error;
mod harmless;
pub mod layout;
mod license;
pub mod lock;
mod manifest;
pub mod needs;
pub mod oci;
mod project;
pub mod reference;
mod regular;
pub mod section;
pub mod signature;
mod signer;
pub mod transport;
pub mod trust;

pub use document::{DocumentError, MemberPath, Position, ValuePlace};
pub use file_error::FileError;
pub use lock::{LockedTool, ToolsLock};
pub use manifest::{Manifest, ManifestError};
pub use needs::Needs;
pub use project::{MAX_PROJECT_BYTES, PROJECT_FILE, Project, ProjectBuild};
pub use regular::open_regular;
pub use signer::{CertificateIdentity, Signer, SignerError};
