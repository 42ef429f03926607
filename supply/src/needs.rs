//! The needs of a tool: what it asks to be granted, in the words of a policy.
//!
//! Needs grant nothing. They are shown to a person, who grants what a policy then says. Here they
//! are read, written and compared.

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

pub use dir::{Dir, DirError};
pub use limit::{Limit, LimitName};
pub use peer::{Peer, PeerError};

pub(crate) use read::read;

/// The needs of a tool. The default is to need nothing.
///
/// As JSON it is an object with the sorted keys `assets`, `env`, `fs`, `limits` and `net`; what is not
/// needed is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Needs {
    /// The access to assets of the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assets: Option<AssetAccess>,
    /// The variables of the environment, each once, in the order of the author.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<VariableNeed>,
    /// The directories, each once, in the order of the author. None lies in another with another
    /// access, which no policy could grant.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fs: Vec<DirNeed>,
    /// The limits of a call.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<LimitName, Limit>,
    /// The peers on the network, each once, in the order of the author.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub net: Vec<PeerNeed>,
}

/// A variable of the environment that a tool reads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct VariableNeed {
    /// The name. It is none of the variables that are for ikigai or for a provider of models.
    pub name: String,
    /// True if the tool is of use without the variable.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
    /// The reason that the author gives.
    pub why: String,
}

/// A directory that a tool reads or writes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct DirNeed {
    /// The directory with the access to it.
    pub dir: Dir,
    /// The reason that the author gives.
    pub why: String,
}

/// A peer that a tool connects to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct PeerNeed {
    /// The peer.
    pub peer: Peer,
    /// The reason that the author gives.
    pub why: String,
}

/// The access to assets of the host, as a policy has it.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    EnumString,
    IntoStaticStr,
    VariantArray,
    Serialize,
)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum AssetAccess {
    /// No access.
    None,
    /// Listing and reading.
    Read,
    /// Also creating, changing and removing.
    Write,
}

/// One need, for showing it. Its text is the key of a policy and the value, such as
/// `net api.example:443`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need<'a> {
    /// A peer.
    Net(&'a PeerNeed),
    /// A variable.
    Env(&'a VariableNeed),
    /// A directory.
    Fs(&'a DirNeed),
    /// The access to assets.
    Assets(AssetAccess),
    /// A limit.
    Limit(LimitName, &'a Limit),
}

impl Needs {
    /// Returns whether nothing is needed.
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

    /// Returns the digest of the needs, by which a lock knows them: the SHA-256 of their canonical
    /// JSON, which has sorted keys and lists and no white space. The reasons are part of it, and the
    /// order in which an author wrote the needs is not.
    ///
    /// # Panics
    ///
    /// Never: the needs are texts and numbers, which JSON can hold.
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
    /// Returns the need as one line with the reason of its author, if there is one.
    #[must_use]
    pub fn with_reason(&self) -> String {
        match self.why() {
            Some(why) => format!("{self}: {why}"),
            None => self.to_string(),
        }
    }

    /// Returns the reason that the author gives. Assets and limits have none.
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

impl AssetAccess {
    /// Returns the word of a policy.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

#[cfg(test)]
pub(crate) mod tests;
