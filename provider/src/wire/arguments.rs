//! The arguments of a call on their way back to a provider that wants an object where the
//! model may have written anything.

use serde::Serialize;
use serde_json::value::RawValue;

/// The member under which text is sent that is no object. The model reads what it wrote.
const UNREADABLE: &str = "unreadable_arguments";

/// A JSON object, as it was written wherever that is possible: numbers keep their digits, and
/// members their order.
#[derive(Debug)]
pub(super) struct Object(Box<RawValue>);

impl Object {
    /// Text as an object: itself if it is one, else an object with the text as its one member.
    pub(super) fn of(text: &str, member: &str) -> Self {
        let trimmed = text.trim();
        if trimmed.is_empty() {
            return Self::of("{}", member);
        }
        if trimmed.starts_with('{')
            && let Ok(object) = serde_json::from_str::<Box<RawValue>>(trimmed)
        {
            return Self(object);
        }
        let wrapped = serde_json::json!({ member: text });
        let raw = serde_json::value::to_raw_value(&wrapped);
        Self(raw.expect("an object of one text is JSON"))
    }

    /// The arguments of a call.
    pub(super) fn of_arguments(text: &str) -> Self {
        Self::of(text, UNREADABLE)
    }

    /// As text.
    pub(super) fn get(&self) -> &str {
        self.0.get()
    }
}

impl Serialize for Object {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_stays_as_it_was_written() {
        let text = r#" {"b":1.0, "a":12345678901234567890123, "a":2} "#;
        assert_eq!(Object::of_arguments(text).get(), text.trim());
    }

    #[test]
    fn anything_else_becomes_one() {
        for (text, sent) in [
            ("", "{}"),
            (" \n", "{}"),
            ("[1]", r#"{"unreadable_arguments":"[1]"}"#),
            (r#"{"a":"#, r#"{"unreadable_arguments":"{\"a\":"}"#),
            ("{} {}", r#"{"unreadable_arguments":"{} {}"}"#),
            ("null", r#"{"unreadable_arguments":"null"}"#),
        ] {
            assert_eq!(Object::of_arguments(text).get(), sent, "{text}");
        }
    }
}
