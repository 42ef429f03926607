//! The tables of a store. Recognizes their version, creates them, and brings them up to date,
//! once, by the process that comes first.

use std::time::Instant;

use sha2::{Digest as _, Sha384};

use super::migrations::{APPLIED, KNOWN, MIGRATIONS, VERSION};
use super::{Column, Database, Row, SqlParameter, Transaction, TransactionLock, sqlite};
use crate::backoff::retried;
use crate::error::{Error, Result};

/// The state of the tables of a store.
enum SchemaState {
    /// The store has no tables.
    Empty,
    /// They have this version.
    At(u64),
    /// They belong to another program; the text gives the reason.
    Foreign(&'static str),
}

/// Creates the tables or brings them up to date. Only reads a store that is up to date.
pub(super) async fn ensure(database: &Database) -> Result<()> {
    match checked(database, state(SchemaReader::Store(database)).await?)? {
        SchemaState::At(version) if version == KNOWN => return Ok(()),
        SchemaState::Empty => sqlite::enter_wal(database).await?,
        _ => {}
    }
    retried(|| bring_up_to_date(database)).await
}

/// Applies the migrations and sets the mark in one transaction. If several processes do this at
/// once, the first applies them, and the others find the store up to date.
async fn bring_up_to_date(database: &Database) -> Result<()> {
    let mut transaction = database.begin().await?;
    transaction.lock(&[TransactionLock::Schema]).await?;
    let state = state(SchemaReader::Transaction(&mut transaction)).await?;
    if matches!(checked(database, state)?, SchemaState::At(version) if version == KNOWN) {
        return Ok(());
    }
    migrate(&mut transaction).await?;
    transaction.commit().await
}

/// Refuses tables that this build must not change.
fn checked(database: &Database, state: SchemaState) -> Result<SchemaState> {
    match state {
        SchemaState::At(found) if found > KNOWN => {
            Err(Error::Newer { store: database.url.clone(), found, known: KNOWN })
        }
        SchemaState::Foreign(reason) => {
            Err(Error::NotAStore { store: database.url.clone(), reason })
        }
        _ => Ok(state),
    }
}

/// Applies the migrations that the store does not have.
async fn migrate(transaction: &mut Transaction<'_>) -> Result<()> {
    let database = transaction.database;
    let for_sqlite = database.url.is_sqlite();
    let of = |(sqlite, postgres)| if for_sqlite { sqlite } else { postgres };
    transaction.script(of(APPLIED)).await?;
    let applied = transaction.rows(CHECKSUMS, &[], checksum).await?;
    for (version, (about, sqlite, postgres)) in (1..).zip(MIGRATIONS) {
        let statements = of((sqlite, postgres));
        let checksum = Sha384::digest(statements);
        if let Some((_, found)) = applied.iter().find(|(number, _)| *number == version) {
            if found.as_deref() == Some(&*checksum) {
                continue;
            }
            let reason = format!("its tables are not those of version {version}");
            return Err(Error::Damaged { store: database.url.clone(), reason });
        }
        let begun = Instant::now();
        transaction.script(statements).await?;
        let took = i64::try_from(begun.elapsed().as_nanos()).unwrap_or(i64::MAX);
        let statement = "INSERT INTO ikigai_migrations \
            (version, description, success, checksum, execution_time) \
            VALUES ($1, $2, TRUE, $3, $4)";
        let values = [
            SqlParameter::Int(version),
            SqlParameter::Text(about),
            SqlParameter::Bytes(&checksum),
            SqlParameter::Int(took),
        ];
        transaction.execute(statement, &values).await?;
    }
    if for_sqlite {
        transaction.execute(sqlite::MARK, &[]).await?;
    }
    Ok(())
}

const CHECKSUMS: &str = "SELECT version, success, checksum FROM ikigai_migrations";

/// Reads the number of a migration and the checksum of its statements. The checksum is missing
/// if they did not succeed.
fn checksum(row: &Row<'_>) -> Column<(i64, Option<Vec<u8>>)> {
    let (version, success) = (row.int("version")?, row.flag("success")?);
    Ok((version, success.then(|| row.bytes("checksum")).transpose()?))
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

    fn is_sqlite(&self) -> bool {
        match self {
            Self::Store(database) => database.url.is_sqlite(),
            Self::Transaction(transaction) => transaction.database.url.is_sqlite(),
        }
    }
}

/// Reads the state of the tables.
async fn state(mut reader: SchemaReader<'_, '_>) -> Result<SchemaState> {
    let (statement, expected) = if reader.is_sqlite() {
        (SQLITE_STATE, sqlite::APPLICATION_ID)
    } else {
        (POSTGRES_STATE, 1)
    };
    let marks = reader.rows(statement, |row| Ok((row.int("mark")?, row.int("tables")?))).await?;
    match marks[..] {
        [(0, 0)] => Ok(SchemaState::Empty),
        [(mark, _)] if mark == expected => {
            let versions = reader.rows(VERSION, |row| row.count("version")).await?;
            Ok(SchemaState::At(versions.first().copied().unwrap_or(0)))
        }
        _ => Ok(SchemaState::Foreign("it has the tables of another program")),
    }
}
