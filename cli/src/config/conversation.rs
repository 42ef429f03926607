//! The settings of conversations that have no flag: how much they may spend, and when they are
//! compacted.

use ikigai_agent::{CompactAt, SessionRetention};

use super::{Config, Setting, SettingSource, ValueKind};

/// The table of the limits on what conversations spend.
pub(super) const SPEND: &str = "spend";

/// The keys of that table.
pub(super) const SPEND_KEYS: &[(&str, ValueKind)] =
    &[("session", ValueKind::Number), ("day", ValueKind::Number)];

/// The key for the point at which a conversation is compacted.
pub(super) const COMPACT_AT: &str = "compact_at";

/// The key for how long conversations are kept.
pub(super) const SESSIONS: &str = "sessions";

impl Config {
    /// Returns how long conversations are kept, and the place that set it.
    #[must_use]
    pub(crate) fn sessions(&self) -> (SessionRetention, SettingSource) {
        let set = self.setting(SESSIONS);
        // Checked when the file was read.
        let parsed =
            set.and_then(|setting| Some((setting.value.parse().ok()?, setting.provenance())));
        parsed.unwrap_or((SessionRetention::default(), SettingSource::Default))
    }

    /// Returns the most tokens that one conversation may spend, and the most that all may spend in
    /// a day. Each has its key and the place that set it.
    #[must_use]
    pub(crate) fn spend(&self) -> [(&'static str, Option<u64>, SettingSource); 2] {
        ["session", "day"].map(|key| {
            let setting = self.spend.get(key);
            // Checked when the file was read.
            let tokens = setting.and_then(|setting| setting.value.parse().ok());
            (key, tokens, setting.map_or(SettingSource::Default, Setting::provenance))
        })
    }

    /// Returns the point at which a conversation is compacted, and the place that set it.
    #[must_use]
    pub(crate) fn compact_at(&self) -> (CompactAt, SettingSource) {
        let set = self.setting(COMPACT_AT);
        // Checked when the file was read.
        let parsed =
            set.and_then(|setting| Some((setting.value.parse().ok()?, setting.provenance())));
        parsed.unwrap_or((CompactAt::default(), SettingSource::Default))
    }
}

/// Checks a value of `[spend]`. The error explains the mistake.
pub(super) fn check_spend(value: &str) -> Result<(), String> {
    match value.parse::<u64>() {
        Ok(1..) => Ok(()),
        _ => Err(format!("`{value}` is not a number of tokens; expected a whole number from 1")),
    }
}
