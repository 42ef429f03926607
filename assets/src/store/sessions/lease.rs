//! Leases: the right of one process at a time to write to a session.
//!
//! Each lease has a number, the fence, and every write compares it in its transaction. A process
//! that was stopped for longer than its lease therefore cannot write between the events of the
//! process that took over, even if a clock is wrong. The clock decides only when another process
//! may take over.

use std::time::Duration;

use super::locked;
use crate::agent::Agent;
use crate::backoff::retried;
use crate::database::{SqlParameter, Transaction};
use crate::error::{Error, Result};
use crate::session::{Lease, NewSession, SessionId, check_owner};
use crate::store::kept::SessionRow;
use crate::store::{Store, int, micros_of};

impl Store {
    /// Makes a session without events, and leases it to `owner`, a name that shows the user
    /// which process uses the session.
    ///
    /// # Errors
    ///
    /// Fails with [`Error::SessionText`], or if the database fails.
    pub async fn create_session(
        &self,
        agent: &Agent,
        session: &NewSession<'_>,
        owner: &str,
        ttl: Duration,
    ) -> Result<Lease> {
        session.check()?;
        check_owner(owner)?;
        let id = SessionId::new();
        retried(|| async {
            let mut transaction = self.database.begin().await?;
            let now = transaction.clock().await?;
            let statement = "INSERT INTO sessions (id, agent, workspace, title, provider, model, \
                created_at, updated_at, events, turns, bytes, fence, \
                lease_owner, leased_at, lease_until) \
                VALUES ($1, $2, $3, $4, $5, $6, $7, $7, 0, 0, 0, 1, $8, $7, $9)";
            let name = id.to_string();
            let values = [
                SqlParameter::Text(&name),
                SqlParameter::Text(agent.as_str()),
                SqlParameter::Text(session.workspace),
                SqlParameter::OptionalText(session.title),
                SqlParameter::OptionalText(session.provider),
                SqlParameter::OptionalText(session.model),
                SqlParameter::Int(now),
                SqlParameter::Text(owner),
                SqlParameter::Int(end(now, ttl)),
            ];
            transaction.execute(statement, &values).await?;
            transaction.commit().await?;
            Ok(Lease { session: id, owner: owner.to_owned(), fence: 1 })
        })
        .await
    }

    /// Leases a session to `owner`. Takes over a lease whose time is over, or that the same
    /// owner has.
    ///
    /// # Errors
    ///
    /// Fails with [`Error::NoSession`], with [`Error::SessionHeld`] if another owner holds it,
    /// with [`Error::SessionText`], or if the database fails.
    pub async fn lease_session(&self, id: &SessionId, owner: &str, ttl: Duration) -> Result<Lease> {
        check_owner(owner)?;
        retried(|| async {
            let mut transaction = self.database.begin().await?;
            let kept = locked(&mut transaction, id).await?;
            let now = transaction.clock().await?;
            kept.check_free(owner, now)?;
            let fence = kept.fence + 1;
            let lease = Lease { session: *id, owner: owner.to_owned(), fence };
            set(&mut transaction, &lease, now, ttl).await?;
            transaction.commit().await?;
            Ok(lease)
        })
        .await
    }

    /// Extends a lease to `ttl` from now. A lease whose time is over can be renewed if no other
    /// process has taken the session over.
    ///
    /// # Errors
    ///
    /// Fails with [`Error::SessionLost`] or [`Error::NoSession`], or if the database fails.
    pub async fn renew_session(&self, lease: &Lease, ttl: Duration) -> Result<()> {
        retried(|| async {
            let mut transaction = self.database.begin().await?;
            held(&mut transaction, lease).await?;
            let now = transaction.clock().await?;
            set(&mut transaction, lease, now, ttl).await?;
            transaction.commit().await
        })
        .await
    }

    /// Ends a lease. It cannot be renewed afterwards.
    ///
    /// # Errors
    ///
    /// Fails with [`Error::SessionLost`] or [`Error::NoSession`], or if the database fails.
    pub async fn release_session(&self, lease: &Lease) -> Result<()> {
        retried(|| async {
            let mut transaction = self.database.begin().await?;
            held(&mut transaction, lease).await?;
            let statement = "UPDATE sessions SET fence = fence + 1, \
                lease_owner = NULL, leased_at = NULL, lease_until = NULL WHERE id = $1";
            let name = lease.session.to_string();
            transaction.execute(statement, &[SqlParameter::Text(&name)]).await?;
            transaction.commit().await
        })
        .await
    }
}

/// Locks the session of a lease and reads its row. Refuses a lease that was followed by another.
pub(super) async fn held(transaction: &mut Transaction<'_>, lease: &Lease) -> Result<SessionRow> {
    let kept = locked(transaction, &lease.session).await?;
    if kept.fence == lease.fence { Ok(kept) } else { Err(Error::SessionLost(lease.session)) }
}

/// Writes the number and the time of a lease.
async fn set(
    transaction: &mut Transaction<'_>,
    lease: &Lease,
    now: i64,
    ttl: Duration,
) -> Result<()> {
    let statement = "UPDATE sessions SET fence = $2, lease_owner = $3, leased_at = $4, \
        lease_until = $5 WHERE id = $1";
    let name = lease.session.to_string();
    let values = [
        SqlParameter::Text(&name),
        int(lease.fence),
        SqlParameter::Text(&lease.owner),
        SqlParameter::Int(now),
        SqlParameter::Int(end(now, ttl)),
    ];
    transaction.execute(statement, &values).await.map(|_| ())
}

/// Returns the end of a lease that begins at this time.
pub(super) fn end(now: i64, ttl: Duration) -> i64 {
    now.saturating_add(micros_of(ttl))
}
