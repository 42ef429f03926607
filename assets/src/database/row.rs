//! A row of either database, read by the types of the store's columns.

use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sqlx::Row as _;
use sqlx::postgres::PgRow;
use sqlx::sqlite::SqliteRow;

type Column<T> = std::result::Result<T, sqlx::Error>;

/// A row of either database.
pub(crate) enum Row {
    Sqlite(SqliteRow),
    Postgres(PgRow),
}

impl Row {
    pub(crate) fn text(&self, column: &str) -> Column<String> {
        match self {
            Self::Sqlite(row) => row.try_get(column),
            Self::Postgres(row) => row.try_get(column),
        }
    }

    pub(crate) fn optional_text(&self, column: &str) -> Column<Option<String>> {
        match self {
            Self::Sqlite(row) => row.try_get(column),
            Self::Postgres(row) => row.try_get(column),
        }
    }

    pub(crate) fn bytes(&self, column: &str) -> Column<Vec<u8>> {
        match self {
            Self::Sqlite(row) => row.try_get(column),
            Self::Postgres(row) => row.try_get(column),
        }
    }

    pub(crate) fn flag(&self, column: &str) -> Column<bool> {
        match self {
            Self::Sqlite(row) => row.try_get(column),
            Self::Postgres(row) => row.try_get(column),
        }
    }

    pub(crate) fn optional_int(&self, column: &str) -> Column<Option<i64>> {
        match self {
            Self::Sqlite(row) => row.try_get(column),
            Self::Postgres(row) => row.try_get(column),
        }
    }

    pub(crate) fn int(&self, column: &str) -> Column<i64> {
        match self {
            Self::Sqlite(row) => row.try_get(column),
            Self::Postgres(row) => row.try_get(column),
        }
    }

    /// Reads a count, which is never negative.
    pub(crate) fn count(&self, column: &str) -> Column<u64> {
        u64::try_from(self.int(column)?).map_err(|error| undecodable(column, error))
    }

    /// Reads a time, stored as microseconds since 1970.
    pub(crate) fn time(&self, column: &str) -> Column<SystemTime> {
        let micros = Duration::from_micros(self.count(column)?);
        let time = UNIX_EPOCH.checked_add(micros);
        time.ok_or_else(|| undecodable(column, std::io::Error::other("out of the range of times")))
    }

    /// Reads a text and parses it.
    pub(crate) fn parsed<T: FromStr>(&self, column: &str) -> Column<T>
    where
        T::Err: std::error::Error + Send + Sync + 'static,
    {
        self.text(column)?.parse().map_err(|error| undecodable(column, error))
    }
}

fn undecodable(
    column: &str,
    source: impl std::error::Error + Send + Sync + 'static,
) -> sqlx::Error {
    sqlx::Error::ColumnDecode { index: column.to_owned(), source: Box::new(source) }
}
