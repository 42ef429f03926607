//! The questions of one call: which are asked, their texts, and the notes of their answers.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::Widening;
use super::notes::AnsweredQuestion;
use super::questions::QuestionKey;
use crate::consent::{Widen, WidenAnswer, WidenReply, in_words};
use crate::exec::envelope::compact;
use crate::exec::own_task::put_question;
use crate::policy::RequestedAccess;
use crate::toolchain::ToolchainOffer;

/// The most questions of one call.
const QUESTIONS: usize = 8;

/// The largest number of characters that the user can tell a model about one call.
const TOLD: usize = 2_000;

/// The text for a model whose call did not run again, although the user allowed what it was
/// refused.
const ALLOWED_LATER: &str = "the access that this call lacked is allowed from now on. The call did \
                             not run again, so call the tool again if its work is not done";

/// The word in the record for a question that was withdrawn before it was answered.
const CANCELLED: &str = "cancelled";

impl Widening {
    /// Asks whether the tool may have this access, if the user can be asked about it. An answer to
    /// another question may have allowed it in the meantime.
    pub(crate) async fn ask(&self, reached: &RequestedAccess) -> bool {
        if self.is_granted(reached) {
            return true;
        }
        // The call's clock is not stopped for a question that cannot be asked.
        if !self.is_open(reached) || !self.has_questions_left() {
            return false;
        }
        let _stopped = self.deadline.stop();
        let key = self.key(vec![reached.clone()], false);
        let _turn = match self.questions.turn(&key).await {
            Ok(turn) => turn,
            Err(answer) => return self.note(&key.reached, &answer, Duration::ZERO),
        };
        // Another question may have answered this one during the wait.
        if self.is_granted(reached) || !self.is_open(reached) {
            return self.is_granted(reached) || self.session_allows(reached);
        }
        self.put(&key, &key.reached, None).await
    }

    /// Asks in one question whether a tool whose run failed may run again, with everything that it
    /// was refused or with the toolchains that it lacked.
    pub(crate) async fn ask_to_repeat(&self) -> bool {
        if !self.has_questions_left() {
            return false;
        }
        let places = self.missed_places();
        let lacks_toolchains = self.toolchains_to_ask_about().is_some();
        if places.is_empty() && !lacks_toolchains {
            return false;
        }
        let _stopped = self.deadline.stop();
        let key = self.key(places, true);
        let _turn = match self.questions.turn(&key).await {
            Ok(turn) => turn,
            Err(answer) => return self.note(&key.reached, &answer, Duration::ZERO),
        };
        // The user may have refused another question. Accesses that another answer allowed stay in
        // this question: the tool runs again only if the user says so.
        let places = key.reached.iter().filter(|it| self.may_be_allowed(it));
        let places: Vec<RequestedAccess> = places.cloned().collect();
        let toolchains = lacks_toolchains.then(|| self.toolchains_to_ask_about()).flatten();
        let is_open = !places.is_empty() || toolchains.is_some();
        is_open && self.put(&key, &places, toolchains).await
    }

    /// Asks the open question about these accesses, and gives its answer to the calls that wait for
    /// it. Without an access the question is about the toolchains.
    async fn put(
        &self,
        key: &QuestionKey,
        reached: &[RequestedAccess],
        toolchains: Option<ToolchainOffer>,
    ) -> bool {
        let front_end = self.front_end.clone().filter(|front_end| front_end.can_widen());
        let Some(front_end) = front_end.filter(|_| self.has_questions_left()) else { return false };
        self.notes.lock().questions += 1;
        let request = self.program.request();
        let of_toolchains = toolchains.as_ref().map(ToolchainOffer::accesses).unwrap_or_default();
        let wanted = if reached.is_empty() { &of_toolchains[..] } else { reached };
        let proposal = (!reached.is_empty())
            .then(|| self.authority.propose_widened(&request, reached).ok())
            .flatten();
        let rules: BTreeSet<String> = wanted.iter().map(|it| self.denied_by(it)).collect();
        let question = Widen {
            tool: key.title.clone(),
            contents: key.contents.clone(),
            reached: reached.to_vec(),
            arguments: compact(&String::from_utf8_lossy(&key.arguments)),
            denied_by: rules.into_iter().collect::<Vec<_>>().join(", "),
            again: key.again,
            proposal,
            unconfined: self.authority.propose_unconfined(&request),
            toolchains,
        }
        .escaped();
        let since = Instant::now();
        let shown = ShownQuestion { widening: self, reached: wanted, since, is_answered: false };
        let WidenReply { answer, waited } = put_question(|| front_end.widen(&question)).await;
        shown.answered();
        // The other calls wait for an answer about all of the accesses.
        if reached == key.reached {
            self.questions.answer_others(key, &answer);
        }
        if answer.refuses() {
            of_toolchains.iter().for_each(|it| self.authority.answered(&request, it, false));
        }
        self.note(wanted, &answer, waited)
    }

    /// Returns whether a user is present who was not asked too often about this call.
    fn has_questions_left(&self) -> bool {
        let is_there = self.front_end.as_ref().is_some_and(|front_end| front_end.can_widen());
        is_there && self.notes.lock().questions < QUESTIONS
    }

    /// Returns whether the user may be asked about an access and has not answered yet.
    fn is_open(&self, reached: &RequestedAccess) -> bool {
        !self.session_allows(reached) && self.may_be_allowed(reached)
    }

    /// Returns the rules that do not grant this access.
    fn denied_by(&self, reached: &RequestedAccess) -> String {
        let request = self.program.request();
        let decision = match self.authority.decide(&request) {
            Ok(decision) => decision,
            Err(denial) => {
                let rule = denial.provenance.map(|it| it.to_string()).unwrap_or_default();
                let allowed = self.authority.decide_widened(&request, &[RequestedAccess::Run]);
                let would = allowed.map(|decision| {
                    let words = in_words(&decision, request.backend);
                    format!("; if it is allowed, it may {words}")
                });
                return format!("{rule}: {}{}", denial.reason, would.unwrap_or_default());
            }
        };
        let capability = match reached {
            RequestedAccess::Path { .. } => "fs",
            RequestedAccess::Peer { .. } | RequestedAccess::Host { .. } => "net",
            RequestedAccess::Run => "sandbox",
        };
        let rules = decision.provenance.for_capability(capability).iter().map(ToString::to_string);
        rules.collect::<Vec<_>>().join(", ")
    }

    /// Notes an answer. Returns whether this call may have the accesses.
    fn note(&self, reached: &[RequestedAccess], answer: &WidenAnswer, waited: Duration) -> bool {
        let request = self.program.request();
        let in_session = match answer {
            // The next decision reads the file that was written. This call does not wait for it.
            WidenAnswer::Session | WidenAnswer::Later | WidenAnswer::Always => Some(true),
            WidenAnswer::No | WidenAnswer::Tell(_) | WidenAnswer::Timeout => Some(false),
            // The file that was written says more than these accesses.
            WidenAnswer::Once
            | WidenAnswer::Unconfined
            | WidenAnswer::Toolchain
            | WidenAnswer::Unavailable(_) => None,
        };
        if let Some(allowed) = in_session {
            reached.iter().for_each(|it| self.authority.answered(&request, it, allowed));
        }
        let mut notes = self.notes.lock();
        let what = RequestedAccess::list(reached);
        notes.asked.push(AnsweredQuestion { what, answer: answer.as_str(), waited });
        if *answer == WidenAnswer::Once {
            notes.once.extend_from_slice(reached);
        }
        match answer {
            WidenAnswer::Tell(text) => notes.told.push(text.chars().take(TOLD).collect()),
            WidenAnswer::Later => notes.told.push(ALLOWED_LATER.to_owned()),
            _ => {}
        }
        answer.allows()
    }

    /// Returns the places of the refused accesses about which the user may be asked, the place with
    /// the most refusals first.
    fn missed_places(&self) -> Vec<RequestedAccess> {
        let (mut refused, links) = {
            let notes = self.notes.lock();
            (notes.refused.clone(), notes.links.clone())
        };
        refused.retain(|it| self.is_unrefused(it));
        let refused: Vec<RequestedAccess> = refused.into_iter().collect();
        let may = |place: &RequestedAccess| self.may_be_allowed(place);
        self.authority.places_of(&refused, &links, &may)
    }

    /// Returns the toolchains that the run lacked, if the user may be asked about all of their
    /// directories.
    fn toolchains_to_ask_about(&self) -> Option<ToolchainOffer> {
        self.lacking_toolchains(&|it| self.is_unrefused(it))
    }

    /// Returns whether the user could allow an access, and refused neither it nor a directory
    /// around it.
    fn is_unrefused(&self, reached: &RequestedAccess) -> bool {
        self.may_be_allowed(reached)
            && !self.authority.was_refused_around(&self.program.request(), reached)
    }

    fn key(&self, reached: Vec<RequestedAccess>, again: bool) -> QuestionKey {
        let request = self.program.request();
        QuestionKey {
            title: request.title().into_owned(),
            contents: request.contents.to_vec(),
            arguments: self.arguments.clone(),
            reached,
            again,
        }
    }
}

/// A question that the user sees. If it is dropped without an answer, it was cancelled with its
/// call.
struct ShownQuestion<'a> {
    widening: &'a Widening,
    reached: &'a [RequestedAccess],
    since: Instant,
    is_answered: bool,
}

impl ShownQuestion<'_> {
    fn answered(mut self) {
        self.is_answered = true;
    }
}

impl Drop for ShownQuestion<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            let (what, waited) = (RequestedAccess::list(self.reached), self.since.elapsed());
            self.widening.notes.lock().asked.push(AnsweredQuestion {
                what,
                answer: CANCELLED,
                waited,
            });
        }
    }
}
