//! The settings of conversations that are no flags: how much they may spend, and when they are
//! compacted.

use std::fmt;
use std::str::FromStr;

use super::{Config, Kind, Provenance, Setting};

/// The table of the limits on what conversations spend.
pub(super) const SPEND: &str = "spend";

/// The keys of that table.
pub(super) const SPEND_KEYS: &[(&str, Kind)] = &[("session", Kind::Number), ("day", Kind::Number)];

/// The key for the point at which a conversation is compacted.
pub(super) const COMPACT_AT: &str = "compact_at";

/// The fewest tokens at which a conversation may be compacted. The system prompt alone may have
/// more, and a smaller number is a share of the window in the wrong form.
const MIN_TOKENS: u64 = 1000;

/// The point at which a conversation is compacted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum CompactAt {
    /// A share of the model's window less the room for its answer.
    Share(f64),
    /// A number of tokens.
    Tokens(u64),
}

impl Default for CompactAt {
    fn default() -> Self {
        Self::Share(0.8)
    }
}

impl fmt::Display for CompactAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Share(share) => share.fmt(f),
            Self::Tokens(tokens) => tokens.fmt(f),
        }
    }
}

impl FromStr for CompactAt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let tokens = text.parse::<u64>().ok().filter(|tokens| *tokens >= MIN_TOKENS);
        let share = text.parse::<f64>().ok().filter(|share| *share > 0.0 && *share <= 1.0);
        match (tokens, share) {
            (Some(tokens), _) => Ok(Self::Tokens(tokens)),
            (None, Some(share)) if text.contains(['.', 'e', 'E']) => Ok(Self::Share(share)),
            _ => Err(format!(
                "`{text}` is neither a share of the window, such as 0.8, nor a number of tokens \
                 from {MIN_TOKENS}"
            )),
        }
    }
}

impl Config {
    /// Returns the most tokens that conversations may spend: one of them, and all of one day.
    /// Each has its key and the place that set it.
    #[must_use]
    pub(crate) fn spend(&self) -> [(&'static str, Option<u64>, Provenance); 2] {
        ["session", "day"].map(|key| {
            let setting = self.spend.get(key);
            // Checked when the file was read.
            let tokens = setting.and_then(|setting| setting.value.parse().ok());
            (key, tokens, setting.map_or(Provenance::Default, Setting::provenance))
        })
    }

    /// Returns the point at which a conversation is compacted, and the place that set it.
    #[must_use]
    pub(crate) fn compact_at(&self) -> (CompactAt, Provenance) {
        let set = self.setting(COMPACT_AT);
        // Checked when the file was read.
        let parsed =
            set.and_then(|setting| Some((setting.value.parse().ok()?, setting.provenance())));
        parsed.unwrap_or((CompactAt::default(), Provenance::Default))
    }
}

/// Checks a value of `[spend]`. The error says what is wrong with it.
pub(super) fn check_spend(value: &str) -> Result<(), String> {
    match value.parse::<u64>() {
        Ok(1..) => Ok(()),
        _ => Err(format!("`{value}` is not a number of tokens: a whole number from 1 is expected")),
    }
}
