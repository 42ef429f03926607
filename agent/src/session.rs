//! A session: one conversation, and everything that its turns and commands work with.

use std::path::Path;
use std::sync::Arc;

use futures_util::future::join;
use ikigai_host::host::Host;
use ikigai_host::registry::Snapshot;
use ikigai_provider::Message;
use tokio_util::sync::CancellationToken;

use crate::command::{self, By, Command, CommandError};
use crate::conversation::Conversation;
use crate::environment::{Environment, Model, SessionAssets};
use crate::event::OnEvent;
use crate::offer::OfferedTools;
use crate::turn::{self, Prompt, Rounds, Turn, TurnError};
use crate::usage::UsageMeter;

/// The most requests of one turn, unless a session is set to another number. A model that has not
/// answered after so many is going in circles.
pub const MAX_ROUNDS: u32 = 50;

/// One conversation with a model over the tools of a host.
///
/// Whatever ends a turn, the next one may follow: the conversation is valid for every provider
/// at any time.
pub struct Session {
    environment: Environment,
    conversation: Conversation,
    tools: OfferedTools,
    max_rounds: u32,
}

impl Session {
    /// Creates a session whose conversation is empty. Without a model it takes no turns, but
    /// carries out every command that needs none.
    #[must_use]
    pub fn new(host: Arc<Host>, assets: Option<SessionAssets>, model: Option<Model>) -> Self {
        let environment = Environment {
            workspace: host.authority().workspace().to_owned(),
            host,
            assets,
            model,
            system: None,
            other_usage: UsageMeter::default(),
        };
        Self {
            environment,
            conversation: Conversation::default(),
            tools: OfferedTools::default(),
            max_rounds: MAX_ROUNDS,
        }
    }

    /// Takes one turn: replaces what the prompt mentions by its text, waits for `tools` (the
    /// scan may still run), then asks the model and runs what it calls, until it calls nothing.
    ///
    /// Every request of the turn has the tools of the one snapshot. Cancelling ends a stream
    /// at once, and a call when everything that it started is dead; then the turn returns. A
    /// future that is dropped instead ends its calls as well, and leaves the conversation as it
    /// was after the last whole round, with the prompt.
    ///
    /// # Errors
    ///
    /// No turn was taken: see [`TurnError`]. Everything that can happen in a turn is an
    /// [`End`](crate::End).
    pub async fn turn(
        &mut self,
        tools: impl Future<Output = Option<Arc<Snapshot>>>,
        prompt: Prompt<'_>,
        cancel: &CancellationToken,
        on_event: OnEvent<'_>,
    ) -> Result<Turn, TurnError> {
        let Self { environment, conversation, tools: offered, max_rounds } = self;
        let model = environment.model.as_ref().ok_or(TurnError::NoModel)?;
        let ready = join(turn::texts(environment, prompt, on_event), tools);
        let Some((texts, snapshot)) = cancel.run_until_cancelled(ready).await else {
            return Ok(Turn::interrupted());
        };
        let exchange = conversation.begin(texts)?;
        let snapshot = snapshot.as_ref();
        let rounds = Rounds { environment, model, snapshot, tools: offered, cancel, on_event };
        Ok(rounds.run(exchange, *max_rounds).await)
    }

    /// Carries out a command, and returns its answer: lines without a newline at the end.
    ///
    /// # Errors
    ///
    /// The command was not carried out, and nothing has changed.
    pub async fn command(
        &self,
        command: &Command,
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
    /// A part is `{"text"}`, `{"call": {id, name, arguments}}` with the arguments as the model
    /// wrote them, or `{"result": {id, name, content, is_error}}` with the text that the model
    /// read. Parts that only a provider reads are left out.
    #[must_use]
    pub fn transcript(&self) -> serde_json::Value {
        self.conversation.transcript()
    }

    /// Removes all messages. Pins, the system prompt and the model stay.
    pub fn clear(&mut self) {
        self.conversation.clear();
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
    }

    /// Returns the person's own part of the system prompt.
    #[must_use]
    pub fn system(&self) -> Option<&str> {
        self.environment.system.as_deref()
    }

    /// Sets the person's own part of the system prompt. A blank text removes it.
    pub fn set_system(&mut self, text: Option<String>) {
        self.environment.system = text.filter(|text| !text.trim().is_empty());
    }

    /// Sets the most requests of one turn, at least one; [`MAX_ROUNDS`] by default.
    pub fn set_max_rounds(&mut self, rounds: u32) {
        self.max_rounds = rounds.max(1);
    }

    /// Returns the assets of the session, where there are any.
    #[must_use]
    pub fn assets(&self) -> Option<&SessionAssets> {
        self.environment.assets.as_ref()
    }

    /// Returns the directory that tools work in and mentions of files count from.
    #[must_use]
    pub fn workspace(&self) -> &Path {
        &self.environment.workspace
    }
}
