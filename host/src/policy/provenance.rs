//! The rules that decided each part of a grant, and the authors of the files with these rules.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use strum::{AsRefStr, Display, EnumString, IntoStaticStr, VariantArray};

use super::Profile;

/// The author of a policy file, which decides its effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(AsRefStr, Display, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum LayerKind {
    /// The administrator, whose file bounds all others.
    Ceiling,
    /// The user. Only the user's file grants.
    User,
    /// Any user who may write to the workspace. So the workspace's file can only narrow.
    Workspace,
}

impl LayerKind {
    /// Returns `ceiling`, `user` or `workspace`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The rule that decided a part of a grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Provenance {
    /// The built-in rules of the profile.
    Profile(Profile),
    /// A line of a policy file.
    File {
        /// The author of the file.
        kind: LayerKind,
        /// The path of the file.
        path: Arc<Path>,
        /// The line, counted from 1.
        line: usize,
    },
    /// A setting of the program or the user that started the host, such as a flag:
    /// [`Override::from`](super::Override::from).
    Override(Cow<'static, str>),
    /// The host's own files, which no tool may write.
    ProtectedPaths,
    /// The user's answer in this session, or for this call.
    Session,
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Profile(profile) => write!(f, "profile {}", profile.as_str()),
            Self::File { path, line, .. } => write!(f, "{}:{line}", path.display()),
            Self::Override(from) => f.write_str(from),
            Self::ProtectedPaths => f.write_str("ikigai's own files"),
            Self::Session => f.write_str("an answer in this session"),
        }
    }
}

/// The rules that decided each capability: first the rule that granted it, then the rules that
/// narrowed it.
///
/// The map has about twenty entries, ordered by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProvenanceMap(Vec<(&'static str, Vec<Provenance>)>);

impl ProvenanceMap {
    /// Returns the rules for `profile`, `fs`, `net`, `env`, `assets`, `hide`, `sandbox`, `ask`,
    /// `approve`, `wasi`, or the key of a limit.
    #[must_use]
    pub fn for_capability(&self, capability: &str) -> &[Provenance] {
        self.place(capability).map_or(&[], |place| self.0[place].1.as_slice())
    }

    /// Returns every capability with its rules.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &[Provenance])> {
        self.0.iter().map(|(capability, all)| (*capability, all.as_slice()))
    }

    /// Returns the index of a capability, or the index at which to insert it.
    fn place(&self, capability: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(other, _)| (*other).cmp(capability))
    }

    /// Returns the rules of a capability. Adds the capability if it is missing.
    fn all(&mut self, capability: &'static str) -> &mut Vec<Provenance> {
        let place = self.place(capability).unwrap_or_else(|place| {
            self.0.insert(place, (capability, Vec::new()));
            place
        });
        &mut self.0[place].1
    }

    /// Sets the rule that gave a capability.
    pub(super) fn set(&mut self, capability: &'static str, provenance: Provenance) {
        let all = self.all(capability);
        all.clear();
        all.push(provenance);
    }

    /// Sets all rules for a capability.
    pub(super) fn set_all(&mut self, capability: &'static str, all: Vec<Provenance>) {
        *self.all(capability) = all;
    }

    /// Adds a rule that narrowed a capability.
    pub(super) fn add(&mut self, capability: &'static str, provenance: Provenance) {
        let all = self.all(capability);
        if !all.contains(&provenance) {
            all.push(provenance);
        }
    }
}
