//! Converts the accesses that the host and its log report for a call.

use std::path::PathBuf;

use ikigai_host::policy::{Reached, Used};
use ikigai_protocol::Access;

use super::peers::AskedPeer;
use super::touch::Touch;

/// A part of the grant that a call used.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Use {
    /// A directory or a file that is granted.
    Dir(PathBuf),
    /// A file, which only recordings report.
    File(Access, PathBuf),
    Peer(AskedPeer),
}

impl From<&Reached> for Touch {
    fn from(reached: &Reached) -> Self {
        match reached {
            Reached::Path { access, path } => Self::Path(*access, path.clone()),
            Reached::Peer { host, port } => {
                Self::Peer(AskedPeer { host: host.clone(), port: Some(*port) })
            }
            Reached::Host { host } => Self::Peer(AskedPeer { host: host.clone(), port: None }),
            Reached::Run => Self::Run,
        }
    }
}

impl From<&Used> for Use {
    fn from(used: &Used) -> Self {
        match used {
            Used::Dir { path } => Self::Dir(path.clone()),
            Used::File { access, path } => Self::File(*access, path.clone()),
            Used::Peer { host, port } => {
                Self::Peer(AskedPeer { host: host.clone(), port: Some(*port) })
            }
        }
    }
}
