//! A row of either database, read by the types of the store's columns.

use std::cell::Cell;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use sqlx::Row as _;
use sqlx::postgres::PgRow;
use sqlx::sqlite::SqliteRow;

type Column<T> = std::result::Result<T, sqlx::Error>;

/// A row of either database.
pub(crate) enum Row<'a> {
    Sqlite(SqliteRow),
    Postgres(PgRow),
    /// A row of SQLite that came with others in one text of JSON.
    Listed(Listed<'a>),
}

/// The values of a row, and the names of their columns.
pub(crate) struct Listed<'a> {
    names: &'a [&'a str],
    values: Vec<&'a RawValue>,
    /// The column after the one that was read last. Columns are read in about their order.
    next: Cell<usize>,
}

impl Listed<'_> {
    fn get<T: DeserializeOwned>(&self, column: &str) -> Column<T> {
        let (before, after) = self.names.split_at(self.next.get());
        let index = after.iter().chain(before).position(|name| *name == column);
        let index = index.map(|index| (self.next.get() + index) % self.names.len());
        let value = index.and_then(|index| Some((index, self.values.get(index)?)));
        let (index, value) = value.ok_or_else(|| sqlx::Error::ColumnNotFound(column.to_owned()))?;
        self.next.set(index + 1);
        serde_json::from_str(value.get()).map_err(|error| undecodable(column, error))
    }
}

impl Row<'_> {
    /// Reads the rows in a text of JSON: an array of arrays, whose values are those of the columns
    /// `names`.
    pub(super) fn listed<T>(
        &self,
        column: &str,
        names: &[&str],
        read: impl Fn(&Row<'_>) -> Column<T>,
    ) -> Column<Vec<T>> {
        let text = self.text(column)?;
        let rows: Vec<Vec<&RawValue>> =
            serde_json::from_str(&text).map_err(|error| undecodable(column, error))?;
        let row = |values| Row::Listed(Listed { names, values, next: Cell::new(0) });
        rows.into_iter().map(|values| read(&row(values))).collect()
    }

    pub(crate) fn text(&self, column: &str) -> Column<String> {
        match self {
            Self::Sqlite(row) => row.try_get(column),
            Self::Postgres(row) => row.try_get(column),
            Self::Listed(row) => row.get(column),
        }
    }

    pub(crate) fn optional_text(&self, column: &str) -> Column<Option<String>> {
        match self {
            Self::Sqlite(row) => row.try_get(column),
            Self::Postgres(row) => row.try_get(column),
            Self::Listed(row) => row.get(column),
        }
    }

    pub(crate) fn bytes(&self, column: &str) -> Column<Vec<u8>> {
        match self {
            Self::Sqlite(row) => row.try_get(column),
            Self::Postgres(row) => row.try_get(column),
            // JSON has no bytes, and no list has a column of them.
            Self::Listed(_) => Err(sqlx::Error::ColumnNotFound(column.to_owned())),
        }
    }

    pub(crate) fn flag(&self, column: &str) -> Column<bool> {
        match self {
            Self::Sqlite(row) => row.try_get(column),
            Self::Postgres(row) => row.try_get(column),
            // SQLite has no type for it.
            Self::Listed(row) => row.get(column).map(|flag: i64| flag != 0),
        }
    }

    pub(crate) fn optional_int(&self, column: &str) -> Column<Option<i64>> {
        match self {
            Self::Sqlite(row) => row.try_get(column),
            Self::Postgres(row) => row.try_get(column),
            Self::Listed(row) => row.get(column),
        }
    }

    pub(crate) fn int(&self, column: &str) -> Column<i64> {
        match self {
            Self::Sqlite(row) => row.try_get(column),
            Self::Postgres(row) => row.try_get(column),
            Self::Listed(row) => row.get(column),
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
