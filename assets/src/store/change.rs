//! The changes of an asset's content: writing, editing, restoring, removing.
//!
//! Each is one transaction with the same steps: lock the asset, read it, compute the new
//! content, check the budgets, keep the replaced version, write, and delete old versions.

use std::borrow::Cow;
use std::time::{SystemTime, UNIX_EPOCH};

use memchr::memmem::Finder;

use super::digests::asset_digest;
use super::{METADATA, Store, int, micros, now, one, rows};
use crate::agent::Agent;
use crate::asset::{
    AssetMetadata, Author, ChangeCause, EditOutcome, MAX_ASSET_BYTES, NewVersion, Precondition,
};
use crate::backoff::retried;
use crate::database::{Row, SqlParameter, Transaction, TransactionLock};
use crate::error::{Error, Result};
use crate::path::AssetPath;

/// A change of an asset.
#[derive(Clone, Copy)]
enum AssetChange<'a> {
    /// `read_only` is the new value of the flag; if it is `None`, a read-only asset is refused.
    Write {
        content: &'a [u8],
        expected: Precondition,
        read_only: Option<bool>,
    },
    Edit {
        old: &'a [u8],
        new: &'a [u8],
        all: bool,
    },
    Restore {
        version: u64,
    },
    Remove {
        expected: Precondition,
    },
}

impl AssetChange<'_> {
    /// Returns the new value of the flag, if the change sets it.
    fn read_only(self) -> Option<bool> {
        match self {
            Self::Write { read_only, .. } => read_only,
            Self::Edit { .. } | Self::Restore { .. } | Self::Remove { .. } => None,
        }
    }
}

/// The outcome of a change.
struct ChangeOutcome {
    version: u64,
    tokens: u64,
    replacements: u64,
}

impl Store {
    /// Writes the whole content of a new or an existing asset. The replaced version stays in
    /// the history.
    ///
    /// # Errors
    ///
    /// Fails with [`Error::BudgetExceeded`], [`Error::Overfull`], [`Error::ReadOnly`] or
    /// [`Error::TooLarge`], with [`Error::Changed`] if the asset is not as `expected`, or if the
    /// database fails.
    pub async fn write(
        &self,
        path: &AssetPath,
        content: &[u8],
        author: &Author,
        expected: Precondition,
    ) -> Result<NewVersion> {
        let write = AssetChange::Write { content, expected, read_only: None };
        let changed = self.change(path, author, write).await?;
        Ok(NewVersion { version: changed.version, tokens: changed.tokens })
    }

    /// Writes the whole content of an asset, even if it is read-only, and sets the flag to
    /// `read_only`. Either both happen or neither: a refused write leaves the flag unchanged.
    /// For users: the flag protects an asset from tools, which cannot call this.
    ///
    /// # Errors
    ///
    /// Fails like [`Store::write`], but not with [`Error::ReadOnly`].
    pub async fn put(
        &self,
        path: &AssetPath,
        content: &[u8],
        author: &Author,
        expected: Precondition,
        read_only: bool,
    ) -> Result<NewVersion> {
        let write = AssetChange::Write { content, expected, read_only: Some(read_only) };
        let changed = self.change(path, author, write).await?;
        Ok(NewVersion { version: changed.version, tokens: changed.tokens })
    }

    /// Replaces the only occurrence of `old`, or `all` of them, with `new`. Concurrent edits are
    /// safe: none is lost.
    ///
    /// # Errors
    ///
    /// Fails with [`Error::NotFound`], or like [`Store::write`]. Without `all`, fails with
    /// [`Error::StringNotFound`] if `old` does not occur, and with [`Error::StringNotUnique`] if
    /// it occurs more than once.
    pub async fn edit(
        &self,
        path: &AssetPath,
        old: &[u8],
        new: &[u8],
        all: bool,
        author: &Author,
    ) -> Result<EditOutcome> {
        if old.is_empty() {
            return Err(Error::EmptyString);
        }
        let changed = self.change(path, author, AssetChange::Edit { old, new, all }).await?;
        let ChangeOutcome { version, tokens, replacements } = changed;
        Ok(EditOutcome { replacements, version, tokens })
    }

    /// Writes the content of an older version to its asset, even if the asset was removed. That
    /// makes a new version, and the versions in between stay in the history.
    ///
    /// # Errors
    ///
    /// Fails with [`Error::NoVersion`], or like [`Store::write`].
    pub async fn restore(
        &self,
        path: &AssetPath,
        version: u64,
        agent: &Agent,
    ) -> Result<NewVersion> {
        let author = Author { agent: agent.clone(), cause: ChangeCause::Restore };
        let changed = self.change(path, &author, AssetChange::Restore { version }).await?;
        Ok(NewVersion { version: changed.version, tokens: changed.tokens })
    }

    /// Removes an asset and its pins. It can be restored as long as its versions are kept, but
    /// its pins cannot.
    ///
    /// # Errors
    ///
    /// Fails with [`Error::NotFound`] or [`Error::ReadOnly`], with [`Error::Changed`] if the
    /// asset is not as `expected`, or if the database fails.
    pub async fn remove(
        &self,
        path: &AssetPath,
        agent: &Agent,
        expected: Precondition,
    ) -> Result<()> {
        let author = Author { agent: agent.clone(), cause: ChangeCause::Remove };
        self.change(path, &author, AssetChange::Remove { expected }).await.map(|_| ())
    }

    /// Sets whether an asset refuses changes.
    ///
    /// # Errors
    ///
    /// Fails with [`Error::NotFound`], or if the database fails.
    pub async fn set_read_only(&self, path: &AssetPath, read_only: bool) -> Result<()> {
        retried(|| async {
            let mut transaction = self.database.begin().await?;
            transaction.lock(&[TransactionLock::Asset(path.as_str())]).await?;
            let statement = "UPDATE stored_assets SET read_only = $2 WHERE path = $1";
            let values = [path.value(), SqlParameter::Flag(read_only)];
            if transaction.execute(statement, &values).await? == 0 {
                return Err(Error::NotFound(path.clone()));
            }
            transaction.commit().await
        })
        .await
    }

    async fn change(
        &self,
        path: &AssetPath,
        author: &Author,
        change: AssetChange<'_>,
    ) -> Result<ChangeOutcome> {
        retried(|| self.attempt(path, author, change)).await
    }

    async fn attempt(
        &self,
        path: &AssetPath,
        author: &Author,
        change: AssetChange<'_>,
    ) -> Result<ChangeOutcome> {
        let mut transaction = self.database.begin().await?;
        transaction.lock(&[TransactionLock::Asset(path.as_str())]).await?;
        let before = one(transaction.rows(METADATA, &[path.value()], rows::metadata).await?);
        check_admissible(path, before.as_ref(), change)?;
        let (content, replacements) = match change {
            AssetChange::Write { content, .. } => (Cow::Borrowed(content), 0),
            AssetChange::Restore { version } => {
                (Cow::Owned(content_of(&mut transaction, path, version).await?), 0)
            }
            AssetChange::Edit { old, new, all } => {
                let now = content_now(&mut transaction, path).await?;
                let (after, replacements) = replaced(path, &now, old, new, all)?;
                (Cow::Owned(after), replacements)
            }
            AssetChange::Remove { .. } => (Cow::Borrowed(&[][..]), 0),
        };
        let changed = match (change, before) {
            (AssetChange::Remove { .. }, Some(before)) => {
                self.remove_row(&mut transaction, &before, author).await?
            }
            (AssetChange::Edit { .. }, Some(before)) if replacements == 0 => {
                let AssetMetadata { version, tokens, .. } = before;
                return Ok(ChangeOutcome { version, tokens, replacements });
            }
            (_, Some(before)) => {
                let read_only = change.read_only().unwrap_or(before.read_only);
                self.update_row(&mut transaction, &before, author, &content, read_only).await?
            }
            (_, None) => {
                let read_only = change.read_only().unwrap_or(false);
                self.insert_row(&mut transaction, path, author, &content, read_only).await?
            }
        };
        transaction.commit().await?;
        Ok(ChangeOutcome { replacements, ..changed })
    }

    async fn update_row(
        &self,
        transaction: &mut Transaction<'_>,
        before: &AssetMetadata,
        author: &Author,
        content: &[u8],
        read_only: bool,
    ) -> Result<ChangeOutcome> {
        let path = &before.path;
        let tokens = self.admit(transaction, path, Some(before), author, content).await?;
        self.keep(transaction, before, author).await?;
        // The version is compared although the asset is locked. This detects writes to the table
        // without the locks, by hand or from another program.
        let statement = "UPDATE stored_assets \
            SET content = $3, tokens = $4, version = $5, updated_at = $6, read_only = $7, \
                written_cause = $8, written_agent = $9, digest = $10 \
            WHERE path = $1 AND version = $2";
        let version = before.version + 1;
        let digest = asset_digest(path, version, content);
        let values = [
            path.value(),
            int(before.version),
            SqlParameter::Bytes(content),
            int(tokens),
            int(version),
            SqlParameter::Int(now()),
            SqlParameter::Flag(read_only),
            SqlParameter::Text(author.cause.as_str()),
            SqlParameter::Text(author.agent.as_str()),
            SqlParameter::Bytes(&digest),
        ];
        execute_on_one(transaction, statement, &values).await?;
        Ok(ChangeOutcome { version, tokens, replacements: 0 })
    }

    async fn insert_row(
        &self,
        transaction: &mut Transaction<'_>,
        path: &AssetPath,
        author: &Author,
        content: &[u8],
        read_only: bool,
    ) -> Result<ChangeOutcome> {
        let tokens = self.admit(transaction, path, None, author, content).await?;
        // Continues the numbers of the history, so that no version is mistaken for another as
        // long as any version of the asset is kept.
        let statement = "SELECT COALESCE(MAX(version), 0) AS version \
            FROM asset_versions WHERE path = $1";
        let last = transaction.rows(statement, &[path.value()], |row| row.count("version")).await?;
        let version = one(last).unwrap_or(0) + 1;
        let statement = "INSERT INTO stored_assets \
            (path, content, tokens, version, read_only, updated_at, written_cause, written_agent, \
                digest) \
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
        let digest = asset_digest(path, version, content);
        let values = [
            path.value(),
            SqlParameter::Bytes(content),
            int(tokens),
            int(version),
            SqlParameter::Flag(read_only),
            SqlParameter::Int(now()),
            SqlParameter::Text(author.cause.as_str()),
            SqlParameter::Text(author.agent.as_str()),
            SqlParameter::Bytes(&digest),
        ];
        execute_on_one(transaction, statement, &values).await?;
        Ok(ChangeOutcome { version, tokens, replacements: 0 })
    }

    async fn remove_row(
        &self,
        transaction: &mut Transaction<'_>,
        before: &AssetMetadata,
        author: &Author,
    ) -> Result<ChangeOutcome> {
        // A tool's output is removed to make room, and so is its history.
        if before.path.is_output() {
            let statement = "DELETE FROM asset_versions WHERE path = $1";
            transaction.execute(statement, &[before.path.value()]).await?;
        } else {
            self.keep(transaction, before, author).await?;
        }
        let statement = "DELETE FROM stored_assets WHERE path = $1 AND version = $2";
        let values = [before.path.value(), int(before.version)];
        execute_on_one(transaction, statement, &values).await?;
        Ok(ChangeOutcome { version: before.version, tokens: 0, replacements: 0 })
    }

    /// Copies the current version to the history, and deletes versions there that are too old or
    /// too many. The content does not leave the database, and the digest still shows damage of
    /// it.
    async fn keep(
        &self,
        transaction: &mut Transaction<'_>,
        before: &AssetMetadata,
        author: &Author,
    ) -> Result<()> {
        // The same time for both statements: a version that is replaced now is never too old.
        let moment = SystemTime::now();
        let oldest = moment.checked_sub(self.retention.age).unwrap_or(UNIX_EPOCH);
        let statement = "INSERT INTO asset_versions \
            (path, version, digest, content, tokens, written_at, written_cause, written_agent, \
                replaced_at, cause, agent) \
            SELECT path, version, digest, content, tokens, updated_at, written_cause, \
                written_agent, $3, $4, $5 \
            FROM stored_assets WHERE path = $1 AND version = $2";
        let values = [
            before.path.value(),
            int(before.version),
            SqlParameter::Int(micros(moment)),
            SqlParameter::Text(author.cause.as_str()),
            SqlParameter::Text(author.agent.as_str()),
        ];
        execute_on_one(transaction, statement, &values).await?;
        // The numbers of the versions of an asset have no gaps.
        let statement = "DELETE FROM asset_versions \
            WHERE path = $1 AND (replaced_at < $2 OR version <= $3)";
        let values = [
            before.path.value(),
            SqlParameter::Int(micros(oldest)),
            int(before.version.saturating_sub(u64::from(self.retention.count))),
        ];
        transaction.execute(statement, &values).await.map(|_| ())
    }
}

/// Checks that the asset may be changed in this way.
fn check_admissible(
    path: &AssetPath,
    before: Option<&AssetMetadata>,
    change: AssetChange<'_>,
) -> Result<()> {
    let found = before.map(|before| before.version);
    match change {
        AssetChange::Edit { .. } | AssetChange::Remove { .. } if before.is_none() => {
            return Err(Error::NotFound(path.clone()));
        }
        AssetChange::Write { expected, .. } | AssetChange::Remove { expected } => {
            let as_expected = match expected {
                Precondition::Any => true,
                Precondition::Absent => found.is_none(),
                Precondition::Version(version) => found == Some(version),
            };
            if !as_expected {
                return Err(Error::Changed { path: path.clone(), found });
            }
        }
        AssetChange::Edit { .. } | AssetChange::Restore { .. } => {}
    }
    if before.is_some_and(|before| before.read_only) && change.read_only().is_none() {
        return Err(Error::ReadOnly(path.clone()));
    }
    Ok(())
}

/// Runs a statement that must change exactly one row: the version that was read.
async fn execute_on_one(
    transaction: &mut Transaction<'_>,
    statement: &'static str,
    values: &[SqlParameter<'_>],
) -> Result<()> {
    match transaction.execute(statement, values).await? {
        1 => Ok(()),
        _ => Err(transaction.contended()),
    }
}

/// Returns the current content of an asset.
async fn content_now(transaction: &mut Transaction<'_>, path: &AssetPath) -> Result<Vec<u8>> {
    let statement = "SELECT version, digest, content FROM stored_assets WHERE path = $1";
    let read = |row: &Row<'_>| rows::content(row, path, row.count("version")?);
    let found = transaction.rows(statement, &[path.value()], read).await?;
    one(found).ok_or_else(|| transaction.contended())
}

/// Returns the content of an older version or of the current one.
async fn content_of(
    transaction: &mut Transaction<'_>,
    path: &AssetPath,
    version: u64,
) -> Result<Vec<u8>> {
    let statement = "SELECT digest, content FROM asset_versions WHERE path = $1 AND version = $2 \
        UNION ALL SELECT digest, content FROM stored_assets WHERE path = $1 AND version = $2";
    let values = [path.value(), int(version)];
    let read = |row: &Row<'_>| rows::content(row, path, version);
    let found = transaction.rows(statement, &values, read).await?;
    one(found).ok_or_else(|| Error::NoVersion { path: path.clone(), version })
}

/// Returns `before` with `old` replaced, and the number of occurrences.
fn replaced(
    path: &AssetPath,
    before: &[u8],
    old: &[u8],
    new: &[u8],
    all: bool,
) -> Result<(Vec<u8>, u64)> {
    let finder = Finder::new(old);
    let count = finder.find_iter(before).count();
    match count {
        0 if !all => return Err(Error::StringNotFound),
        2.. if !all => return Err(Error::StringNotUnique(count as u64)),
        _ => {}
    }
    // Checked before the allocation: many short strings may become many long ones.
    let kept = before.len() - count * old.len();
    let size = (count as u64).saturating_mul(new.len() as u64).saturating_add(kept as u64);
    if size > MAX_ASSET_BYTES {
        return Err(Error::TooLarge { path: path.clone(), size });
    }
    let mut after = Vec::with_capacity(kept + count * new.len());
    let mut rest = 0;
    for at in finder.find_iter(before) {
        after.extend_from_slice(&before[rest..at]);
        after.extend_from_slice(new);
        rest = at + old.len();
    }
    after.extend_from_slice(&before[rest..]);
    Ok((after, count as u64))
}
