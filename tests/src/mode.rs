//! The mode of a file, whatever the umask of the test is.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Sets the mode of a file or a directory.
///
/// # Panics
///
/// Panics if the mode cannot be set.
#[track_caller]
pub fn permit(path: impl AsRef<Path>, mode: u32) {
    let path = path.as_ref();
    if let Err(error) = fs::set_permissions(path, Permissions::from_mode(mode)) {
        panic!("`{}` cannot have the mode {mode:o}: {error}", path.display());
    }
}
