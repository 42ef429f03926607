//! A thing that a tool reached for: the unit in which refusals are counted and shown.

use std::path::PathBuf;

use ikigai_host::policy::AssetAccess;
use ikigai_protocol::Access;
use serde_json::{Value, json};

use super::peers::AskedPeer;
use super::{one_line, path_in_words};

/// A thing that a tool reached for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Touch {
    /// To run at all.
    Run,
    Path(Access, PathBuf),
    Peer(AskedPeer),
    Assets(AssetAccess),
    /// A refusal that no entry of a policy can be made of, in the words of the log.
    Other(String),
}

impl Touch {
    /// Returns it in words, with characters that deceive written out.
    pub(crate) fn in_words(&self) -> String {
        match self {
            Self::Run => "run at all".to_owned(),
            Self::Path(access, path) => path_in_words(*access, &path.to_string_lossy()),
            Self::Peer(peer) => format!("connect `{}`", one_line(&peer.written())),
            Self::Assets(access) => format!("{} assets", access.as_str()),
            Self::Other(text) => one_line(text),
        }
    }

    /// Returns it as JSON, as the audit log has it.
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
