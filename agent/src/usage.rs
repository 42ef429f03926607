//! The cost of requests: sums of tokens, and a counter for requests outside a conversation.

use ikigai_provider::TokenUsage;
use parking_lot::Mutex;

/// A counter to which commands add the cost of their requests, such as the request of a compaction.
#[derive(Debug, Default)]
pub(super) struct UsageMeter(Mutex<TokenUsage>);

impl UsageMeter {
    /// Adds the cost of a request.
    pub(super) fn add(&self, usage: TokenUsage) {
        let mut counted = self.0.lock();
        *counted = sum(*counted, usage);
    }

    /// Returns the cost that was not taken yet.
    pub(super) fn untaken(&self) -> TokenUsage {
        *self.0.lock()
    }

    /// Returns the cost since this was last called.
    pub(super) fn take(&self) -> TokenUsage {
        std::mem::take(&mut *self.0.lock())
    }
}

/// Returns the tokens of a request and its answer, as far as they are known.
pub(super) fn tokens(usage: TokenUsage) -> u64 {
    usage.input.unwrap_or(0).saturating_add(usage.output.unwrap_or(0))
}

/// Returns the sum of both; a number that neither has stays unknown.
pub(super) fn sum(one: TokenUsage, other: TokenUsage) -> TokenUsage {
    let add = |a: Option<u64>, b: Option<u64>| match (a, b) {
        (None, None) => None,
        (a, b) => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0))),
    };
    TokenUsage {
        input: add(one.input, other.input),
        output: add(one.output, other.output),
        cached: add(one.cached, other.cached),
        cache_written: add(one.cache_written, other.cache_written),
        reasoning: add(one.reasoning, other.reasoning),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unknown_is_not_counted_as_nothing() {
        let one = TokenUsage { input: Some(1), reasoning: Some(4), ..TokenUsage::default() };
        let other = TokenUsage { input: Some(2), output: Some(3), ..TokenUsage::default() };
        let both = TokenUsage {
            input: Some(3),
            output: Some(3),
            reasoning: Some(4),
            ..TokenUsage::default()
        };
        assert_eq!(sum(one, other), both);
    }
}
