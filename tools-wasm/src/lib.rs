//! The ports of the tools for a component: files over the directories that the
//! host preopened, and `ikigai:tool/workspace` for what WASI cannot express.
//!
//! What a tool answers is `ikigai-tools`'s. What is not preopened does not exist
//! here, so nothing in this crate guards anything; it only tells a path outside
//! apart from a missing file.

mod bindings;
mod error_code;
mod files;

pub use files::{Directory, File, WasiFiles};

/// The files that this component was granted.
///
/// # Errors
///
/// None: without a directory every path is outside.
pub fn files() -> Result<WasiFiles, String> {
    Ok(WasiFiles::preopened())
}
