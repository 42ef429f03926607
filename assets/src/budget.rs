//! The rule that keeps the pins of an agent within its budget, and the message for a change that
//! breaks it.
//!
//! Arithmetic only: `store` takes the sums, and prevents changes to them between the check and
//! the write.

use std::fmt;

use crate::agent::Agent;

/// The tokens of assets that an agent may have pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget(pub u64);

impl Default for Budget {
    /// 100,000 tokens: half of a context of 200,000. The other half is for the conversation.
    fn default() -> Self {
        Self(100_000)
    }
}

/// The tokens that an agent has pinned, with and without one asset.
#[derive(Clone, Debug)]
pub(crate) struct Sum {
    /// The agent.
    pub(crate) agent: Agent,
    /// The tokens of all pins, this asset included if it is pinned.
    pub(crate) total: u64,
    /// The tokens of all pins but this asset.
    pub(crate) others: u64,
}

/// The operation that a budget is checked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetedOperation {
    /// Writing an asset, by any operation.
    Write,
    /// Taking an asset into the context.
    Pin,
}

/// The refusal of a change that would exceed a budget. A model acts on the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetExcess {
    /// The operation that was refused.
    pub purpose: BudgetedOperation,
    /// The agent whose budget it is, if that is not the caller.
    pub other: Option<Agent>,
    /// The tokens that the agent has pinned, this asset included if it is pinned.
    pub pinned: u64,
    /// The budget.
    pub budget: Budget,
    /// The tokens that the asset would have.
    pub wanted: u64,
}

impl Budget {
    /// Checks that `asset` tokens fit next to the other pins of each of `sums`. The first sum is
    /// the caller's.
    ///
    /// A write that does not make the asset larger always passes. An agent can exceed its budget
    /// because the budget was lowered, and must be able to correct and to shorten its assets.
    pub(crate) fn admits(
        self,
        purpose: BudgetedOperation,
        asset: u64,
        before: Option<u64>,
        sums: &[Sum],
    ) -> Result<(), BudgetExcess> {
        if purpose == BudgetedOperation::Write && before.is_some_and(|before| asset <= before) {
            return Ok(());
        }
        let over = |sum: &&Sum| sum.others.saturating_add(asset) > self.0;
        let Some(exceeded) = sums.iter().find(over) else { return Ok(()) };
        let is_caller = sums.first().is_some_and(|caller| caller.agent == exceeded.agent);
        Err(BudgetExcess {
            purpose,
            other: (!is_caller).then(|| exceeded.agent.clone()),
            pinned: exceeded.total,
            budget: self,
            wanted: asset,
        })
    }
}

/// Formats a count of tokens for a message: whole thousands with a `k`, the rest cut off.
/// Counts from 1 to 999 are given in full; zero is `0k`.
#[must_use]
pub fn thousands(tokens: u64) -> String {
    match tokens {
        1..=999 => tokens.to_string(),
        _ => format!("{}k", tokens / 1000),
    }
}

impl fmt::Display for BudgetExcess {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (pinned, budget) = (thousands(self.pinned), thousands(self.budget.0));
        match &self.other {
            None => write!(out, "Block budget exceeded: {pinned}/{budget} tokens.")?,
            Some(agent) => {
                write!(out, "Block budget of `{agent}` exceeded: {pinned}/{budget} tokens.")?;
            }
        }
        let operation = match self.purpose {
            BudgetedOperation::Write => "write",
            BudgetedOperation::Pin => "pin",
        };
        let wanted = thousands(self.wanted);
        write!(out, " This {operation} would use {wanted} tokens.")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Budget, BudgetExcess, BudgetedOperation, Sum, thousands};
    use crate::agent::Agent;

    fn sum(agent: &str, total: u64, others: u64) -> Sum {
        Sum { agent: Agent::new(agent).expect("valid"), total, others }
    }

    fn write(asset: u64, before: Option<u64>, sums: &[Sum]) -> Result<(), BudgetExcess> {
        Budget::default().admits(BudgetedOperation::Write, asset, before, sums)
    }

    #[test]
    fn a_refusal_names_the_sums() {
        let refused = write(80_000, None, &[sum("a", 95_900, 95_900)]).expect_err("too much");
        assert_eq!(
            refused.to_string(),
            "Block budget exceeded: 95k/100k tokens. This write would use 80k tokens."
        );
    }

    #[test]
    fn the_budget_of_another_agent_is_named() {
        let sums = [sum("a", 0, 0), sum("b@c", 100_000, 99_950)];
        let refused = write(51, Some(50), &sums).expect_err("too much for b");
        assert_eq!(
            refused.to_string(),
            "Block budget of `b@c` exceeded: 100k/100k tokens. This write would use 51 tokens."
        );
        let sums = [sum("a", 99_999, 99_999)];
        let refused =
            Budget::default().admits(BudgetedOperation::Pin, 2, None, &sums).expect_err("no room");
        assert_eq!(refused.other, None);
        assert!(refused.to_string().contains("This pin would use 2 tokens."), "{refused}");
    }

    #[test]
    fn exactly_full_is_within() {
        assert_eq!(write(10, None, &[sum("a", 99_990, 99_990)]), Ok(()));
        assert!(write(11, None, &[sum("a", 99_990, 99_990)]).is_err());
        assert!(write(100_001, None, &[sum("a", 0, 0)]).is_err());
    }

    #[test]
    fn tokens_in_thousands() {
        let shown = [0, 1, 999, 1000, 1999, 100_000].map(thousands);
        assert_eq!(shown, ["0k", "1", "999", "1k", "1k", "100k"]);
    }

    proptest! {
        #[test]
        fn an_asset_that_does_not_grow_passes(before in 0..u64::MAX, cut in 0..u64::MAX, others: u64) {
            let after = before.saturating_sub(cut);
            prop_assert!(write(after, Some(before), &[sum("a", others, others)]).is_ok());
        }

        #[test]
        fn an_asset_that_grows_passes_within_the_budget_only(
            before in prop::option::of(0u64..1000), more in 1u64..200_000, others in 0u64..200_000,
        ) {
            let after = before.unwrap_or(0) + more;
            let fits = write(after, before, &[sum("a", others, others)]).is_ok();
            prop_assert_eq!(fits, others + after <= 100_000);
        }
    }
}
