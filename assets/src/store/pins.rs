//! The pins of agents: the assets in the context of each.

use super::sums::sum;
use super::{METADATA, Store, now, one, rows};
use crate::agent::Agent;
use crate::asset::{Asset, PinOutcome, PinnedAsset};
use crate::backoff::retried;
use crate::budget::BudgetedOperation;
use crate::database::{SqlParameter, TransactionLock};
use crate::error::{Error, Result};
use crate::path::AssetPath;

impl Store {
    /// Pins an asset for an agent, after the assets that it has pinned.
    ///
    /// # Errors
    ///
    /// Fails with [`Error::NotFound`], with [`Error::Unpinnable`] below `outputs/`, with
    /// [`Error::BudgetExceeded`], or if the database fails.
    pub async fn pin(&self, agent: &Agent, path: &AssetPath) -> Result<PinOutcome> {
        if path.is_output() {
            return Err(Error::Unpinnable(path.clone()));
        }
        retried(|| self.attempt_to_pin(agent, path)).await
    }

    async fn attempt_to_pin(&self, agent: &Agent, path: &AssetPath) -> Result<PinOutcome> {
        let mut transaction = self.database.begin().await?;
        // The asset is locked too, so that it does not grow between the check and the commit.
        let locks = [TransactionLock::Asset(path.as_str()), TransactionLock::Agent(agent.as_str())];
        transaction.lock(&locks).await?;
        let found = one(transaction.rows(METADATA, &[path.value()], rows::metadata).await?);
        let asset = found.ok_or_else(|| Error::NotFound(path.clone()))?;
        let statement = "SELECT pinned_at FROM asset_pins WHERE agent = $1 AND path = $2";
        let values = [SqlParameter::Text(agent.as_str()), path.value()];
        let pinned = transaction.rows(statement, &values, |row| row.int("pinned_at")).await?;
        if !pinned.is_empty() {
            return Ok(PinOutcome::Already);
        }
        let sum = sum(&mut transaction, agent.clone(), path).await?;
        self.budget
            .admits(BudgetedOperation::Pin, asset.tokens, None, &[sum])
            .map_err(Error::BudgetExceeded)?;
        // Later than the last pin even if clocks differ or go back: the order of the context is
        // the order of pinning, and must not change.
        let statement = "SELECT COALESCE(MAX(pinned_at), 0) AS pinned_at \
            FROM asset_pins WHERE agent = $1";
        let agent = SqlParameter::Text(agent.as_str());
        let last = transaction.rows(statement, &[agent], |row| row.int("pinned_at")).await?;
        let pinned_at = now().max(one(last).unwrap_or(0).saturating_add(1));
        let statement = "INSERT INTO asset_pins (agent, path, pinned_at) VALUES ($1, $2, $3)";
        transaction
            .execute(statement, &[agent, path.value(), SqlParameter::Int(pinned_at)])
            .await?;
        transaction.commit().await?;
        Ok(PinOutcome::Now)
    }

    /// Removes a pin, and returns whether it existed. The asset stays.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn unpin(&self, agent: &Agent, path: &AssetPath) -> Result<bool> {
        retried(|| async {
            let mut transaction = self.database.begin().await?;
            let statement = "DELETE FROM asset_pins WHERE agent = $1 AND path = $2";
            let values = [SqlParameter::Text(agent.as_str()), path.value()];
            let removed = transaction.execute(statement, &values).await?;
            transaction.commit().await?;
            Ok(removed > 0)
        })
        .await
    }

    /// Returns the pins of an agent, in the order of pinning.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn pins(&self, agent: &Agent) -> Result<Vec<PinnedAsset>> {
        let statement = select_metadata!(with "pinned_at" from "asset_pins \
            JOIN stored_assets USING (path) WHERE agent = $1 ORDER BY pinned_at, path");
        self.database.rows(statement, &[SqlParameter::Text(agent.as_str())], rows::pin).await
    }

    /// Returns the pinned assets with their contents, in the order of pinning.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn pinned(&self, agent: &Agent) -> Result<Vec<Asset>> {
        let statement = select_metadata!(with "digest, content" from "asset_pins \
            JOIN stored_assets USING (path) WHERE agent = $1 ORDER BY pinned_at, path");
        self.database.rows(statement, &[SqlParameter::Text(agent.as_str())], rows::asset).await
    }
}
