//! The time for which conversations are kept.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use ikigai_assets::{Error, SessionSummary};

use crate::session_assets::SessionAssets;

/// The seconds of a day. `humantime` would write months, whose length in days is not whole.
const DAY: u64 = 24 * 60 * 60;

/// The time before a session's removal at which the user is warned.
const TOLD_BEFORE: Duration = Duration::from_secs(7 * DAY);

/// The time for which a session is kept after its last event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionRetention {
    /// For this time.
    For(Duration),
    /// Until the user removes it.
    Forever,
}

impl Default for SessionRetention {
    fn default() -> Self {
        Self::For(Duration::from_secs(90 * DAY))
    }
}

/// The error for a text that is not a valid retention.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a valid retention for sessions; expected `90days`, `12h` or `never`")]
pub struct InvalidRetention(String);

impl fmt::Display for SessionRetention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::For(time) if time.as_secs().is_multiple_of(DAY) => {
                write!(f, "{} days", time.as_secs() / DAY)
            }
            Self::For(time) => humantime::format_duration(*time).fmt(f),
            Self::Forever => f.write_str("never"),
        }
    }
}

impl FromStr for SessionRetention {
    type Err = InvalidRetention;

    /// Reads a time such as `90days`, after which sessions are removed, or `never`.
    fn from_str(text: &str) -> Result<Self, InvalidRetention> {
        if text == "never" {
            return Ok(Self::Forever);
        }
        let time = humantime::parse_duration(text).ok().filter(|time| !time.is_zero());
        time.map(Self::For).ok_or_else(|| InvalidRetention(text.to_owned()))
    }
}

/// The sessions that a retention affects.
#[derive(Clone, Debug, Default)]
pub struct Pruned {
    /// The number of sessions that were removed.
    pub removed: u64,
    /// The sessions that will be removed within a week, oldest first.
    pub soon: Vec<SessionSummary>,
}

/// Removes the agent's sessions whose last event is older than the retention. A store that does not
/// exist is not created for this.
///
/// # Errors
///
/// Fails if the store fails. Some sessions may have been removed.
pub async fn prune_sessions(
    assets: &SessionAssets,
    retention: SessionRetention,
) -> Result<Pruned, Error> {
    let SessionRetention::For(time) = retention else { return Ok(Pruned::default()) };
    if !assets.store.may_hold_assets() {
        return Ok(Pruned::default());
    }
    let store = assets.store.open().await?;
    let removed = store.prune_sessions(&assets.agent, time).await?;
    // Otherwise every session would be reported as soon as it is written.
    let Some(told) = time.checked_sub(TOLD_BEFORE).filter(|told| !told.is_zero()) else {
        return Ok(Pruned { removed, soon: Vec::new() });
    };
    Ok(Pruned { removed, soon: store.sessions_older_than(&assets.agent, told).await? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_never() {
        let read = |text: &str| text.parse::<SessionRetention>();
        assert_eq!(read("90days"), Ok(SessionRetention::default()));
        assert_eq!(read("never"), Ok(SessionRetention::Forever));
        assert_eq!(SessionRetention::default().to_string(), "90 days");
        assert_eq!(SessionRetention::For(Duration::from_secs(90)).to_string(), "1m 30s");
        for text in ["", "0s", "ninety days", "-1day"] {
            let error = read(text).expect_err(text);
            assert!(
                error.to_string().starts_with(&format!("`{text}` is not a valid retention")),
                "{error}"
            );
        }
    }
}
