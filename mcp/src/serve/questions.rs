//! The open questions of a server: their forms, seals, times and number.
//!
//! An answer that comes with a repeated call is accepted once, within five minutes, and only with
//! the arguments that the question was about. The state is sealed with a key of this process, so a
//! client cannot forge it. The client can read the state, which contains only the question's id and
//! digest, and an expiry time.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use rmcp::model::{
    ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema,
    ErrorData, InputRequest, InputRequests, InputRequiredResult, InputResponses, RequestStateCodec,
    RequestStateError, SealOptions,
};
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;

use super::elicitation::Elicitation;
use crate::form::FormReply;
use crate::offer::{AskReply, QuestionVerdict};

/// The time that the user has for an answer.
const PATIENCE: Duration = Duration::from_secs(5 * 60);

/// The most questions of one client that may be open at once. This also bounds the questions of a
/// client that never repeats its calls.
pub(super) const OPEN: usize = 32;

/// The most questions of all clients that may be open in states.
const ALL_OPEN: usize = 4096;

/// The name of the only form of a question.
const FORM: &str = "approve";

/// The questions of a server.
pub(super) struct ServerQuestions {
    codec: RequestStateCodec,
    patience: Duration,
    next_id: AtomicU64,
    /// The questions that are sealed in a state, the oldest first.
    sealed: Mutex<VecDeque<Sealed>>,
}

/// A question whose state is at a client.
struct Sealed {
    id: u64,
    asked: Instant,
    principal: Option<Arc<str>>,
}

/// The call that a question is about.
pub(super) struct QuestionedCall {
    /// The caller. `None` over streams, because the client's user started the server.
    pub(super) principal: Option<Arc<str>>,
    /// The name of the tool.
    pub(super) tool: String,
    /// The arguments as the client wrote them.
    pub(super) arguments: Bytes,
}

impl QuestionedCall {
    /// Returns the digest that a state is bound to.
    fn digest(&self) -> [u8; 32] {
        let Self { principal, tool, arguments } = self;
        let mut hasher = Sha256::new();
        let parts = [principal.as_ref().map(|it| it.as_bytes()), Some(tool.as_bytes())];
        for part in parts.into_iter().chain([Some(&**arguments)]) {
            // A missing principal differs from a principal with an empty name.
            hasher.update([u8::from(part.is_some())]);
            let part = part.unwrap_or_default();
            hasher.update((part.len() as u64).to_be_bytes());
            hasher.update(part);
        }
        hasher.finalize().into()
    }
}

/// The answer that came with a repeated call.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RepeatedCallAnswer {
    agreed: bool,
    waited: Duration,
    /// The digest of the question.
    message: [u8; 32],
}

impl RepeatedCallAnswer {
    /// Returns whether this question was answered.
    pub(super) fn is_of(&self, message: &str) -> bool {
        self.message == digest(message)
    }

    pub(super) fn reply(&self) -> AskReply {
        let verdict = if self.agreed { QuestionVerdict::Yes } else { QuestionVerdict::No };
        AskReply { verdict, waited: self.waited }
    }
}

/// The reason why a form has no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unfilled {
    #[error("{OPEN} questions are open already")]
    Full,
    #[error("the user did not answer in time")]
    Timeout,
    #[error("{0}")]
    Failed(String),
}

/// The reason why a state is refused.
#[derive(Debug, thiserror::Error)]
enum StateError {
    #[error("`requestState` is of another call, or was made up")]
    Foreign(#[source] RequestStateError),
    #[error("`requestState` has expired")]
    Expired,
    #[error("`requestState` was used before, or other questions replaced it")]
    Used,
    #[error("`inputResponses` has no answer to `{FORM}`")]
    Unanswered,
}

impl From<StateError> for ErrorData {
    fn from(error: StateError) -> Self {
        Self::invalid_params(format!("{error}; call the tool again without it"), None)
    }
}

impl ServerQuestions {
    /// Returns a set without open questions.
    ///
    /// # Errors
    ///
    /// Fails if the system has no source of randomness for the key.
    pub(super) fn new() -> Result<Self, getrandom::Error> {
        Self::with_patience(PATIENCE)
    }

    pub(super) fn with_patience(patience: Duration) -> Result<Self, getrandom::Error> {
        let mut key = [0; 32];
        getrandom::fill(&mut key)?;
        Ok(Self {
            // The key has the required length.
            codec: RequestStateCodec::new_unchecked(key),
            patience,
            next_id: AtomicU64::new(0),
            sealed: Mutex::default(),
        })
    }

    /// Asks by a request to the client, which takes a permit of `room`.
    pub(super) async fn ask(
        &self,
        client: &Elicitation,
        message: &str,
        room: &Semaphore,
    ) -> AskReply {
        let begun = Instant::now();
        let verdict = match self.filled(client, form(message), room).await {
            Err(Unfilled::Timeout) => QuestionVerdict::Timeout,
            Err(why) => QuestionVerdict::Unavailable(why.to_string()),
            Ok(result) if is_yes(&result) => QuestionVerdict::Yes,
            Ok(_) => QuestionVerdict::No,
        };
        AskReply { verdict, waited: begun.elapsed() }
    }

    /// Has a form filled by a request to the client, which takes a permit of `room`.
    pub(super) async fn fill(
        &self,
        client: &Elicitation,
        form: ElicitRequestParams,
        room: &Semaphore,
    ) -> Result<FormReply, Unfilled> {
        self.filled(client, form, room).await.map(FormReply::from)
    }

    async fn filled(
        &self,
        client: &Elicitation,
        form: ElicitRequestParams,
        room: &Semaphore,
    ) -> Result<ElicitResult, Unfilled> {
        let _permit = room.try_acquire().map_err(|_| Unfilled::Full)?;
        let answer = tokio::time::timeout(self.patience, client.ask(form)).await;
        answer.map_err(|_| Unfilled::Timeout)?.map_err(Unfilled::Failed)
    }

    /// Returns the result that asks the question, with a state for the repeated call.
    pub(super) fn result(&self, message: &str, subject: &QuestionedCall) -> InputRequiredResult {
        let state = self.seal(message, subject);
        let form = InputRequest::Elicitation(ElicitRequest::new(form(message)));
        let forms = InputRequests::from([(FORM.to_owned(), form)]);
        InputRequiredResult::new(Some(forms), Some(state))
    }

    fn seal(&self, message: &str, subject: &QuestionedCall) -> String {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let mut open = self.sealed.lock();
        open.retain(|sealed| sealed.asked.elapsed() < self.patience);
        let own = |sealed: &Sealed| sealed.principal == subject.principal;
        if open.iter().filter(|it| own(it)).count() == OPEN
            && let Some(oldest) = open.iter().position(own)
        {
            open.remove(oldest);
        } else if open.len() == ALL_OPEN {
            open.pop_front();
        }
        let principal = subject.principal.clone();
        open.push_back(Sealed { id, asked: Instant::now(), principal });
        drop(open);
        let payload = [&id.to_be_bytes()[..], &digest(message)].concat();
        let subject = subject.digest();
        let options = SealOptions::new().associated_data(&subject).ttl(self.patience);
        self.codec.seal_with(&payload, &options)
    }

    /// Takes the answer of a repeated call, and uses up its state.
    ///
    /// # Errors
    ///
    /// Fails if the state does not belong to this call, has expired or was used before, or if the
    /// answer is missing.
    pub(super) fn open(
        &self,
        state: &str,
        subject: &QuestionedCall,
        answers: Option<&InputResponses>,
    ) -> Result<RepeatedCallAnswer, ErrorData> {
        Ok(self.opened(state, subject, answers)?)
    }

    fn opened(
        &self,
        state: &str,
        subject: &QuestionedCall,
        answers: Option<&InputResponses>,
    ) -> Result<RepeatedCallAnswer, StateError> {
        let payload =
            self.codec.open_with(state, &subject.digest()).map_err(|error| match error {
                RequestStateError::Expired => StateError::Expired,
                other => StateError::Foreign(other),
            })?;
        // Only this process has the key, and it seals nothing but such states.
        let (id, message) = payload.split_first_chunk().ok_or(StateError::Used)?;
        let message = message.try_into().map_err(|_| StateError::Used)?;
        let id = u64::from_be_bytes(*id);
        let answer = answers.and_then(|answers| answers.get(FORM)).ok_or(StateError::Unanswered)?;
        let answer: ElicitResult =
            serde_json::from_value(answer.clone()).map_err(|_| StateError::Unanswered)?;
        let mut open = self.sealed.lock();
        let place = open.iter().position(|sealed| sealed.id == id).ok_or(StateError::Used)?;
        let asked = open.remove(place).ok_or(StateError::Used)?.asked;
        // The seal's own time comes from a clock that can be set back.
        if asked.elapsed() >= self.patience {
            return Err(StateError::Expired);
        }
        Ok(RepeatedCallAnswer { agreed: is_yes(&answer), waited: asked.elapsed(), message })
    }
}

/// Returns the form of a question. It has no fields: accepting it means yes.
fn form(message: &str) -> ElicitRequestParams {
    ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: message.to_owned(),
        requested_schema: ElicitationSchema::new(BTreeMap::new()),
    }
}

fn is_yes(result: &ElicitResult) -> bool {
    matches!(result.action, ElicitationAction::Accept)
}

fn digest(message: &str) -> [u8; 32] {
    Sha256::digest(message).into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn subject(principal: Option<&str>, tool: &str, arguments: &'static str) -> QuestionedCall {
        QuestionedCall {
            principal: principal.map(Into::into),
            tool: tool.to_owned(),
            arguments: arguments.into(),
        }
    }

    fn answers(action: &str) -> InputResponses {
        InputResponses::from([(FORM.to_owned(), json!({ "action": action }))])
    }

    fn refusal(questions: &ServerQuestions, state: &str, subject: &QuestionedCall) -> String {
        let error = questions.opened(state, subject, Some(&answers("accept")));
        error.expect_err("refused").to_string()
    }

    #[test]
    fn an_answer_is_taken_once_and_for_the_question_that_was_asked() {
        let questions = ServerQuestions::new().expect("a key");
        let call = subject(None, "tool", "{}");
        for (action, agreed) in [("accept", true), ("decline", false), ("cancel", false)] {
            let state = questions.seal("may it?", &call);
            let answered = questions.opened(&state, &call, Some(&answers(action)));
            let answered = answered.expect("an answer");
            assert_eq!(answered.agreed, agreed, "{action}");
            assert!(answered.is_of("may it?") && !answered.is_of("may it now?"));
            assert!(refusal(&questions, &state, &call).contains("used before"));
        }
    }

    #[test]
    fn a_state_without_an_answer_is_not_used_up() {
        let questions = ServerQuestions::new().expect("a key");
        let call = subject(None, "tool", "{}");
        let state = questions.seal("may it?", &call);
        let other = InputResponses::from([("other".to_owned(), json!({ "action": "accept" }))]);
        for missing in [None, Some(&other), Some(&answers("perhaps"))] {
            let error = questions.opened(&state, &call, missing).expect_err("refused");
            assert!(matches!(error, StateError::Unanswered), "{error}");
        }
        assert!(questions.opened(&state, &call, Some(&answers("accept"))).is_ok());
    }

    #[test]
    fn a_state_is_bound_to_its_call_and_to_this_process() {
        let questions = ServerQuestions::new().expect("a key");
        let call = subject(Some("anna"), "tool", r#"{"a":1}"#);
        let state = questions.seal("may it?", &call);
        for other in [
            subject(None, "tool", r#"{"a":1}"#),
            subject(Some(""), "tool", r#"{"a":1}"#),
            subject(Some("anna"), "tool2", r#"{"a":1}"#),
            subject(Some("anna"), "tool", r#"{"a": 1}"#),
            subject(Some("annato"), "ol", r#"{"a":1}"#),
        ] {
            assert!(refusal(&questions, &state, &other).contains("made up"));
        }
        let elsewhere = ServerQuestions::new().expect("a key");
        assert!(refusal(&elsewhere, &state, &call).contains("made up"));
        let mut forged = state.clone();
        forged.pop();
        for forged in [forged, String::new(), "rs1.AAAA.AAAA".to_owned(), format!("{state}A")] {
            assert!(refusal(&questions, &forged, &call).contains("made up"), "{forged}");
        }
        assert!(questions.opened(&state, &call, Some(&answers("accept"))).is_ok());
    }

    #[test]
    fn a_state_expires() {
        let questions = ServerQuestions::with_patience(Duration::ZERO).expect("a key");
        let call = subject(None, "tool", "{}");
        let state = questions.seal("may it?", &call);
        assert!(refusal(&questions, &state, &call).contains("expired"));
    }

    #[test]
    fn open_questions_are_bounded_and_the_oldest_gives_way() {
        let questions = ServerQuestions::new().expect("a key");
        let call = subject(None, "tool", "{}");
        let states: Vec<_> = (0..=OPEN).map(|_| questions.seal("may it?", &call)).collect();
        assert_eq!(questions.sealed.lock().len(), OPEN);
        assert!(refusal(&questions, &states[0], &call).contains("other questions"));
        // A principal's questions never replace another principal's.
        let other = subject(Some("anna"), "tool", "{}");
        (0..=OPEN).for_each(|_| drop(questions.seal("may it?", &other)));
        assert_eq!(questions.sealed.lock().len(), 2 * OPEN);
        for state in &states[1..] {
            assert!(questions.opened(state, &call, Some(&answers("accept"))).is_ok());
        }
        assert_eq!(questions.sealed.lock().len(), OPEN);
    }
}
