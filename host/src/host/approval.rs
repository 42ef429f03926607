//! The question before a call, if the policy requires consent to it.
//!
//! Owns the order: the policy decides, the user is asked, and the policy decides again, because
//! minutes may have passed. The clock of the call has not started yet.

use std::time::{Duration, Instant};

use ikigai_protocol::written_out;

use super::attempt::denied;
use super::in_flight::{Agreement, CallInFlight, unapproved};
use super::{Host, NOBODY};
use crate::consent::{ConsentAnswer, ConsentQuestion, ConsentReply, in_words};
use crate::exec::Outcome;
use crate::exec::envelope::compact;
use crate::exec::own_task::put_question;
use crate::policy::{Decision, Remedy, Requirement};

impl CallInFlight<'_> {
    /// Asks for consent to the call if its decision requires it.
    ///
    /// # Errors
    ///
    /// Fails if the call may not run. The outcome says why.
    pub(super) async fn ask_for_consent<'d>(
        &mut self,
        decision: &'d Decision,
    ) -> Result<Option<Agreement<'d>>, Box<Outcome>> {
        let (by, because) = match self.requirement(decision) {
            Requirement::Nothing => return Ok(None),
            Requirement::Denied { reason } => return Err(denied(reason)),
            Requirement::Consent { by, because } => (by, because),
        };
        let host = self.host;
        let refused = |why: &str| denied(unapproved(&by, why));
        let impossible = |why: &str| denied(host.unasked(&by, why));
        let Some(front_end) = self.call.front_end.clone() else {
            self.entry.asked(&ConsentAnswer::Unavailable(String::new()), None, Duration::ZERO);
            return Err(impossible(NOBODY));
        };
        let contents = host.contents_to_run(self.target).await?;
        let arguments = self.arguments().map(|bytes| compact(&String::from_utf8_lossy(bytes)));
        let question = ConsentQuestion {
            tool: self.target.title().into_owned(),
            contents: contents.clone(),
            required_by: because,
            grant: in_words(decision, self.backend()),
            arguments: arguments.unwrap_or_default(),
            left_out: 0,
        }
        .escaped();
        let begun = Instant::now();
        let answer = put_question(|| front_end.ask(&question));
        let reply = self.call.cancel.run_until_cancelled(answer).await;
        let Some(ConsentReply { answer, waited }) = reply else {
            self.entry.unanswered(front_end.respondent(), begun.elapsed());
            return Err(Box::new(Outcome::cancelled()));
        };
        self.entry.asked(&answer, Some(front_end.respondent()), waited);
        match answer {
            ConsentAnswer::Yes => {}
            ConsentAnswer::No => return Err(denied(declined(&by))),
            ConsentAnswer::Tell(text) => {
                let reason = format!("{}; the user says: {}", declined(&by), written_out(&text));
                return Err(denied(reason));
            }
            ConsentAnswer::Timeout => return Err(refused("the user did not answer in time")),
            ConsentAnswer::Unavailable(reason) => return Err(impossible(&reason)),
            ConsentAnswer::Pending => return Err(refused("the answer comes with the next call")),
        }
        Ok(Some(Agreement::Consent { before: decision, contents, by }))
    }
}

impl Host {
    /// Returns the error text, with a hint, for a call that needs consent if the host cannot ask.
    pub(super) fn unasked(&self, by: &str, why: &str) -> String {
        let reason = unapproved(by, why);
        match self.authority().hint(&Remedy::AskPerson) {
            Some(hint) => format!("{reason}; {hint}"),
            None => reason,
        }
    }
}

/// Returns the error text for a call that the user denied.
fn declined(by: &str) -> String {
    format!("the user denied it; ikigai asked because of {by}")
}
