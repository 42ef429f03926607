//! Google's two forms of a schema: the subset of OpenAPI in `parameters`, and full JSON Schema in
//! `parametersJsonSchema`.
//!
//! The subset is documented as `Schema` in <https://ai.google.dev/api/caching#Schema> (2026). For
//! any other field the API refuses the request.

use serde_json::{Map, Value, json};

use super::reference::{allows_null, required, step};
use crate::loss::{Loss, LossEffect, LossReason};

/// Fields that have the same name and meaning as in JSON Schema, and whose values are not schemas.
const SAME: &[&str] = &[
    "title",
    "description",
    "default",
    "pattern",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "minLength",
    "maxLength",
    "minProperties",
    "maxProperties",
];

/// Keywords that change nothing about the values of an object without properties.
const SAYS_NOTHING: &[&str] = &["type", "$schema", "$comment", "title", "$defs", "definitions"];

/// Returns the members of the function declaration that describe the parameters.
pub(crate) fn parameters(schema: &Value) -> (Map<String, Value>, Vec<Loss>) {
    let mut members = Map::new();
    if takes_nothing(schema) {
        return (members, Vec::new());
    }
    let mut writer = GoogleWriter { obstacles: Vec::new(), losses: Vec::new() };
    let subset = writer.schema(schema, "");
    if writer.obstacles.is_empty() {
        members.insert("parameters".into(), subset);
        (members, writer.losses)
    } else {
        members.insert("parametersJsonSchema".into(), schema.clone());
        (members, writer.obstacles)
    }
}

/// Returns whether the tool has no parameters. The API refuses an object without properties, and
/// expects no schema in that case.
fn takes_nothing(schema: &Value) -> bool {
    schema.as_object().is_some_and(|members| {
        members.iter().all(|(keyword, value)| match keyword.as_str() {
            "properties" => value.as_object().is_some_and(Map::is_empty),
            "required" => value.as_array().is_some_and(Vec::is_empty),
            "additionalProperties" => value == &Value::Bool(false),
            other => SAYS_NOTHING.contains(&other),
        })
    })
}

struct GoogleWriter {
    obstacles: Vec<Loss>,
    losses: Vec<Loss>,
}

impl GoogleWriter {
    fn schema(&mut self, schema: &Value, at: &str) -> Value {
        let Value::Object(members) = schema else {
            self.obstacle(at, LossReason::Untyped);
            return schema.clone();
        };
        let mut written = Map::new();
        let of = self.single_type(members, at);
        let written_type = of.map(|name| ("type".to_owned(), name.into()));
        written.extend(written_type);
        for (keyword, value) in members {
            let here = step(at, keyword);
            match keyword.as_str() {
                "type" | "$schema" | "$comment" => {}
                "additionalProperties" if value == &Value::Bool(false) => {
                    self.loss(&here, LossReason::Keyword(keyword.clone()));
                }
                "examples" | "deprecated" | "readOnly" | "writeOnly" => {
                    self.loss(&here, LossReason::Keyword(keyword.clone()));
                }
                "properties" if of == Some("object") => {
                    let properties = self.properties(value, &here);
                    written.insert(keyword.clone(), properties);
                }
                "required" if of == Some("object") => self.required(members, &here, &mut written),
                "items" if of == Some("array") => {
                    let items = self.schema(value, &here);
                    written.insert(keyword.clone(), items);
                }
                "anyOf" if of.is_none() => {
                    let alternatives = self.alternatives(value, &here);
                    written.insert(keyword.clone(), alternatives);
                }
                "enum" if of == Some("string") => self.enumeration(value, &here, &mut written),
                "format" => self.format(value, of, &here, &mut written),
                other if SAME.contains(&other) => {
                    written.insert(keyword.clone(), value.clone());
                }
                other => self.obstacle(&here, LossReason::Keyword(other.to_owned())),
            }
        }
        if of == Some("array") && !members.contains_key("items") {
            self.obstacle(at, LossReason::NoItems);
        }
        let named = members.get("properties").and_then(Value::as_object);
        if of == Some("object") && named.is_none_or(Map::is_empty) {
            self.obstacle(at, LossReason::FreeForm);
        }
        // The schema contains no references here, so it is its own root.
        if allows_null(schema, schema) {
            written.insert("nullable".into(), Value::Bool(true));
        }
        Value::Object(written)
    }

    /// Returns the single type of a schema, which may also be nullable.
    fn single_type<'a>(&mut self, members: &'a Map<String, Value>, at: &str) -> Option<&'a str> {
        let types: Vec<&str> = match members.get("type") {
            Some(Value::Array(types)) => types.iter().filter_map(Value::as_str).collect(),
            Some(single) => single.as_str().into_iter().collect(),
            None => {
                if !members.contains_key("anyOf") {
                    self.obstacle(at, LossReason::Untyped);
                }
                return None;
            }
        };
        let mut others = types.iter().filter(|name| **name != "null");
        match (others.next(), others.next()) {
            (Some(single), None) => Some(single),
            _ => {
                self.obstacle(&step(at, "type"), LossReason::Type(json!(types).to_string()));
                None
            }
        }
    }

    fn properties(&mut self, value: &Value, at: &str) -> Value {
        let mut written = Map::new();
        for (name, property) in value.as_object().into_iter().flatten() {
            let place = step(at, name);
            if !is_parameter_name(name) {
                self.obstacle(&place, LossReason::PropertyName(name.clone()));
            }
            written.insert(name.clone(), self.schema(property, &place));
        }
        Value::Object(written)
    }

    /// Writes `required`. The API refuses names that are not properties, and an empty list has no
    /// meaning.
    fn required(
        &mut self,
        members: &Map<String, Value>,
        at: &str,
        written: &mut Map<String, Value>,
    ) {
        let declared = members.get("properties").and_then(Value::as_object);
        for name in required(members) {
            if declared.is_none_or(|properties| !properties.contains_key(name)) {
                self.obstacle(at, LossReason::Undeclared(name.to_owned()));
            }
        }
        let names: Vec<&str> = required(members).collect();
        if !names.is_empty() {
            written.insert("required".into(), json!(names));
        }
    }

    /// Writes alternatives. Null becomes a mark on the whole, which the caller sets, and not an
    /// alternative.
    fn alternatives(&mut self, value: &Value, at: &str) -> Value {
        let all = value.as_array().into_iter().flatten().enumerate();
        let others: Vec<_> = all.filter(|(_, one)| *one != &json!({ "type": "null" })).collect();
        if others.is_empty() {
            self.obstacle(at, LossReason::Type("\"null\"".into()));
        }
        others.into_iter().map(|(index, one)| self.schema(one, &format!("{at}/{index}"))).collect()
    }

    /// Writes an enumeration, which may only contain strings that are not empty.
    fn enumeration(&mut self, value: &Value, at: &str, written: &mut Map<String, Value>) {
        let all = value.as_array().into_iter().flatten();
        let values: Vec<&Value> = all.filter(|value| !value.is_null()).collect();
        let is_named = |value: &&Value| value.as_str().is_some_and(|text| !text.is_empty());
        if values.is_empty() || !values.iter().all(is_named) {
            self.obstacle(at, LossReason::Enumerated);
        }
        written.insert("enum".into(), json!(values));
    }

    fn format(
        &mut self,
        value: &Value,
        of: Option<&str>,
        at: &str,
        written: &mut Map<String, Value>,
    ) {
        let format = value.as_str().unwrap_or_default();
        let is_known = match of {
            Some("string") => matches!(format, "enum" | "date-time"),
            Some("number") => matches!(format, "float" | "double"),
            Some("integer") => matches!(format, "int32" | "int64"),
            _ => false,
        };
        if is_known {
            written.insert("format".into(), value.clone());
        } else {
            self.obstacle(at, LossReason::Format(format.to_owned()));
        }
    }

    fn obstacle(&mut self, at: &str, reason: LossReason) {
        self.obstacles.push(Loss { at: at.to_owned(), effect: LossEffect::AsJsonSchema, reason });
    }

    fn loss(&mut self, at: &str, reason: LossReason) {
        self.losses.push(Loss { at: at.to_owned(), effect: LossEffect::Removed, reason });
    }
}

/// Returns whether the reference allows this parameter name: `^[a-zA-Z_][a-zA-Z0-9_]{0,63}$`.
fn is_parameter_name(name: &str) -> bool {
    name.len() <= 64
        && name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
