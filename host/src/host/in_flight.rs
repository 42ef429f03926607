//! A call in flight: the policy decides, the user is asked, and the policy decides again, until the
//! program runs or the call is refused.
//!
//! Owns the order of these steps. `approval.rs` and `widened.rs` have the questions.

use std::mem;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use ikigai_protocol::Digest;

use super::attempt::{CallAttempt, denied};
use super::{COMPILING, CallOrigin, CallStreams, CallTarget, Control, Host, program, request};
use crate::audit::PendingRecord;
use crate::exec::envelope::Aside;
use crate::exec::scrub::SecretValues;
use crate::exec::widening::Widening;
use crate::exec::wrap::Runnable;
use crate::exec::{Call, Exit, Outcome, Stdin};
use crate::policy::{Backend, Decision, Denial, PolicySnapshot, Requirement, secret_names};
use crate::registry::{Tool, before_deadline};

/// The error text if the tool's file changed since it was found, or during a question.
pub(super) const CHANGED: &str =
    "its file changed since it was found, or while a question was open; call it again";

/// A call between its lookup and its outcome.
pub(super) struct CallInFlight<'a> {
    pub(super) host: &'a Host,
    pub(super) entry: &'a mut PendingRecord,
    pub(super) target: CallTarget<'a>,
    /// The tool; `None` for a program that runs without an envelope.
    pub(super) tool: Option<&'a Tool>,
    /// True if the principal must not use assets, even if the policy grants them.
    without_assets: bool,
    /// The call for the executor. The decision sets its assets, and for each run its grant and
    /// limits.
    pub(super) call: Call,
}

/// A question before the program runs.
#[derive(Clone, Copy)]
enum CallQuestion {
    /// The question whether a tool without a grant may run.
    Run,
    /// The question whether the call may run.
    Consent,
    /// The question whether the tool may use the files that the arguments name.
    Paths,
}

/// The user's agreement, with what the next decision is compared with.
pub(super) enum Agreement<'d> {
    /// The tool may run without a grant.
    Run,
    /// The call may run.
    Consent {
        /// The decision that required consent.
        before: &'d Decision,
        /// The contents that the question named.
        contents: Vec<Digest>,
        /// The rule that required it.
        by: String,
    },
    /// The call may have more accesses than by the decision `before`.
    Accesses { before: &'d Decision },
}

/// The policy files and the contents by which the policy decides at one moment.
struct DecisionBasis {
    files: PolicySnapshot,
    contents: Vec<Digest>,
}

/// The error of a call that was cancelled during a question.
pub(super) struct Cancelled;

impl<'a> CallInFlight<'a> {
    /// Returns a call that was not decided on yet.
    pub(super) fn new(
        host: &'a Host,
        entry: &'a mut PendingRecord,
        target: CallTarget<'a>,
        streams: CallStreams,
        origin: CallOrigin,
    ) -> Self {
        let CallStreams { stdin, stdout, stderr } = streams;
        let CallOrigin { principal, without_assets, front_end, control } = origin;
        let Control { cancel, deadline } = control;
        let call = Call {
            stdin,
            stdout,
            stderr,
            principal,
            front_end,
            deadline,
            cancel,
            ..Call::new(Arc::clone(&host.workspace))
        };
        Self { host, entry, target, tool: None, without_assets, call }
    }

    /// Decides on the call, and runs it.
    pub(super) async fn attempt(&mut self) -> CallAttempt {
        // Read the policy files once for all decisions before the first question.
        let basis = match self.basis().await {
            Ok(basis) => basis,
            Err(outcome) => return CallAttempt::ended(*outcome),
        };
        self.call.widening = self.widening(&basis.contents);
        let attempt = match self.decide(&basis).await {
            Ok(decision) => {
                let principal = self.call.principal.as_ref();
                self.call.assets = self.host.handle(&basis.files, principal, self.without_assets);
                self.run(decision).await
            }
            Err(outcome) => {
                self.entry.ran(&outcome);
                CallAttempt::ended(*outcome)
            }
        };
        let Call { widening, front_end, .. } = &self.call;
        match widening {
            Some(widening) => attempt.with_notes_of(widening, front_end.as_deref(), self.entry),
            None => attempt,
        }
    }

    /// Returns the decision that the call runs under. The policy decides, the user is asked, and
    /// the policy decides again after each agreement.
    ///
    /// # Errors
    ///
    /// Fails if the call may not run. The outcome says why.
    async fn decide(&mut self, basis: &DecisionBasis) -> Result<Decision, Box<Outcome>> {
        let mut decided = self.decide_by(basis);
        for question in [CallQuestion::Run, CallQuestion::Consent, CallQuestion::Paths] {
            let agreement = self.ask(question, &decided).await?;
            let Some(agreement) = agreement else { continue };
            decided = Ok(self.decide_again(agreement).await?);
        }
        decided.map_err(denied)
    }

    /// Asks a question if the decision leaves it open.
    async fn ask<'d>(
        &mut self,
        question: CallQuestion,
        decided: &'d Result<Decision, Denial>,
    ) -> Result<Option<Agreement<'d>>, Box<Outcome>> {
        match (question, decided) {
            (CallQuestion::Run, Err(denial)) => self.ask_to_run(denial).await.map(Some),
            (CallQuestion::Consent, Ok(decision)) => {
                let secrets = SecretValues::from_variables(decision.granted_values());
                let (backend, sources) = (self.backend(), decision.granted_by());
                self.entry.granted(&decision.grant, backend, sources, secrets);
                self.ask_for_consent(decision).await
            }
            (CallQuestion::Paths, Ok(decision)) => self.ask_about_paths(decision).await,
            (CallQuestion::Run, Ok(_)) | (CallQuestion::Consent | CallQuestion::Paths, Err(_)) => {
                Ok(None)
            }
        }
    }

    /// Decides by the present policy files and contents, with the accesses that the user allowed
    /// this call.
    ///
    /// # Errors
    ///
    /// Fails if the policy denies the call now, or if the user agreed to something else.
    async fn decide_again(&mut self, agreement: Agreement<'_>) -> Result<Decision, Box<Outcome>> {
        let basis = self.basis().await?;
        let widening = self.call.widening.as_deref();
        let is_about = widening.is_none_or(|widening| widening.is_about(&basis.contents));
        // The question for consent named its own contents.
        if !is_about && !matches!(agreement, Agreement::Consent { .. }) {
            return Err(denied(CHANGED));
        }
        let now = self.decide_by(&basis).map_err(denied)?;
        match agreement {
            Agreement::Run => {}
            Agreement::Consent { before, contents, by } => {
                let is_same = now.grant == before.grant
                    && self.host.contents_to_run(self.target).await? == contents;
                if !is_same {
                    let why = "its file or its grant changed while the question was open";
                    return Err(denied(unapproved(&by, why)));
                }
                // A rule that denies the command may have been added.
                if let Requirement::Denied { reason } = self.requirement(&now) {
                    return Err(denied(reason));
                }
            }
            Agreement::Accesses { before } => {
                self.check_newer_rules(before, &now)?;
                self.entry.widened(&now.grant, self.target.build.backend(), now.granted_by());
            }
        }
        Ok(now)
    }

    /// Fails if, after a question about an access, a rule that is newer than the call denies the
    /// command, or requires consent to the call.
    fn check_newer_rules(&self, before: &Decision, now: &Decision) -> Result<(), Box<Outcome>> {
        if let Requirement::Denied { reason } = self.requirement(now) {
            return Err(denied(reason));
        }
        // By allowing the access, the user has agreed to what it lets the tool do.
        let with_same_grant = Decision { grant: before.grant.clone(), ..now.clone() };
        match (self.requirement(before), self.requirement(&with_same_grant)) {
            (Requirement::Nothing, Requirement::Consent { by, .. }) => {
                let why = "the rule is newer than the call; call it again";
                Err(denied(unapproved(&by, why)))
            }
            _ => Ok(()),
        }
    }

    /// Looks at the policy files, and at the contents for which the policy decides.
    async fn basis(&mut self) -> Result<DecisionBasis, Box<Outcome>> {
        let files = self.host.authority().look();
        let contents = self.host.contents(&files, self.target).await?;
        Ok(DecisionBasis { files, contents })
    }

    fn decide_by(&self, basis: &DecisionBasis) -> Result<Decision, Denial> {
        let once = self.call.widening.as_deref().map(Widening::once).unwrap_or_default();
        let request = request(self.target, &basis.contents);
        self.host.authority().decide_by(&basis.files, &request, &once)
    }

    /// Runs the program. If the user then allows accesses that the program was refused, runs it
    /// again.
    async fn run(&mut self, mut decision: Decision) -> CallAttempt {
        self.call.deadline.begin(&decision.limits);
        if self.call.widening.as_deref().is_some_and(Widening::is_permissive) {
            match decision.grant.hide.and(secret_names()) {
                Ok(hide) => decision.grant.hide = hide,
                Err(reason) => return CallAttempt::ended(Outcome::not_started(reason)),
            }
        }
        let is_decided = self.target.build.is_wasi_known();
        let program = match self.program().await {
            Ok(program) => program,
            Err(outcome) => {
                self.entry.ran(&outcome);
                return CallAttempt { limits: decision.limits, ..CallAttempt::ended(*outcome) };
            }
        };
        if !is_decided && let Err(outcome) = self.check_wasi() {
            self.entry.ran(&outcome);
            return CallAttempt::ended(*outcome);
        }
        loop {
            let limits = decision.limits;
            if let Err(reason) = self.host.authority().record_writable(&decision.grant) {
                return CallAttempt { limits, ..CallAttempt::ended(Outcome::not_started(reason)) };
            }
            if let Some(widening) = &self.call.widening {
                widening.decided(&decision);
            }
            self.call.limits = limits;
            self.call.grant = Arc::new(mem::take(&mut decision.grant));
            let mut outcome = program.run(self.call.clone()).await;
            decision.grant = Arc::unwrap_or_clone(mem::take(&mut self.call.grant));
            let own = outcome.usage.duration.saturating_sub(self.call.deadline.excluded());
            outcome.usage.duration = own;
            self.entry.ran(&outcome);
            self.entry.extended(self.call.deadline.extended());
            let raise = outcome.limit.and_then(|limit| {
                let limits = self.call.deadline.applied(limits);
                let request = request(self.target, &[]);
                self.host.authority().raise(&request, &decision, limit, &limits)
            });
            let wider = match self.ask_to_repeat(&outcome).await {
                Ok(true) => self.decide_again(Agreement::Accesses { before: &decision }).await.ok(),
                Ok(false) => None,
                Err(Cancelled) => {
                    outcome.cancelled = true;
                    self.entry.ran(&outcome);
                    None
                }
            };
            let Some(wider) = wider else {
                let limits = self.call.deadline.applied(limits);
                let did_run = !outcome.cancelled && !matches!(outcome.exit, Exit::NotStarted(_));
                let (aside, raise) = (Aside::default(), raise.filter(|_| did_run));
                return CallAttempt { outcome, limits, aside, raise, decision: Some(decision) };
            };
            if let Some(widening) = &self.call.widening {
                widening.begin_again();
            }
            self.call.deadline.begin_again(&wider.limits);
            decision = wider;
        }
    }

    /// Checks the versions of WASI that a program uses, which were unknown before it was loaded: a
    /// program that is named by its path was never asked for a schema.
    fn check_wasi(&mut self) -> Result<(), Box<Outcome>> {
        self.entry.program(program(self.target));
        let contents = [self.target.build.digest];
        self.host.authority().check_wasi(&request(self.target, &contents)).map_err(denied)
    }

    /// Returns the program. A component may need to be compiled first, which can take many seconds.
    async fn program(&mut self) -> Result<Runnable<'a>, Box<Outcome>> {
        let build = self.target.build;
        let latest = self.host.compile_timeout.map(|timeout| Instant::now() + timeout);
        let program = before_deadline(latest, build.program());
        Err(Box::new(match self.call.cancel.run_until_cancelled(program).await {
            Some(Some(Ok(program))) => return Ok(program),
            Some(Some(Err(error))) => Outcome::not_started(format!("the component {error}")),
            Some(None) => Outcome::late(COMPILING),
            None => Outcome::cancelled(),
        }))
    }

    pub(super) fn backend(&self) -> Backend {
        self.target.build.backend()
    }

    /// Returns the arguments of the call, if the host has them.
    pub(super) fn arguments(&self) -> Option<&Bytes> {
        match &self.call.stdin {
            Stdin::Bytes(bytes) => Some(bytes),
            Stdin::Inherit => None,
        }
    }

    /// Returns the consent that the call needs under a decision.
    pub(super) fn requirement(&self, decision: &Decision) -> Requirement {
        decision.requirement(self.backend(), self.arguments().map(|bytes| &bytes[..]))
    }
}

/// Returns the error text for a call without consent.
pub(super) fn unapproved(by: &str, why: &str) -> String {
    format!("it needs the user's approval, by {by}, but {why}")
}
