//! The needs of a tool: the permissions that it asks for, in the terms of a policy.
//!
//! Needs grant nothing. ikigai shows them to the user, who grants permissions in a policy. This
//! module reads, writes and compares needs.

mod compare;
mod dir;
mod limit;
mod peer;
mod read;

use std::collections::BTreeMap;
use std::fmt;

use ikigai_protocol::Digest;
use serde::Serialize;
use strum::{EnumString, IntoStaticStr, VariantArray};

pub use dir::{DirError, WorkspaceDir};
pub use limit::{LimitName, LimitValue};
pub use peer::{NetworkPeer, PeerError};

pub(crate) use read::read;

/// The needs of a tool. By default a tool needs nothing.
///
/// The JSON form is an object with the sorted keys `assets`, `env`, `fs`, `limits` and `net`. Keys
/// of empty needs are omitted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Needs {
    /// The access to assets of the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assets: Option<AssetNeed>,
    /// The environment variables, each once, in the author's order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<VariableNeed>,
    /// The directories, each once, in the author's order. A directory inside another has the same
    /// access, because no policy could grant both otherwise.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fs: Vec<DirNeed>,
    /// The limits of a call.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<LimitName, LimitValue>,
    /// The network peers, each once, in the author's order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub net: Vec<PeerNeed>,
}

/// An environment variable that a tool reads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct VariableNeed {
    /// The name. Variables that belong to ikigai or to a model provider are not allowed.
    pub name: String,
    /// True if the tool is useful without the variable.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
    /// The reason that the author gives.
    pub why: String,
}

/// A directory that a tool reads or writes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct DirNeed {
    /// The directory with the access to it.
    pub dir: WorkspaceDir,
    /// The reason that the author gives.
    pub why: String,
}

/// A peer that a tool connects to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct PeerNeed {
    /// The peer.
    pub peer: NetworkPeer,
    /// The reason that the author gives.
    pub why: String,
}

/// The access to the host's assets, as in a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[derive(EnumString, IntoStaticStr, VariantArray, Serialize)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum AssetNeed {
    /// No access.
    None,
    /// Listing and reading.
    Read,
    /// Listing, reading, creating, changing and removing.
    Write,
}

/// One need, to be shown. Its text is the key and the value in a policy, such as `net
/// api.example:443`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need<'a> {
    /// A peer.
    Net(&'a PeerNeed),
    /// A variable.
    Env(&'a VariableNeed),
    /// A directory.
    Fs(&'a DirNeed),
    /// The access to assets.
    Assets(AssetNeed),
    /// A limit.
    Limit(LimitName, &'a LimitValue),
}

impl Needs {
    /// Returns whether the tool needs nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// Returns each need: peers, variables, directories, assets, limits.
    pub fn iter(&self) -> impl Iterator<Item = Need<'_>> {
        let net = self.net.iter().map(Need::Net);
        let env = self.env.iter().map(Need::Env);
        let fs = self.fs.iter().map(Need::Fs);
        let assets = self.assets.into_iter().map(Need::Assets);
        let limits = self.limits.iter().map(|(name, limit)| Need::Limit(*name, limit));
        net.chain(env).chain(fs).chain(assets).chain(limits)
    }

    /// Returns the digest of the needs, which a lock stores: the SHA-256 of their canonical JSON,
    /// with sorted keys and lists and without white space. It covers the reasons, but not the
    /// author's order.
    ///
    /// # Panics
    ///
    /// Never: the needs consist of texts and numbers, which JSON can represent.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let mut sorted = self.clone();
        sorted.env.sort();
        sorted.fs.sort();
        sorted.net.sort();
        Digest::from_bytes(&serde_json::to_vec(&sorted).expect("texts and numbers are JSON"))
    }
}

impl Need<'_> {
    /// Returns the need on one line, with the author's reason if it has one.
    #[must_use]
    pub fn with_reason(&self) -> String {
        match self.why() {
            Some(why) => format!("{self}: {why}"),
            None => self.to_string(),
        }
    }

    /// Returns the author's reason. Assets and limits have no reason.
    #[must_use]
    pub fn why(&self) -> Option<&str> {
        match self {
            Self::Net(need) => Some(&need.why),
            Self::Env(need) => Some(&need.why),
            Self::Fs(need) => Some(&need.why),
            Self::Assets(_) | Self::Limit(..) => None,
        }
    }
}

impl fmt::Display for Need<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Net(need) => write!(f, "net {}", need.peer),
            Self::Env(need) if need.optional => write!(f, "env {} (optional)", need.name),
            Self::Env(need) => write!(f, "env {}", need.name),
            Self::Fs(need) => write!(f, "fs {}", need.dir),
            Self::Assets(access) => write!(f, "assets {}", access.as_str()),
            Self::Limit(name, limit) => write!(f, "limits.{} {limit}", name.as_str()),
        }
    }
}

impl AssetNeed {
    /// Returns the word that a policy uses.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

#[cfg(test)]
pub(crate) mod tests;
