//! The tokens that an agent spent today in all its kept conversations.

use std::collections::HashMap;
use std::time::SystemTime;

use ikigai_assets::{Error, SessionFilter, SessionId, Store};
use jiff::Zoned;

use crate::environment::SessionAssets;
use crate::journal::Event;
use crate::usage::tokens;

/// The events that are read from the store at once.
const PAGE: u32 = 1000;

/// The tokens that may be spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spend {
    /// Those of one conversation, if there is a limit.
    pub session: Option<u64>,
    /// Those of one day, from midnight on, in all kept conversations of the agent and in this one,
    /// if there is a limit.
    pub day: Option<u64>,
}

/// The limit that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpendLimit {
    /// [`Spend::session`]
    Session,
    /// [`Spend::day`]
    Day,
}

/// The tokens of each kept conversation today.
#[derive(Debug, Default)]
pub(super) struct Today {
    /// The beginning of the day.
    midnight: Option<SystemTime>,
    /// The last event that was read of a session, and the tokens of those of today up to it.
    sessions: HashMap<SessionId, (u64, u64)>,
}

impl Today {
    /// Returns the tokens of all kept conversations since midnight. Reads the events that were
    /// written since the last time. A store that does not exist is not created.
    pub(super) async fn tokens(&mut self, assets: &SessionAssets) -> Result<u64, Error> {
        if !assets.store.may_hold_assets() {
            return Ok(0);
        }
        let store = assets.store.open().await?;
        let midnight = midnight();
        if self.midnight != Some(midnight) {
            *self = Self { midnight: Some(midnight), sessions: HashMap::new() };
        }
        let filter = SessionFilter { agent: &assets.agent, workspace: None };
        // The list begins with those that were written last.
        let all = store.sessions(&filter, None).await?;
        for session in all.iter().take_while(|session| session.updated_at >= midnight) {
            let read = self.sessions.entry(session.id).or_default();
            add_events(store, &session.id, midnight, read).await?;
        }
        Ok(self.sessions.values().map(|(_, tokens)| tokens).sum())
    }
}

/// Adds the events of a session that follow those that were read.
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
            .map(|event| match Event::read(event) {
                Ok(Event::Calls { usage, .. } | Event::End { usage, .. }) => tokens(usage),
                // What a newer program wrote is counted by that program.
                Ok(_) | Err(_) => 0,
            })
            .sum::<u64>();
    }
}

/// Returns the beginning of today where the user is.
fn midnight() -> SystemTime {
    let now = Zoned::now();
    // It is missing in the first and the last year that there are dates for.
    now.start_of_day().unwrap_or(now).timestamp().into()
}
