//! The check of a schema against JSON Schema 2020-12, as far as providers check it.
//!
//! One malformed schema makes a provider refuse a request with all its tools, so schemas are
//! checked here first. Forms of older drafts that 2020-12 refuses are rewritten. The check does not
//! decide whether a schema makes sense.

use ikigai_protocol::ACCESS_MARK;
use serde_json::{Map, Value};

use super::reference::step;
use crate::loss::{Inexpressible, Loss, LossEffect, LossReason};

/// A schema that satisfies the metaschema of 2020-12.
pub(crate) struct Modern {
    pub(crate) schema: Value,
    pub(crate) losses: Vec<Loss>,
}

/// Checks `parameters` and rewrites the forms of older drafts.
pub(crate) fn modern(parameters: &Value) -> Result<Modern, Inexpressible> {
    let mut reader = DialectReader { root: parameters, losses: Vec::new() };
    let mut schema = reader.schema(parameters, "")?;
    // `$schema` names a dialect in which the rewritten forms have no meaning.
    if !reader.losses.is_empty()
        && let Value::Object(members) = &mut schema
    {
        members.shift_remove("$schema");
    }
    Ok(Modern { schema, losses: reader.losses })
}

/// Keywords whose value is a schema.
const ONE_SCHEMA: &[&str] = &[
    "items",
    "additionalItems",
    "additionalProperties",
    "contains",
    "not",
    "if",
    "then",
    "else",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
    "contentSchema",
];

/// Keywords whose value is an object of schemas. Some values in `dependencies` are lists.
const NAMED_SCHEMAS: &[&str] =
    &["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];

/// Keywords whose value is a list of schemas.
const LISTED_SCHEMAS: &[&str] = &["anyOf", "oneOf", "allOf", "prefixItems"];

/// Adds the `items` that an array of `schema` omits, which does not change its meaning.
///
/// OpenAI refuses an array without `items`, even with `strict: false` ("array schema missing
/// items").
pub(crate) fn fill_items(schema: &mut Value) {
    let Value::Object(members) = schema else { return };
    let is_array = match members.get("type") {
        Some(Value::Array(types)) => types.iter().any(|name| name == "array"),
        Some(name) => name == "array",
        None => false,
    };
    for (keyword, value) in members.iter_mut() {
        let keyword = keyword.as_str();
        match value {
            Value::Array(schemas) if LISTED_SCHEMAS.contains(&keyword) => {
                schemas.iter_mut().for_each(fill_items);
            }
            Value::Object(schemas)
                if NAMED_SCHEMAS.contains(&keyword) || keyword == "dependencies" =>
            {
                schemas.values_mut().for_each(fill_items);
            }
            one if ONE_SCHEMA.contains(&keyword) => fill_items(one),
            _ => {}
        }
    }
    if is_array && !members.contains_key("items") {
        members.insert("items".into(), Value::Object(Map::new()));
    }
}

const TYPES: &[&str] = &["array", "boolean", "integer", "null", "number", "object", "string"];

struct DialectReader<'a> {
    root: &'a Value,
    losses: Vec<Loss>,
}

impl DialectReader<'_> {
    fn schema(&mut self, schema: &Value, at: &str) -> Result<Value, Inexpressible> {
        let members = match schema {
            Value::Bool(_) => return Ok(schema.clone()),
            Value::Object(members) => members,
            _ => return Err(malformed(at, "an object or a boolean")),
        };
        let mut read = Map::new();
        // Leaving out a keyword for the host loses nothing, and servers refuse keywords that they
        // do not know.
        for (keyword, value) in members.iter().filter(|(keyword, _)| *keyword != ACCESS_MARK) {
            let value = self.keyword(keyword, value, &step(at, keyword))?;
            read.insert(keyword.clone(), value);
        }
        self.rewrite_tuple(&mut read, at);
        self.rewrite_bounds(&mut read, at);
        Ok(Value::Object(read))
    }

    fn keyword(&mut self, keyword: &str, value: &Value, at: &str) -> Result<Value, Inexpressible> {
        match keyword {
            "items" if value.is_array() => self.schemas(value, at),
            _ if ONE_SCHEMA.contains(&keyword) => self.schema(value, at),
            "properties" => Ok(with_objects(self.named_schemas(value, at)?)),
            _ if NAMED_SCHEMAS.contains(&keyword) => self.named_schemas(value, at),
            _ if LISTED_SCHEMAS.contains(&keyword) => self.schemas(value, at),
            "dependencies" => self.dependencies(value, at),
            "$ref" => self.reference(value, at),
            _ => check_plain(keyword, value, at).map(|()| value.clone()),
        }
    }

    fn schemas(&mut self, value: &Value, at: &str) -> Result<Value, Inexpressible> {
        let Some(schemas) = value.as_array().filter(|schemas| !schemas.is_empty()) else {
            return Err(malformed(at, "a list of schemas that is not empty"));
        };
        let read = schemas.iter().enumerate();
        read.map(|(index, schema)| self.schema(schema, &format!("{at}/{index}"))).collect()
    }

    fn named_schemas(&mut self, value: &Value, at: &str) -> Result<Value, Inexpressible> {
        let Value::Object(schemas) = value else {
            return Err(malformed(at, "an object of schemas"));
        };
        let mut read = Map::new();
        for (name, schema) in schemas {
            read.insert(name.clone(), self.schema(schema, &step(at, name))?);
        }
        Ok(Value::Object(read))
    }

    fn dependencies(&mut self, value: &Value, at: &str) -> Result<Value, Inexpressible> {
        let Value::Object(all) = value else {
            return Err(malformed(at, "an object of schemas or of lists of names"));
        };
        let mut read = Map::new();
        for (name, dependency) in all {
            let at = step(at, name);
            let dependency = if dependency.is_array() {
                names(dependency, &at)?;
                dependency.clone()
            } else {
                self.schema(dependency, &at)?
            };
            read.insert(name.clone(), dependency);
        }
        Ok(Value::Object(read))
    }

    /// Checks that a reference has a target inside the schema, since providers fetch nothing.
    fn reference(&self, value: &Value, at: &str) -> Result<Value, Inexpressible> {
        let leads_somewhere =
            value.as_str().and_then(|text| text.strip_prefix('#')).is_some_and(|pointer| {
                !pointer.starts_with('/') || self.root.pointer(pointer).is_some()
            });
        if leads_somewhere {
            Ok(value.clone())
        } else {
            Err(malformed(at, "a reference to a place in the same schema"))
        }
    }

    /// Rewrites `items: [..]` with `additionalItems` as `prefixItems` with `items`.
    fn rewrite_tuple(&mut self, members: &mut Map<String, Value>, at: &str) {
        if !members.get("items").is_some_and(Value::is_array) {
            return;
        }
        if let Some(prefix) = members.shift_remove("items") {
            members.insert("prefixItems".into(), prefix);
        }
        if let Some(rest) = members.shift_remove("additionalItems") {
            members.insert("items".into(), rest);
        }
        self.rewritten(at, "items");
    }

    /// Rewrites draft 4's `minimum` with `exclusiveMinimum: true` as one number.
    fn rewrite_bounds(&mut self, members: &mut Map<String, Value>, at: &str) {
        for (bound, exclusive) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")]
        {
            let Some(Value::Bool(is_exclusive)) = members.get(exclusive) else { continue };
            let is_exclusive = *is_exclusive;
            members.shift_remove(exclusive);
            if is_exclusive && let Some(number) = members.shift_remove(bound) {
                members.insert(exclusive.into(), number);
            }
            self.rewritten(at, exclusive);
        }
    }

    fn rewritten(&mut self, at: &str, keyword: &str) {
        let at = step(at, keyword);
        self.losses.push(Loss { at, effect: LossEffect::Rewritten, reason: LossReason::Draft });
    }
}

/// Replaces `true` in properties with `{}`, which means the same: the templates of local models
/// expect members.
fn with_objects(mut properties: Value) -> Value {
    for property in properties.as_object_mut().into_iter().flat_map(Map::values_mut) {
        if *property == Value::Bool(true) {
            *property = Value::Object(Map::new());
        }
    }
    properties
}

/// Checks a keyword whose value is not a schema.
fn check_plain(keyword: &str, value: &Value, at: &str) -> Result<(), Inexpressible> {
    let (holds, expected) = match keyword {
        "type" => (is_type(value), "one of the seven types, or a list of different ones"),
        "enum" | "examples" => (value.is_array(), "a list"),
        "required" => return names(value, at),
        "dependentRequired" => {
            let Value::Object(all) = value else {
                return Err(malformed(at, "an object of lists of names"));
            };
            return all.iter().try_for_each(|(name, list)| names(list, &step(at, name)));
        }
        "title" | "description" | "format" | "pattern" | "contentEncoding" | "contentMediaType"
        | "$comment" | "$schema" | "$dynamicRef" => (value.is_string(), "a string"),
        "$id" => {
            let is_plain = value.as_str().is_some_and(|id| !id.trim_end_matches('#').contains('#'));
            (is_plain, "a URI without a fragment")
        }
        "$anchor" | "$dynamicAnchor" => (is_anchor(value), "a plain name"),
        "minimum" | "maximum" => (value.is_number(), "a number"),
        "exclusiveMinimum" | "exclusiveMaximum" => {
            (value.is_number() || value.is_boolean(), "a number")
        }
        "multipleOf" => (value.as_f64().is_some_and(|of| of > 0.0), "a number over zero"),
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties"
        | "minContains" | "maxContains" => (is_count(value), "a whole number, zero or more"),
        "uniqueItems" | "deprecated" | "readOnly" | "writeOnly" => {
            (value.is_boolean(), "a boolean")
        }
        "$vocabulary" => (value.is_object(), "an object"),
        _ => (true, ""),
    };
    if holds { Ok(()) } else { Err(malformed(at, expected)) }
}

fn is_type(value: &Value) -> bool {
    let known = |value: &Value| value.as_str().is_some_and(|name| TYPES.contains(&name));
    match value {
        Value::Array(types) => !types.is_empty() && types.iter().all(known) && are_unique(types),
        single => known(single),
    }
}

fn is_anchor(value: &Value) -> bool {
    value.as_str().is_some_and(|name| {
        name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
    })
}

/// Returns whether the value is a whole number, possibly written with a fraction of zero.
fn is_count(value: &Value) -> bool {
    value.as_f64().is_some_and(|count| count >= 0.0 && count.fract() == 0.0)
}

fn names(value: &Value, at: &str) -> Result<(), Inexpressible> {
    match value {
        Value::Array(names) if names.iter().all(Value::is_string) && are_unique(names) => Ok(()),
        _ => Err(malformed(at, "a list of different names")),
    }
}

fn are_unique(values: &[Value]) -> bool {
    values.iter().enumerate().all(|(index, value)| !values[..index].contains(value))
}

fn malformed(at: &str, expected: &'static str) -> Inexpressible {
    Inexpressible::Malformed { at: at.to_owned(), expected }
}
