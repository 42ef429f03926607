//! Converts the rows of the store's statements into values. The names of columns are those in
//! the statements.

use crate::agent::Agent;
use crate::asset::{
    Asset, AssetMetadata, AssetVersion, Author, ChangeCause, PinnedAsset, Snapshot, StoreUsage,
    VersionEnd,
};
use crate::budget::Budget;
use crate::damage::StoredText;
use crate::database::{Column, DatabaseFailure, Row};
use crate::path::AssetPath;
use crate::session::{SessionEvent, SessionId, SessionSummary};
use crate::store::digests::{asset_digest, event_digest};
use crate::store::kept::{LeaseTerm, SessionRow};

pub(super) fn metadata(row: &Row) -> Column<AssetMetadata> {
    Ok(AssetMetadata {
        path: row.parsed("path")?,
        size: row.count("size")?,
        tokens: row.count("tokens")?,
        version: row.count("version")?,
        read_only: row.flag("read_only")?,
        updated_at: row.time("updated_at")?,
    })
}

pub(super) fn asset(row: &Row) -> Column<Asset> {
    let metadata = metadata(row)?;
    let content = content(row, &metadata.path, metadata.version)?;
    Ok(Asset { metadata, content })
}

/// Reads the text of a version of an asset, and checks that it was not altered.
pub(super) fn content(row: &Row, path: &AssetPath, version: u64) -> Column<Vec<u8>> {
    let (digest, content) = (row.bytes("digest")?, row.bytes("content")?);
    if digest != asset_digest(path, version, &content) {
        return Err(DatabaseFailure::Altered(StoredText::Asset { path: path.clone(), version }));
    }
    Ok(content)
}

pub(super) fn pin(row: &Row) -> Column<PinnedAsset> {
    Ok(PinnedAsset { metadata: metadata(row)?, pinned_at: row.time("pinned_at")? })
}

pub(super) fn agent(row: &Row) -> Column<Agent> {
    named("agent", row.text("agent")?)
}

fn named(column: &str, name: &str) -> Column<Agent> {
    Agent::new(name).map_err(|error| DatabaseFailure::value(column, error))
}

pub(super) fn version(row: &Row) -> Column<AssetVersion> {
    let author = Author {
        agent: named("written_agent", row.text("written_agent")?)?,
        cause: row.parsed("written_cause")?,
    };
    // The current version was not replaced.
    let replaced = match row.optional_int("replaced_at")? {
        None => None,
        Some(_) => Some(VersionEnd {
            at: row.time("replaced_at")?,
            cause: row.parsed::<ChangeCause>("cause")?,
            agent: agent(row)?,
        }),
    };
    Ok(AssetVersion {
        version: row.count("version")?,
        size: row.count("size")?,
        tokens: row.count("tokens")?,
        written_at: row.time("written_at")?,
        author,
        replaced,
    })
}

/// Reads the time at which an asset was written, in microseconds since 1970, and its bytes.
pub(super) fn written(row: &Row) -> Column<(i64, u64)> {
    Ok((row.int("updated_at")?, row.count("size")?))
}

pub(super) fn snapshot(row: &Row, path: &AssetPath) -> Column<Snapshot> {
    let version = version(row)?;
    let content = content(row, path, version.version)?;
    Ok(Snapshot { version, content })
}

pub(super) fn usage(row: &Row, budget: Budget) -> Column<StoreUsage> {
    let (outputs, output_tokens) = (row.count("outputs")?, row.count("output_tokens")?);
    Ok(StoreUsage {
        budget,
        pinned_assets: row.count("pinned_assets")?,
        pinned_tokens: row.count("pinned_tokens")?,
        assets: row.count("assets")?.saturating_sub(outputs),
        tokens: row.count("tokens")?.saturating_sub(output_tokens),
        outputs,
        output_tokens,
        old_versions: row.count("old_versions")?,
    })
}

pub(super) fn session(row: &Row) -> Column<SessionRow> {
    // In the order of the columns, which is fastest to find.
    let summary = SessionSummary {
        id: row.parsed("id")?,
        agent: agent(row)?,
        workspace: row.text("workspace")?.to_owned(),
        title: row.optional_text("title")?.map(str::to_owned),
        provider: row.optional_text("provider")?.map(str::to_owned),
        model: row.optional_text("model")?.map(str::to_owned),
        forked_from: match row.optional_text("forked_from")? {
            None => None,
            Some(_) => Some(row.parsed("forked_from")?),
        },
        created_at: row.time("created_at")?,
        updated_at: row.time("updated_at")?,
        events: row.count("events")?,
        turns: row.count("turns")?,
        bytes: row.count("bytes")?,
        holder: None,
    };
    let fence = row.count("fence")?;
    // A lease that was released has no owner.
    let term = match row.optional_text("lease_owner")? {
        None => None,
        Some(owner) => {
            let (from, until) = (row.int("leased_at")?, row.int("lease_until")?);
            Some(LeaseTerm { owner: owner.to_owned(), from, until })
        }
    };
    Ok(SessionRow { summary, fence, term })
}

/// Reads an event of a session, and checks that it was not altered.
pub(super) fn session_event(row: &Row, session: SessionId) -> Column<SessionEvent> {
    let (seq, kind) = (row.count("seq")?, row.text("kind")?.to_owned());
    let (begins_turn, written_at) = (row.flag("begins_turn")?, row.time("written_at")?);
    let (digest, json) = (row.bytes("digest")?, row.bytes("json")?);
    if digest != event_digest(seq, &kind, begins_turn, &json) {
        return Err(DatabaseFailure::Altered(StoredText::Event { session, seq }));
    }
    let json = String::from_utf8(json).map_err(|error| DatabaseFailure::value("json", error))?;
    Ok(SessionEvent { seq, kind, json, begins_turn, written_at })
}
