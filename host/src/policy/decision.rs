//! What is asked of the policy, and its answer: the decision on one call or its
//! denial, each with who said so.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use super::remedy::{Hints, Remedy};
use super::rule::LayerKind;
use super::{Backend, Grant, Profile, Sandbox, ToolOrigin};
use crate::digest::Digest;
use crate::limits::Limits;
use crate::toml_file::FileError;

/// What is asked about.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The name of the tool; none where a program is named by its path.
    pub name: Option<&'a str>,
    /// Where it is from.
    pub origin: ToolOrigin,
    /// The build that is to run.
    pub backend: Backend,
    /// Whether it runs only because the component that was wanted cannot.
    pub fell_back: bool,
    /// The file.
    pub path: &'a Path,
    /// What is known of its contents. A grant by content must name them all.
    pub contents: &'a [Digest],
}

/// Who decided something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Provenance {
    /// The built-in rules of the profile.
    Profile(Profile),
    /// A line of a policy file.
    File {
        /// Whose file.
        kind: LayerKind,
        /// Where it is.
        path: Arc<Path>,
        /// Counted from 1.
        line: usize,
    },
    /// Whoever started the host, such as by a flag: [`Override::from`](super::Override::from).
    Override(Cow<'static, str>),
    /// The host's own places lie there, where no tool may write.
    ProtectedPaths,
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Profile(profile) => write!(f, "profile {}", profile.as_str()),
            Self::File { path, line, .. } => write!(f, "{}:{line}", path.display()),
            Self::Override(from) => f.write_str(from),
            Self::ProtectedPaths => f.write_str("ikigai's own files"),
        }
    }
}

/// Who decided each capability: first who gave it, then who took away from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProvenanceMap(BTreeMap<&'static str, Vec<Provenance>>);

impl ProvenanceMap {
    /// Of `profile`, `fs`, `net`, `env`, `assets`, `sandbox`, or a limit by its key.
    #[must_use]
    pub fn of(&self, capability: &str) -> &[Provenance] {
        self.0.get(capability).map_or(&[], Vec::as_slice)
    }

    /// Every capability with its sources.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &[Provenance])> {
        self.0.iter().map(|(capability, all)| (*capability, all.as_slice()))
    }

    /// Who gave it, and nobody else yet.
    pub(super) fn set(&mut self, capability: &'static str, provenance: Provenance) {
        self.set_all(capability, vec![provenance]);
    }

    /// All who decided it so far.
    pub(super) fn set_all(&mut self, capability: &'static str, all: Vec<Provenance>) {
        self.0.insert(capability, all);
    }

    /// Who took away from it.
    pub(super) fn add(&mut self, capability: &'static str, provenance: Provenance) {
        let all = self.0.entry(capability).or_default();
        if !all.contains(&provenance) {
            all.push(provenance);
        }
    }
}

/// A variable that was granted by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Whether the host's environment has it.
    pub is_set: bool,
}

/// What one call may touch and use up, and who says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What it may touch.
    pub grant: Grant,
    /// What it may use up.
    pub limits: Limits,
    /// The profile in force.
    pub profile: Profile,
    /// The variables that were granted by name. Their values are secrets; what a
    /// native tool has besides is in [`Grant::env`].
    pub variables: Vec<Variable>,
    /// Who decided what.
    pub provenance: ProvenanceMap,
    /// What a person should know of it.
    pub notes: Vec<String>,
}

impl Decision {
    /// The variables that were granted by name, with their values, which are secrets.
    #[must_use]
    pub fn granted_values(&self) -> Vec<(OsString, OsString)> {
        let granted =
            |name: &OsString| self.variables.iter().any(|it| OsString::from(&it.name) == *name);
        self.grant.env.iter().filter(|(name, _)| granted(name)).cloned().collect()
    }

    /// Who decided what may be touched, each once.
    #[must_use]
    pub fn granted_by(&self) -> Vec<String> {
        let mut texts: Vec<String> = Vec::new();
        for capability in ["fs", "net", "env", "assets", "sandbox"] {
            for text in self.provenance.of(capability).iter().map(Provenance::to_string) {
                if !texts.contains(&text) {
                    texts.push(text);
                }
            }
        }
        texts
    }

    /// Whether nothing keeps the tool from what its user may do.
    #[must_use]
    pub fn is_unconfined(&self, backend: Backend) -> bool {
        backend == Backend::Native && self.grant.sandbox == Sandbox::Off
    }
}

/// A call that policy forbids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// The reason.
    pub reason: String,
    /// The step that would allow it, if one below a ceiling does.
    pub remedy: Option<Box<Remedy>>,
    /// The sentence for the remedy, in the words of the program that embeds the host:
    /// [`HostBuilder::hints`](crate::HostBuilder::hints).
    pub hint: Option<String>,
    /// The rule that forbids it.
    pub provenance: Option<Provenance>,
}

impl Denial {
    pub(super) fn new(reason: impl Into<String>, provenance: Provenance) -> Self {
        Self { reason: reason.into(), remedy: None, hint: None, provenance: Some(provenance) }
    }

    pub(super) fn remedy(mut self, remedy: Remedy) -> Self {
        self.remedy = Some(Box::new(remedy));
        self
    }

    /// Adds the sentence for the remedy.
    pub(super) fn with_hint(mut self, hints: &Hints) -> Self {
        self.hint = self.remedy.as_deref().and_then(|remedy| hints.of(remedy));
        self
    }

    pub(super) fn of_file(problem: &FileError) -> Self {
        Self { reason: problem.line(), remedy: None, hint: None, provenance: None }
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, "; {hint}"))
    }
}

impl std::error::Error for Denial {}
