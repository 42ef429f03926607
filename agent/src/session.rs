//! A session: one conversation, and everything that its turns and commands work with.

mod ending;
mod kept;

use std::path::Path;
use std::sync::Arc;

use futures_util::future::join;
use ikigai_host::front_end::FrontEnd;
use ikigai_host::host::Host;
use ikigai_host::registry::Snapshot;
use ikigai_provider::Message;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::command::{self, AgentCommand, By, CommandError};
use crate::compaction::{CompactAt, Compacted, Compaction, CompactionCause, CompactionOutcome};
use crate::confined::Remarks;
use crate::conversation::Conversation;
use crate::counting::{ContextUsage, Meter, Sizes, TokenCount};
use crate::environment::SessionEnvironment;
use crate::event::{OnEvent, TurnEvent};
use crate::guidance::Guidance;
use crate::images::{self, Room};
use crate::journal::{self, JournalWriter};
use crate::model::Model;
use crate::offer::OfferedTools;
use crate::recent;
use crate::recent::state::Recent;
use crate::session_assets::SessionAssets;
use crate::spend::{Spend, Today};
use crate::surroundings::TurnSurroundings;
use crate::system::{self, SystemBlock, SystemPrompt};
use crate::turn::{self, Prompt, PromptContent, Rounds, Turn, TurnError, TurnLimits};
use crate::undo::{ChangedFile, Undo, Undone};
use crate::usage::{self, UsageMeter};

pub use ending::ConversationEnding;
pub use kept::{Exchanged, ResumeError, Resumed};

/// The most requests of one turn, unless a session sets another number. A model that has not
/// answered after 50 requests is going in circles.
pub const MAX_ROUNDS: u32 = 50;

/// One conversation with a model over the tools of a host.
///
/// However a turn ends, the next one may follow: the conversation is always valid for every
/// provider.
pub struct Session {
    environment: SessionEnvironment,
    conversation: Conversation,
    tools: OfferedTools,
    meter: Meter,
    keeper: JournalWriter,
    limits: TurnLimits,
    /// The JSON Schema that answers must match.
    answer_schema: Option<Value>,
    today: Today,
    /// A sentence that is sent to the model with the next prompt.
    news: Option<String>,
    /// The number of turns when the conversation was resumed.
    turns_before: usize,
}

impl Session {
    /// Creates a session with an empty conversation. Without a model it takes no turns, but carries
    /// out every command that needs no model.
    #[must_use]
    pub fn new(host: Arc<Host>, assets: Option<SessionAssets>, model: Option<Model>) -> Self {
        let environment = SessionEnvironment {
            workspace: host.authority().workspace().to_owned(),
            host,
            assets,
            offers_own_tool: true,
            model,
            front_end: None,
            guidance: Guidance::default(),
            recent: Recent::default(),
            system: None,
            undo: Undo::default(),
            remarks: Remarks::default(),
            other_usage: UsageMeter::default(),
        };
        Self {
            environment,
            conversation: Conversation::default(),
            tools: OfferedTools::default(),
            meter: Meter::default(),
            keeper: JournalWriter::default(),
            limits: TurnLimits {
                rounds: MAX_ROUNDS,
                compact_at: CompactAt::default(),
                spend: Spend::default(),
            },
            answer_schema: None,
            today: Today::default(),
            news: None,
            turns_before: 0,
        }
    }

    /// Takes one turn. First it replaces the mentions in the prompt by their text, adds the
    /// prompt's images, and waits for `tools` (the scan may still run). Then it asks the model and
    /// runs its calls until the model calls nothing.
    ///
    /// Every request of the turn has the tools of this one snapshot. Cancelling ends a stream at
    /// once, and a call as soon as everything that it started is dead; then the turn returns. If
    /// the future is dropped instead, its calls end too, and the conversation stays as it was after
    /// the last complete round, with the prompt.
    ///
    /// # Errors
    ///
    /// Fails with [`TurnError`] if no turn was taken. Everything that can happen in a turn is an
    /// [`TurnEnd`](crate::TurnEnd).
    pub async fn turn(
        &mut self,
        tools: impl Future<Output = Option<Arc<Snapshot>>>,
        prompt: Prompt<'_>,
        cancel: &CancellationToken,
        on_event: OnEvent<'_>,
    ) -> Result<Turn, TurnError> {
        let Self { environment, conversation, tools: offered, meter, keeper, limits, .. } = self;
        let Self { answer_schema, today, news, .. } = self;
        let model = environment.model.as_ref().ok_or(TurnError::NoModel)?;
        let room = Room::beside(conversation.messages());
        let ready = join(turn::said(environment, prompt, room, on_event), tools);
        let Some((said, snapshot)) = cancel.run_until_cancelled(ready).await else {
            return Ok(Turn::interrupted());
        };
        let PromptContent { mut texts, images } = said;
        texts.extend(news.clone());
        let parts = images::prompt(images.clone(), texts.clone());
        let exchange = conversation.begin(prompt.typed, parts)?;
        let begun = journal::JournalEvent::Prompt { typed: prompt.typed.to_owned(), texts, images };
        environment.undo.begin();
        let snapshot = snapshot.as_ref();
        if keeper.is_on() {
            keeper.hide(journal::secrets(&environment.host, snapshot.map(|it| &**it)));
        }
        surround(keeper, environment, snapshot).await;
        if keeper.is_on() {
            today.are_in_log(meter.spent());
        }
        let (spent_today, spent_before) = match limits.spend.day {
            None => (0, meter.spent()),
            Some(_) => (spent_today(today, environment, meter, on_event).await, meter.spent()),
        };
        let rounds = Rounds {
            environment,
            model,
            snapshot,
            tools: offered,
            meter,
            keeper,
            limits: *limits,
            shape: turn::shape(model, answer_schema.as_ref(), on_event),
            today: spent_today,
            tally: today,
            spent_before,
            gave_up: false,
            takes_images: true,
            cancel,
            on_event,
        };
        let turn = rounds.run(exchange, begun).await;
        // The turn itself may have changed the pins.
        surround(keeper, environment, snapshot).await;
        // If no request was answered, the prompt was discarded. Then `news` goes with the next
        // prompt.
        if turn.rounds > 0 {
            *news = None;
        }
        Ok(turn)
    }

    /// Restores the files that `file_write` and `file_edit` changed in the last turn, and tells the
    /// model with the next prompt. A file that is not as the turn left it stays.
    pub fn undo(&mut self) -> Undone {
        let undone = self.environment.undo.take_back(&self.environment.workspace);
        let changed = undone.restored.iter().chain(&undone.removed);
        let names: Vec<String> = changed.map(|path| format!("`{}`", path.display())).collect();
        if !names.is_empty() {
            let names = names.join(", ");
            let text = format!("[The user took back what you changed in these files: {names}]");
            self.news = Some(text);
        }
        undone
    }

    /// Returns the files of the workspace that `file_write` and `file_edit` changed since this
    /// conversation began or was resumed, and that differ from their state before. Changes by other
    /// tools are not known.
    #[must_use]
    pub fn changed_files(&self) -> Vec<ChangedFile> {
        self.environment.undo.changed(&self.environment.workspace)
    }

    /// Makes room in the conversation between two turns: results from before the last two turns
    /// become one line each, and those older turns become notes. Warnings are events. Returns
    /// nothing if no turns are older.
    ///
    /// # Errors
    ///
    /// Fails with [`CommandError::NoModel`] or [`CommandError::Cancelled`]. The conversation has
    /// not changed.
    pub async fn compact(
        &mut self,
        snapshot: Option<&Snapshot>,
        cancel: &CancellationToken,
        on_event: OnEvent<'_>,
    ) -> Result<Option<Compacted>, CommandError> {
        let fixed = self.sizes(snapshot).await;
        let Self { environment, conversation, meter, keeper, limits, .. } = self;
        let model = environment.model.as_ref().ok_or(CommandError::NoModel)?;
        let set = limits.compact_at;
        let compaction = Compaction { environment, model, meter, set, fixed };
        let work = compaction.run(conversation, CompactionCause::Command, false);
        let Some(CompactionOutcome { events, compacted, warnings, left }) =
            cancel.run_until_cancelled(work).await
        else {
            return Err(CommandError::Cancelled);
        };
        let unwritten = keeper.write(environment, events).await;
        for warning in warnings.iter().chain(&unwritten) {
            on_event(TurnEvent::Warning(warning));
        }
        if let Some(part) = recent::ConversationPart::of_turns(environment, keeper, left) {
            self.remember(&part, cancel, on_event).await;
        }
        Ok(compacted)
    }

    /// Returns the size of the next request, by its parts, and the cost of the session so far.
    pub async fn usage(&self, snapshot: Option<&Snapshot>) -> ContextUsage {
        let sizes = self.sizes(snapshot).await.with_messages(self.conversation.messages());
        ContextUsage {
            window: self.model().and_then(|model| self.meter.window(model)),
            request: self.meter.count(sizes.bytes()),
            messages: TokenCount::estimated(sizes.messages),
            results: TokenCount::estimated(sizes.results),
            pins: TokenCount::estimated(sizes.pins),
            system: TokenCount::estimated(sizes.system),
            tools: TokenCount::estimated(sizes.tools),
            cached: self.meter.cached(),
            spent: self.meter.spent() + usage::tokens(self.environment.other_usage.untaken()),
            spend: self.limits.spend,
        }
    }

    /// Returns the size of the next request without its messages.
    async fn sizes(&self, snapshot: Option<&Snapshot>) -> Sizes {
        let SystemPrompt { blocks, pinned_bytes, .. } =
            system::blocks(&self.environment, snapshot).await;
        let system: usize = blocks.iter().map(|block| block.text.len()).sum();
        let (system, tools) = (system - pinned_bytes, self.tools.bytes());
        Sizes { system, pins: pinned_bytes, tools, ..Sizes::default() }
    }

    /// Carries out a command, and returns its answer: lines without a newline at the end.
    ///
    /// # Errors
    ///
    /// Fails if the command was not carried out. Nothing has changed.
    pub async fn command(
        &self,
        command: &AgentCommand,
        by: By<'_>,
        snapshot: Option<&Arc<Snapshot>>,
        cancel: &CancellationToken,
    ) -> Result<String, CommandError> {
        command::run(&self.environment, command, by, snapshot, cancel).await
    }

    /// Returns the messages so far. The first is the user's, and the sides alternate.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        self.conversation.messages()
    }

    /// Returns the messages so far for a program: an array of `{"role": "user" | "model",
    /// "parts": […]}`.
    ///
    /// A part is one of:
    ///
    /// - `{"text"}`
    /// - `{"call": {id, name, arguments}}`, with the arguments as the model wrote them
    /// - `{"result": {id, name, content, is_error}}`, with the text that the model read, and
    ///   possibly with `images`
    /// - `{"image": {name, media_type, width, height, bytes}}`
    ///
    /// Parts that only a provider reads are left out, and so is the data of images.
    #[must_use]
    pub fn transcript(&self) -> Value {
        self.conversation.transcript()
    }

    /// Removes all messages. Pins, the user's part of the system prompt and the model stay; notes
    /// in files are read anew.
    pub fn clear(&mut self) {
        self.conversation.clear();
        self.keeper.queue(journal::JournalEvent::Cleared);
        self.leave();
    }

    /// Forgets the state that belongs to the conversation that ends here. Its messages are not
    /// affected.
    fn leave(&mut self) {
        self.turns_before = self.conversation.turns();
        self.environment.remarks = Remarks::default();
        self.environment.undo.begin_conversation();
        self.news = None;
        self.forget_notes();
    }

    /// Returns the model, if one is set.
    #[must_use]
    pub fn model(&self) -> Option<&Model> {
        self.environment.model.as_ref()
    }

    /// Sets the model of the next turns, of any provider. Parts of the conversation that only
    /// another provider reads are not sent to it.
    pub fn set_model(&mut self, model: Option<Model>) {
        self.environment.model = model;
        self.meter.forget();
    }

    /// Returns the user's own part of the system prompt.
    #[must_use]
    pub fn system(&self) -> Option<&str> {
        self.environment.system.as_deref()
    }

    /// Sets the user's own part of the system prompt. A blank text removes it.
    pub fn set_system(&mut self, text: Option<String>) {
        self.environment.system = text.filter(|text| !text.trim().is_empty());
    }

    /// Sets whether the model is sent the notes for agents in `AGENTS.md` or `CLAUDE.md` of the
    /// workspace, and the user's. By default it is not. The notes are read once, when the system
    /// prompt is first needed.
    pub fn set_notes(&mut self, is_on: bool) {
        self.environment.guidance = Guidance::new(is_on);
    }

    /// Sets whether the summary of earlier conversations in this workspace is sent to the model. If
    /// it is, this conversation is added to the summary, provided that it is kept. By default it is
    /// off.
    pub fn set_auto_summary(&mut self, is_on: bool) {
        self.environment.recent = Recent::new(is_on);
    }

    /// Makes the next request read the notes in files again.
    pub fn forget_notes(&mut self) {
        self.environment.guidance.forget();
    }

    /// Returns what would be sent before the conversation now, with the tools of this snapshot, and
    /// warnings about what would be left out.
    pub async fn system_blocks(&self, snapshot: &Snapshot) -> (Vec<SystemBlock>, Vec<String>) {
        let SystemPrompt { blocks, warning, .. } =
            system::blocks(&self.environment, Some(snapshot)).await;
        let SessionEnvironment { guidance, recent, .. } = &self.environment;
        let warnings = guidance.take_warnings().into_iter().chain(warning);
        (blocks, warnings.chain(recent.take_warning()).collect())
    }

    /// Sets the most requests of one turn, at least one; [`MAX_ROUNDS`] by default.
    pub fn set_max_rounds(&mut self, rounds: u32) {
        self.limits.rounds = rounds.max(1);
    }

    /// Sets the size at which the conversation is compacted.
    pub fn set_compact_at(&mut self, at: CompactAt) {
        self.limits.compact_at = at;
    }

    /// Sets the tokens of requests and answers after which no further request is sent. The tokens
    /// of a session that is resumed count too.
    pub fn set_spend(&mut self, spend: Spend) {
        self.limits.spend = spend;
    }

    /// Sets the JSON Schema of the answer in each of the next turns. A provider enforces it if it
    /// can; otherwise a warning gives the reason. This neither tells the model about the schema nor
    /// checks its answers: the caller does both.
    pub fn set_answer_schema(&mut self, schema: Option<Value>) {
        self.answer_schema = schema;
    }

    /// Sets the user who is asked about the model's calls; `None` if ikigai cannot ask a user.
    pub fn set_front_end(&mut self, front_end: Option<Arc<dyn FrontEnd>>) {
        self.environment.front_end = front_end;
    }

    /// Sets whether the model is offered the host's own tool,
    /// [`SLASH_COMMAND`](crate::SLASH_COMMAND). By default it is, if the session has assets.
    pub fn set_own_tool(&mut self, is_offered: bool) {
        self.environment.offers_own_tool = is_offered;
    }

    /// Returns the assets of the session, if it has any.
    #[must_use]
    pub fn assets(&self) -> Option<&SessionAssets> {
        self.environment.assets.as_ref()
    }

    /// Returns the directory in which tools work and from which mentions of files count.
    #[must_use]
    pub fn workspace(&self) -> &Path {
        &self.environment.workspace
    }
}

/// Adds the surroundings of a turn to the log of a kept conversation.
async fn surround(
    keeper: &mut JournalWriter,
    environment: &SessionEnvironment,
    snapshot: Option<&Arc<Snapshot>>,
) {
    if keeper.is_on() {
        let SessionEnvironment { host, assets, .. } = environment;
        let snapshot = snapshot.map(|it| &**it);
        keeper.surround(TurnSurroundings::now(host, assets.as_ref(), snapshot).await);
    }
}

/// Returns the tokens that were spent today before a turn.
async fn spent_today(
    today: &mut Today,
    environment: &SessionEnvironment,
    meter: &Meter,
    on_event: OnEvent<'_>,
) -> u64 {
    let own = today.uncounted(meter.spent());
    let Some(assets) = &environment.assets else { return own };
    match today.tokens(assets).await {
        Ok(kept) => kept.saturating_add(own),
        Err(error) => {
            let warning = format!("what other conversations spent today is not known: {error}");
            on_event(TurnEvent::Warning(&warning));
            meter.spent()
        }
    }
}
