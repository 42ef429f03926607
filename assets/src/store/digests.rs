//! The digests of texts. Each covers the name of the text as well, since a damaged index leads to the row of
//! another text, whose own digest is right.

use super::int;
use crate::database::{RowDigest, Value, row_digest};
use crate::path::AssetPath;

/// Returns the digest of a version of an asset. It stays the same when the version becomes an older one.
pub(super) fn asset_digest(path: &AssetPath, version: u64, content: &[u8]) -> RowDigest {
    row_digest(&[path.value(), int(version), Value::Bytes(content)])
}

/// Returns the digest of an event. A fork has it too, so that it does not cover the session.
pub(super) fn event_digest(seq: u64, kind: &str, begins_turn: bool, json: &[u8]) -> RowDigest {
    row_digest(&[int(seq), Value::Text(kind), Value::Flag(begins_turn), Value::Bytes(json)])
}
