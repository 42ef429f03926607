//! The ports of the tools for a component: files over the directories that the
//! host preopened, `ikigai:tool/workspace` for what WASI cannot express, and documents
//! over `ikigai:tool/assets`.
//!
//! Without the feature `host-imports` nothing of `ikigai:tool` is imported, so that the
//! component starts in any host: there are no documents then, and a file is replaced in
//! place.
//!
//! What a tool answers is `ikigai-tools`'s. What is not preopened does not exist
//! here, so nothing in this crate guards anything; it only tells a path outside
//! apart from a missing file.

#[cfg(feature = "host-imports")]
mod assets;
#[cfg(feature = "host-imports")]
mod bindings;
mod error_code;
mod files;

#[cfg(feature = "host-imports")]
pub use assets::WitDocuments as HostDocuments;
pub use files::{Directory, File, WasiFiles};
#[cfg(not(feature = "host-imports"))]
pub use ikigai_tools::ports::NoDocuments as HostDocuments;

use ikigai_tools::ports::Storage;

/// The files that this component was granted.
///
/// # Errors
///
/// None: without a directory every path is outside.
pub fn files() -> Result<WasiFiles, String> {
    Ok(WasiFiles::preopened())
}

/// The same, and the documents of the host.
///
/// # Errors
///
/// None: what is not granted shows when it is asked for.
pub fn storage() -> Result<Storage<WasiFiles, HostDocuments>, String> {
    Ok(Storage { files: WasiFiles::preopened(), documents: HostDocuments })
}
