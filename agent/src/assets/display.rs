//! What is said of pins and of sizes, in the words that the command line, a person's
//! commands and a model's have in common.

use ikigai_assets::{AssetPath, Metadata, Pinned, Usage, thousands};

/// What pinning did: `Pinned: X`.
#[must_use]
pub fn pinned(path: &AssetPath, pinned: Pinned) -> String {
    match pinned {
        Pinned::Now => format!("Pinned: {path}"),
        Pinned::Already => format!("Already pinned: {path}"),
    }
}

/// What unpinning did: `Unpinned: X`.
#[must_use]
pub fn unpinned(path: &AssetPath, was_pinned: bool) -> String {
    let text = if was_pinned { "Unpinned" } else { "Not pinned" };
    format!("{text}: {path}")
}

/// What stands over the list of pins, or in its place: `Pinned Blocks (87k/100k tokens):`.
#[must_use]
pub fn pins_heading(usage: &Usage) -> String {
    if usage.pinned_assets == 0 {
        return "No pinned assets.".to_owned();
    }
    format!("Pinned Blocks ({} tokens):", budget(usage))
}

/// How much of the budget is used: `87k/100k`.
#[must_use]
pub fn budget(usage: &Usage) -> String {
    format!("{}/{}", thousands(usage.pinned_tokens), thousands(usage.budget.0))
}

/// An asset of a list: `  blocks/x.md (12k tokens)`.
#[must_use]
pub fn listed(metadata: &Metadata) -> String {
    format!("  {} ({})", metadata.path, tokens(metadata.tokens))
}

/// Tokens as people read them.
#[must_use]
pub fn tokens(tokens: u64) -> String {
    match tokens {
        0 => "no tokens".to_owned(),
        1 => "1 token".to_owned(),
        _ => format!("{} tokens", thousands(tokens)),
    }
}

/// Tokens to a tenth of a thousand, the rest cut off, where two counts are compared:
/// `24.0k`, and `3.9k`; those below a thousand as they are.
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
