//! The accesses of a watched tool, in the report.
//!
//! Owns their form and the bounds on their number. Paths are bytes: a tool may use names that are no
//! text.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The accesses of a watched tool, each once. The names in it are the tool's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seen {
    /// True if the tool was watched from its start to its end. Else the lists say nothing of what is
    /// missing in them.
    pub watched: bool,
    /// The files out of its reach. It may have named files that do not exist.
    pub reached: Vec<Touch>,
    /// The files that it used of its grant; the granted directories and files alone where not all is kept.
    pub used: Vec<Touch>,
    /// The peers that it connected to, or tried to.
    pub peers: Vec<SocketAddr>,
    /// The number of those that are left out, because there were too many.
    pub more: u64,
}

impl Seen {
    /// The number of files, and of peers, that are kept of each list.
    pub const KEPT: usize = 256;

    /// The same where all accesses are kept ([`Watch::All`](super::Watch::All)), which a person waits
    /// for.
    pub const KEPT_OF_ALL: usize = 4096;

    /// The length of the path of each file that is kept, on average, in bytes.
    pub const PATH: usize = 128;
}

/// An access to a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Touch {
    /// Its path, as the tool named it; absolute.
    #[serde(with = "path_text")]
    pub path: PathBuf,
    /// The kind of the access.
    pub access: Access,
}

/// The kind of an access to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Access {
    /// To read or execute it, or to ask about it.
    Read,
    /// To change or remove it.
    Change,
    /// To make it, or to change it where it exists.
    Make,
}

/// The form of a path in a report: a string, or bytes where it is none.
mod path_text {
    use std::ffi::OsString;
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    use std::path::{Path, PathBuf};

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Text<'a> {
        String(std::borrow::Cow<'a, str>),
        Bytes(Vec<u8>),
    }

    pub(super) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        let text = match path.to_str() {
            Some(text) => Text::String(text.into()),
            None => Text::Bytes(path.as_os_str().as_bytes().to_vec()),
        };
        text.serialize(serializer)
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<PathBuf, D::Error> {
        let bytes = match Text::deserialize(from)? {
            Text::String(text) => text.into_owned().into_bytes(),
            Text::Bytes(bytes) => bytes,
        };
        Ok(OsString::from_vec(bytes).into())
    }
}
