//! The migrations of a store's tables, as statements. Applies none of them.

/// Makes the table of a store's migrations if it is missing, for SQLite and for PostgreSQL. Its
/// columns come from sqlx, which made the tables of the first releases, and those releases must
/// be able to open this table. The name is not the default of sqlx: another program that uses
/// sqlx may share a PostgreSQL database with ikigai.
pub(super) const APPLIED: (&str, &str) = (
    "CREATE TABLE IF NOT EXISTS ikigai_migrations (
        version BIGINT PRIMARY KEY,
        description TEXT NOT NULL,
        installed_on TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
        success BOOLEAN NOT NULL,
        checksum BLOB NOT NULL,
        execution_time BIGINT NOT NULL
    )",
    "CREATE TABLE IF NOT EXISTS ikigai_migrations (
        version BIGINT PRIMARY KEY,
        description TEXT NOT NULL,
        installed_on TIMESTAMPTZ NOT NULL DEFAULT now(),
        success BOOLEAN NOT NULL,
        checksum BYTEA NOT NULL,
        execution_time BIGINT NOT NULL
    )",
);

/// The name of each migration, and its statements for SQLite and for PostgreSQL. The number of a
/// migration is its position, from 1. A released migration never changes.
pub(super) const MIGRATIONS: [(&str, &str, &str); 4] = [
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
    (
        "digests",
        include_str!("../../migrations/sqlite/4_digests.sql"),
        include_str!("../../migrations/postgres/4_digests.sql"),
    ),
];

/// The newest version of the tables that this build knows.
pub(super) const KNOWN: u64 = MIGRATIONS.len() as u64;

/// Reads the version of the tables.
pub(super) const VERSION: &str =
    "SELECT COALESCE(MAX(version), 0) AS version FROM ikigai_migrations";
