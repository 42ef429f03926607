//! The texts about conversations that have used up their budget, with the keys of this program.

use ikigai_agent::SpendLimit;
use ikigai_assets::thousands;

/// Returns the reason why no further request is sent, and the way to continue.
pub(crate) fn reason(per: SpendLimit, spent: u64, limit: u64) -> String {
    let (whose, key, or) = match per {
        SpendLimit::Session => ("this conversation", "session", "begin another conversation"),
        SpendLimit::Day => ("the conversations of today", "day", "continue tomorrow"),
    };
    format!(
        "{whose} spent {} of {} tokens, so that no further request is sent: raise `{key}` under \
         `[spend]` in config.toml and start again, or {or}",
        thousands(spent),
        thousands(limit)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_learns_what_to_change() {
        let text = reason(SpendLimit::Session, 30_500, 30_000);
        assert!(text.starts_with("this conversation spent 30k of 30k tokens"), "{text}");
        assert!(text.contains("`session` under `[spend]`"), "{text}");
        let text = reason(SpendLimit::Day, 30_500, 30_000);
        assert!(text.contains("raise `day`") && text.ends_with("continue tomorrow"), "{text}");
    }
}
