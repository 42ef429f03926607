//! Conversations that are kept: how one begins, is resumed, and is forked.

use ikigai_assets::{Error, Lease, SessionEvent, SessionId, SessionSummary, Store};
use ikigai_provider::{Part, Role};

use super::Session;
use crate::conversation;
use crate::journal::{self, LostCall, OpenTurn, ReplayError, Replayed, Resumption};
use crate::session_assets::SessionAssets;
use crate::surroundings::TurnSurroundings;
use crate::usage::tokens;

/// The events that are read from the store at once.
const PAGE: u32 = 1000;

/// A conversation that was resumed.
#[derive(Clone, Debug)]
pub struct Resumed {
    /// The session, as it was before.
    pub session: SessionSummary,
    /// The last prompt and the model's last text, as far as they are still sent to the model.
    pub last: Exchanged,
    /// The prompt without an answer, if the last turn did not end.
    pub unanswered: Option<String>,
    /// The calls that ended with their process. They may have run; the model is informed of that.
    pub lost: Vec<LostCall>,
    /// The surroundings of the last turn, if they are known. The surroundings of the next turn are
    /// read anew.
    pub before: Option<TurnSurroundings>,
    /// True if notes replace the oldest messages that the model is sent.
    pub has_notes: bool,
}

/// A prompt and its answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exchanged {
    /// The prompt as it was typed.
    pub prompt: Option<String>,
    /// The last text of the model.
    pub answer: Option<String>,
}

/// The reason why a conversation was not resumed. The session continues its own conversation.
#[derive(Debug, thiserror::Error)]
pub enum ResumeError {
    /// The session has no store.
    #[error("there is no asset store, which saves conversations")]
    NoAssets,
    /// The store refuses, or fails.
    #[error(transparent)]
    Store(#[from] Error),
    /// The log of the session does not make a conversation.
    #[error("session `{session}` cannot be read: {error}")]
    Log {
        /// The session.
        session: SessionId,
        /// The reason.
        error: ReplayError,
    },
    /// The session has fewer turns than were asked for.
    #[error("session `{session}` has {turns} turns, not {asked}")]
    NoTurn {
        /// The session.
        session: SessionId,
        /// The number of its turns.
        turns: u64,
        /// The number of turns that was asked for.
        asked: u64,
    },
}

impl Session {
    /// Keeps the conversation: its first prompt begins a session in the store. Without a store, or
    /// after the first message, this does nothing.
    ///
    /// If the store cannot be written, the turn warns of it, and nothing more is kept. After
    /// [`Session::require_kept`] the turn also ends.
    pub fn keep(&mut self) {
        if self.environment.assets.is_some() && self.conversation.messages().is_empty() {
            self.keeper.want();
        }
    }

    /// Returns the session in which the conversation is kept, once it has begun.
    #[must_use]
    pub fn kept(&self) -> Option<SessionId> {
        self.keeper.session()
    }

    /// Makes turns end with [`TurnEnd::Unkept`](crate::TurnEnd::Unkept) when their events cannot be
    /// written, before a call runs that is not in the log.
    pub fn require_kept(&mut self) {
        self.keeper.require();
    }

    /// Returns the reason why the last events of a conversation that is kept could not be written.
    #[must_use]
    pub fn unkept(&self) -> Option<&str> {
        self.keeper.failure()
    }

    /// Continues the conversation of a session, which replaces the present one. The model does not
    /// change: data that only another model reads is not sent to it.
    ///
    /// # Errors
    ///
    /// Fails with [`Error::SessionHeld`] if another process holds the session; see [`ResumeError`].
    /// Nothing has changed.
    pub async fn resume(&mut self, session: &SessionId) -> Result<Resumed, ResumeError> {
        let assets = self.environment.assets.clone().ok_or(ResumeError::NoAssets)?;
        let store = assets.store.open().await?;
        self.settle(session).await;
        let summary = store.session(session).await?;
        let lease = journal::lease(store, session).await?;
        self.take_up(&assets, summary, lease).await
    }

    /// Continues a copy of a session, of all of it or of its first `turns` turns. The copy replaces
    /// the present conversation. The original does not change, and may be in use.
    ///
    /// # Errors
    ///
    /// Fails with [`ResumeError::NoTurn`] if there are fewer turns; see [`ResumeError`]. Nothing
    /// has changed.
    pub async fn fork(
        &mut self,
        session: &SessionId,
        turns: Option<u64>,
    ) -> Result<Resumed, ResumeError> {
        let assets = self.environment.assets.clone().ok_or(ResumeError::NoAssets)?;
        let store = assets.store.open().await?;
        self.settle(session).await;
        let original = store.session(session).await?;
        let up_to = match turns {
            None => original.events,
            Some(asked) if asked > original.turns => {
                let (session, turns) = (*session, original.turns);
                return Err(ResumeError::NoTurn { session, turns, asked });
            }
            Some(turns) => end_of_turn(&events(store, session).await?, turns),
        };
        let lease = journal::fork(store, session, up_to, &assets).await?;
        let summary = store.session(&lease.session()).await?;
        self.take_up(&assets, summary, lease).await
    }

    /// Writes what is not written yet, and releases the kept session, so that another process may
    /// continue it at once. After that, nothing is kept. Returns a warning if something could not
    /// be written.
    pub async fn release(&mut self) -> Option<String> {
        let usage = self.environment.other_usage.take();
        if tokens(usage) > 0 {
            self.meter.spend(usage);
            self.keeper.queue(journal::JournalEvent::Spent { usage });
        }
        self.keeper.end(&self.environment).await
    }

    /// Writes the events of a kept conversation that are not written yet. Returns a warning if
    /// something could not be written.
    pub async fn write_kept(&mut self) -> Option<String> {
        self.keeper.write(&self.environment, []).await
    }

    /// Writes the events that are not written yet, if the session is this one.
    async fn settle(&mut self, session: &SessionId) {
        if self.kept() == Some(*session)
            && let Some(warning) = self.keeper.write(&self.environment, []).await
        {
            tracing::warn!("{warning}");
        }
    }

    async fn take_up(
        &mut self,
        assets: &SessionAssets,
        session: SessionSummary,
        lease: Lease,
    ) -> Result<Resumed, ResumeError> {
        let store = assets.store.open().await?;
        let id = lease.session();
        let replayed = match events(store, &id).await {
            Ok(events) => {
                let replayed = journal::replay(&events);
                replayed.map_err(|error| ResumeError::Log { session: id, error })
            }
            Err(error) => Err(error.into()),
        };
        let replayed = match replayed {
            Ok(replayed) => replayed,
            Err(error) => {
                if let Err(error) = store.release_session(&lease).await {
                    // The lease expires on its own.
                    tracing::debug!("the lease of a session was not given back: {error}");
                }
                return Err(error);
            }
        };
        if let Some(warning) = self.release().await {
            tracing::warn!("{warning}");
        }
        let model = replayed.model().map(|(provider, name)| (provider.to_owned(), name.to_owned()));
        let last = replayed.last();
        let surroundings = replayed.surroundings().cloned();
        self.keeper.go_on(assets, Resumption { lease, last, model, surroundings });
        if let Some(repair) = replayed.repair() {
            self.keeper.queue(repair);
        }
        self.meter.resume(replayed.usage());
        let resumed = resumed(session, &replayed);
        self.conversation = replayed.into_conversation();
        self.leave();
        Ok(resumed)
    }
}

fn resumed(session: SessionSummary, replayed: &Replayed) -> Resumed {
    let OpenTurn { prompt: unanswered, calls: lost } = replayed.open().clone();
    let text =
        |parts: &[Part]| Some(conversation::text(parts)).filter(|text| !text.trim().is_empty());
    let mut answers = replayed.messages().iter().rev().filter(|it| it.role == Role::Model);
    let last = Exchanged {
        prompt: replayed.last_prompt().map(str::to_owned),
        answer: answers.find_map(|message| text(&message.parts)),
    };
    let (before, has_notes) = (replayed.surroundings().cloned(), replayed.notes().is_some());
    Resumed { session, last, unanswered, lost, before, has_notes }
}

/// Returns all events of a session.
async fn events(store: &Store, session: &SessionId) -> Result<Vec<SessionEvent>, Error> {
    let mut all: Vec<SessionEvent> = Vec::new();
    loop {
        let last = all.last().map_or(0, |event| event.seq);
        let page = store.session_events(session, last, PAGE).await?;
        if page.is_empty() {
            return Ok(all);
        }
        all.extend(page);
    }
}

/// Returns the number of the last event of the first `turns` turns.
fn end_of_turn(events: &[SessionEvent], turns: u64) -> u64 {
    let mut begun = 0;
    let next = events.iter().find(|event| {
        begun += u64::from(event.begins_turn);
        begun > turns
    });
    next.map_or_else(|| events.last().map_or(0, |event| event.seq), |event| event.seq - 1)
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn a_turn_ends_where_the_next_begins() {
        let event = |seq, begins_turn| SessionEvent {
            seq,
            kind: String::new(),
            json: String::new(),
            begins_turn,
            written_at: SystemTime::UNIX_EPOCH,
        };
        let turns = [(1, false), (2, true), (3, false), (4, true), (5, false)];
        let events: Vec<_> = turns.map(|(seq, begins)| event(seq, begins)).into();
        assert_eq!([0, 1, 2].map(|turns| end_of_turn(&events, turns)), [1, 3, 5]);
        assert_eq!(end_of_turn(&[], 0), 0);
    }
}
