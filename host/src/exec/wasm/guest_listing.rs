//! The state of a directory that a guest reads.

use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::Dir;

use super::hidden::HiddenPaths;

/// A directory that a guest is reading.
pub(super) struct GuestListing {
    pub(super) entries: Dir,
    /// The names that are shown; nothing if all are.
    pub(super) shown: Option<Box<VisibleNames>>,
}

/// The names of a directory that a guest sees.
pub(super) struct VisibleNames {
    /// The granted files, if the directory itself is not granted.
    pub(super) only: Option<Vec<String>>,
    /// The hidden names, the granted directory from which they count, and the path of this
    /// directory.
    pub(super) hidden: Option<(Arc<HiddenPaths>, PathBuf, PathBuf)>,
}
