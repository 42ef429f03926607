//! The ports of the built-in tools for a component: files over the directories that the host
//! preopened, `ikigai:tool/workspace` for the operations that WASI lacks, and assets over
//! `ikigai:tool/assets`.
//!
//! Each program in `src/bin` calls one tool of `ikigai-tools` with the port that it needs:
//! [`files`] or [`storage`].
//!
//! Without the feature `host-imports` the component imports nothing of `ikigai:tool`, so that it
//! starts in any host. It then has no assets, and replaces a file in place.
//!
//! `ikigai-tools` decides the answers of the tools. A path that is not preopened does not exist for
//! a component, so this crate enforces nothing; it only distinguishes a path outside from a
//! missing file.

#[cfg(feature = "host-imports")]
mod assets;
#[cfg(feature = "host-imports")]
mod bindings;
mod error_code;
mod files;
mod preopens;

#[cfg(feature = "host-imports")]
pub use assets::WitAssets as HostAssets;
pub use files::{WasiDir, WasiFile, WasiFiles};
#[cfg(not(feature = "host-imports"))]
pub use ikigai_tools::ports::NoAssets as HostAssets;
pub use preopens::Preopens;

use ikigai_tools::ports::Storage;

/// Returns the files that this component was granted.
///
/// # Errors
///
/// Returns no error: without a directory every path is outside.
pub fn files() -> Result<WasiFiles, String> {
    Ok(WasiFiles::preopened())
}

/// Returns the files that this component was granted, and the assets of the host.
///
/// # Errors
///
/// Returns no error: the host refuses an operation that is not granted.
pub fn storage() -> Result<Storage<WasiFiles, HostAssets>, String> {
    Ok(Storage { files: WasiFiles::preopened(), assets: HostAssets })
}
