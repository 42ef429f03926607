//! A row of either database, read by the types of the store's columns.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Deserialize;
use serde::de::{self, DeserializeSeed, Deserializer, SeqAccess, Unexpected, Visitor};
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
    values: &'a [Item<'a>],
    /// The column after the one that was read last: most columns are read in their order.
    next: Cell<usize>,
}

/// A value of SQLite as JSON tells it.
enum Item<'a> {
    Null,
    Int(i64),
    /// Borrowed from the JSON, unless it has escapes.
    Text(Cow<'a, str>),
}

impl Item<'_> {
    /// Returns the error for a value that is none of those `expected`.
    fn unlike(&self, expected: &'static str) -> serde_json::Error {
        let found = match self {
            Self::Null => Unexpected::Unit,
            Self::Int(number) => Unexpected::Signed(*number),
            Self::Text(text) => Unexpected::Str(text),
        };
        de::Error::invalid_type(found, &expected)
    }
}

impl<'de> Deserialize<'de> for Item<'de> {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        json.deserialize_any(Items)
    }
}

/// Reads an [`Item`].
struct Items;

impl<'de> Visitor<'de> for Items {
    type Value = Item<'de>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("null, an integer or a text")
    }

    fn visit_unit<E>(self) -> Result<Item<'de>, E> {
        Ok(Item::Null)
    }

    fn visit_i64<E>(self, number: i64) -> Result<Item<'de>, E> {
        Ok(Item::Int(number))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Item<'de>, E> {
        let fits = i64::try_from(number).map(Item::Int);
        fits.map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &self))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Item<'de>, E> {
        Ok(Item::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Item<'de>, E> {
        Ok(Item::Text(Cow::Owned(text.to_owned())))
    }
}

/// Reads an array of JSON into a vector, whose memory the next row uses again.
struct Refilled<'v, 'de>(&'v mut Vec<Item<'de>>);

impl<'de> DeserializeSeed<'de> for Refilled<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Refilled<'_, 'de> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("the values of a row")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<(), A::Error> {
        self.0.clear();
        while let Some(value) = values.next_element()? {
            self.0.push(value);
        }
        Ok(())
    }
}

impl Listed<'_> {
    fn get(&self, column: &str) -> Column<&Item<'_>> {
        let next = self.next.get();
        let index = match self.names.get(next) {
            Some(name) if *name == column => Some(next),
            _ => self.names.iter().position(|name| *name == column),
        };
        let value = index.and_then(|index| Some((index, self.values.get(index)?)));
        let (index, value) = value.ok_or_else(|| sqlx::Error::ColumnNotFound(column.to_owned()))?;
        self.next.set(index + 1);
        Ok(value)
    }

    fn optional_text(&self, column: &str) -> Column<Option<&str>> {
        match self.get(column)? {
            Item::Null => Ok(None),
            Item::Text(text) => Ok(Some(text)),
            other @ Item::Int(_) => Err(undecodable(column, other.unlike("a text"))),
        }
    }

    fn optional_int(&self, column: &str) -> Column<Option<i64>> {
        match self.get(column)? {
            Item::Null => Ok(None),
            Item::Int(number) => Ok(Some(*number)),
            other @ Item::Text(_) => Err(undecodable(column, other.unlike("an integer"))),
        }
    }

    fn int(&self, column: &str) -> Column<i64> {
        let number = self.optional_int(column)?;
        number.ok_or_else(|| undecodable(column, Item::Null.unlike("an integer")))
    }
}

impl Row<'_> {
    /// Reads the rows in a text of lines: arrays of JSON, whose values are those of the columns
    /// `names`.
    pub(super) fn listed<T>(
        &self,
        column: &str,
        names: &[&str],
        read: impl Fn(&Row<'_>) -> Column<T>,
    ) -> Column<Vec<T>> {
        // Null if there is no row.
        let text = self.optional_text(column)?.unwrap_or_default();
        let mut values = Vec::with_capacity(names.len());
        let mut rows = Vec::new();
        for line in text.lines() {
            let mut json = serde_json::Deserializer::from_str(line);
            let array = Refilled(&mut values).deserialize(&mut json).and_then(|()| json.end());
            array.map_err(|error| undecodable(column, error))?;
            let listed = Listed { names, values: &values, next: Cell::new(0) };
            rows.push(read(&Row::Listed(listed))?);
        }
        Ok(rows)
    }

    pub(crate) fn text(&self, column: &str) -> Column<&str> {
        match self {
            Self::Sqlite(row) => row.try_get(column),
            Self::Postgres(row) => row.try_get(column),
            Self::Listed(row) => {
                let text = row.optional_text(column)?;
                text.ok_or_else(|| undecodable(column, Item::Null.unlike("a text")))
            }
        }
    }

    pub(crate) fn optional_text(&self, column: &str) -> Column<Option<&str>> {
        match self {
            Self::Sqlite(row) => row.try_get(column),
            Self::Postgres(row) => row.try_get(column),
            Self::Listed(row) => row.optional_text(column),
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
            Self::Listed(row) => row.int(column).map(|flag| flag != 0),
        }
    }

    pub(crate) fn optional_int(&self, column: &str) -> Column<Option<i64>> {
        match self {
            Self::Sqlite(row) => row.try_get(column),
            Self::Postgres(row) => row.try_get(column),
            Self::Listed(row) => row.optional_int(column),
        }
    }

    pub(crate) fn int(&self, column: &str) -> Column<i64> {
        match self {
            Self::Sqlite(row) => row.try_get(column),
            Self::Postgres(row) => row.try_get(column),
            Self::Listed(row) => row.int(column),
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
