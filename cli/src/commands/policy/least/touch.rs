//! A resource that a tool used or tried to use: the unit in which refusals are counted and shown.

use std::path::PathBuf;

use ikigai_host::policy::AssetAccess;
use ikigai_protocol::Access;
use serde_json::{Value, json};

use super::peers::AskedPeer;
use super::{one_line, path_in_words};

/// A resource that a tool used or tried to use.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ToolAccess {
    /// Running the tool at all.
    Run,
    Path(Access, PathBuf),
    Peer(AskedPeer),
    Assets(AssetAccess),
    /// A refusal that a policy entry cannot express, in the words of the log.
    Other(String),
}

impl ToolAccess {
    /// Returns the resource in words, with deceptive characters escaped.
    pub(crate) fn in_words(&self) -> String {
        match self {
            Self::Run => "run at all".to_owned(),
            Self::Path(access, path) => path_in_words(*access, &path.to_string_lossy()),
            Self::Peer(peer) => format!("connect `{}`", one_line(&peer.written())),
            Self::Assets(access) => format!("{} assets", access.as_str()),
            Self::Other(text) => one_line(text),
        }
    }

    /// Returns the resource as JSON, in the form of the audit log.
    pub(crate) fn as_json(&self) -> Value {
        match self {
            Self::Run => json!({ "kind": "run" }),
            Self::Path(access, path) => json!({
                "kind": "path",
                "access": access.as_str(),
                "path": path.to_string_lossy(),
            }),
            Self::Peer(AskedPeer { host, port: Some(port) }) => {
                json!({ "kind": "peer", "host": host, "port": port })
            }
            Self::Peer(AskedPeer { host, port: None }) => json!({ "kind": "host", "host": host }),
            Self::Assets(access) => json!({ "kind": "assets", "access": access.as_str() }),
            Self::Other(_) => json!({ "kind": "other" }),
        }
    }
}
