//! Converts the accesses that the host and its log report for a call.

use std::path::PathBuf;

use ikigai_host::policy::{RequestedAccess, UsedAccess};
use ikigai_protocol::Access;

use super::peers::AskedPeer;
use super::touch::ToolAccess;

/// A part of the grant that a call used.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum GrantUse {
    /// A directory or a file that is granted.
    Dir(PathBuf),
    /// A file, which only recordings report.
    File(Access, PathBuf),
    Peer(AskedPeer),
}

impl From<&RequestedAccess> for ToolAccess {
    fn from(reached: &RequestedAccess) -> Self {
        match reached {
            RequestedAccess::Path { access, path } => Self::Path(*access, path.clone()),
            RequestedAccess::Peer { host, port } => {
                Self::Peer(AskedPeer { host: host.clone(), port: Some(*port) })
            }
            RequestedAccess::Host { host } => {
                Self::Peer(AskedPeer { host: host.clone(), port: None })
            }
            RequestedAccess::Run => Self::Run,
        }
    }
}

impl From<&UsedAccess> for GrantUse {
    fn from(used: &UsedAccess) -> Self {
        match used {
            UsedAccess::Dir { path } => Self::Dir(path.clone()),
            UsedAccess::File { access, path } => Self::File(*access, path.clone()),
            UsedAccess::Peer { host, port } => {
                Self::Peer(AskedPeer { host: host.clone(), port: Some(*port) })
            }
        }
    }
}
