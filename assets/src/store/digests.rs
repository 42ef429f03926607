//! The digests of texts. Each also covers the name of the text: a damaged index can lead to the
//! row of another text, and that row's digest is correct.

use super::int;
use crate::database::{RowDigest, SqlParameter, row_digest};
use crate::path::AssetPath;

/// Returns the digest of a version of an asset. It stays the same when the version is replaced.
pub(super) fn asset_digest(path: &AssetPath, version: u64, content: &[u8]) -> RowDigest {
    row_digest(&[path.value(), int(version), SqlParameter::Bytes(content)])
}

/// Returns the digest of an event. It does not cover the session, since a fork has the same
/// event.
pub(super) fn event_digest(seq: u64, kind: &str, begins_turn: bool, json: &[u8]) -> RowDigest {
    row_digest(&[
        int(seq),
        SqlParameter::Text(kind),
        SqlParameter::Flag(begins_turn),
        SqlParameter::Bytes(json),
    ])
}
