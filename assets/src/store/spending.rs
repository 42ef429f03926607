//! The tokens that agents spent in conversations that are not kept, by day. The tokens of kept
//! conversations are in their events.

use super::{Store, one};
use crate::agent::Agent;
use crate::backoff::retried;
use crate::database::{Row, SqlParameter};
use crate::error::Result;

/// The maximum number of tokens that are added at once, so that a number from a provider cannot
/// overflow the sum.
const MOST: u64 = 1 << 40;

/// The distance between the numbers of two days that are a month apart.
const MONTH: u32 = 100;

impl Store {
    /// Adds tokens to the agent's sum for a day. The day is a number such as 20260507, by the
    /// clock and in the time zone of the caller. Concurrent calls are safe: the database adds,
    /// so no update is lost. Removes days that are more than a month older.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn add_spent(&self, agent: &Agent, day: u32, tokens: u64) -> Result<()> {
        let agent = SqlParameter::Text(agent.as_str());
        let tokens = i64::try_from(tokens.min(MOST)).unwrap_or(i64::MAX);
        let oldest = SqlParameter::Int(day.saturating_sub(MONTH).into());
        let (day, tokens) = (SqlParameter::Int(day.into()), SqlParameter::Int(tokens));
        retried(|| async {
            let mut transaction = self.database.begin().await?;
            let statement = "DELETE FROM spent_tokens WHERE agent = $1 AND day < $2";
            transaction.execute(statement, &[agent, oldest]).await?;
            let statement = "INSERT INTO spent_tokens (agent, day, tokens) VALUES ($1, $2, $3) \
                ON CONFLICT (agent, day) \
                DO UPDATE SET tokens = spent_tokens.tokens + excluded.tokens";
            transaction.execute(statement, &[agent, day, tokens]).await?;
            transaction.commit().await
        })
        .await
    }

    /// Returns the tokens that were added for the agent and the day.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn spent(&self, agent: &Agent, day: u32) -> Result<u64> {
        let statement = "SELECT tokens FROM spent_tokens WHERE agent = $1 AND day = $2";
        let values = [SqlParameter::Text(agent.as_str()), SqlParameter::Int(day.into())];
        let found = self.database.rows(statement, &values, |row: &Row| row.count("tokens"));
        Ok(one(found.await?).unwrap_or(0))
    }
}
