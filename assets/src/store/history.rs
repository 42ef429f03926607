//! The older versions of assets, and the removal of old versions and old outputs.

use std::time::Duration;

use super::{METADATA, Store, before_now, int, one, rows};
use crate::asset::{AssetVersion, Snapshot};
use crate::backoff::retried;
use crate::database::{Column, Row, SqlParameter, TransactionLock};
use crate::error::{Error, Result};
use crate::path::{AssetPath, OUTPUTS, successor};

/// The number of assets that are pruned in one transaction. Each takes a lock, and by default a
/// server has room for 64 locks per transaction.
const BATCH: i64 = 50;

impl Store {
    /// Returns the versions of an asset, the newest first: the current one, unless the asset was
    /// removed, and the older ones that are kept.
    ///
    /// # Errors
    ///
    /// Fails with [`Error::NotFound`] if no version exists, or if the database fails.
    pub async fn log(&self, path: &AssetPath) -> Result<Vec<AssetVersion>> {
        let statement = "SELECT version, CAST(octet_length(content) AS BIGINT) AS size, tokens, \
            updated_at AS written_at, written_cause, written_agent, \
            CAST(NULL AS BIGINT) AS replaced_at, \
            CAST(NULL AS TEXT) AS cause, CAST(NULL AS TEXT) AS agent \
            FROM stored_assets WHERE path = $1 \
            UNION ALL \
            SELECT version, CAST(octet_length(content) AS BIGINT) AS size, tokens, \
            written_at, written_cause, written_agent, replaced_at, cause, agent \
            FROM asset_versions WHERE path = $1 ORDER BY version DESC";
        let versions = self.database.rows(statement, &[path.value()], rows::version).await?;
        if versions.is_empty() {
            return Err(Error::NotFound(path.clone()));
        }
        Ok(versions)
    }

    /// Returns a version with its content, either the current one or an older one.
    ///
    /// # Errors
    ///
    /// Fails with [`Error::NoVersion`], or if the database fails.
    pub async fn version(&self, path: &AssetPath, version: u64) -> Result<Snapshot> {
        let statement = "SELECT version, CAST(octet_length(content) AS BIGINT) AS size, tokens, \
            updated_at AS written_at, written_cause, written_agent, \
            CAST(NULL AS BIGINT) AS replaced_at, \
            CAST(NULL AS TEXT) AS cause, CAST(NULL AS TEXT) AS agent, digest, content \
            FROM stored_assets WHERE path = $1 AND version = $2 \
            UNION ALL \
            SELECT version, CAST(octet_length(content) AS BIGINT) AS size, tokens, \
            written_at, written_cause, written_agent, replaced_at, cause, agent, digest, content \
            FROM asset_versions WHERE path = $1 AND version = $2";
        let values = [path.value(), int(version)];
        let found = self.database.rows(statement, &values, |row| rows::snapshot(row, path)).await?;
        one(found).ok_or_else(|| Error::NoVersion { path: path.clone(), version })
    }

    /// Removes an asset, its pins and all of its versions, and returns the number of the
    /// versions. An asset that was removed before has only older versions.
    ///
    /// # Errors
    ///
    /// Fails with [`Error::NotFound`] if no version exists, with [`Error::ReadOnly`], or if the
    /// database fails.
    pub async fn purge(&self, path: &AssetPath) -> Result<u64> {
        retried(|| async {
            let mut transaction = self.database.begin().await?;
            transaction.lock(&[TransactionLock::Asset(path.as_str())]).await?;
            let current = transaction.rows(METADATA, &[path.value()], rows::metadata).await?;
            if one(current).is_some_and(|current| current.read_only) {
                return Err(Error::ReadOnly(path.clone()));
            }
            let mut versions = 0;
            for statement in [
                "DELETE FROM stored_assets WHERE path = $1",
                "DELETE FROM asset_versions WHERE path = $1",
            ] {
                versions += transaction.execute(statement, &[path.value()]).await?;
            }
            if versions == 0 {
                return Err(Error::NotFound(path.clone()));
            }
            transaction.commit().await?;
            Ok(versions)
        })
        .await
    }

    /// Removes the assets below `outputs/` that were last written longer ago than `age`, with
    /// their histories, and returns their number. Read-only assets stay.
    ///
    /// # Errors
    ///
    /// Fails if the database fails. Some assets may have been removed.
    pub async fn prune_outputs(&self, age: Duration) -> Result<u64> {
        self.prune_outputs_before(before_now(age)).await
    }

    /// Removes the oldest assets below `outputs/` until the others have at most `most` bytes
    /// together, and returns the number of removed assets. The newest asset stays. Read-only
    /// assets stay too, and do not count.
    ///
    /// # Errors
    ///
    /// Fails if the database fails. Some assets may have been removed.
    pub async fn prune_outputs_beyond(&self, most: u64) -> Result<u64> {
        let above = successor(OUTPUTS).unwrap_or_default();
        let statement = "SELECT updated_at, CAST(octet_length(content) AS BIGINT) AS size \
            FROM stored_assets WHERE path >= $1 AND path < $2 AND NOT read_only \
            ORDER BY updated_at DESC";
        let values = [SqlParameter::Text(OUTPUTS), SqlParameter::Text(&above)];
        let all = self.database.rows(statement, &values, rows::written).await?;
        let mut total = 0_u64;
        let is_beyond = |size: u64| {
            total = total.saturating_add(size);
            total > most
        };
        let mut sizes = all.iter().map(|(_, size)| *size);
        match (sizes.position(is_beyond), all.first()) {
            (Some(first), Some((newest, _))) => {
                self.prune_outputs_before(newest.min(&(all[first].0 + 1)).to_owned()).await
            }
            _ => Ok(0),
        }
    }

    async fn prune_outputs_before(&self, time: i64) -> Result<u64> {
        let oldest = SqlParameter::Int(time);
        let above = successor(OUTPUTS).unwrap_or_default();
        let mut pruned = 0;
        loop {
            let statement = "SELECT path FROM stored_assets WHERE path >= $1 AND path < $2 \
                AND updated_at < $3 AND NOT read_only ORDER BY path LIMIT $4";
            let values = [
                SqlParameter::Text(OUTPUTS),
                SqlParameter::Text(&above),
                oldest,
                SqlParameter::Int(BATCH),
            ];
            let paths = self.database.rows(statement, &values, path).await?;
            if paths.is_empty() {
                return Ok(pruned);
            }
            pruned += retried(|| self.remove_outputs(&paths, oldest)).await?;
        }
    }

    async fn remove_outputs(&self, paths: &[AssetPath], oldest: SqlParameter<'_>) -> Result<u64> {
        let mut transaction = self.database.begin().await?;
        transaction.lock(&locks(paths)).await?;
        let mut removed = 0;
        for path in paths {
            // The time is compared again: the asset may have been written since.
            let statement = "DELETE FROM stored_assets \
                WHERE path = $1 AND updated_at < $2 AND NOT read_only";
            if transaction.execute(statement, &[path.value(), oldest]).await? > 0 {
                let statement = "DELETE FROM asset_versions WHERE path = $1";
                transaction.execute(statement, &[path.value()]).await?;
                removed += 1;
            }
        }
        transaction.commit().await?;
        Ok(removed)
    }

    /// Deletes the versions that were replaced longer ago than [`crate::Retention::age`],
    /// including versions of removed assets, and returns their number. A change does this only
    /// for the asset that it changes.
    ///
    /// # Errors
    ///
    /// Fails if the database fails. Some versions may have been deleted.
    pub async fn prune_versions(&self) -> Result<u64> {
        let oldest = SqlParameter::Int(before_now(self.retention.age));
        let mut pruned = 0;
        loop {
            let statement = "SELECT DISTINCT path FROM asset_versions \
                WHERE replaced_at < $1 ORDER BY path LIMIT $2";
            let values = [oldest, SqlParameter::Int(BATCH)];
            let paths = self.database.rows(statement, &values, path).await?;
            if paths.is_empty() {
                return Ok(pruned);
            }
            pruned += retried(|| self.remove_versions(&paths, oldest)).await?;
        }
    }

    async fn remove_versions(&self, paths: &[AssetPath], oldest: SqlParameter<'_>) -> Result<u64> {
        let mut transaction = self.database.begin().await?;
        transaction.lock(&locks(paths)).await?;
        let mut removed = 0;
        for path in paths {
            let statement = "DELETE FROM asset_versions WHERE path = $1 AND replaced_at < $2";
            removed += transaction.execute(statement, &[path.value(), oldest]).await?;
        }
        transaction.commit().await?;
        Ok(removed)
    }
}

fn path(row: &Row<'_>) -> Column<AssetPath> {
    row.parsed("path")
}

fn locks(paths: &[AssetPath]) -> Vec<TransactionLock<'_>> {
    paths.iter().map(|path| TransactionLock::Asset(path.as_str())).collect()
}
