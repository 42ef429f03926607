//! The members of a message, as parts of its line. Values are checked to be JSON, but not parsed.

use std::borrow::Cow;

use bytes::Bytes;
use rmcp::model::RequestId;
use serde::de::{Error as _, IgnoredAny};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// The longest part of a line that is copied, in bytes. A longer part shares the line's memory.
const COPIED: usize = 64 << 10;

/// The longest id in bytes.
const MAX_ID: usize = 256;

/// The longest JSON form of such an id: each of its bytes as an escape, and the quotes.
const MAX_WRITTEN_ID: usize = MAX_ID * r"\u0000".len() + 2;

/// The members of a message. A duplicate member is refused.
#[derive(Deserialize)]
pub(super) struct MessageMembers<'a> {
    #[serde(borrow, default)]
    pub(super) jsonrpc: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) method: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub(super) params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub(super) result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub(super) error: Option<&'a RawValue>,
}

/// The parameters of a call, of which only the arguments are read. A duplicate is refused.
#[derive(Deserialize)]
struct CallParams<'a> {
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
}

/// Reads a member that is present, including `null`.
fn present<'de, D: Deserializer<'de>>(value: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(value).map(Some)
}

/// Reads the members of a message.
pub(super) fn read(text: &str) -> serde_json::Result<MessageMembers<'_>> {
    object(text)
}

/// Returns the arguments in the parameters of a call, or `None` if they are missing or null.
pub(super) fn arguments(params: &str) -> serde_json::Result<Option<&str>> {
    object::<CallParams<'_>>(params).map(|params| params.arguments.map(RawValue::get))
}

/// Reads an object. Refuses an array, which serde would accept as the members in their order.
fn object<'a, T: Deserialize<'a>>(text: &'a str) -> serde_json::Result<T> {
    if text.trim_start().starts_with('[') {
        serde_json::from_str::<IgnoredAny>(text)?;
        return Err(serde_json::Error::custom("an array"));
    }
    serde_json::from_str(text)
}

/// Returns the id of a message if it is valid.
pub(super) fn id(raw: &RawValue) -> Option<RequestId> {
    if raw.get().len() > MAX_WRITTEN_ID {
        return None;
    }
    let id: RequestId = serde_json::from_str(raw.get()).ok()?;
    match &id {
        RequestId::String(text) if text.len() > MAX_ID => None,
        _ => Some(id),
    }
}

/// Returns a copy or a slice of `part`, which is a part of `line`. The result may outlive `line`.
pub(super) fn part(line: &Bytes, part: &str) -> Bytes {
    // A slice keeps all memory alive that was read together with its line.
    if part.len() > COPIED {
        line.slice_ref(part.as_bytes())
    } else {
        Bytes::copy_from_slice(part.as_bytes())
    }
}
