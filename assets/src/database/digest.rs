//! The digest of a row: SHA-256 over values.

use sha2::{Digest as _, Sha256};

use super::SqlParameter;

/// The digest of a row.
pub(crate) type RowDigest = [u8; 32];

/// Returns the digest of values: each text followed by a NUL, each number and flag as eight
/// bytes, and bytes unchanged.
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
