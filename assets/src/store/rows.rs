//! Converts the rows of the store's statements into values. The names of columns are those in
//! the statements.

use sqlx::Error;

use crate::agent::{Agent, InvalidAgent};
use crate::asset::{Asset, Author, Cause, Metadata, Pin, Replaced, Snapshot, Usage, Version};
use crate::budget::Budget;
use crate::database::Row;

type Read<T> = Result<T, Error>;

pub(super) fn metadata(row: &Row) -> Read<Metadata> {
    Ok(Metadata {
        path: row.parsed("path")?,
        size: row.count("size")?,
        tokens: row.count("tokens")?,
        version: row.count("version")?,
        read_only: row.flag("read_only")?,
        updated_at: row.time("updated_at")?,
    })
}

pub(super) fn asset(row: &Row) -> Read<Asset> {
    Ok(Asset { metadata: metadata(row)?, content: row.bytes("content")? })
}

pub(super) fn pin(row: &Row) -> Read<Pin> {
    Ok(Pin { metadata: metadata(row)?, pinned_at: row.time("pinned_at")? })
}

pub(super) fn agent(row: &Row) -> Read<Agent> {
    named(&row.text("agent")?)
}

fn named(name: &str) -> Read<Agent> {
    Agent::new(name).map_err(|error: InvalidAgent| Error::Decode(Box::new(error)))
}

pub(super) fn version(row: &Row) -> Read<Version> {
    let author = match row.optional_text("written_agent")? {
        None => None,
        Some(name) => Some(Author { agent: named(&name)?, cause: row.parsed("written_cause")? }),
    };
    // The current version has no end.
    let replaced = match row.optional_int("replaced_at")? {
        None => None,
        Some(_) => Some(Replaced {
            at: row.time("replaced_at")?,
            cause: row.parsed::<Cause>("cause")?,
            agent: agent(row)?,
        }),
    };
    Ok(Version {
        version: row.count("version")?,
        size: row.count("size")?,
        tokens: row.count("tokens")?,
        written_at: row.time("written_at")?,
        author,
        replaced,
    })
}

/// Reads the time at which an asset was written, in microseconds since 1970, and its bytes.
pub(super) fn written(row: &Row) -> Read<(i64, u64)> {
    Ok((row.int("updated_at")?, row.count("size")?))
}

pub(super) fn snapshot(row: &Row) -> Read<Snapshot> {
    Ok(Snapshot { version: version(row)?, content: row.bytes("content")? })
}

pub(super) fn usage(row: &Row, budget: Budget) -> Read<Usage> {
    let (outputs, output_tokens) = (row.count("outputs")?, row.count("output_tokens")?);
    Ok(Usage {
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
