//! A turn: requests to the model and the calls of its answers, until it calls nothing.

use std::ops::ControlFlow;
use std::sync::Arc;

use ikigai_host::registry::Snapshot;
use ikigai_provider::{
    AnswerShape, CallResult, FailureKind, Image, Message, ModelAnswer, ModelCall, ModelRequest,
    Part, RequestFailure, StopReason, TokenUsage,
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::called::FinishedCall;
use crate::calls;
use crate::compaction::{CompactAt, Compaction, CompactionCause, CompactionOutcome};
use crate::conversation::{self, EmptyPrompt, ModelTurn, is_silent};
use crate::counting::{Meter, Sizes};
use crate::environment::SessionEnvironment;
use crate::event::{OnEvent, TurnEvent};
use crate::images::{self, Room};
use crate::journal::{self, JournalWriter};
use crate::mention;
use crate::model::Model;
use crate::offer::OfferedTools;
use crate::recent;
use crate::spend::{Spend, SpendLimit, Today};
use crate::system::{self, SystemPrompt};
use crate::usage::{sum, tokens};

/// A user's prompt.
#[derive(Clone, Copy, Debug)]
pub struct Prompt<'a> {
    /// The text that was typed. Mentions of files and assets in it are replaced by their text.
    pub typed: &'a str,
    /// A text that is attached to it, such as the output of a program. It is sent unchanged, since
    /// the user has not checked the mentions in it.
    pub attached: Option<&'a str>,
}

impl<'a> From<&'a str> for Prompt<'a> {
    fn from(typed: &'a str) -> Self {
        Self { typed, attached: None }
    }
}

/// A turn that has ended.
#[derive(Debug)]
pub struct Turn {
    /// The end of the turn.
    pub end: TurnEnd,
    /// The number of requests that were answered.
    pub rounds: u32,
    /// The cost of all of them, as far as the provider reports it.
    pub usage: TokenUsage,
    /// The calls of all answers, in their order.
    pub calls: Vec<FinishedCall>,
    /// The text of the model's last answer, as far as it arrived. Text that came before calls is
    /// not in it. If the answer has a schema, nulls are removed that only the provider's form
    /// required.
    pub answer: Option<String>,
}

impl Turn {
    /// Returns a turn that was interrupted before its first request.
    pub(super) fn interrupted() -> Self {
        Self {
            end: TurnEnd::Interrupted,
            rounds: 0,
            usage: TokenUsage::default(),
            calls: Vec::new(),
            answer: None,
        }
    }
}

/// The way in which a turn ended. The next turn may follow each of them.
#[derive(Debug, PartialEq, Eq)]
pub enum TurnEnd {
    /// The model answered.
    Answered,
    /// The model ended without a word. If no call ran, the prompt is discarded.
    Silent,
    /// The answer reached the limit on its length, or filled the model's window. The part that
    /// arrived stays. Calls in it did not run, although the model was asked once more.
    Cut,
    /// The provider or the model refused, for the reason that it gave, if any. The answer is
    /// discarded, since a model that reads a half that it refused refuses again. If no call ran,
    /// the prompt is discarded as well.
    Refused(String),
    /// The model still called tools in the last request that a turn may send. All of its calls have
    /// run.
    Exhausted {
        /// The number of requests.
        rounds: u32,
    },
    /// The user interrupted it. The text that the model had written stays; calls that had not ended
    /// have a result that says so. If there is neither, the prompt is discarded.
    Interrupted,
    /// The token budget is used up, so the next request was not sent. If no call ran, the prompt is
    /// discarded.
    Spent {
        /// The limit that was reached ([`Session::set_spend`](crate::Session::set_spend)).
        per: SpendLimit,
        /// The tokens that were spent.
        spent: u64,
        /// The tokens that may be spent.
        limit: u64,
    },
    /// The conversation must be kept ([`Session::require_kept`](crate::Session::require_kept)), and
    /// the store could not be written, for this reason. No call ran that is not in the log.
    Unkept(String),
    /// A request was not answered, or not completely. If it was the first of the turn, the prompt
    /// is discarded and may be sent again. Otherwise the results of the tools stay, and the model
    /// may be asked to continue.
    Failed(RequestFailure),
}

impl TurnEnd {
    /// Returns the end's word in a program's output and in the log: `answered`, `silent`, `cut`,
    /// `refused`, `exhausted`, `interrupted`, `spent`, `unkept` or `failed`.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Silent => "silent",
            Self::Cut => "cut",
            Self::Refused(_) => "refused",
            Self::Exhausted { .. } => "exhausted",
            Self::Interrupted => "interrupted",
            Self::Spent { .. } => "spent",
            Self::Unkept(_) => "unkept",
            Self::Failed(_) => "failed",
        }
    }
}

/// The reason why no turn was taken. The conversation has not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TurnError {
    /// The session has no model.
    #[error("no model is set")]
    NoModel,
    /// The prompt has no text, and the model has nothing else to answer.
    #[error("the prompt is empty")]
    EmptyPrompt,
}

impl From<EmptyPrompt> for TurnError {
    fn from(_: EmptyPrompt) -> Self {
        Self::EmptyPrompt
    }
}

/// The texts and images of a prompt that are sent to the model.
pub(super) struct PromptContent {
    pub(super) texts: Vec<String>,
    pub(super) images: Vec<Image>,
}

/// Returns the texts of a prompt, and as many of its images as there is room for.
pub(super) async fn said(
    environment: &SessionEnvironment,
    prompt: Prompt<'_>,
    mut room: Room,
    on_event: OnEvent<'_>,
) -> PromptContent {
    let SessionEnvironment { host, workspace, assets, .. } = environment;
    let kept = host.kept_from_models();
    let files = mention::MentionFiles { workspace, kept: &kept };
    let expanded = mention::expand(&files, assets.as_ref(), prompt.typed).await;
    for warning in &expanded.warnings {
        on_event(TurnEvent::Warning(warning));
    }
    let mut images = expanded.images;
    images.retain(|image| match room.take(image) {
        Ok(()) => {
            on_event(TurnEvent::Image(image));
            true
        }
        Err(reason) => {
            on_event(TurnEvent::Warning(&format!("{image} is not sent: {reason}")));
            false
        }
    });
    let attached = prompt.attached.map(str::to_owned);
    PromptContent { texts: [Some(expanded.text), attached].into_iter().flatten().collect(), images }
}

/// Returns the shape that answers must have, in the form of the model's provider. If the provider
/// cannot express it, the model only reads the schema, and a warning gives the reason.
pub(super) fn shape(
    model: &Model,
    schema: Option<&Value>,
    on_event: OnEvent<'_>,
) -> Option<AnswerShape> {
    let translated = AnswerShape::new(model.client.provider(), schema?);
    translated
        .inspect_err(|error| {
            on_event(TurnEvent::Warning(&format!(
                "ikigai sends the schema to the model, but the provider does not enforce it: \
                 {error}"
            )));
        })
        .ok()
}

/// The requests of one turn, and everything that they have in common.
pub(super) struct Rounds<'a> {
    pub(super) environment: &'a SessionEnvironment,
    pub(super) model: &'a Model,
    pub(super) snapshot: Option<&'a Arc<Snapshot>>,
    pub(super) tools: &'a mut OfferedTools,
    pub(super) meter: &'a mut Meter,
    pub(super) keeper: &'a mut JournalWriter,
    pub(super) limits: TurnLimits,
    /// The shape that the answer must have, unless the provider refused it.
    pub(super) shape: Option<AnswerShape>,
    /// The tokens that were spent today before the turn, if there is a limit on them.
    pub(super) today: u64,
    /// The part of the session's tokens that is counted for the day.
    pub(super) tally: &'a mut Today,
    /// The tokens that the session spent before the turn.
    pub(super) spent_before: u64,
    /// True if a compaction failed in this turn. Another one would fail too, and cost as much.
    pub(super) gave_up: bool,
    /// False if the model refused images in this turn.
    pub(super) takes_images: bool,
    pub(super) cancel: &'a CancellationToken,
    pub(super) on_event: OnEvent<'a>,
}

/// The bounds of a session's turns.
#[derive(Clone, Copy, Debug)]
pub(super) struct TurnLimits {
    /// The most requests of one turn.
    pub(super) rounds: u32,
    /// The size at which the conversation is compacted.
    pub(super) compact_at: CompactAt,
    /// The tokens that may be spent.
    pub(super) spend: Spend,
}

/// The end of a turn, with the model's last answer.
struct FinalAnswer {
    end: TurnEnd,
    parts: Vec<Part>,
    usage: TokenUsage,
}

impl FinalAnswer {
    fn from_end(end: TurnEnd) -> Self {
        Self { end, parts: Vec::new(), usage: TokenUsage::default() }
    }
}

/// The parts of an answer that came before it was complete.
#[derive(Default)]
struct PartialAnswer {
    text: String,
    /// True if a call began.
    has_call: bool,
}

/// The parts of a request other than the messages.
struct RequestParts {
    system: Vec<String>,
    tools: Value,
    sizes: Sizes,
}

/// The text for a model whose answer was cut in the middle of a call. Neither the text nor the
/// answer becomes part of the conversation.
const CUT_IN_CALL: &str = "Your last answer reached the limit on its length in the middle of a \
                           call, so nothing of it ran. Answer again with smaller calls: write a \
                           long file in several parts.";

/// Returns the messages with the text that asks for smaller calls.
fn asking_for_less(messages: &[Message]) -> Vec<Message> {
    let mut messages = messages.to_vec();
    // While the model is asked, the last message is the user's.
    if let Some(last) = messages.last_mut() {
        last.parts.push(Part::text(CUT_IN_CALL));
    }
    messages
}

impl Rounds<'_> {
    /// Takes the turn that `exchange` began with the event.
    pub(super) async fn run(
        mut self,
        mut exchange: ModelTurn<'_>,
        begun: journal::JournalEvent,
    ) -> Turn {
        let mut turn = Turn::interrupted();
        // The cost of commands that the user gave between two turns counts for the session, but not
        // for the turn.
        let before = self.environment.other_usage.take();
        self.meter.spend(before);
        self.keep([begun]).await;
        let last = loop {
            if turn.rounds == self.limits.rounds {
                break FinalAnswer::from_end(TurnEnd::Exhausted { rounds: turn.rounds });
            }
            if let ControlFlow::Break(last) = self.round(&mut turn, &mut exchange).await {
                break last;
            }
        };
        let FinalAnswer { end, parts, usage } = last;
        turn.answer = (!is_silent(&parts)).then(|| {
            let text = conversation::text(&parts);
            self.shape.as_ref().and_then(|shape| shape.as_given(&text)).unwrap_or(text)
        });
        exchange.end(parts.clone());
        let other = self.environment.other_usage.take();
        self.meter.spend(other);
        let (reason, usage) = (end.word().to_owned(), sum(usage, sum(before, other)));
        self.keep([journal::JournalEvent::End { reason, parts, usage }]).await;
        self.count().await;
        turn.end = end;
        turn.usage = sum(turn.usage, other);
        turn
    }

    /// Sends one request, and runs the calls of its answer.
    async fn round(
        &mut self,
        turn: &mut Turn,
        exchange: &mut ModelTurn<'_>,
    ) -> ControlFlow<FinalAnswer> {
        if let Some(end) = self.unkept().or_else(|| self.spent()) {
            return ControlFlow::Break(FinalAnswer::from_end(end));
        }
        let mut shown = PartialAnswer::default();
        let cancel = self.cancel;
        let asked = self.ask(exchange, &mut shown);
        let ModelAnswer { parts, stop, usage } = match cancel.run_until_cancelled(asked).await {
            // A provider may refuse a text that ends in white space.
            None => {
                let parts = vec![Part::text(shown.text.trim_end())];
                return ControlFlow::Break(FinalAnswer {
                    parts,
                    ..FinalAnswer::from_end(TurnEnd::Interrupted)
                });
            }
            Some(Err(failure)) => {
                return ControlFlow::Break(FinalAnswer::from_end(TurnEnd::Failed(failure)));
            }
            Some(Ok(answer)) => answer,
        };
        turn.rounds += 1;
        turn.usage = sum(turn.usage, usage);
        (self.on_event)(TurnEvent::Answered(usage));
        let calls = conversation::calls(&parts);
        let (end, parts) = match stop {
            StopReason::Finished if !calls.is_empty() => {
                return self.run_calls(turn, exchange, parts, calls, usage).await;
            }
            StopReason::Finished if is_silent(&parts) => (TurnEnd::Silent, Vec::new()),
            StopReason::Finished => (TurnEnd::Answered, parts),
            StopReason::Length => (TurnEnd::Cut, parts),
            StopReason::Window => {
                self.meter.filled(self.model, usage);
                (TurnEnd::Cut, parts)
            }
            StopReason::Refused(reason) => (TurnEnd::Refused(reason), Vec::new()),
        };
        ControlFlow::Break(FinalAnswer { end, parts, usage })
    }

    /// Returns the end of a turn that must be kept and cannot be kept any more.
    fn unkept(&self) -> Option<TurnEnd> {
        self.keeper.ends_turn().map(|reason| TurnEnd::Unkept(reason.to_owned()))
    }

    /// Returns the end of a turn whose next request would exceed a limit.
    fn spent(&self) -> Option<TurnEnd> {
        let spent = self.meter.spent() + tokens(self.environment.other_usage.untaken());
        let today = self.today.saturating_add(spent - self.spent_before);
        let (per, spent, limit) = self.limits.spend.reached(spent, today)?;
        Some(TurnEnd::Spent { per, spent, limit })
    }

    /// Runs the calls of an answer. The log already has them.
    async fn run_calls(
        &mut self,
        turn: &mut Turn,
        exchange: &mut ModelTurn<'_>,
        parts: Vec<Part>,
        calls: Vec<ModelCall>,
        usage: TokenUsage,
    ) -> ControlFlow<FinalAnswer> {
        let ids = calls::audit_ids(&calls);
        let audit = ids.iter().map(ToString::to_string).collect();
        self.keep([journal::JournalEvent::Calls { parts: parts.clone(), usage, audit }]).await;
        self.count().await;
        if let Some(end) = self.unkept() {
            return ControlFlow::Break(FinalAnswer { usage, ..FinalAnswer::from_end(end) });
        }
        let Self { environment, snapshot, cancel, .. } = *self;
        let called = calls::run(environment, snapshot, &calls, &ids, cancel, self.on_event).await;
        let mut room = match self.takes_images {
            true => Room::beside(exchange.messages()),
            false => Room::none(),
        };
        let results = called.iter().map(|called| called.result(&mut room));
        let results: Vec<CallResult> = results.collect();
        // Only now, since this future may be dropped while it waits.
        exchange.append(parts, results.clone());
        turn.calls.extend(called);
        self.keep([journal::JournalEvent::Results { results }]).await;
        if cancel.is_cancelled() {
            return ControlFlow::Break(FinalAnswer::from_end(TurnEnd::Interrupted));
        }
        ControlFlow::Continue(())
    }

    /// Asks the model. If its answer reached the limit on its length in the middle of a call, asks
    /// once more; nothing of that answer has run. `shown` collects the parts of the answer that
    /// have arrived.
    async fn ask(
        &mut self,
        exchange: &mut ModelTurn<'_>,
        shown: &mut PartialAnswer,
    ) -> Result<ModelAnswer, RequestFailure> {
        let prepared = self.prepare().await;
        let answer = self.ask_with_room(&prepared, exchange, shown).await?;
        let is_cut_in_call = answer.stop == StopReason::Length && shown.has_call;
        if !is_cut_in_call || self.spent().is_some() {
            return Ok(answer);
        }
        (self.on_event)(TurnEvent::Warning(
            "the answer reached the limit on its length in the middle of a call; asking once more",
        ));
        *shown = PartialAnswer::default();
        let again = self.send(&prepared, &asking_for_less(exchange.messages()), shown).await?;
        Ok(ModelAnswer { usage: sum(answer.usage, again.usage), ..again })
    }

    /// Asks the model. First it makes room, if there is little. It asks once more if the provider
    /// refused the length, or the images of results.
    async fn ask_with_room(
        &mut self,
        prepared: &RequestParts,
        exchange: &mut ModelTurn<'_>,
        shown: &mut PartialAnswer,
    ) -> Result<ModelAnswer, RequestFailure> {
        self.make_room(prepared, exchange, CompactionCause::Request).await;
        let answered = self.send(prepared, exchange.messages(), shown).await;
        let may_ask_again = match answered.as_ref().map_err(|failure| &failure.kind) {
            Err(FailureKind::TooLong { window }) => {
                if let Some(window) = window {
                    self.meter.learn(self.model, *window);
                }
                self.make_room(prepared, exchange, CompactionCause::Refusal).await
            }
            Err(FailureKind::Images { .. }) => self.leave_out_images(exchange).await,
            _ => false,
        };
        if !may_ask_again {
            return answered;
        }
        self.send(prepared, exchange.messages(), shown).await
    }

    /// Leaves out the images of results after the model refused them. The user did not ask for
    /// these images, and they would block the conversation. Returns false if no result has an image.
    async fn leave_out_images(&mut self, exchange: &mut ModelTurn<'_>) -> bool {
        let results = images::without_those_of_results(exchange.messages());
        if results.is_empty() {
            return false;
        }
        self.takes_images = false;
        for (id, content) in &results {
            exchange.conversation().shorten(id, content);
        }
        self.keep([journal::JournalEvent::Shortened { results }]).await;
        (self.on_event)(TurnEvent::Warning(
            "the provider did not take the images of results; asking without them",
        ));
        true
    }

    /// Compacts the conversation if `cause` calls for it. Returns true if it is shorter now.
    async fn make_room(
        &mut self,
        prepared: &RequestParts,
        exchange: &mut ModelTurn<'_>,
        cause: CompactionCause,
    ) -> bool {
        if self.gave_up && cause == CompactionCause::Request {
            return false;
        }
        let compaction = Compaction {
            environment: self.environment,
            model: self.model,
            meter: self.meter,
            set: self.limits.compact_at,
            fixed: prepared.sizes,
        };
        let CompactionOutcome { events, compacted, warnings, left } =
            compaction.run(exchange.conversation(), cause, true).await;
        self.keep(events).await;
        self.gave_up |= !warnings.is_empty();
        for warning in &warnings {
            (self.on_event)(TurnEvent::Warning(warning));
        }
        if let Some(compacted) = compacted {
            (self.on_event)(TurnEvent::Compacted(compacted));
        }
        self.note(left).await;
        compacted.is_some()
    }

    /// Adds turns that became notes to the summary for later conversations.
    async fn note(&mut self, left: Option<String>) {
        let Some(part) = recent::ConversationPart::of_turns(self.environment, self.keeper, left)
        else {
            return;
        };
        // The token budget is used up. The turn ends here, and reports it.
        if self.spent().is_some() {
            return;
        }
        if let Some(warning) = recent::add(self.environment, self.model, &part).await {
            (self.on_event)(TurnEvent::Warning(&warning));
        }
    }

    /// Writes events to the log of a conversation that is kept.
    async fn keep(&mut self, events: impl IntoIterator<Item = journal::JournalEvent>) {
        if let Some(warning) = self.keeper.write(self.environment, events).await {
            (self.on_event)(TurnEvent::Warning(&warning));
        }
    }

    /// Adds the spent tokens to the sum of the day, if the day has a limit and no log has them.
    async fn count(&mut self) {
        let spent = self.meter.spent();
        if self.keeper.is_on() {
            self.tally.are_in_log(spent);
        } else if self.limits.spend.day.is_some()
            && let Some(assets) = &self.environment.assets
            && let Some(warning) = self.tally.count(assets, spent).await
        {
            (self.on_event)(TurnEvent::Warning(&warning));
        }
    }

    /// Returns all parts of a request except its messages.
    async fn prepare(&mut self) -> RequestParts {
        let Self { environment, model, snapshot, tools, on_event, .. } = self;
        let offered = tools.for_model(environment, model, *snapshot);
        let SystemPrompt { blocks, pinned_bytes, warning } =
            system::blocks(environment, snapshot.map(|it| &**it)).await;
        let of_notes = environment.guidance.take_warnings();
        let of_recent = environment.recent.take_warning();
        let of_system = of_notes.iter().chain(&warning).chain(&of_recent);
        for warning in offered.warnings.iter().chain(of_system) {
            on_event(TurnEvent::Warning(warning));
        }
        if let Some(crowded_out) = &offered.crowded_out {
            on_event(TurnEvent::CrowdedOut(crowded_out));
        }
        let blocks: Vec<String> = blocks.into_iter().map(|block| block.text).collect();
        let system: usize = blocks.iter().map(String::len).sum();
        let sizes = Sizes {
            system: system - pinned_bytes,
            pins: pinned_bytes,
            tools: offered.bytes,
            ..Sizes::default()
        };
        RequestParts { system: blocks, tools: offered.value, sizes }
    }

    /// Sends the messages. If the provider refuses the request, sends it once more without the
    /// shape of the answer: some models do not support a shape, and some not together with tools.
    async fn send(
        &mut self,
        prepared: &RequestParts,
        messages: &[Message],
        shown: &mut PartialAnswer,
    ) -> Result<ModelAnswer, RequestFailure> {
        let answered = self.send_once(prepared, messages, shown).await;
        let Err(failure @ RequestFailure { kind: FailureKind::Refused { .. }, .. }) = &answered
        else {
            return answered;
        };
        if self.shape.take().is_none() {
            return answered;
        }
        (self.on_event)(TurnEvent::Warning(&format!("asking again without the schema: {failure}")));
        *shown = PartialAnswer::default();
        self.send_once(prepared, messages, shown).await
    }

    async fn send_once(
        &mut self,
        prepared: &RequestParts,
        messages: &[Message],
        shown: &mut PartialAnswer,
    ) -> Result<ModelAnswer, RequestFailure> {
        let Self { model, shape, on_event, .. } = self;
        let request = ModelRequest {
            model: &model.name,
            system: &prepared.system,
            messages,
            tools: &prepared.tools,
            max_output: model.max_tokens,
            settings: model.settings,
            shape: shape.as_ref(),
        };
        let mut on_provider_event = |event: ikigai_provider::AnswerEvent<'_>| match event {
            ikigai_provider::AnswerEvent::Text(text) => {
                shown.text.push_str(text);
                on_event(TurnEvent::Text(text));
            }
            ikigai_provider::AnswerEvent::Thinking(thought) => {
                on_event(TurnEvent::Thinking(thought))
            }
            ikigai_provider::AnswerEvent::Call(name) => {
                shown.has_call = true;
                on_event(TurnEvent::Asking(name));
            }
            ikigai_provider::AnswerEvent::Retry { attempt, wait, failure } => {
                *shown = PartialAnswer::default();
                on_event(TurnEvent::Retry { attempt, wait, failure });
            }
        };
        let answer = model.client.send(&request, &mut on_provider_event).await?;
        let bytes = prepared.sizes.with_messages(messages).bytes();
        self.meter.answered(bytes, answer.usage);
        self.meter.spend(answer.usage);
        Ok(answer)
    }
}
