//! The questions by which the user widens what a call may touch. They are about the call itself,
//! the files that its arguments name, and the accesses that a native tool was refused.
//!
//! A component's executor asks about the files and peers that the component tries to use.

use std::sync::Arc;

use bytes::Bytes;
use ikigai_protocol::Digest;
use tokio_util::sync::CancellationToken;

use super::approval::{known, unapproved};
use super::{CallAttempt, CallOrigin, CallTarget, Host, request};
use crate::audit::PendingRecord;
use crate::exec::envelope::{Aside, did_its_work};
use crate::exec::output::Sink;
use crate::exec::scrub::SecretValues;
use crate::exec::wasm::threads::leave;
use crate::exec::widening::{Widening, WideningContext};
use crate::exec::{Call, Outcome, ResourceUsage, Stdin};
use crate::front_end::{Costs, FrontEnd};
use crate::limits::Deadline;
use crate::policy::{
    Backend, CalledProgram, Decision, Denial, Grant, Remedy, RequestedAccess, Requirement,
};
use crate::registry::{Tool, reaching};

/// The error text if the tool's file changed since it was found, or during a question.
const CHANGED: &str =
    "its file changed since it was found, or while a question was open; call it again";

/// The error of a call that was cancelled during a question.
pub(super) struct Cancelled;

impl Host {
    /// Returns the questions and notes of a call. Returns `None` for a server's tool, because calls
    /// share the server's process.
    pub(super) fn widening(
        &self,
        subject: CallTarget<'_>,
        contents: &[Digest],
        stdin: &Stdin,
        (front_end, deadline): (Option<Arc<dyn FrontEnd>>, &Deadline),
    ) -> Option<Arc<Widening>> {
        if subject.build.backend() == Backend::Mcp {
            return None;
        }
        let context = WideningContext {
            authority: Arc::clone(self.registry.authority()),
            questions: Arc::clone(&self.questions),
            front_end,
            deadline: deadline.clone(),
            own_peers: Arc::clone(&self.own_peers),
        };
        let program = CalledProgram::from(request(subject, contents));
        Some(Arc::new(Widening::new(context, program, arguments(stdin))))
    }

    /// Returns the decision that a call runs under. Asks the user if needed: whether a tool without
    /// a grant may run, whether they agree to the call, and whether it may have the files that it
    /// names. `decided` is the decision before any question.
    ///
    /// # Errors
    ///
    /// Fails if the call may not run. The outcome says why.
    pub(super) async fn with_a_person(
        &self,
        entry: &mut PendingRecord,
        (subject, tool, decided): (CallTarget<'_>, Option<&Tool>, Result<Decision, Denial>),
        stdin: &Stdin,
        asker: &CallOrigin,
        (cancel, widening): (&CancellationToken, Option<&Widening>),
    ) -> Result<Decision, Box<Outcome>> {
        let backend = subject.build.backend();
        let decision = match decided {
            Ok(decision) => decision,
            Err(denial) => {
                let wanted = widening.filter(|_| is_for_want_of_a_grant(&denial));
                let may_run = match wanted {
                    Some(widening) => {
                        // The question must name the contents that run afterwards.
                        let present = self.contents_to_run(subject).await?;
                        if backend == Backend::Native && !widening.is_about(&present) {
                            return Err(Box::new(Outcome::denied(CHANGED)));
                        }
                        asked(widening, &RequestedAccess::Run, cancel).await?
                    }
                    None => false,
                };
                let denied = |denial: Denial| Box::new(Outcome::denied(denial.to_string()));
                if !may_run {
                    if let Some(widening) = wanted {
                        widening.refused(RequestedAccess::Run);
                    }
                    return Err(denied(denial));
                }
                self.decide_again(subject, widening).await?.map_err(denied)?
            }
        };
        let secrets = SecretValues::from_variables(decision.granted_values());
        entry.granted(&decision.grant, backend, decision.granted_by(), secrets);
        let once = widening.map(Widening::once).unwrap_or_default();
        let front_end = (asker.front_end.as_deref(), cancel);
        let decision =
            self.with_consent(entry, subject, (decision, &once), stdin, front_end).await?;
        let (Some(widening), Some(tool)) = (widening, tool) else { return Ok(decision) };
        if decision.is_unconfined(backend) {
            return Ok(decision);
        }
        let (paths, arguments) = (tool.path_arguments(), arguments(stdin));
        let questions = reaching::questions(paths, &arguments, &self.workspace, &decision.grant);
        let mut is_wider = false;
        for reached in questions {
            if asked(widening, &reached, cancel).await? {
                is_wider = true;
            } else {
                widening.refused(reached);
            }
        }
        if !is_wider {
            return Ok(decision);
        }
        let wider = self.decide_again(subject, Some(widening)).await?;
        let wider = wider.map_err(|denial| Box::new(Outcome::denied(denial.to_string())))?;
        goes_on(&decision, &wider, backend, stdin)?;
        entry.widened(&wider.grant, backend, wider.granted_by());
        Ok(wider)
    }

    /// Returns the decision that a native call runs under again, if its run failed and the user
    /// then allowed accesses that it was refused. `decided` is the decision for the first run; the
    /// call has its grant.
    ///
    /// # Errors
    ///
    /// Fails if the call was cancelled during a question.
    pub(super) async fn widened_after(
        &self,
        subject: CallTarget<'_>,
        mut decided: Decision,
        call: &Call,
        outcome: &Outcome,
    ) -> Result<Option<Decision>, Cancelled> {
        let native = subject.build.backend() == Backend::Native;
        let Some(widening) = call.widening.as_deref().filter(|_| native) else { return Ok(None) };
        // A call that read the host's own stdin cannot run again, because the input is consumed.
        let can_repeat = matches!(call.stdin, Stdin::Bytes(_)) && widening.recording().is_none();
        let has_answer = !matches!(call.stdout, Sink::Forward(_));
        let ran = outcome.isolation.is_some() && !outcome.cancelled;
        // Many programs look for files that they do not need.
        if !can_repeat || !ran || did_its_work(outcome, has_answer) {
            return Ok(None);
        }
        match call.cancel.run_until_cancelled(widening.ask_to_repeat()).await {
            None => return Err(Cancelled),
            Some(false) => return Ok(None),
            Some(true) => {}
        }
        let Ok(Ok(wider)) = self.decide_again(subject, Some(widening)).await else {
            return Ok(None);
        };
        decided.grant = Grant::clone(&call.grant);
        if goes_on(&decided, &wider, subject.build.backend(), &call.stdin).is_err() {
            return Ok(None);
        }
        widening.begin_again();
        call.deadline.begin_again(&wider.limits);
        Ok(Some(wider))
    }

    /// Decides for the present contents of the file, with the accesses that the user allowed this
    /// call.
    async fn decide_again(
        &self,
        subject: CallTarget<'_>,
        widening: Option<&Widening>,
    ) -> Result<Result<Decision, Denial>, Box<Outcome>> {
        let once = widening.map(Widening::once).unwrap_or_default();
        let look = self.authority().look();
        let contents = self.contents(&look, subject).await;
        let contents = contents.map_err(|reason| Box::new(Outcome::not_started(reason)))?;
        if widening.is_some_and(|widening| !widening.is_about(&contents)) {
            return Err(Box::new(Outcome::denied(CHANGED)));
        }
        Ok(self.authority().decide_by(&look, &request(subject, &contents), &once))
    }
}

impl CallAttempt {
    /// Adds remarks about the call, and copies its notes into its record.
    pub(super) fn with_notes_of(
        self,
        widening: Option<&Widening>,
        front_end: Option<&dyn FrontEnd>,
        entry: &mut PendingRecord,
    ) -> Self {
        let Some(widening) = widening else { return self };
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
        let is_whole = |command: &String| entry.secrets().scrub_text(command) == command.as_str();
        let allow_with = widening.allow_with(|| did_its_work(&self.outcome, true)).filter(is_whole);
        let withheld = (!noted.withheld.is_empty()).then(|| noted.withheld.join("\n"));
        let withheld = withheld.map(|text| entry.secrets().scrub_text(&text).into_owned());
        let loopback = widening.loopback_hint().filter(is_whole);
        let unwatched = match &allow_with {
            None => widening.unwatched_hint().filter(is_whole),
            Some(_) => None,
        };
        let aside = Aside { allow_with, told, withheld, loopback, unwatched, ..self.aside };
        Self { aside, ..self }
    }
}

/// Fails if, after a question about an access, a rule that is newer than the call denies the
/// command, or requires consent to the call.
fn goes_on(
    before: &Decision,
    now: &Decision,
    backend: Backend,
    stdin: &Stdin,
) -> Result<(), Box<Outcome>> {
    let read = known(stdin);
    if let Requirement::Denied { reason } = now.requirement(backend, read) {
        return Err(Box::new(Outcome::denied(reason)));
    }
    // By allowing the access, the user has agreed to what it lets the tool do.
    let with_same_grant = Decision { grant: before.grant.clone(), ..now.clone() };
    match (before.requirement(backend, read), with_same_grant.requirement(backend, read)) {
        (Requirement::Nothing, Requirement::Consent { by, .. }) => {
            let reason = unapproved(&by, "the rule is newer than the call; call it again");
            Err(Box::new(Outcome::denied(reason)))
        }
        _ => Ok(()),
    }
}

/// Asks about an access, unless the call is cancelled.
async fn asked(
    widening: &Widening,
    reached: &RequestedAccess,
    cancel: &CancellationToken,
) -> Result<bool, Box<Outcome>> {
    leave().await;
    let answer = cancel.run_until_cancelled(widening.ask(reached)).await;
    answer.ok_or_else(|| Box::new(Outcome::cancelled()))
}

/// Returns whether a call was denied because the contents of its tool are not granted.
fn is_for_want_of_a_grant(denial: &Denial) -> bool {
    matches!(denial.remedy.as_deref(), Some(Remedy::GrantToRun { .. } | Remedy::GrantAgain { .. }))
}

/// Returns the arguments of a call, as far as the host has them.
fn arguments(stdin: &Stdin) -> Bytes {
    match stdin {
        Stdin::Bytes(bytes) => bytes.clone(),
        Stdin::Inherit => Bytes::new(),
    }
}
