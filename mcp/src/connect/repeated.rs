//! Arguments of a call that are repeated as HTTP headers, because the tool's schema asks for it by
//! `x-mcp-header` (SEP-2243). A proxy between client and server can then route by them.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserializer as _;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::annotation::{ANNOTATION, is_annotated};
use crate::wire::plain;

/// The prefix of each such header, so that it never replaces another HTTP header.
const PREFIX: &str = "mcp-param-";

/// The most headers per tool. The arguments are read once for each header.
const MOST: usize = 32;

/// The argument types that a header can hold.
const TYPES: [&str; 3] = ["string", "integer", "boolean"];

/// The arguments of a tool that are repeated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Repeated(Vec<(Vec<String>, HeaderName)>);

impl Repeated {
    /// Reads the schema of the arguments of a tool.
    ///
    /// # Errors
    ///
    /// Fails if an annotation is not valid. Then the tool may not be used.
    pub(super) fn from_schema(schema: &Map<String, Value>) -> Result<Self, String> {
        let mut repeated = Self::default();
        let mut names = HashSet::new();
        if schema.contains_key(ANNOTATION) {
            return Err(format!("`{ANNOTATION}` is not at an argument"));
        }
        repeated.read(schema, &mut Vec::new(), &mut names)?;
        Ok(repeated)
    }

    /// Reads a schema whose values are at `path` in the arguments.
    fn read(
        &mut self,
        schema: &Map<String, Value>,
        path: &mut Vec<String>,
        names: &mut HashSet<HeaderName>,
    ) -> Result<(), String> {
        for (member, value) in schema {
            if member == "properties" {
                for (name, schema) in value.as_object().into_iter().flatten() {
                    let Value::Object(schema) = schema else { continue };
                    path.push(name.clone());
                    if let Some(annotation) = schema.get(ANNOTATION) {
                        self.add(annotation, schema, path, names)?;
                    }
                    self.read(schema, path, names)?;
                    path.pop();
                }
            } else if member != ANNOTATION && is_annotated(member, value) {
                return Err(format!(
                    "`{ANNOTATION}` is at a value that may be there several times"
                ));
            }
        }
        Ok(())
    }

    fn add(
        &mut self,
        annotation: &Value,
        schema: &Map<String, Value>,
        path: &[String],
        names: &mut HashSet<HeaderName>,
    ) -> Result<(), String> {
        let invalid = || format!("`{ANNOTATION}` is not valid: {}", plain(&annotation.to_string()));
        let name = annotation.as_str().filter(|name| !name.is_empty()).ok_or_else(invalid)?;
        let name = HeaderName::try_from(format!("{PREFIX}{name}")).map_err(|_| invalid())?;
        let kind = schema.get("type").and_then(Value::as_str);
        if !kind.is_some_and(|kind| TYPES.contains(&kind)) || !names.insert(name.clone()) {
            return Err(invalid());
        }
        if self.0.len() == MOST {
            return Err(format!("more than {MOST} arguments have `{ANNOTATION}`"));
        }
        self.0.push((path.to_vec(), name));
        Ok(())
    }

    /// Returns whether no argument is repeated.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the headers of a call. A missing or null argument gets no header.
    pub(super) fn headers(&self, arguments: &RawValue) -> HeaderMap {
        let header = |(path, name): &(Vec<String>, HeaderName)| {
            let found = path.iter().try_fold(arguments, |value, name| member(value, name))?;
            Some((name.clone(), value(found)?))
        };
        self.0.iter().filter_map(header).collect()
    }
}

/// Returns a member of an object, without reading the others into a tree.
fn member<'a>(object: &'a RawValue, name: &str) -> Option<&'a RawValue> {
    struct MemberSeed<'b>(&'b str);

    impl<'de> Visitor<'de> for MemberSeed<'_> {
        type Value = Option<&'de RawValue>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut found = None;
            while let Some(name) = map.next_key::<Cow<'de, str>>()? {
                let value = map.next_value::<&RawValue>()?;
                if name == self.0 {
                    found = Some(value);
                }
            }
            Ok(found)
        }
    }

    serde_json::Deserializer::from_str(object.get()).deserialize_map(MemberSeed(name)).ok()?
}

/// Returns an argument as a header value, or `None` if a header cannot hold it.
fn value(argument: &RawValue) -> Option<HeaderValue> {
    let text = argument.get();
    let text = match text.as_bytes().first()? {
        b'"' => Cow::Owned(serde_json::from_str::<String>(text).ok()?),
        b'{' | b'[' | b'n' => return None,
        // A number as the caller wrote it, or a boolean.
        _ => Cow::Borrowed(text),
    };
    let is_plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
        && text.trim_matches(' ') == text
        && !(text.starts_with("=?base64?") && text.ends_with("?="));
    if is_plain {
        return HeaderValue::try_from(&*text).ok();
    }
    HeaderValue::try_from(format!("=?base64?{}?=", STANDARD.encode(&*text))).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(properties: Value) -> Result<Repeated, String> {
        let schema = json!({ "type": "object", "properties": properties });
        Repeated::from_schema(schema.as_object().expect("an object"))
    }

    fn headers(properties: Value, arguments: &str) -> Vec<(String, String)> {
        let arguments = RawValue::from_string(arguments.to_owned()).expect("JSON");
        let headers = read(properties).expect("valid").headers(&arguments);
        let text = |value: &HeaderValue| value.to_str().expect("a text").to_owned();
        let mut headers: Vec<_> =
            headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
        headers.sort();
        headers
    }

    #[test]
    fn an_argument_is_repeated_as_it_was_written_or_in_base64() {
        let text = |name: &str| json!({ "type": "string", "x-mcp-header": name });
        let properties = json!({ "a": text("A") });
        for (argument, expected) in [
            (r#""us-west1""#, Some("us-west1")),
            (r#""us west""#, Some("us west")),
            (r#""""#, Some("")),
            ("42", Some("42")),
            ("9007199254740993", Some("9007199254740993")),
            ("false", Some("false")),
            (r#"" a""#, Some("=?base64?IGE=?=")),
            (r#""a\r\nX: y""#, Some("=?base64?YQ0KWDogeQ==?=")),
            (r#""é""#, Some("=?base64?w6k=?=")),
            (r#""=?base64?YQ==?=""#, Some("=?base64?PT9iYXNlNjQ/WVE9PT89?=")),
            ("null", None),
            ("{}", None),
            ("[1]", None),
        ] {
            let found = headers(properties.clone(), &format!(r#"{{"b":1,"a":{argument}}}"#));
            let expected: Vec<_> =
                expected.map(|it| ("mcp-param-a".to_owned(), it.to_owned())).into_iter().collect();
            assert_eq!(found, expected, "{argument}");
        }
        assert_eq!(headers(properties, "{}"), []);
        let nested = json!({ "a": { "type": "object", "properties": { "b": text("Method") } } });
        let expected = ("mcp-param-method".to_owned(), "x".to_owned());
        assert_eq!(headers(nested, r#"{"a":{"c":1,"b":"x"}}"#), [expected]);
    }

    #[test]
    fn an_annotation_that_is_not_valid_refuses_its_tool() {
        let with = |header: Value| json!({ "a": { "type": "string", "x-mcp-header": header } });
        let of = |kind: &str| json!({ "a": { "type": kind, "x-mcp-header": "A" } });
        let annotated = || json!({ "type": "string", "x-mcp-header": "A" });
        for properties in [
            with(json!("")),
            with(json!(1)),
            with(json!("a b")),
            with(json!("a:b")),
            with(json!("é")),
            with(json!("a\tb")),
            of("object"),
            of("array"),
            of("null"),
            of("number"),
            json!({ "a": annotated(), "b": { "type": "integer", "x-mcp-header": "a" } }),
            json!({ "a": { "type": "array", "items": annotated() } }),
            json!({ "a": { "anyOf": [annotated()] } }),
            json!({ "a": { "type": "object", "additionalProperties": annotated() } }),
        ] {
            assert!(read(properties.clone()).is_err(), "{properties}");
        }
        let root = json!({ "type": "object", "x-mcp-header": "A" });
        assert!(Repeated::from_schema(root.as_object().expect("an object")).is_err());
        let definition = json!({ "type": "object", "$defs": { "a": annotated() } });
        assert!(Repeated::from_schema(definition.as_object().expect("an object")).is_err());
        let many: Map<String, Value> = (0..=MOST)
            .map(|n| (n.to_string(), json!({ "type": "string", "x-mcp-header": n.to_string() })))
            .collect();
        assert!(read(Value::Object(many)).is_err());
    }

    #[test]
    fn an_argument_or_a_value_with_the_name_of_the_annotation_is_none() {
        for properties in [
            json!({ "x-mcp-header": { "type": "string" } }),
            json!({ "a": { "type": "object", "default": { "x-mcp-header": "A" } } }),
            json!({ "a": { "anyOf": [{ "properties": { "x-mcp-header": {} } }] } }),
        ] {
            assert_eq!(read(properties.clone()), Ok(Repeated::default()), "{properties}");
        }
    }
}
