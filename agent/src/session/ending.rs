//! The end of a conversation, which is added to the summary that later conversations read.

use ikigai_assets::SessionId;
use tokio_util::sync::CancellationToken;

use super::{Session, spent_today};
use crate::event::{OnEvent, TurnEvent};
use crate::recent::{self, ConversationPart, NotAdded};
use crate::usage::tokens;

/// The fewest turns of a conversation that is remembered.
const FEWEST_TURNS: usize = 3;

/// The part of an ending conversation that is remembered.
#[derive(Debug)]
pub struct ConversationEnding(ConversationPart);

impl ConversationEnding {
    /// Returns the session in which the conversation is kept.
    #[must_use]
    pub fn session(&self) -> SessionId {
        self.0.session
    }

    /// Returns the ending of a conversation that was cleared: another one follows in its session.
    #[must_use]
    pub fn cleared(self) -> Self {
        Self(ConversationPart { is_end: false, ..self.0 })
    }
}

impl Session {
    /// Returns the ending of this conversation, if it ended now. Returns nothing if the summary is
    /// off, or if the conversation is not kept, has fewer than three turns, or has had no turn
    /// since it was resumed.
    #[must_use]
    pub fn ending(&self) -> Option<ConversationEnding> {
        let turns = self.conversation.turns();
        if !self.environment.recent.is_on() || turns < FEWEST_TURNS || turns <= self.turns_before {
            return None;
        }
        let (session, model) = (self.kept()?, self.model()?);
        let record = recent::record(&self.conversation.said(0), self.meter.room(model))?;
        Some(ConversationEnding(ConversationPart { record, session, is_end: true }))
    }

    /// Has the model write an entry about a conversation that ended, and adds it to the summary of
    /// the workspace. It takes at most 30 seconds. If nothing was added, a warning gives the
    /// reason.
    pub async fn summarize(
        &mut self,
        ending: &ConversationEnding,
        cancel: &CancellationToken,
        on_event: OnEvent<'_>,
    ) {
        self.remember(&ending.0, cancel, on_event).await;
    }

    /// Adds an entry to the summary, unless the token budget is used up.
    pub(super) async fn remember(
        &mut self,
        part: &ConversationPart,
        cancel: &CancellationToken,
        on_event: OnEvent<'_>,
    ) {
        let untaken = tokens(self.environment.other_usage.untaken());
        let Self { environment, meter, limits, today, .. } = self;
        let Some(model) = environment.model.as_ref() else { return };
        let today = match limits.spend.day {
            None => 0,
            Some(_) => spent_today(today, environment, meter, on_event).await,
        };
        let is_spent = limits.spend.reached(meter.spent() + untaken, today + untaken).is_some();
        let warning = if is_spent {
            recent::warning(environment, &NotAdded::Spent)
        } else {
            let added = recent::add(environment, model, part);
            cancel.run_until_cancelled(added).await.flatten()
        };
        if let Some(warning) = warning {
            on_event(TurnEvent::Warning(&warning));
        }
    }
}
