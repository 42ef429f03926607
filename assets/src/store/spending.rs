//! The tokens that agents spent in conversations that are not kept, by day. Those of kept
//! conversations are in their events.

use super::{Store, one};
use crate::agent::Agent;
use crate::backoff::retried;
use crate::database::{Row, Value};
use crate::error::Result;

/// The most tokens that are added at once, so that no number of a provider overflows the sum.
const MOST: u64 = 1 << 40;

/// The distance of two numbers of days that are a month apart.
const MONTH: u32 = 100;

impl Store {
    /// Adds tokens to those that the agent spent on a day, which is a number such as 20260507, by
    /// the clock and in the time zone of the caller. Callers may do so concurrently: the database adds, so that
    /// no update is lost. Removes days that are more than a month older.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn add_spent(&self, agent: &Agent, day: u32, tokens: u64) -> Result<()> {
        let agent = Value::Text(agent.as_str());
        let tokens = i64::try_from(tokens.min(MOST)).unwrap_or(i64::MAX);
        let oldest = Value::Int(day.saturating_sub(MONTH).into());
        let (day, tokens) = (Value::Int(day.into()), Value::Int(tokens));
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
    /// Those of the database.
    pub async fn spent(&self, agent: &Agent, day: u32) -> Result<u64> {
        let statement = "SELECT tokens FROM spent_tokens WHERE agent = $1 AND day = $2";
        let values = [Value::Text(agent.as_str()), Value::Int(day.into())];
        let found = self.database.rows(statement, &values, |row: &Row| row.count("tokens"));
        Ok(one(found.await?).unwrap_or(0))
    }
}
