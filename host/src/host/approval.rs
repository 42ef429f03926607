//! The question before a call, if the policy requires consent to it.
//!
//! Owns the order: the policy decides, the user is asked, and the policy decides again, because
//! minutes may have passed. The clock of the call has not started yet.

use std::time::{Duration, Instant};

use ikigai_protocol::{Digest, written_out};
use tokio_util::sync::CancellationToken;

use super::{CallTarget, Host, NOBODY};
use crate::audit::PendingRecord;
use crate::consent::{ConsentAnswer, ConsentQuestion, ConsentReply};
use crate::exec::envelope::compact;
use crate::exec::wasm::threads::leave;
use crate::exec::{Outcome, Stdin};
use crate::front_end::FrontEnd;
use crate::policy::{Backend, Decision, Remedy, RequestedAccess, Requirement};

impl Host {
    /// Asks for consent to a call if its decision requires it. Returns the decision that applies
    /// then.
    ///
    /// # Errors
    ///
    /// Fails if the call may not run. The outcome says why.
    pub(super) async fn with_consent(
        &self,
        entry: &mut PendingRecord,
        subject: CallTarget<'_>,
        (decision, once): (Decision, &[RequestedAccess]),
        stdin: &Stdin,
        (front_end, cancel): (Option<&dyn FrontEnd>, &CancellationToken),
    ) -> Result<Decision, Box<Outcome>> {
        let backend = subject.build.backend();
        let read = known(stdin);
        let (by, because) = match decision.requirement(backend, read) {
            Requirement::Nothing => return Ok(decision),
            Requirement::Denied { reason } => return Err(Box::new(Outcome::denied(reason))),
            Requirement::Consent { by, because } => (by, because),
        };
        let refused = |why: &str| Box::new(Outcome::denied(unapproved(&by, why)));
        let impossible = |why: &str| Box::new(Outcome::denied(self.unasked(&by, why)));
        let Some(front_end) = front_end else {
            entry.asked(&ConsentAnswer::Unavailable(String::new()), None, Duration::ZERO);
            return Err(impossible(NOBODY));
        };
        let contents = self.contents_to_run(subject).await?;
        let arguments = match stdin {
            Stdin::Bytes(bytes) => compact(&String::from_utf8_lossy(bytes)),
            Stdin::Inherit => String::new(),
        };
        let title = subject.title();
        let granted = (&decision, backend);
        let question =
            ConsentQuestion::new(&title, contents.clone(), granted, &because, &arguments);
        leave().await;
        let begun = Instant::now();
        let reply = cancel.run_until_cancelled(front_end.ask(&question)).await;
        let Some(ConsentReply { answer, waited }) = reply else {
            entry.unanswered(front_end.respondent(), begun.elapsed());
            return Err(Box::new(Outcome::cancelled()));
        };
        entry.asked(&answer, Some(front_end.respondent()), waited);
        match answer {
            ConsentAnswer::Yes => {}
            ConsentAnswer::No => return Err(Box::new(Outcome::denied(denied(&by)))),
            ConsentAnswer::Tell(text) => {
                let reason = format!("{}; the user says: {}", denied(&by), written_out(&text));
                return Err(Box::new(Outcome::denied(reason)));
            }
            ConsentAnswer::Timeout => return Err(refused("nobody answered in time")),
            ConsentAnswer::Unavailable(reason) => return Err(impossible(&reason)),
            ConsentAnswer::Pending => return Err(refused("the answer comes with the next call")),
        }
        let now = match self.decide_now(subject, once).await {
            Ok(Ok(now)) => now,
            Ok(Err(denial)) => return Err(Box::new(Outcome::denied(denial.to_string()))),
            Err(reason) => return Err(Box::new(Outcome::not_started(reason))),
        };
        if now.grant != decision.grant || self.contents_to_run(subject).await? != contents {
            return Err(refused("its file or its grant changed while the question was open"));
        }
        // A rule that denies the command may have been added.
        if let Requirement::Denied { reason } = now.requirement(backend, read) {
            return Err(Box::new(Outcome::denied(reason)));
        }
        Ok(now)
    }

    /// Returns the digests of the contents that would run now.
    pub(super) async fn contents_to_run(
        &self,
        subject: CallTarget<'_>,
    ) -> Result<Vec<Digest>, Box<Outcome>> {
        match subject.build.backend() {
            // A component was compiled from the contents that the scan found.
            Backend::Wasm => Ok(vec![subject.build.digest]),
            Backend::Native | Backend::Mcp => {
                let present = self.registry.present_contents(subject.build).await;
                let mut present =
                    present.map_err(|reason| Box::new(Outcome::not_started(reason)))?;
                // The scan read the definition. Its program is started from the file.
                if subject.build.wrapped_program().is_some() {
                    present.insert(0, subject.build.digest);
                    present.dedup();
                }
                Ok(present)
            }
        }
    }

    /// Returns the error text, with a hint, for a call that needs consent if the host cannot ask.
    pub(super) fn unasked(&self, by: &str, why: &str) -> String {
        let reason = unapproved(by, why);
        match self.authority().hint(&Remedy::AskPerson) {
            Some(hint) => format!("{reason}; {hint}"),
            None => reason,
        }
    }
}

/// Returns the arguments of a call, if the host has them.
pub(super) fn known(stdin: &Stdin) -> Option<&[u8]> {
    match stdin {
        Stdin::Bytes(bytes) => Some(bytes),
        Stdin::Inherit => None,
    }
}

/// Returns the error text for a call that the user denied.
fn denied(by: &str) -> String {
    format!("the user denied it; ikigai asked because of {by}")
}

/// Returns the error text for a call without consent.
pub(super) fn unapproved(by: &str, why: &str) -> String {
    format!("somebody has to agree to it, by {by}, and {why}")
}
