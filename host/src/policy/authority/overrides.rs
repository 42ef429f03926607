//! The settings of one host, such as flags, each with its author.

use std::borrow::Cow;

use crate::policy::provenance::Provenance;
use crate::policy::{Approve, BackendChoice, LimitKey, Profile};

/// The settings of one host, which apply on top of the policy files. They cannot exceed a ceiling.
///
/// [`HostBuilder::overrides`](crate::HostBuilder::overrides) takes them:
///
/// ```
/// use ikigai_host::{LimitKey, Override, Overrides};
///
/// let overrides = Overrides {
///     limits: vec![(LimitKey::Memory, Override { value: 64 << 20, from: "--memory".into() })],
///     ..Overrides::default()
/// };
/// ```
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// The profile.
    pub profile: Option<Override<Profile>>,
    /// The builds of tools that may run.
    pub backend: Option<Override<BackendChoice>>,
    /// False if the user must never be asked to widen a grant. True changes nothing.
    pub ask: Option<Override<bool>>,
    /// The calls that need consent. This setting can only add calls.
    pub approve: Option<Override<Approve>>,
    /// The limits of each call, in the unit of the key. They replace the built-in limits. They can
    /// lower the limit of a policy file, but not raise it.
    pub limits: Vec<(LimitKey, Override<u64>)>,
    /// The limits of the built-in shell, `bash`. They replace the built-in limits. The user's file
    /// and `limits` override them.
    pub shell_limits: Vec<(LimitKey, Override<u64>)>,
}

/// A requested value, and its author.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override<T> {
    /// The value.
    pub value: T,
    /// The author, for the user: a flag, a variable, or a line of a configuration file.
    pub from: Cow<'static, str>,
}

impl<T> Override<T> {
    /// Returns a value that the embedding program requested.
    pub(crate) fn of_program(value: T) -> Self {
        Self { value, from: Cow::Borrowed("the program") }
    }

    /// Returns this value as the rule that decided.
    pub(in crate::policy) fn provenance(&self) -> Provenance {
        Provenance::Override(self.from.clone())
    }
}
