//! The questions of an offer to the user of the client, and its progress reports, for one call.
//!
//! Hides how each revision of the protocol asks. A client that shook hands gets a request. A client
//! of the newest revision gets a result that asks, and repeats its call with the answer. Seals,
//! bounds and times are in `questions`.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use rmcp::model::{CallToolResponse, ClientCapabilities, ErrorData, InputResponses};
use rmcp::service::{RequestContext, RoleServer};
use tokio::sync::{Semaphore, watch};

use super::elicitation::Elicitation;
use super::questions::{QuestionedCall, RepeatedCallAnswer, ServerQuestions};
use crate::connect::{BoxFuture, CallProgress, Era};
use crate::form::{FormReply, FormRequest};
use crate::offer::{AskReply, Asker, QuestionVerdict};

/// Asks the user of the client about one call, and reports the call's progress to the client.
pub(super) struct ClientAsker {
    questions: Arc<ServerQuestions>,
    way: AskChannel,
    subject: QuestionedCall,
    fate: Mutex<Fate>,
    /// The latest report. `None` if the client does not want reports.
    progress: Option<watch::Sender<Option<CallProgress>>>,
}

impl fmt::Debug for ClientAsker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asker").finish_non_exhaustive()
    }
}

/// The channel through which the user of a client is asked.
enum AskChannel {
    /// By a request to the client. It takes a permit for a further open question.
    Request(Elicitation, Arc<Semaphore>),
    /// By the result of the call. Holds the answer if the call is a repetition.
    Result(Option<RepeatedCallAnswer>),
    /// The client cannot ask.
    None(Era),
}

/// The role of the question in the call's result.
#[derive(Default)]
enum Fate {
    /// The offer decides the result.
    #[default]
    Offered,
    /// The result is this question.
    Asked(String),
    /// The client lacks the capability.
    Unable,
    /// The question differs from the one that was answered.
    Changed,
}

impl ClientAsker {
    /// Returns the asker of a call. A repeated call comes with the state and the answers of its
    /// client.
    ///
    /// # Errors
    ///
    /// Fails if the state does not belong to this call, or was used before.
    pub(super) fn new(
        (questions, room): (&Arc<ServerQuestions>, &Arc<Semaphore>),
        context: &RequestContext<RoleServer>,
        era: Era,
        subject: QuestionedCall,
        (state, answers): (Option<String>, Option<InputResponses>),
    ) -> Result<Self, ErrorData> {
        let can_ask = context.client_capabilities().is_some_and(|it| has_forms(&it));
        let way = match (era, state) {
            (Era::Modern, Some(state)) => {
                AskChannel::Result(Some(questions.open(&state, &subject, answers.as_ref())?))
            }
            (era, _) if !can_ask => AskChannel::None(era),
            (Era::Modern, None) => AskChannel::Result(None),
            (Era::Legacy, _) => {
                AskChannel::Request(Elicitation::new(context.peer.clone()), Arc::clone(room))
            }
        };
        let (questions, fate) = (Arc::clone(questions), Mutex::default());
        let progress = context.meta.get_progress_token().map(|_| watch::Sender::default());
        Ok(Self { questions, way, subject, fate, progress })
    }

    /// Returns the offer's reports, if the client asked for them.
    pub(super) fn reports(&self) -> Option<watch::Receiver<Option<CallProgress>>> {
        self.progress.as_ref().map(watch::Sender::subscribe)
    }

    /// Returns the response to the call, if it differs from the offer's result.
    pub(super) fn response(&self) -> Option<Result<CallToolResponse, ErrorData>> {
        let Self { questions, way, subject, .. } = self;
        match std::mem::take(&mut *self.fate.lock()) {
            Fate::Offered => None,
            Fate::Asked(message) => Some(Ok(questions.result(&message, subject).into())),
            // Clients of older revisions would not understand the error code.
            Fate::Unable => {
                matches!(way, AskChannel::None(Era::Modern)).then(|| Err(missing_capability()))
            }
            Fate::Changed => Some(Err(ErrorData::invalid_params(
                "the tool or what it may touch changed since the question; call it again without \
                 `requestState`",
                None,
            ))),
        }
    }
}

impl Asker for ClientAsker {
    fn ask<'a>(&'a self, message: &'a str) -> BoxFuture<'a, AskReply> {
        Box::pin(async move {
            let Self { questions, way, .. } = self;
            match way {
                AskChannel::None(_) => {
                    *self.fate.lock() = Fate::Unable;
                    let reason =
                        "the client lacks the capability `elicitation`, by which it would ask";
                    QuestionVerdict::Unavailable(reason.to_owned()).into()
                }
                AskChannel::Request(client, room) => questions.ask(client, message, room).await,
                AskChannel::Result(None) => {
                    *self.fate.lock() = Fate::Asked(message.to_owned());
                    QuestionVerdict::Pending.into()
                }
                AskChannel::Result(Some(answered)) if answered.is_of(message) => answered.reply(),
                AskChannel::Result(Some(_)) => {
                    *self.fate.lock() = Fate::Changed;
                    let reason = "the answer is to another question";
                    QuestionVerdict::Unavailable(reason.to_owned()).into()
                }
            }
        })
    }

    fn fill(&self, form: FormRequest) -> BoxFuture<'_, FormReply> {
        Box::pin(async move {
            let Self { questions, way, .. } = self;
            let (AskChannel::Request(client, room), Some(form)) = (way, form.into_params()) else {
                return FormReply::Declined;
            };
            questions.fill(client, form, room).await.unwrap_or_else(|why| {
                tracing::debug!("a form of a server is declined: {why}");
                FormReply::Declined
            })
        })
    }

    fn report(&self, progress: CallProgress) {
        if let Some(sender) = &self.progress {
            sender.send_replace(Some(progress));
        }
    }
}

/// Returns whether a client supports forms. A capability without details means forms.
fn has_forms(capabilities: &ClientCapabilities) -> bool {
    let elicitation = capabilities.elicitation.as_ref();
    elicitation.is_some_and(|it| it.form.is_some() || it.url.is_none())
}

fn missing_capability() -> ErrorData {
    let required = ClientCapabilities::builder().enable_elicitation().build();
    ErrorData::missing_required_client_capability(required)
}
