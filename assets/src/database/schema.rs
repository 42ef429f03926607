//! The tables: whether they are there, whether this build knows them, and how they are
//! made and brought up to date, once, whoever comes first.

use sqlx::SqlStr;
use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};

use super::{Database, Doing, Inner, Lock, Row, Transaction, sqlite};
use crate::backoff::retried;
use crate::error::{Error, Result};

/// The table that says which migrations a store has. A name of its own: another program
/// that uses the same library may share a database of PostgreSQL with ikigai.
const APPLIED: &str = "ikigai_migrations";

/// What each migration is about, and its statements for SQLite and for PostgreSQL. The
/// number of a migration is its place, from 1. What has been released is never changed,
/// only followed by another.
const MIGRATIONS: [(&str, &str, &str); 2] = [
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
];

/// How far the tables of a store are.
enum State {
    /// The store is empty.
    New,
    /// It has the tables of this version.
    At(u64),
    /// It has other tables.
    Foreign(&'static str),
}

/// Sees to it that the tables are there. A store that is up to date is only asked so.
pub(super) async fn ensure(database: &Database) -> Result<()> {
    let known = MIGRATIONS.len() as u64;
    match judged(database, state(Asked::Store(database)).await?)? {
        State::At(version) if version == known => return Ok(()),
        State::New => sqlite::enter_wal(database).await?,
        _ => {}
    }
    retried(|| bring_up_to_date(database)).await
}

/// Several processes may get here at once; one of them passes, and those who come after it
/// find nothing left to do. All migrations are one transaction, and so is the mark that they
/// were made.
async fn bring_up_to_date(database: &Database) -> Result<()> {
    let known = MIGRATIONS.len() as u64;
    let mut transaction = database.begin().await?;
    transaction.lock(&[Lock::Schema]).await?;
    let state = state(Asked::Transaction(&mut transaction)).await?;
    if matches!(judged(database, state)?, State::At(version) if version == known) {
        return Ok(());
    }
    migrate(&mut transaction).await?;
    transaction.commit().await
}

/// Refuses what this build must leave alone.
fn judged(database: &Database, state: State) -> Result<State> {
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
    // The transaction around it has the lock, and gives it back even if this fails.
    migrator.set_locking(false);
    // What `Migrator::run` calls when it has its connection. That is generic over how it
    // gets one, and so makes a future that the compiler does not see to be `Send`.
    let done = match &mut transaction.inner {
        Inner::Sqlite(inner) => migrator.run_direct(None, &mut **inner, false).await,
        Inner::Postgres(inner) => migrator.run_direct(None, &mut **inner, false).await,
    };
    done.map_err(|error| match error {
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => {
            transaction.database.failed(Doing::Write)(error)
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

/// What is asked: a store as it is, or as it is while a transaction holds it.
enum Asked<'a, 't> {
    Store(&'a Database),
    Transaction(&'a mut Transaction<'t>),
}

impl Asked<'_, '_> {
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

async fn state(mut asked: Asked<'_, '_>) -> Result<State> {
    let (statement, ours) = if asked.is_sqlite() {
        (SQLITE_STATE, sqlite::APPLICATION_ID)
    } else {
        (POSTGRES_STATE, 1)
    };
    let marks = asked.rows(statement, |row| Ok((row.int("mark")?, row.int("tables")?))).await?;
    match marks[..] {
        [(0, 0)] => Ok(State::New),
        [(mark, _)] if mark == ours => {
            let versions = asked.rows(VERSION, |row| row.count("version")).await?;
            Ok(State::At(versions.first().copied().unwrap_or(0)))
        }
        _ => Ok(State::Foreign("it holds the tables of another program")),
    }
}
