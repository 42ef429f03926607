//! What a tool may touch.
//!
//! Owns the grant and the built-in profile it comes from. Opens nothing: a grant
//! is a list of names, and the lane that runs a tool turns it into handles.

use std::ffi::OsString;

use ikigai_protocol::GrantedDir;

/// What one tool may touch in one workspace. Nothing else is reachable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    /// Directories, absolute. A component gets each as a preopen; a native file
    /// tool gets them in `IKIGAI_DIRS`.
    pub dirs: Vec<GrantedDir>,
    /// The whole environment of the tool.
    pub env: Vec<(OsString, OsString)>,
    /// Whether the tool runs with all of its user's rights: a native tool that
    /// does not confine itself.
    pub unconfined: bool,
}
