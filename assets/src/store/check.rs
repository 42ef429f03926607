//! The check of a whole store for damage.

use super::Store;
use crate::damage::Damage;
use crate::error::{Error, Result};
use crate::path::AssetPath;
use crate::session::SessionId;

impl Store {
    /// Reads every text, and compares it with its digest: assets, their older versions, and the
    /// events of all agents' sessions. Before that, SQLite checks its file. Returns the damage,
    /// and changes nothing.
    ///
    /// # Errors
    ///
    /// Fails if the database cannot be used for a reason other than damage.
    pub async fn check(&self) -> Result<Vec<Damage>> {
        let mut found = DamageReport::default();
        if self.url().is_sqlite() {
            let statement = "SELECT integrity_check AS finding FROM pragma_integrity_check";
            let findings =
                self.database.rows(statement, &[], |row| Ok(row.text("finding")?.to_owned()));
            let findings = found.note(findings.await)?.unwrap_or_default();
            findings.into_iter().filter(|it| it != "ok").for_each(|it| found.add(Damage::File(it)));
        }
        let statement = "SELECT path, version FROM stored_assets \
            UNION ALL SELECT path, version FROM asset_versions";
        let versions = self.database.rows(statement, &[], |row| {
            Ok((row.parsed::<AssetPath>("path")?, row.count("version")?))
        });
        for (path, version) in found.note(versions.await)?.unwrap_or_default() {
            match self.version(&path, version).await {
                // It was removed in the meantime.
                Err(Error::NoVersion { .. }) => {}
                read => drop(found.note(read)?),
            }
        }
        let statement = "SELECT session, seq FROM session_events";
        let events = self.database.rows(statement, &[], |row| {
            Ok((row.parsed::<SessionId>("session")?, row.count("seq")?))
        });
        for (session, seq) in found.note(events.await)?.unwrap_or_default() {
            match self.session_events(&session, seq.saturating_sub(1), 1).await {
                Err(Error::NoSession(_)) => {}
                read => drop(found.note(read)?),
            }
        }
        Ok(found.0)
    }
}

/// The damage that was found, without repetition.
#[derive(Default)]
struct DamageReport(Vec<Damage>);

impl DamageReport {
    fn add(&mut self, damage: Damage) {
        if !self.0.contains(&damage) {
            self.0.push(damage);
        }
    }

    /// Adds the damage that ended an operation.
    fn note<T>(&mut self, done: Result<T>) -> Result<Option<T>> {
        match done {
            Ok(done) => return Ok(Some(done)),
            Err(Error::Altered { text, .. }) => self.add(Damage::Text(text)),
            Err(Error::Damaged { reason, .. }) => self.add(Damage::File(reason)),
            Err(error) => return Err(error),
        }
        Ok(None)
    }
}
