//! The removal of sessions to which no event was added for a long time.

use std::time::Duration;

use super::{locked, select_session};
use crate::agent::Agent;
use crate::backoff::retried;
use crate::database::SqlParameter;
use crate::error::{Error, Result};
use crate::session::{SessionId, SessionSummary};
use crate::store::{Store, micros_of, rows};

impl Store {
    /// Returns the sessions of an agent to which no event was added for longer than `age`, the
    /// oldest first. Leaves out sessions that a process holds.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn sessions_older_than(
        &self,
        agent: &Agent,
        age: Duration,
    ) -> Result<Vec<SessionSummary>> {
        let now = self.database.clock().await?;
        let statement =
            select_session!("WHERE agent = $1 AND updated_at < $2 ORDER BY updated_at, id");
        let values = [
            SqlParameter::Text(agent.as_str()),
            SqlParameter::Int(now.saturating_sub(micros_of(age))),
        ];
        let old = self.database.rows(statement, &values, rows::session).await?;
        let old = old.into_iter().map(|kept| kept.summary(now));
        Ok(old.filter(|session| session.holder.is_none()).collect())
    }

    /// Removes those sessions, and returns their number.
    ///
    /// # Errors
    ///
    /// Fails if the database fails. Some sessions may have been removed.
    pub async fn prune_sessions(&self, agent: &Agent, age: Duration) -> Result<u64> {
        let mut pruned = 0;
        for session in self.sessions_older_than(agent, age).await? {
            pruned += u64::from(retried(|| self.remove_if_old(&session.id, age)).await?);
        }
        Ok(pruned)
    }

    /// Removes a session, unless it has been removed, continued or leased in the meantime.
    async fn remove_if_old(&self, id: &SessionId, age: Duration) -> Result<bool> {
        let mut transaction = self.database.begin().await?;
        let kept = match locked(&mut transaction, id).await {
            Err(Error::NoSession(_)) => return Ok(false),
            kept => kept?,
        };
        let now = transaction.clock().await?;
        if kept.holder(now).is_some() {
            return Ok(false);
        }
        let statement = "DELETE FROM sessions WHERE id = $1 AND updated_at < $2";
        let name = id.to_string();
        let values =
            [SqlParameter::Text(&name), SqlParameter::Int(now.saturating_sub(micros_of(age)))];
        let removed = transaction.execute(statement, &values).await?;
        transaction.commit().await?;
        Ok(removed > 0)
    }
}
