//! The consent that one call needs, according to its decision and arguments.

use super::super::decision::{Decision, Effects};
use super::super::{Approve, Backend};
use super::{ScriptVerdict, arguments};

/// The consent that one call needs, for [`Decision::requirement`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// No consent.
    Nothing,
    /// The call needs consent.
    Consent {
        /// The rule that requires it, as written, with its place.
        by: String,
        /// The place of the rule, such as `FILE:LINE`, with the reason if it depends on the
        /// arguments.
        because: String,
    },
    /// The call may not run, even with consent.
    Denied {
        /// The reason.
        reason: String,
    },
}

impl Decision {
    /// Returns the consent that a call by this build needs. `arguments` are the JSON that the tool
    /// reads, or `None` if they are unknown.
    #[must_use]
    pub fn requirement(&self, backend: Backend, arguments: Option<&[u8]>) -> Requirement {
        let by_key = || {
            let (approve, place) = (self.approve, self.approve_decided_by());
            (format!("`approve = \"{approve}\"` of {place}"), place)
        };
        let consent = |(by, because)| Requirement::Consent { by, because };
        let verdict = self.commands.is_shell().then(|| {
            let script = arguments.and_then(arguments::script);
            let unread =
                || ScriptVerdict::Unlisted { reason: "its arguments have no script".to_owned() };
            script.map_or_else(unread, |script| self.commands.verdict(&script))
        });
        match &verdict {
            Some(verdict @ ScriptVerdict::Denied { .. }) => {
                return Requirement::Denied { reason: verdict.reason() };
            }
            Some(ScriptVerdict::Ask { command, rule }) => {
                let because = format!("{}, for `{command}`", rule.provenance);
                return consent((format!("`commands.ask`, which has {rule}"), because));
            }
            Some(ScriptVerdict::Listed { .. } | ScriptVerdict::Unlisted { .. }) | None => {}
        }
        match (self.approve, verdict) {
            (Approve::Unlisted, Some(ScriptVerdict::Unlisted { reason })) => {
                let (by, place) = by_key();
                consent((format!("{by}, since {reason}"), format!("{place}, since {reason}")))
            }
            (Approve::Unlisted, Some(_)) => Requirement::Nothing,
            _ if self.needs_consent(backend) => consent(by_key()),
            _ => Requirement::Nothing,
        }
    }

    /// Returns whether a call by this build needs consent. For the shell with
    /// [`Approve::Unlisted`], it is true if some calls do.
    #[must_use]
    pub fn needs_consent(&self, backend: Backend) -> bool {
        let Effects { writes, connects } = self.effects(backend);
        match self.approve {
            Approve::None => false,
            Approve::Unlisted if self.commands.is_shell() => true,
            Approve::Changes | Approve::Unlisted => writes || connects,
            Approve::Always => true,
        }
    }
}
