//! Checks that a new content fits: its size, the budgets of the agents that have the asset
//! pinned, and the capacity.
//!
//! Takes the sums under locks, so that they stay valid until the commit. The rules are in
//! `budget` and `capacity`.

use super::{Store, one, rows};
use crate::agent::Agent;
use crate::asset::{AssetMetadata, Author, MAX_ASSET_BYTES};
use crate::budget::{BudgetedOperation, Sum};
use crate::capacity::OVERHEAD;
use crate::database::{Row, SqlParameter, Transaction, TransactionLock};
use crate::error::{Error, Result};
use crate::path::{AssetPath, OUTPUTS, successor};
use crate::tokens::{BYTES_PER_TOKEN, tokens};

impl Store {
    /// Checks the size, the budgets and the capacity, and returns the tokens.
    ///
    /// The sums stay valid until the commit. The lock of the asset prevents others from pinning
    /// it, so all agents that have it pinned are known. The locks of those agents prevent their
    /// other pins from growing in size or number.
    pub(super) async fn admit(
        &self,
        transaction: &mut Transaction<'_>,
        path: &AssetPath,
        before: Option<&AssetMetadata>,
        author: &Author,
        content: &[u8],
    ) -> Result<u64> {
        let size = content.len() as u64;
        if size > MAX_ASSET_BYTES {
            return Err(Error::TooLarge { path: path.clone(), size });
        }
        let tokens = tokens(content.len());
        if path.is_output() {
            return Ok(tokens);
        }
        let statement = "SELECT agent FROM asset_pins WHERE path = $1 AND agent <> $2 \
            ORDER BY agent";
        let values = [path.value(), SqlParameter::Text(author.agent.as_str())];
        let mut agents = vec![author.agent.clone()];
        agents.extend(transaction.rows(statement, &values, rows::agent).await?);
        let locks: Vec<_> =
            agents.iter().map(|agent| TransactionLock::Agent(agent.as_str())).collect();
        transaction.lock(&locks).await?;
        let mut sums = Vec::with_capacity(agents.len());
        for agent in agents {
            sums.push(sum(transaction, agent, path).await?);
        }
        let before = before.map(|before| before.tokens);
        self.budget
            .admits(BudgetedOperation::Write, tokens, before, &sums)
            .map_err(Error::BudgetExceeded)?;
        // An asset that does not grow always passes, as with the budget.
        if before.is_none_or(|before| tokens > before) {
            transaction.lock(&[TransactionLock::Total]).await?;
            let others = stored_beside(transaction, path).await?;
            self.capacity.admits(size, others).map_err(Error::Overfull)?;
        }
        Ok(tokens)
    }
}

/// Returns the bytes of all assets except this one and the outputs. Computes them from the
/// tokens, which are read without the contents. The lock of the total must be held.
async fn stored_beside(transaction: &mut Transaction<'_>, path: &AssetPath) -> Result<u64> {
    let statement = "SELECT COUNT(*) AS assets, \
        CAST(COALESCE(SUM(tokens), 0) AS BIGINT) AS tokens FROM stored_assets \
        WHERE (path < $1 OR path >= $2) AND path <> $3";
    let above = successor(OUTPUTS).unwrap_or_default();
    let values = [SqlParameter::Text(OUTPUTS), SqlParameter::Text(&above), path.value()];
    let read = |row: &Row| Ok((row.count("assets")?, row.count("tokens")?));
    let found = one(transaction.rows(statement, &values, read).await?);
    let (assets, tokens) = found.unwrap_or((0, 0));
    Ok(tokens.saturating_mul(BYTES_PER_TOKEN).saturating_add(assets.saturating_mul(OVERHEAD)))
}

/// Returns the sum of an agent's pins. The lock of the agent must be held.
pub(super) async fn sum(
    transaction: &mut Transaction<'_>,
    agent: Agent,
    path: &AssetPath,
) -> Result<Sum> {
    let statement = "SELECT CAST(COALESCE(SUM(d.tokens), 0) AS BIGINT) AS total, \
        CAST(COALESCE(SUM(CASE WHEN d.path = $2 THEN 0 ELSE d.tokens END), 0) AS BIGINT) \
        AS others \
        FROM asset_pins p JOIN stored_assets d ON d.path = p.path WHERE p.agent = $1";
    let values = [SqlParameter::Text(agent.as_str()), path.value()];
    let read = |row: &Row| Ok((row.count("total")?, row.count("others")?));
    let (total, others) = one(transaction.rows(statement, &values, read).await?).unwrap_or((0, 0));
    Ok(Sum { agent, total, others })
}
