//! The tokens that an agent spent today. The logs of kept conversations have theirs, and for the
//! other conversations the store has a sum for each day.

use std::collections::HashMap;
use std::time::SystemTime;

use ikigai_assets::{Error, SessionFilter, SessionId, Store};
use jiff::Zoned;

use crate::journal::JournalEvent;
use crate::session_assets::SessionAssets;
use crate::usage::tokens;

/// The events that are read from the store at once.
const PAGE: u32 = 1000;

/// The tokens that may be spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spend {
    /// The tokens of one conversation, if there is a limit.
    pub session: Option<u64>,
    /// The tokens of one day, from midnight on, in all conversations of the agent, if there is a
    /// limit. Conversations that are not kept count only if they have this limit.
    pub day: Option<u64>,
}

impl Spend {
    /// Returns the limit that is reached, the tokens that were spent, and the tokens that may be
    /// spent. `session` counts the tokens of this session, and `today` those that all conversations
    /// spent today.
    pub(super) fn reached(self, session: u64, today: u64) -> Option<(SpendLimit, u64, u64)> {
        let reached = |per, spent, limit: Option<u64>| {
            let limit = limit.filter(|limit| spent >= *limit)?;
            Some((per, spent, limit))
        };
        reached(SpendLimit::Session, session, self.session)
            .or_else(|| reached(SpendLimit::Day, today, self.day))
    }
}

/// The limit that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpendLimit {
    /// [`Spend::session`]
    Session,
    /// [`Spend::day`]
    Day,
}

/// The tokens of each kept conversation today, and the part of this conversation's that is counted.
#[derive(Debug, Default)]
pub(super) struct Today {
    /// The tokens of this conversation that are in its log, or in the sum of the day.
    counted: u64,
    /// True if the sum could not be written. The user is warned of it once.
    is_failing: bool,
    /// The beginning of the day.
    midnight: Option<SystemTime>,
    /// For each session, the last event that was read, and the tokens of today's events up to it.
    sessions: HashMap<SessionId, (u64, u64)>,
}

impl Today {
    /// Records that the log has all tokens that this conversation spent so far.
    pub(super) fn are_in_log(&mut self, spent: u64) {
        self.counted = spent;
    }

    /// Returns the tokens of this conversation that are counted nowhere yet.
    pub(super) fn uncounted(&self, spent: u64) -> u64 {
        spent.saturating_sub(self.counted)
    }

    /// Adds the tokens of this conversation that are not counted yet to the sum of the day. Creates
    /// the store. Returns a warning the first time that the store cannot be written.
    pub(super) async fn count(&mut self, assets: &SessionAssets, spent: u64) -> Option<String> {
        let tokens = self.uncounted(spent);
        if tokens == 0 {
            return None;
        }
        let added = async {
            let store = assets.store.open().await?;
            store.add_spent(&assets.agent, day(&Zoned::now()), tokens).await
        };
        match added.await {
            Ok(()) => {
                self.counted = spent;
                None
            }
            Err(_) if std::mem::replace(&mut self.is_failing, true) => None,
            Err(error) => {
                Some(format!("the tokens of this conversation do not count for the day: {error}"))
            }
        }
    }

    /// Returns the tokens of all conversations since midnight, as far as they are counted. Reads
    /// the events that were written since the last call. A store that does not exist is not
    /// created.
    pub(super) async fn tokens(&mut self, assets: &SessionAssets) -> Result<u64, Error> {
        if !assets.store.may_hold_assets() {
            return Ok(0);
        }
        let store = assets.store.open().await?;
        let now = Zoned::now();
        let midnight = midnight(&now);
        if self.midnight != Some(midnight) {
            self.midnight = Some(midnight);
            self.sessions.clear();
        }
        let filter = SessionFilter { agent: &assets.agent, workspace: None };
        // The sessions are sorted by their last write, newest first.
        let all = store.sessions(&filter, None).await?;
        for session in all.iter().take_while(|session| session.updated_at >= midnight) {
            let read = self.sessions.entry(session.id).or_default();
            add_events(store, &session.id, midnight, read).await?;
        }
        let kept = self.sessions.values().map(|(_, tokens)| tokens).sum::<u64>();
        Ok(kept.saturating_add(store.spent(&assets.agent, day(&now)).await?))
    }
}

/// Adds the events of a session that follow those already read.
async fn add_events(
    store: &Store,
    session: &SessionId,
    midnight: SystemTime,
    (last, sum): &mut (u64, u64),
) -> Result<(), Error> {
    loop {
        let page = store.session_events(session, *last, PAGE).await?;
        let Some(end) = page.last() else { return Ok(()) };
        *last = end.seq;
        let of_today = page.iter().filter(|event| event.written_at >= midnight);
        *sum += of_today
            .map(|event| match JournalEvent::read(event) {
                Ok(
                    JournalEvent::Calls { usage, .. }
                    | JournalEvent::End { usage, .. }
                    | JournalEvent::Spent { usage },
                ) => tokens(usage),
                // Events of a newer program are counted by that program.
                Ok(_) | Err(_) => 0,
            })
            .sum::<u64>();
    }
}

/// Returns the beginning of today in the user's time zone.
fn midnight(now: &Zoned) -> SystemTime {
    // It is missing only in the first and the last year of the calendar.
    now.start_of_day().unwrap_or_else(|_| now.clone()).timestamp().into()
}

/// Returns the day as a number: 20260507 for the 7th of May 2026.
fn day(now: &Zoned) -> u32 {
    let number = |part: i8| u32::from(part.unsigned_abs());
    let year = u32::from(now.year().unsigned_abs());
    year * 10_000 + number(now.month()) * 100 + number(now.day())
}

#[cfg(test)]
mod tests {
    #[test]
    fn days_are_numbers_in_the_zone_of_the_user() {
        let day = |text: &str| super::day(&text.parse().expect("a time"));
        assert_eq!(day("2026-05-07T23:59:59+12:00[+12:00]"), 20_260_507);
        assert_eq!(day("2026-12-31T00:00:00-05:00[-05:00]"), 20_261_231);
    }
}
