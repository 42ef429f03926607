//! The digest of a row: SHA-256 over values, which migrations compute too.

use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Error, Result};
use sha2::{Digest as _, Sha256};

use super::SqlParameter;

/// The digest of a row.
pub(crate) type RowDigest = [u8; 32];

/// Returns the digest of values: each text followed by a NUL, each number and flag as eight
/// bytes, and bytes unchanged. The migrations for PostgreSQL compute the same with its own
/// functions.
pub(crate) fn row_digest(values: &[SqlParameter<'_>]) -> RowDigest {
    let mut hash = Sha256::new();
    for value in values {
        match *value {
            SqlParameter::Text(text) | SqlParameter::OptionalText(Some(text)) => {
                hash.update(text);
                hash.update([0]);
            }
            SqlParameter::OptionalText(None) => hash.update([0]),
            SqlParameter::Int(number) => hash.update(number.to_be_bytes()),
            SqlParameter::Flag(flag) => hash.update(i64::from(flag).to_be_bytes()),
            SqlParameter::Bytes(bytes) => hash.update(bytes),
        }
    }
    hash.finalize().into()
}

/// Adds [`row_digest`] to the functions that statements on this connection may call.
pub(super) fn register(open: &Connection) -> Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    open.create_scalar_function("row_digest", -1, flags, |context| {
        let values: Result<Vec<SqlParameter<'_>>> =
            (0..context.len()).map(|at| value(context, at)).collect();
        Ok(row_digest(&values?))
    })
}

fn value<'a>(context: &'a Context<'_>, at: usize) -> Result<SqlParameter<'a>> {
    let value = context.get_raw(at);
    Ok(match value {
        ValueRef::Integer(number) => SqlParameter::Int(number),
        ValueRef::Text(text) => SqlParameter::Text(str::from_utf8(text)?),
        ValueRef::Blob(bytes) => SqlParameter::Bytes(bytes),
        ValueRef::Null | ValueRef::Real(_) => {
            return Err(Error::InvalidParameterType(at, value.data_type()));
        }
    })
}
