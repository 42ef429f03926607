//! The arguments of a call as a JSON object. Some providers require an object, although the model
//! may have written any text.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;

/// The member for a text that is not an object, so that the model can read what it wrote.
const UNREADABLE: &str = "unreadable_arguments";

/// A JSON object, unchanged as far as possible: numbers keep their digits, and members their order.
/// An escape of half a surrogate pair, which the grammar of JSON allows and every vendor refuses,
/// becomes U+FFFD.
#[derive(Debug)]
pub(super) struct RawObject(Box<RawValue>);

impl RawObject {
    /// Returns the text itself if it is an object, or otherwise an object with the text as its only
    /// member.
    pub(super) fn parse(text: &str, member: &str) -> Self {
        let trimmed = text.trim();
        if trimmed.is_empty() {
            return Self::parse("{}", member);
        }
        if trimmed.starts_with('{')
            && let Ok(object) = serde_json::from_str::<Box<RawValue>>(trimmed)
        {
            return match well_formed(object.get()) {
                Cow::Borrowed(_) => Self(object),
                Cow::Owned(text) => Self(RawValue::from_string(text).expect(AS_VALID)),
            };
        }
        let wrapped = serde_json::json!({ member: text });
        let raw = serde_json::value::to_raw_value(&wrapped);
        Self(raw.expect("an object of one text is JSON"))
    }

    pub(super) fn of_arguments(text: &str) -> Self {
        Self::parse(text, UNREADABLE)
    }

    pub(super) fn get(&self) -> &str {
        self.0.get()
    }
}

const AS_VALID: &str = "one escape in place of another leaves JSON valid";

/// Replaces each escape of an unpaired surrogate in valid JSON with `\\ufffd`.
///
/// RFC 8259 calls the meaning of such a string unpredictable (section 8.2). Anthropic refuses it
/// with 400 ("The request body is not valid JSON: no low surrogate in string",
/// <https://github.com/anthropics/claude-code/issues/2108>). Google's strings are UTF-8, which
/// cannot encode it.
fn well_formed(json: &str) -> Cow<'_, str> {
    // In valid JSON a backslash is always in a string and begins an escape.
    let unit = |at: usize| {
        let digits = json.get(at..at + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok()
    };
    let (mut text, mut copied, mut at) = (String::new(), 0, 0);
    while let Some(found) = memchr::memchr(b'\\', &json.as_bytes()[at..]) {
        at += found;
        let is_paired = || unit(at + 6).is_some_and(|next| (0xDC00..0xE000).contains(&next));
        match unit(at) {
            Some(0xD800..0xDC00) if is_paired() => at += 12,
            Some(0xD800..0xE000) => {
                text.push_str(&json[copied..at]);
                text.push_str("\\ufffd");
                at += 6;
                copied = at;
            }
            // Every escape has at least two characters, both ASCII.
            _ => at += 2,
        }
    }
    if copied == 0 {
        return json.into();
    }
    text.push_str(&json[copied..]);
    text.into()
}

impl Serialize for RawObject {
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
        assert_eq!(RawObject::of_arguments(text).get(), text.trim());
    }

    #[test]
    fn half_a_character_is_replaced_and_nothing_else() {
        let sent = |text: &str| RawObject::of_arguments(text).get().to_owned();
        for (text, expected) in [
            (r#"{"a":"\ud83d"}"#, r#"{"a":"\ufffd"}"#),
            (r#"{"a":"\uDE00 b"}"#, r#"{"a":"\ufffd b"}"#),
            (r#"{"a":"\ud83d\ud83d\ude00"}"#, r#"{"a":"\ufffd\ud83d\ude00"}"#),
            (r#"{"\ud83d\n":["\ud83d\\\ude00"]}"#, r#"{"\ufffd\n":["\ufffd\\\ufffd"]}"#),
        ] {
            assert_eq!(sent(text), expected);
            serde_json::from_str::<serde_json::Value>(expected).expect("text in every string");
        }
        for whole in [r#"{"a":"\ud83d\ude00 \\ud83d \u00e9"}"#, r#"{"C:\\users":"\\\\ud83d é"}"#] {
            assert_eq!(sent(whole), whole);
        }
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
            assert_eq!(RawObject::of_arguments(text).get(), sent, "{text}");
        }
    }
}
