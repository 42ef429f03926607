//! The accesses of a watched tool, in the report.
//!
//! Owns their form and the bounds on their number. Paths are bytes: a tool may use names that
//! are not valid text.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The accesses of a watched tool, each once. The names in it are the tool's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObservedAccesses {
    /// True if the tool was watched from its start to its end. Otherwise accesses may be missing
    /// from the lists.
    pub watched: bool,
    /// The files out of its reach. It may have named files that do not exist.
    pub reached: Vec<FileAccess>,
    /// The granted files that it used. Only the granted directories and files themselves, unless
    /// all accesses are kept.
    pub used: Vec<FileAccess>,
    /// The peers that it connected to, or tried to.
    pub peers: Vec<SocketAddr>,
    /// The number of files and peers that were left out because there were too many.
    pub more: u64,
}

impl ObservedAccesses {
    /// The number of entries that are kept in each list.
    pub const KEPT: usize = 256;

    /// The same number if all accesses are kept ([`WatchLevel::All`](super::WatchLevel::All)). The user
    /// waits for such a call.
    pub const KEPT_OF_ALL: usize = 4096;

    /// The average length of the paths that are kept, in bytes.
    pub const PATH: usize = 128;
}

/// An access to a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileAccess {
    /// Its path, as the tool named it; absolute.
    #[serde(with = "path_text")]
    pub path: PathBuf,
    /// The kind of the access.
    pub access: AccessKind,
}

/// The kind of an access to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AccessKind {
    /// To read or execute it, or to ask about it.
    Read,
    /// To change or remove it.
    Change,
    /// To make it, or to change it if it exists.
    Make,
}

/// The form of a path in a report: a string, or bytes if it is not valid text.
mod path_text {
    use std::ffi::OsString;
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    use std::path::{Path, PathBuf};

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum PathText<'a> {
        String(std::borrow::Cow<'a, str>),
        Bytes(Vec<u8>),
    }

    pub(super) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        let text = match path.to_str() {
            Some(text) => PathText::String(text.into()),
            None => PathText::Bytes(path.as_os_str().as_bytes().to_vec()),
        };
        text.serialize(serializer)
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<PathBuf, D::Error> {
        let bytes = match PathText::deserialize(from)? {
            PathText::String(text) => text.into_owned().into_bytes(),
            PathText::Bytes(bytes) => bytes,
        };
        Ok(OsString::from_vec(bytes).into())
    }
}
