//! The arguments of a tool: strict about types and required parameters, indifferent to unknown
//! ones, with `null` as absence.
//!
//! The tools interpret the values. A value without escapes is borrowed from the input, so a large
//! `content` is not copied.

use std::borrow::Cow;
use std::fmt;

use ikigai_protocol::ToolCode;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::answer::ToolFailure;

/// A parameter's long name and its short alias.
type ParameterName = (&'static str, Option<&'static str>);

/// The parameters of the six tools. Others are skipped.
const NAMES: &[ParameterName] = &[
    ("command", None),
    ("content", None),
    ("file_path", Some("path")),
    ("glob", None),
    ("limit", None),
    ("new_string", Some("new")),
    ("offset", None),
    ("old_string", Some("old")),
    ("path", None),
    ("pattern", None),
    ("replace_all", None),
];

/// The arguments of one call.
#[derive(Debug)]
pub(crate) struct Args<'a> {
    members: Vec<(&'static str, Scalar<'a>)>,
}

/// The value of a parameter, as far as the tools distinguish values.
#[derive(Debug)]
enum Scalar<'a> {
    Null,
    Bool(bool),
    Integer(i64),
    Fraction,
    String(Cow<'a, str>),
    Array,
    Object,
}

impl Scalar<'_> {
    fn described(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Integer(_) => "a number",
            Self::Fraction => "a number with a fraction",
            Self::String(_) => "a string",
            Self::Array => "an array",
            Self::Object => "an object",
        }
    }
}

impl<'a> Args<'a> {
    /// Parses the one JSON object of `input`.
    pub(crate) fn parse(input: &'a [u8]) -> Result<Self, ToolFailure> {
        if input.iter().all(u8::is_ascii_whitespace) {
            return Err(invalid("expected one JSON object on standard input, found nothing"));
        }
        let mut reader = serde_json::Deserializer::from_slice(input);
        let root = reader.deserialize_any(RootVisitor).and_then(|root| reader.end().map(|()| root));
        match root {
            Ok(JsonRoot::Object(args)) => Ok(args),
            Ok(JsonRoot::Other(found)) => {
                Err(invalid(&format!("expected a JSON object, found {found}")))
            }
            Err(error) => Err(invalid(&format!("expected one JSON object: {error}"))),
        }
    }

    /// Returns a required string.
    pub(crate) fn string(&self, name: &'static str) -> Result<&str, ToolFailure> {
        self.optional_string(name)?
            .ok_or_else(|| invalid(&format!("`{name}` is missing; it must be a string")))
    }

    /// Returns an optional string.
    pub(crate) fn optional_string(&self, name: &'static str) -> Result<Option<&str>, ToolFailure> {
        match self.get(name) {
            None => Ok(None),
            Some(Scalar::String(text)) => Ok(Some(text)),
            Some(other) => Err(wrong_type(name, "a string", other)),
        }
    }

    /// Returns an optional integer, clamped to 64 bits.
    pub(crate) fn integer(&self, name: &'static str) -> Result<Option<i64>, ToolFailure> {
        match self.get(name) {
            None => Ok(None),
            Some(Scalar::Integer(number)) => Ok(Some(*number)),
            Some(other) => Err(wrong_type(name, "an integer", other)),
        }
    }

    /// Returns an optional boolean.
    pub(crate) fn boolean(&self, name: &'static str) -> Result<Option<bool>, ToolFailure> {
        match self.get(name) {
            None => Ok(None),
            Some(Scalar::Bool(value)) => Ok(Some(*value)),
            Some(other) => Err(wrong_type(name, "true or false", other)),
        }
    }

    /// Returns the value of a parameter. The long name wins over its alias, and the last of several
    /// values over the earlier ones.
    fn get(&self, name: &str) -> Option<&Scalar<'a>> {
        let alias = NAMES.iter().find(|(long, _)| *long == name).and_then(|(_, alias)| *alias);
        let find = |wanted: &str| {
            let found = self.members.iter().rev().find(|(key, _)| *key == wanted);
            found.map(|(_, value)| value).filter(|value| !matches!(value, Scalar::Null))
        };
        find(name).or_else(|| alias.and_then(find))
    }
}

fn wrong_type(name: &str, expected: &str, found: &Scalar<'_>) -> ToolFailure {
    invalid(&format!("`{name}` must be {expected}, found {}", found.described()))
}

fn invalid(detail: &str) -> ToolFailure {
    ToolFailure::new(ToolCode::InvalidParams, format!("Invalid parameters: {detail}"))
}

/// Returns the name as a constant, if any tool has such a parameter.
fn known(key: &str) -> Option<&'static str> {
    let names = NAMES.iter().flat_map(|(name, alias)| [Some(*name), *alias]).flatten();
    names.into_iter().find(|name| *name == key)
}

enum JsonRoot<'a> {
    Object(Args<'a>),
    Other(&'static str),
}

struct RootVisitor;

impl<'de> Visitor<'de> for RootVisitor {
    type Value = JsonRoot<'de>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(key) = map.next_key::<MemberName<'de>>()? {
            match known(&key.0) {
                Some(name) => members.push((name, map.next_value()?)),
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(JsonRoot::Object(Args { members }))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(JsonRoot::Other("an array"))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(JsonRoot::Other("null"))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(JsonRoot::Other("a boolean"))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(JsonRoot::Other("a number"))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(JsonRoot::Other("a number"))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(JsonRoot::Other("a number"))
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(JsonRoot::Other("a string"))
    }
}

impl<'de> Deserialize<'de> for Scalar<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ScalarVisitor)
    }
}

struct ScalarVisitor;

impl<'de> Visitor<'de> for ScalarVisitor {
    type Value = Scalar<'de>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Scalar::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Scalar::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Scalar::Integer(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(Scalar::Integer(i64::try_from(value).unwrap_or(i64::MAX)))
    }

    /// Accepts `3.0`, which JSON Schema counts as an integer; the cast saturates.
    fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
        Ok(if value.fract() == 0.0 { Scalar::Integer(value as i64) } else { Scalar::Fraction })
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Scalar::String(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Scalar::String(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Scalar::Array)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Scalar::Object)
    }
}

/// The name of a member, borrowed if it has no escape.
struct MemberName<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for MemberName<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Scalar::deserialize(deserializer)? {
            Scalar::String(text) => Ok(Self(text)),
            other => Err(serde::de::Error::custom(format_args!("{} as a key", other.described()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_of(input: &[u8]) -> String {
        let outcome = Args::parse(input).and_then(|args| {
            args.string("file_path")?;
            args.integer("offset")?;
            args.boolean("replace_all").map(drop)
        });
        String::from_utf8(outcome.expect_err("refused").to_json()).expect("UTF-8")
    }

    #[test]
    fn values_aliases_and_nulls() {
        let text = br#" {"path":"a","old":"x","file_path":null,"offset":3.0,"limit":1e30,"zzz":[{"a":1}],"new_string":"\u00e9"} "#;
        let args = Args::parse(text).expect("parses");
        assert_eq!(args.string("file_path"), Ok("a"));
        assert_eq!(args.string("old_string"), Ok("x"));
        assert_eq!(args.string("new_string"), Ok("é"));
        assert_eq!(args.integer("offset"), Ok(Some(3)));
        assert_eq!(args.integer("limit"), Ok(Some(i64::MAX)));
        assert_eq!(args.boolean("replace_all"), Ok(None));
        assert!(args.string("pattern").is_err());
        let both = Args::parse(br#"{"file_path":"long","path":"short"}"#).expect("parses");
        assert_eq!(both.string("file_path"), Ok("long"));
        assert_eq!(both.optional_string("path"), Ok(Some("short")));
    }

    #[test]
    fn errors_name_the_parameter_and_what_was_expected() {
        assert!(error_of(b"{}").contains("`file_path` is missing; it must be a string"));
        assert!(
            error_of(br#"{"file_path":1}"#)
                .contains("`file_path` must be a string, found a number")
        );
        assert!(
            error_of(br#"{"file_path":"a","offset":"3"}"#)
                .contains("`offset` must be an integer, found a string")
        );
        assert!(error_of(br#"{"file_path":"a","offset":1.5}"#).contains("with a fraction"));
        assert!(
            error_of(br#"{"file_path":"a","replace_all":"true"}"#)
                .contains("must be true or false")
        );
    }

    #[test]
    fn hostile_input_is_an_error() {
        let deep = format!("{{\"zzz\":{}", "[".repeat(100_000));
        let inputs: [&[u8]; 11] = [
            b"",
            b" \n",
            b"[]",
            b"null",
            b"\"x\"",
            b"{} x",
            b"{",
            b"{\"file_path\":\"\\ud800\"}",
            b"{\"file_path\":\"\xff\"}",
            b"\xff",
            deep.as_bytes(),
        ];
        for input in inputs {
            assert!(
                error_of(input).contains("INVALID_PARAMS"),
                "{:?}",
                String::from_utf8_lossy(input)
            );
        }
    }
}
