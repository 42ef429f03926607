//! The tables of a store, as statements. Runs none of them.

/// Makes the tables of an empty store, for PostgreSQL.
pub(super) const FOR_POSTGRES: &str = include_str!("tables.sql");

/// Returns the same statements for SQLite, which always compares text by its bytes.
pub(super) fn for_sqlite() -> String {
    FOR_POSTGRES.replace(" COLLATE \"C\"", "").replace("BYTEA", "BLOB")
}

/// The version of the tables, which `tables.sql` records.
pub(super) const KNOWN: u64 = 4;

/// Reads the version of the tables.
pub(super) const VERSION: &str =
    "SELECT COALESCE(MAX(version), 0) AS version FROM ikigai_migrations";
