//! The events of a session: appending, reading, and copying them to a fork.

use std::time::Duration;

use super::{lease, locked};
use crate::agent::Agent;
use crate::backoff::retried;
use crate::database::{Row, SqlParameter, Transaction};
use crate::error::{Error, Result};
use crate::session::{
    Lease, MAX_EVENT_BYTES, NewEvent, SessionEvent, SessionId, check_kind, check_owner,
};
use crate::store::digests::event_digest;
use crate::store::{Store, int, one, rows};

impl Store {
    /// Appends events after the event number `after`, which must be the last one, and renews the
    /// lease. Either all of them are appended, or none. Returns the number of the last event.
    ///
    /// The lease may be past its time, unless another process has taken the session over.
    ///
    /// # Errors
    ///
    /// Fails with [`Error::SessionLost`], [`Error::NoSession`] or [`Error::EventTooLarge`], or
    /// if the database fails. Fails with [`Error::SessionChanged`] if the session has other
    /// events, and with [`Error::SessionText`] for a kind that is not a word.
    ///
    /// If the connection failed, the events may still have been appended. Another attempt with
    /// the same `after` then gets [`Error::SessionChanged`].
    pub async fn append_events(
        &self,
        lease: &Lease,
        after: u64,
        events: &[NewEvent<'_>],
        ttl: Duration,
    ) -> Result<u64> {
        for event in events {
            check_kind(event.kind)?;
            let size = event.json.len() as u64;
            if size > MAX_EVENT_BYTES {
                return Err(Error::EventTooLarge { session: lease.session, size });
            }
        }
        retried(|| self.attempt_to_append(lease, after, events, ttl)).await
    }

    async fn attempt_to_append(
        &self,
        lease: &Lease,
        after: u64,
        events: &[NewEvent<'_>],
        ttl: Duration,
    ) -> Result<u64> {
        let mut transaction = self.database.begin().await?;
        let kept = lease::held(&mut transaction, lease).await?;
        let found = kept.summary.events;
        if found != after {
            return Err(Error::SessionChanged { session: lease.session, found, expected: after });
        }
        let now = transaction.clock().await?;
        let name = lease.session.to_string();
        let statement = "INSERT INTO session_events \
            (session, seq, kind, begins_turn, written_at, digest, json) \
            VALUES ($1, $2, $3, $4, $5, $6, $7)";
        for (seq, event) in (after + 1..).zip(events) {
            let json = event.json.as_bytes();
            let digest = event_digest(seq, event.kind, event.begins_turn, json);
            let values = [
                SqlParameter::Text(&name),
                int(seq),
                SqlParameter::Text(event.kind),
                SqlParameter::Flag(event.begins_turn),
                SqlParameter::Int(now),
                SqlParameter::Bytes(&digest),
                SqlParameter::Bytes(json),
            ];
            transaction.execute(statement, &values).await?;
        }
        let statement = "UPDATE sessions SET events = $2, turns = turns + $3, bytes = bytes + $4, \
            updated_at = $5, lease_owner = $6, leased_at = $7, lease_until = $8 WHERE id = $1";
        let last = after + events.len() as u64;
        let turns = events.iter().filter(|event| event.begins_turn).count();
        let bytes = events.iter().map(|event| event.json.len() as u64).sum();
        let values = [
            SqlParameter::Text(&name),
            int(last),
            int(turns as u64),
            int(bytes),
            SqlParameter::Int(now),
            SqlParameter::Text(&lease.owner),
            SqlParameter::Int(now),
            SqlParameter::Int(lease::end(now, ttl)),
        ];
        transaction.execute(statement, &values).await?;
        transaction.commit().await?;
        Ok(last)
    }

    /// Returns events of a session in order, starting after number `after`. Returns at most
    /// `limit`.
    ///
    /// # Errors
    ///
    /// Fails with [`Error::NoSession`], or if the database fails.
    pub async fn session_events(
        &self,
        id: &SessionId,
        after: u64,
        limit: u32,
    ) -> Result<Vec<SessionEvent>> {
        let name = id.to_string();
        let statement = "SELECT seq, kind, begins_turn, written_at, digest, json \
            FROM session_events WHERE session = $1 AND seq > $2 ORDER BY seq LIMIT $3";
        let values = [SqlParameter::Text(&name), int(after), SqlParameter::Int(i64::from(limit))];
        let events =
            self.database.rows(statement, &values, |row| rows::session_event(row, *id)).await?;
        if events.is_empty() {
            self.session(id).await?;
        }
        Ok(events)
    }

    /// Returns the number of the last event of the first `turns` turns. If the session has fewer
    /// turns, returns the number of its last event. The events before the first turn belong to
    /// that turn.
    ///
    /// # Errors
    ///
    /// Fails with [`Error::NoSession`], or if the database fails.
    pub async fn end_of_turn(&self, id: &SessionId, turns: u64) -> Result<u64> {
        let name = id.to_string();
        let statement = "SELECT seq FROM session_events WHERE session = $1 AND begins_turn \
            ORDER BY seq LIMIT 1 OFFSET $2";
        let values = [SqlParameter::Text(&name), int(turns)];
        let next = one(self.database.rows(statement, &values, |row| row.count("seq")).await?);
        match next {
            Some(next) => Ok(next - 1),
            None => Ok(self.session(id).await?.events),
        }
    }

    /// Makes a session of `agent` with the description of another and its first events, up to
    /// number `up_to`, and leases it to `owner`. The original stays unchanged, and may be in
    /// use.
    ///
    /// # Errors
    ///
    /// Fails with [`Error::NoSession`], with [`Error::NoEvent`] if the original has fewer
    /// events, with [`Error::SessionText`], or if the database fails.
    pub async fn fork_session(
        &self,
        id: &SessionId,
        up_to: u64,
        agent: &Agent,
        owner: &str,
        ttl: Duration,
    ) -> Result<Lease> {
        check_owner(owner)?;
        let lease = Lease { session: SessionId::new(), owner: owner.to_owned(), fence: 1 };
        retried(|| self.attempt_to_fork(id, up_to, agent, &lease, ttl)).await?;
        Ok(lease)
    }

    async fn attempt_to_fork(
        &self,
        id: &SessionId,
        up_to: u64,
        agent: &Agent,
        lease: &Lease,
        ttl: Duration,
    ) -> Result<()> {
        let mut transaction = self.database.begin().await?;
        // Locked, so that it cannot be removed in the meantime.
        let original = locked(&mut transaction, id).await?.summary;
        if up_to > original.events {
            return Err(Error::NoEvent { session: *id, seq: up_to });
        }
        let (from, to) = (id.to_string(), lease.session.to_string());
        let (turns, bytes) = sums(&mut transaction, &from, up_to).await?;
        let now = transaction.clock().await?;
        let statement = "INSERT INTO sessions (id, agent, workspace, title, provider, model, \
            forked_from, created_at, updated_at, events, turns, bytes, fence, \
            lease_owner, leased_at, lease_until) \
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8, $9, $10, $11, $12, $13, $8, $14)";
        let values = [
            SqlParameter::Text(&to),
            SqlParameter::Text(agent.as_str()),
            SqlParameter::Text(&original.workspace),
            SqlParameter::OptionalText(original.title.as_deref()),
            SqlParameter::OptionalText(original.provider.as_deref()),
            SqlParameter::OptionalText(original.model.as_deref()),
            SqlParameter::Text(&from),
            SqlParameter::Int(now),
            int(up_to),
            int(turns),
            int(bytes),
            int(lease.fence),
            SqlParameter::Text(&lease.owner),
            SqlParameter::Int(lease::end(now, ttl)),
        ];
        transaction.execute(statement, &values).await?;
        let statement = "INSERT INTO session_events \
            (session, seq, kind, begins_turn, written_at, digest, json) \
            SELECT $1, seq, kind, begins_turn, written_at, digest, json \
            FROM session_events WHERE session = $2 AND seq <= $3";
        let values = [SqlParameter::Text(&to), SqlParameter::Text(&from), int(up_to)];
        transaction.execute(statement, &values).await?;
        transaction.commit().await
    }
}

/// Returns the turns and the bytes of the first events of a session.
async fn sums(transaction: &mut Transaction<'_>, session: &str, up_to: u64) -> Result<(u64, u64)> {
    let statement = "SELECT \
        CAST(COALESCE(SUM(CASE WHEN begins_turn THEN 1 ELSE 0 END), 0) AS BIGINT) AS turns, \
        CAST(COALESCE(SUM(octet_length(json)), 0) AS BIGINT) AS bytes \
        FROM session_events WHERE session = $1 AND seq <= $2";
    let values = [SqlParameter::Text(session), int(up_to)];
    let read = |row: &Row| Ok((row.count("turns")?, row.count("bytes")?));
    Ok(one(transaction.rows(statement, &values, read).await?).unwrap_or((0, 0)))
}
