//! The members and elements in a JSON text, and the ranges to cut in order to remove members and
//! keep valid JSON.

use std::fmt;
use std::ops::Range;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

/// A member of an object.
pub(super) struct ArgumentMember<'a> {
    /// The name, without the escapes that it may have been written with.
    pub(super) name: String,
    pub(super) value: &'a RawValue,
    written: &'a RawValue,
}

impl ArgumentMember<'_> {
    pub(super) fn is_null(&self) -> bool {
        self.value.get() == "null"
    }

    pub(super) fn is_one_of(&self, values: &[&Value]) -> bool {
        let value = serde_json::from_str(self.value.get());
        value.is_ok_and(|value: Value| values.contains(&&value))
    }
}

/// Returns the type of a value; every number is a `number`.
pub(super) fn kind(value: &RawValue) -> &'static str {
    match value.get().as_bytes().first() {
        Some(b'{') => "object",
        Some(b'[') => "array",
        Some(b'"') => "string",
        Some(b't' | b'f') => "boolean",
        Some(b'n') => "null",
        _ => "number",
    }
}

/// Returns the members of an object in their order, or nothing for another value.
pub(super) fn members(object: &RawValue) -> Vec<ArgumentMember<'_>> {
    struct ObjectVisitor;
    impl<'de> Visitor<'de> for ObjectVisitor {
        type Value = Vec<ArgumentMember<'de>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut members = Vec::new();
            while let Some((written, value)) = map.next_entry::<&RawValue, &RawValue>()? {
                // Half of a surrogate pair is not text, and no property has such a name.
                let name = serde_json::from_str(written.get());
                let name = name.unwrap_or_else(|_| written.get().to_owned());
                members.push(ArgumentMember { name, value, written });
            }
            Ok(members)
        }
    }
    serde_json::Deserializer::from_str(object.get())
        .deserialize_map(ObjectVisitor)
        .unwrap_or_default()
}

/// Returns the elements of an array in their order, or nothing for another value.
pub(super) fn elements(array: &RawValue) -> Vec<&RawValue> {
    serde_json::from_str(array.get()).unwrap_or_default()
}

fn offset(text: &str, piece: &str) -> usize {
    piece.as_ptr().addr() - text.as_ptr().addr()
}

/// Returns the ranges of the text that remove some members of an object. Each range includes one
/// comma: the comma before the member, or the comma after it if no member before it is kept.
pub(super) fn cuts(
    text: &str,
    members: &[ArgumentMember<'_>],
    is_cut: &[bool],
) -> Vec<Range<usize>> {
    let begin = |member: &ArgumentMember<'_>| offset(text, member.written.get());
    let end =
        |member: &ArgumentMember<'_>| offset(text, member.value.get()) + member.value.get().len();
    let mut cuts = Vec::new();
    let mut has_kept = false;
    for (at, member) in members.iter().enumerate() {
        if !is_cut[at] {
            has_kept = true;
        } else if let (true, Some(before)) = (has_kept, at.checked_sub(1)) {
            cuts.push(end(&members[before])..end(member));
        } else {
            cuts.push(begin(member)..members.get(at + 1).map_or(end(member), begin));
        }
    }
    cuts
}
