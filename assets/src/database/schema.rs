//! The tables of a store. Recognizes their version, creates them, and brings them up to date,
//! once, by the process that comes first.

use sqlx::SqlStr;
use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};

use super::{Access, Database, Inner, Lock, Row, Transaction, sqlite};
use crate::backoff::retried;
use crate::error::{Error, Result};

/// The table of the migrations that a store has. The name is not the library's default:
/// another program that uses the library may share a database of PostgreSQL with ikigai.
const APPLIED: &str = "ikigai_migrations";

/// The name of each migration, and its statements for SQLite and for PostgreSQL. The number
/// of a migration is its position, from 1. A released one never changes.
const MIGRATIONS: [(&str, &str, &str); 3] = [
    (
        "documents",
        include_str!("../../migrations/sqlite/1_documents.sql"),
        include_str!("../../migrations/postgres/1_documents.sql"),
    ),
    (
        "authors",
        include_str!("../../migrations/sqlite/2_authors.sql"),
        include_str!("../../migrations/postgres/2_authors.sql"),
    ),
    (
        "sessions",
        include_str!("../../migrations/sqlite/3_sessions.sql"),
        include_str!("../../migrations/postgres/3_sessions.sql"),
    ),
];

/// The state of the tables of a store.
enum State {
    /// There are none.
    Empty,
    /// They have this version.
    At(u64),
    /// They belong to another program; the text gives the reason.
    Foreign(&'static str),
}

/// Creates the tables or brings them up to date. A store that is up to date is only read.
pub(super) async fn ensure(database: &Database) -> Result<()> {
    let known = MIGRATIONS.len() as u64;
    match checked(database, state(Reader::Store(database)).await?)? {
        State::At(version) if version == known => return Ok(()),
        State::Empty => sqlite::enter_wal(database).await?,
        _ => {}
    }
    retried(|| bring_up_to_date(database)).await
}

/// Applies the migrations and sets the mark in one transaction. Of several processes at once,
/// the first does so, and the others find the store up to date.
async fn bring_up_to_date(database: &Database) -> Result<()> {
    let known = MIGRATIONS.len() as u64;
    let mut transaction = database.begin().await?;
    transaction.lock(&[Lock::Schema]).await?;
    let state = state(Reader::Transaction(&mut transaction)).await?;
    if matches!(checked(database, state)?, State::At(version) if version == known) {
        return Ok(());
    }
    migrate(&mut transaction).await?;
    transaction.commit().await
}

/// Refuses tables that this build must not change.
fn checked(database: &Database, state: State) -> Result<State> {
    let known = MIGRATIONS.len() as u64;
    match state {
        State::At(found) if found > known => {
            Err(Error::Newer { store: database.url.clone(), found, known })
        }
        State::Foreign(reason) => Err(Error::NotAStore { store: database.url.clone(), reason }),
        _ => Ok(state),
    }
}

async fn migrate(transaction: &mut Transaction<'_>) -> Result<()> {
    let for_sqlite = matches!(transaction.inner, Inner::Sqlite(_));
    let migrations = (1..).zip(MIGRATIONS).map(|(version, (about, sqlite, postgres))| {
        let statements = SqlStr::from_static(if for_sqlite { sqlite } else { postgres });
        Migration::new(version, about.into(), MigrationType::Simple, statements, false)
    });
    let mut migrator = Migrator::with_migrations(migrations.collect());
    migrator.dangerous_set_table_name(APPLIED);
    // The transaction has the lock, and releases it also if a migration fails.
    migrator.set_locking(false);
    // `Migrator::run` calls this with its connection. It is generic over the connection, so
    // that the compiler does not find its future to be `Send`.
    let done = match &mut transaction.inner {
        Inner::Sqlite(inner) => migrator.run_direct(None, &mut **inner, false).await,
        Inner::Postgres(inner) => migrator.run_direct(None, &mut **inner, false).await,
    };
    done.map_err(|error| match error {
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => {
            transaction.database.failed(Access::Write)(error)
        }
        other => {
            Error::Damaged { store: transaction.database.url.clone(), reason: other.to_string() }
        }
    })?;
    if for_sqlite {
        transaction.execute(sqlite::MARK, &[]).await?;
    }
    Ok(())
}

const SQLITE_STATE: &str = "SELECT \
    (SELECT application_id FROM pragma_application_id) AS mark, \
    (SELECT COUNT(*) FROM sqlite_schema) AS tables";

const POSTGRES_STATE: &str = "SELECT \
    CASE WHEN to_regclass('ikigai_migrations') IS NULL THEN 0 ELSE 1 END::bigint AS mark, \
    CASE WHEN to_regclass('stored_assets') IS NULL THEN 0 ELSE 1 END::bigint AS tables";

const VERSION: &str = "SELECT COALESCE(MAX(version), 0) AS version FROM ikigai_migrations";

/// The access to a store whose tables are examined: with or without a transaction.
enum Reader<'a, 't> {
    Store(&'a Database),
    Transaction(&'a mut Transaction<'t>),
}

impl Reader<'_, '_> {
    async fn rows<T>(
        &mut self,
        statement: &'static str,
        read: impl Fn(&Row) -> std::result::Result<T, sqlx::Error>,
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
async fn state(mut reader: Reader<'_, '_>) -> Result<State> {
    let (statement, expected) = if reader.is_sqlite() {
        (SQLITE_STATE, sqlite::APPLICATION_ID)
    } else {
        (POSTGRES_STATE, 1)
    };
    let marks = reader.rows(statement, |row| Ok((row.int("mark")?, row.int("tables")?))).await?;
    match marks[..] {
        [(0, 0)] => Ok(State::Empty),
        [(mark, _)] if mark == expected => {
            let versions = reader.rows(VERSION, |row| row.count("version")).await?;
            Ok(State::At(versions.first().copied().unwrap_or(0)))
        }
        _ => Ok(State::Foreign("it holds the tables of another program")),
    }
}
