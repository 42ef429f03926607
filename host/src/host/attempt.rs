//! The result of a call in flight, with the remarks about it, and the answer to its caller.

use std::fmt::Display;

use super::AnsweredCall;
use crate::audit::PendingRecord;
use crate::exec::envelope::{self, Aside, Envelope, did_its_work};
use crate::exec::scrub::SecretValues;
use crate::exec::widening::Widening;
use crate::exec::{Outcome, ResourceUsage};
use crate::front_end::{Costs, FrontEnd};
use crate::limits::CallLimits;
use crate::policy::{Authority, Decision, Remedy};
use crate::registry::Tool;

/// The result of an attempt to call a tool.
pub(super) struct CallAttempt {
    pub(super) outcome: Outcome,
    /// The limits in force at its end.
    pub(super) limits: CallLimits,
    pub(super) aside: Aside,
    /// The step that raises the limit that ended the call.
    pub(super) raise: Option<Remedy>,
    /// The decision that the program ran under; `None` if nothing ran.
    pub(super) decision: Option<Decision>,
}

impl CallAttempt {
    /// Returns the result of an attempt that ran nothing.
    pub(super) fn ended(outcome: Outcome) -> Self {
        let (limits, aside) = (CallLimits::default(), Aside::default());
        Self { outcome, limits, aside, raise: None, decision: None }
    }

    /// Adds remarks about the call, and copies its notes into its record.
    pub(super) fn with_notes_of(
        self,
        widening: &Widening,
        front_end: Option<&dyn FrontEnd>,
        entry: &mut PendingRecord,
    ) -> Self {
        let noted = widening.noted();
        entry.noted(&noted, front_end.map(FrontEnd::respondent));
        if let Some(front_end) = front_end.filter(|it| it.recording().is_some()) {
            let ResourceUsage { duration, fuel, peak_memory, left_running: _ } = self.outcome.usage;
            let output = self.outcome.stdout.total;
            let costs = Costs { duration, fuel, peak_memory, output };
            front_end.recorded(&noted.beyond_the_grant(), &noted.used, costs);
            if noted.is_unwatched {
                front_end.unwatched();
            }
        }
        let told = (!noted.told.is_empty()).then(|| noted.told.join("\n"));
        // If scrubbing removed a secret, the command would allow something else.
        let is_whole = |command: &String| is_whole(entry.secrets(), command);
        let allow_with = widening.allow_with(|| did_its_work(&self.outcome, true)).filter(is_whole);
        let withheld = (!noted.withheld.is_empty()).then(|| noted.withheld.join("\n"));
        let withheld = withheld.map(|text| entry.secrets().scrub_text(&text).into_owned());
        let loopback = widening.loopback_hint().filter(is_whole);
        let unwatched = match &allow_with {
            None => widening.unwatched_hint().filter(is_whole),
            Some(_) => None,
        };
        let scrubbed = |text: String| entry.secrets().scrub_text(&text).into_owned();
        let unnameable = widening.unnameable_hint().map(scrubbed);
        let aside =
            Aside { allow_with, told, withheld, unnameable, loopback, unwatched, ..self.aside };
        Self { aside, ..self }
    }

    /// Returns the answer to a call of `tool`, without any of the `secrets` in a failure.
    pub(super) fn answer(
        self,
        tool: &Tool,
        authority: &Authority,
        secrets: &SecretValues,
    ) -> AnsweredCall {
        let Self { outcome, limits, aside, raise, decision } = self;
        let aside = Aside { background: envelope::background(&outcome), ..aside };
        let (name, kind) = (tool.name(), tool.schema.result);
        let envelope = Envelope::from_outcome(name, kind, &limits, outcome, secrets).with(aside);
        let envelope = match raise.and_then(|remedy| authority.hint(&remedy)) {
            Some(hint) => envelope.with_hint(&hint),
            None => envelope,
        };
        AnsweredCall { envelope, decision }
    }
}

/// Returns whether a command contains no secret, and none in the form that it has in a host's name.
fn is_whole(secrets: &SecretValues, command: &str) -> bool {
    let mut flags = command.split(" --").filter(|flag| flag.starts_with("net "));
    secrets.scrub_text(command) == command && flags.all(|flag| secrets.scrub_hosts(flag) == flag)
}

/// Returns the outcome of a call that may not run.
pub(super) fn denied(reason: impl Display) -> Box<Outcome> {
    Box::new(Outcome::denied(reason.to_string()))
}
