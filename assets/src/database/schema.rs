//! Recognizes the tables of a store, and creates them, once, by the process that comes first.

use super::tables::{KNOWN, VERSION};
use super::{Column, Database, Row, Transaction, TransactionLock, sqlite};
use crate::backoff::retried;
use crate::error::{Error, Result};

/// Creates the tables if they are missing. Only reads a store that has them.
pub(super) async fn ensure(database: &Database) -> Result<()> {
    if has_tables(database, SchemaReader::Store(database)).await? {
        return Ok(());
    }
    sqlite::enter_wal(database).await?;
    retried(|| create(database)).await
}

/// Creates the tables and sets the mark in one transaction. If several processes do this at
/// once, the first creates the tables, and the others find them.
async fn create(database: &Database) -> Result<()> {
    let mut transaction = database.begin().await?;
    transaction.lock(&[TransactionLock::Schema]).await?;
    if has_tables(database, SchemaReader::Transaction(&mut transaction)).await? {
        return Ok(());
    }
    transaction.create_tables().await?;
    if database.url.is_sqlite() {
        transaction.execute(sqlite::MARK, &[]).await?;
    }
    transaction.commit().await
}

const SQLITE_STATE: &str = "SELECT \
    (SELECT application_id FROM pragma_application_id) AS mark, \
    (SELECT COUNT(*) FROM sqlite_schema) AS tables";

/// Counts rows of the catalog instead of looking up one name after the other. Each lookup sees
/// everything that was committed until then, so it could see only one of two tables that were
/// made together.
const POSTGRES_STATE: &str = "SELECT \
    COUNT(*) FILTER (WHERE relname = 'ikigai_migrations') AS mark, \
    COUNT(*) FILTER (WHERE relname = 'stored_assets') AS tables \
    FROM pg_catalog.pg_class \
    WHERE relname IN ('ikigai_migrations', 'stored_assets') AND pg_catalog.pg_table_is_visible(oid)";

/// The access to a store whose tables are examined, with or without a transaction.
enum SchemaReader<'a, 't> {
    Store(&'a Database),
    Transaction(&'a mut Transaction<'t>),
}

impl SchemaReader<'_, '_> {
    async fn rows<T>(
        &mut self,
        statement: &'static str,
        read: impl Fn(&Row<'_>) -> Column<T>,
    ) -> Result<Vec<T>> {
        match self {
            Self::Store(database) => database.rows(statement, &[], read).await,
            Self::Transaction(transaction) => transaction.rows(statement, &[], read).await,
        }
    }
}

/// Returns whether a store has its tables, or is empty. Refuses other tables, which this build
/// must not change.
async fn has_tables(database: &Database, mut reader: SchemaReader<'_, '_>) -> Result<bool> {
    let (statement, expected) = if database.url.is_sqlite() {
        (SQLITE_STATE, sqlite::APPLICATION_ID)
    } else {
        (POSTGRES_STATE, 1)
    };
    let marks = reader.rows(statement, |row| Ok((row.int("mark")?, row.int("tables")?))).await?;
    let reason = match marks[..] {
        [(0, 0)] => return Ok(false),
        [(mark, _)] if mark == expected => {
            let versions = reader.rows(VERSION, |row| row.count("version")).await?;
            match versions.first().copied().unwrap_or(0) {
                KNOWN => return Ok(true),
                found if found > KNOWN => {
                    return Err(Error::Newer { store: database.url.clone(), found, known: KNOWN });
                }
                _ => "it has the tables of a build that was never released",
            }
        }
        _ => "it has the tables of another program",
    };
    Err(Error::NotAStore { store: database.url.clone(), reason })
}
