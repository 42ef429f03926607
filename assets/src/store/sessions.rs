//! Kept conversations: looking them up, describing and removing them. `lease` decides who may
//! write, `events` writes and reads events, and `due` removes old sessions.
//!
//! A session does not count in a budget or in the capacity.

mod due;
mod events;
mod lease;

use super::kept::SessionRow;
use super::{Store, one, rows};
use crate::agent::Agent;
use crate::backoff::retried;
use crate::database::{SqlParameter, Transaction, TransactionLock};
use crate::error::{Error, Result};
use crate::session::{
    Lease, SessionChanges, SessionFilter, SessionId, SessionSummary, check_owner,
};

/// Makes a statement that selects the columns of `rows::session`. A macro, since a statement is
/// one literal.
macro_rules! select_session {
    ($rest:literal) => {
        concat!(
            "SELECT id, agent, workspace, title, provider, model, forked_from, created_at, \
             updated_at, events, turns, bytes, fence, lease_owner, leased_at, lease_until \
             FROM sessions ",
            $rest
        )
    };
}
use select_session;

/// The shortest part of an id by which a session is found. A shorter text is too ambiguous, and
/// probably means a part of a title.
const SHORTEST_PREFIX: usize = 4;

impl Store {
    /// Returns a session without its events.
    ///
    /// # Errors
    ///
    /// Fails with [`Error::NoSession`], or if the database fails.
    pub async fn session(&self, id: &SessionId) -> Result<SessionSummary> {
        let name = id.to_string();
        let found =
            self.database.rows(SESSION, &[SqlParameter::Text(&name)], rows::session).await?;
        let kept = one(found).ok_or(Error::NoSession(*id))?;
        Ok(kept.summary(self.database.clock().await?))
    }

    /// Lists sessions, the one with the most recent event first. Returns at most `limit`; all
    /// for `None`. Reads no events.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn sessions(
        &self,
        filter: &SessionFilter<'_>,
        limit: Option<u32>,
    ) -> Result<Vec<SessionSummary>> {
        let agent = SqlParameter::Text(filter.agent.as_str());
        let limit = SqlParameter::Int(limit.map_or(i64::MAX, i64::from));
        let found = match filter.workspace {
            // A workspace never contains a NUL, and PostgreSQL does not allow it in text.
            Some(workspace) if workspace.contains('\0') => return Ok(Vec::new()),
            Some(workspace) => {
                let statement = select_session!(
                    "WHERE agent = $1 AND workspace = $2 \
                    ORDER BY updated_at DESC, id DESC LIMIT $3"
                );
                let values = [agent, SqlParameter::Text(workspace), limit];
                self.database.rows(statement, &values, rows::session).await?
            }
            None => {
                let statement = select_session!(
                    "WHERE agent = $1 \
                    ORDER BY updated_at DESC, id DESC LIMIT $2"
                );
                self.database.rows(statement, &[agent, limit], rows::session).await?
            }
        };
        let now = self.database.clock().await?;
        Ok(found.into_iter().map(|kept| kept.summary(now)).collect())
    }

    /// Finds the sessions of an agent that the user means by `text`. Tries these in order, and
    /// returns all matches of the first that matches, the newest first:
    ///
    /// 1. the session with this id;
    /// 2. sessions with this title;
    /// 3. sessions whose id starts with the text;
    /// 4. sessions whose title contains the text, ignoring case.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn find_sessions(&self, agent: &Agent, text: &str) -> Result<Vec<SessionSummary>> {
        if text.is_empty() {
            return Ok(Vec::new());
        }
        let filter = SessionFilter { agent, workspace: None };
        let mut all = self.sessions(&filter, None).await?;
        let lower = text.to_lowercase();
        let of_id = lower.len() >= SHORTEST_PREFIX;
        let title = |session: &SessionSummary| session.title.clone().unwrap_or_default();
        let meanings: [&dyn Fn(&SessionSummary) -> bool; 4] = [
            &|session| session.id.to_string() == lower,
            &|session| title(session) == text,
            &|session| of_id && session.id.to_string().starts_with(&lower),
            &|session| title(session).to_lowercase().contains(&lower),
        ];
        let meant = meanings.into_iter().find(|meaning| all.iter().any(*meaning));
        all.retain(|session| meant.is_some_and(|meaning| meaning(session)));
        Ok(all)
    }

    /// Gives a session another title, even if another process holds it.
    ///
    /// # Errors
    ///
    /// Fails with [`Error::NoSession`] or [`Error::SessionText`], or if the database fails.
    pub async fn rename_session(&self, id: &SessionId, title: &str) -> Result<()> {
        let changes = SessionChanges { title: Some(title), ..SessionChanges::default() };
        changes.check()?;
        retried(|| async {
            let mut transaction = self.database.begin().await?;
            lock(&mut transaction, id).await?;
            change(&mut transaction, id, &changes).await?;
            transaction.commit().await
        })
        .await
    }

    /// Changes the description of a session.
    ///
    /// # Errors
    ///
    /// Fails with [`Error::SessionLost`], [`Error::NoSession`] or [`Error::SessionText`], or if
    /// the database fails.
    pub async fn describe_session(
        &self,
        lease: &Lease,
        changes: &SessionChanges<'_>,
    ) -> Result<()> {
        changes.check()?;
        retried(|| async {
            let mut transaction = self.database.begin().await?;
            lease::held(&mut transaction, lease).await?;
            change(&mut transaction, &lease.session, changes).await?;
            transaction.commit().await
        })
        .await
    }

    /// Removes a session and its events, for ever. Forks of it stay.
    ///
    /// # Errors
    ///
    /// Fails with [`Error::NoSession`], with [`Error::SessionHeld`] if another owner holds it,
    /// or if the database fails.
    pub async fn remove_session(&self, id: &SessionId, owner: &str) -> Result<()> {
        check_owner(owner)?;
        retried(|| async {
            let mut transaction = self.database.begin().await?;
            let kept = locked(&mut transaction, id).await?;
            kept.check_free(owner, transaction.clock().await?)?;
            let name = id.to_string();
            let statement = "DELETE FROM sessions WHERE id = $1";
            transaction.execute(statement, &[SqlParameter::Text(&name)]).await?;
            transaction.commit().await
        })
        .await
    }
}

/// Selects a session by its id.
const SESSION: &str = select_session!("WHERE id = $1");

async fn lock(transaction: &mut Transaction<'_>, id: &SessionId) -> Result<()> {
    transaction.lock(&[TransactionLock::Session(&id.to_string())]).await
}

/// Locks a session, and reads its row.
async fn locked(transaction: &mut Transaction<'_>, id: &SessionId) -> Result<SessionRow> {
    lock(transaction, id).await?;
    let name = id.to_string();
    let found = transaction.rows(SESSION, &[SqlParameter::Text(&name)], rows::session).await?;
    one(found).ok_or(Error::NoSession(*id))
}

async fn change(
    transaction: &mut Transaction<'_>,
    id: &SessionId,
    changes: &SessionChanges<'_>,
) -> Result<()> {
    let statement = "UPDATE sessions SET title = COALESCE($2, title), \
        provider = COALESCE($3, provider), model = COALESCE($4, model) WHERE id = $1";
    let name = id.to_string();
    let values = [
        SqlParameter::Text(&name),
        SqlParameter::OptionalText(changes.title),
        SqlParameter::OptionalText(changes.provider),
        SqlParameter::OptionalText(changes.model),
    ];
    match transaction.execute(statement, &values).await? {
        0 => Err(Error::NoSession(*id)),
        _ => Ok(()),
    }
}
