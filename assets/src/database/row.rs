//! A row of either database, read by the types of the store's columns.

use std::cell::Cell;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusqlite::types::{Type, ValueRef};
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use super::failure::DatabaseFailure;

pub(crate) type Column<T> = std::result::Result<T, DatabaseFailure>;

/// A row of either database.
pub(crate) enum Row<'a> {
    /// The current row of SQLite. Its values are read in place, without a copy.
    Sqlite(Current<'a>),
    Postgres(PgRow),
}

/// A row of SQLite, and the column that is probably read next.
pub(crate) struct Current<'a> {
    row: &'a rusqlite::Row<'a>,
    /// The names of its columns. Otherwise SQLite would be asked for a name with each value.
    names: &'a [Box<str>],
    /// The column after the one that was read last: most columns are read in order.
    next: Cell<usize>,
}

impl Current<'_> {
    fn get(&self, column: &str) -> Column<ValueRef<'_>> {
        let next = self.next.get();
        let index = match self.names.get(next) {
            Some(name) if **name == *column => next,
            _ => self.row.as_ref().column_index(column)?,
        };
        self.next.set(index + 1);
        Ok(self.row.get_ref(index)?)
    }

    fn optional_text(&self, column: &str) -> Column<Option<&str>> {
        match self.get(column)? {
            ValueRef::Null => Ok(None),
            ValueRef::Text(text) => str::from_utf8(text)
                .map(Some)
                .map_err(|error| DatabaseFailure::value(column, error)),
            other => Err(unlike(column, other, "a text")),
        }
    }

    fn optional_int(&self, column: &str) -> Column<Option<i64>> {
        match self.get(column)? {
            ValueRef::Null => Ok(None),
            ValueRef::Integer(number) => Ok(Some(number)),
            other => Err(unlike(column, other, "an integer")),
        }
    }

    fn text(&self, column: &str) -> Column<&str> {
        self.optional_text(column)?.ok_or_else(|| unlike(column, ValueRef::Null, "a text"))
    }

    fn int(&self, column: &str) -> Column<i64> {
        self.optional_int(column)?.ok_or_else(|| unlike(column, ValueRef::Null, "an integer"))
    }

    fn bytes(&self, column: &str) -> Column<Vec<u8>> {
        match self.get(column)? {
            ValueRef::Blob(bytes) | ValueRef::Text(bytes) => Ok(bytes.to_vec()),
            other => Err(unlike(column, other, "bytes")),
        }
    }
}

/// Returns the failure for a value of the wrong type: SQLite stores a value of any type in any
/// column.
fn unlike(column: &str, value: ValueRef<'_>, expected: &str) -> DatabaseFailure {
    let found = match value.data_type() {
        Type::Null => "null",
        Type::Integer => "an integer",
        Type::Real => "a floating-point number",
        Type::Text => "a text",
        Type::Blob => "bytes",
    };
    DatabaseFailure::value(column, format!("it has {found}, not {expected}"))
}

impl<'a> Row<'a> {
    pub(super) fn of_sqlite(row: &'a rusqlite::Row<'a>, names: &'a [Box<str>]) -> Self {
        Self::Sqlite(Current { row, names, next: Cell::new(0) })
    }
}

impl Row<'_> {
    pub(crate) fn text(&self, column: &str) -> Column<&str> {
        match self {
            Self::Sqlite(row) => row.text(column),
            Self::Postgres(row) => Ok(row.try_get(column)?),
        }
    }

    pub(crate) fn optional_text(&self, column: &str) -> Column<Option<&str>> {
        match self {
            Self::Sqlite(row) => row.optional_text(column),
            Self::Postgres(row) => Ok(row.try_get(column)?),
        }
    }

    pub(crate) fn bytes(&self, column: &str) -> Column<Vec<u8>> {
        match self {
            Self::Sqlite(row) => row.bytes(column),
            Self::Postgres(row) => Ok(row.try_get(column)?),
        }
    }

    pub(crate) fn flag(&self, column: &str) -> Column<bool> {
        match self {
            // SQLite has no type for flags.
            Self::Sqlite(row) => Ok(row.int(column)? != 0),
            Self::Postgres(row) => Ok(row.try_get(column)?),
        }
    }

    pub(crate) fn optional_int(&self, column: &str) -> Column<Option<i64>> {
        match self {
            Self::Sqlite(row) => row.optional_int(column),
            Self::Postgres(row) => Ok(row.try_get(column)?),
        }
    }

    pub(crate) fn int(&self, column: &str) -> Column<i64> {
        match self {
            Self::Sqlite(row) => row.int(column),
            Self::Postgres(row) => Ok(row.try_get(column)?),
        }
    }

    /// Reads a count, which is never negative.
    pub(crate) fn count(&self, column: &str) -> Column<u64> {
        u64::try_from(self.int(column)?).map_err(|error| DatabaseFailure::value(column, error))
    }

    /// Reads a time, stored as microseconds since 1970.
    pub(crate) fn time(&self, column: &str) -> Column<SystemTime> {
        let micros = Duration::from_micros(self.count(column)?);
        let time = UNIX_EPOCH.checked_add(micros);
        time.ok_or_else(|| DatabaseFailure::value(column, "out of the range of times"))
    }

    /// Reads a text and parses it.
    pub(crate) fn parsed<T: FromStr>(&self, column: &str) -> Column<T>
    where
        T::Err: std::error::Error + Send + Sync + 'static,
    {
        self.text(column)?.parse().map_err(|error| DatabaseFailure::value(column, error))
    }
}
