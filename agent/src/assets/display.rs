//! Pins and sizes as text, the same for the command line, the user's commands and the model's.

use ikigai_assets::{AssetMetadata, AssetPath, PinOutcome, StoreUsage, thousands};

/// Returns the result of pinning: `Pinned: X`.
#[must_use]
pub fn pinned(path: &AssetPath, pinned: PinOutcome) -> String {
    match pinned {
        PinOutcome::Now => format!("Pinned: {path}"),
        PinOutcome::Already => format!("Already pinned: {path}"),
    }
}

/// Returns the result of unpinning: `Unpinned: X`.
#[must_use]
pub fn unpinned(path: &AssetPath, was_pinned: bool) -> String {
    let text = if was_pinned { "Unpinned" } else { "Not pinned" };
    format!("{text}: {path}")
}

/// Returns the heading of the list of pins, `Pinned Blocks (87k/100k tokens):`, or a line that says
/// that the list is empty.
#[must_use]
pub fn pins_heading(usage: &StoreUsage) -> String {
    if usage.pinned_assets == 0 {
        return "No pinned assets.".to_owned();
    }
    format!("Pinned Blocks ({} tokens):", budget(usage))
}

/// Returns the used part of the budget: `87k/100k`.
#[must_use]
pub fn budget(usage: &StoreUsage) -> String {
    format!("{}/{}", thousands(usage.pinned_tokens), thousands(usage.budget.0))
}

/// Returns an asset as a line of a list: `  blocks/x.md (12k tokens)`.
#[must_use]
pub fn listed(metadata: &AssetMetadata) -> String {
    format!("  {} ({})", metadata.path, tokens(metadata.tokens))
}

/// Returns a number of tokens for people: `12k tokens`.
#[must_use]
pub fn tokens(tokens: u64) -> String {
    match tokens {
        0 => "no tokens".to_owned(),
        1 => "1 token".to_owned(),
        _ => format!("{} tokens", thousands(tokens)),
    }
}

/// Returns a number of tokens to a tenth of a thousand, rounded down, for two numbers that are
/// compared: `24.0k` and `3.9k`. Numbers below a thousand are exact.
#[must_use]
pub fn tenths(tokens: u64) -> String {
    match tokens {
        ..1000 => tokens.to_string(),
        _ => format!("{}.{}k", tokens / 1000, tokens / 100 % 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        let shown = [0, 999, 1000, 3999, 24_049, 100_000].map(tenths);
        assert_eq!(shown, ["0", "999", "1.0k", "3.9k", "24.0k", "100.0k"]);
        assert_eq!([0, 1, 2, 2500].map(tokens), ["no tokens", "1 token", "2 tokens", "2k tokens"]);
    }
}
