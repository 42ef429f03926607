//! OpenAI's strict mode: a subset of JSON Schema in which every property is required.
//!
//! A schema is in the subset as a whole or not at all. All obstacles are collected, so that an
//! author sees every one at once. The subset is specified in
//! <https://platform.openai.com/docs/guides/structured-outputs/supported-schemas>, as of 2026.
//! Keywords that the page does not list count as refused.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::limits;
use super::reference::{
    accepts_type, allows_null, leaves, listed, listed_alone, required, resolve, step, type_of,
    widens,
};
use crate::loss::{Loss, LossEffect, LossReason};

/// The formats of strings that the page lists.
const FORMATS: &[&str] =
    &["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];

/// Keywords that describe and do not restrict, and that the page does not list. Without them the
/// same values are accepted.
const ANNOTATIONS: &[&str] = &["examples", "deprecated", "readOnly", "writeOnly"];

/// Returns the strict form of `parameters` with its losses, or every obstacle.
pub(crate) fn strict(parameters: &Value) -> Result<(Value, Vec<Loss>), Vec<Loss>> {
    // The strict form is never smaller, and it is not worth walking a schema this large.
    let oversized = limits::exceeded(parameters);
    if !oversized.is_empty() {
        return Err(oversized);
    }
    let mut writer = StrictWriter { root: parameters, obstacles: Vec::new(), losses: Vec::new() };
    let schema = writer.schema(parameters, "");
    if writer.obstacles.is_empty() {
        writer.obstacles = limits::exceeded(&schema);
    }
    if writer.obstacles.is_empty() { Ok((schema, writer.losses)) } else { Err(writer.obstacles) }
}

struct StrictWriter<'a> {
    root: &'a Value,
    obstacles: Vec<Loss>,
    losses: Vec<Loss>,
}

impl StrictWriter<'_> {
    fn schema(&mut self, schema: &Value, at: &str) -> Value {
        let Value::Object(members) = schema else {
            self.obstacle(at, LossReason::Untyped);
            return schema.clone();
        };
        if members.contains_key("$ref") {
            self.reference(members, at)
        } else if members.contains_key("anyOf") {
            self.alternatives(schema, members, at)
        } else {
            self.leaf(members, at)
        }
    }

    /// Writes a reference. The API refuses keywords next to `$ref`, including descriptions, so the
    /// reference is wrapped in a schema that has them.
    fn reference(&mut self, members: &Map<String, Value>, at: &str) -> Value {
        let mut around = Map::new();
        for (keyword, value) in members.iter().filter(|(keyword, _)| *keyword != "$ref") {
            if !self.annotation(keyword, value, at, &mut around) {
                self.obstacle(&step(at, keyword), LossReason::Beside(keyword.clone()));
            }
        }
        let target = members.get("$ref").and_then(Value::as_str).unwrap_or_default();
        if resolve(self.root, target).is_none() {
            self.obstacle(at, LossReason::Reference(target.to_owned()));
        }
        let bare = json!({ "$ref": target });
        if around.is_empty() {
            return bare;
        }
        around.insert("anyOf".into(), json!([bare]));
        Value::Object(around)
    }

    fn alternatives(&mut self, schema: &Value, members: &Map<String, Value>, at: &str) -> Value {
        if at.is_empty() {
            self.obstacle("/anyOf", LossReason::Keyword("anyOf".into()));
            return schema.clone();
        }
        let mut written = Map::new();
        for (keyword, value) in members {
            let here = step(at, keyword);
            if let ("anyOf", Value::Array(alternatives)) = (keyword.as_str(), value) {
                let each = alternatives.iter().enumerate();
                let each = each.map(|(index, one)| self.schema(one, &format!("{here}/{index}")));
                written.insert("anyOf".into(), each.collect());
            } else if !self.annotation(keyword, value, at, &mut written) {
                self.obstacle(&here, LossReason::Beside(keyword.clone()));
            }
        }
        let found = leaves(self.root, schema);
        if let Some(reference) = found.endless {
            self.obstacle(at, LossReason::Endless(reference.to_owned()));
        }
        if self.are_ambiguous(&found.schemas) {
            self.obstacle(at, LossReason::Ambiguous);
        }
        Value::Object(written)
    }

    fn leaf(&mut self, members: &Map<String, Value>, at: &str) -> Value {
        let mut written = Map::new();
        self.types(members, at, &mut written);
        for (keyword, value) in members {
            let here = step(at, keyword);
            match keyword.as_str() {
                "type" | "required" | "properties" | "additionalProperties" => {}
                "items" if accepts_type(members, "array") => {
                    let items = self.schema(value, &here);
                    written.insert("items".into(), items);
                }
                "enum" | "const" => {
                    written.insert(keyword.clone(), value.clone());
                }
                "$defs" | "definitions" if at.is_empty() => {
                    let definitions = self.definitions(value, &here);
                    written.insert(keyword.clone(), definitions);
                }
                _ if self.annotation(keyword, value, at, &mut written) => {}
                _ => self.constraint(keyword, value, &here, &mut written),
            }
        }
        if accepts_type(members, "array") && !members.contains_key("items") {
            self.obstacle(at, LossReason::NoItems);
        }
        self.object(members, at, &mut written);
        Value::Object(written)
    }

    /// Writes the `type`, which the API requires everywhere, and checks that listed values are of
    /// it.
    fn types(&mut self, members: &Map<String, Value>, at: &str, written: &mut Map<String, Value>) {
        let values = listed(members);
        if let Some(types) = members.get("type") {
            written.insert("type".into(), types.clone());
        } else if let Some(values) = &values {
            let mut types: Vec<&str> = Vec::new();
            for name in values.iter().map(|value| type_of(value)) {
                if !types.contains(&name) {
                    types.push(name);
                }
            }
            let types = if let [single] = types[..] { json!(single) } else { json!(types) };
            written.insert("type".into(), types);
        } else {
            self.obstacle(at, LossReason::Untyped);
        }
        if let Some(values) = values {
            let is_plain = |value: &&Value| {
                !value.is_array() && !value.is_object() && accepts_type(members, type_of(value))
            };
            if values.is_empty() || !values.iter().all(is_plain) {
                self.obstacle(at, LossReason::Enumerated);
            }
        }
    }

    fn object(&mut self, members: &Map<String, Value>, at: &str, written: &mut Map<String, Value>) {
        if !accepts_type(members, "object") || !members.contains_key("type") {
            for keyword in ["properties", "required", "additionalProperties"] {
                if members.contains_key(keyword) {
                    self.obstacle(&step(at, keyword), LossReason::Beside(keyword.into()));
                }
            }
            return;
        }
        let empty = Map::new();
        let properties = members.get("properties").and_then(Value::as_object).unwrap_or(&empty);
        let is_closed = match members.get("additionalProperties") {
            Some(Value::Bool(false)) => true,
            // A tool without parameters accepts none; any other object without names accepts any.
            None => !properties.is_empty() || at.is_empty(),
            Some(_) => false,
        };
        if !is_closed {
            self.obstacle(at, LossReason::FreeForm);
        }
        for name in required(members).filter(|name| !properties.contains_key(*name)) {
            self.obstacle(&step(at, "required"), LossReason::Undeclared(name.to_owned()));
        }
        let here = step(at, "properties");
        let mut each = Map::new();
        for (name, property) in properties {
            let place = step(&here, name);
            let mut form = self.schema(property, &place);
            if required(members).all(|listed| listed != name) {
                if allows_null(self.root, property) {
                    self.loss(&place, LossEffect::NullForAbsent, LossReason::AlreadyNullable);
                } else {
                    form = nullable(form);
                }
            }
            each.insert(name.clone(), form);
        }
        written.insert("required".into(), each.keys().cloned().collect());
        written.insert("properties".into(), Value::Object(each));
        written.insert("additionalProperties".into(), Value::Bool(false));
    }

    fn definitions(&mut self, value: &Value, at: &str) -> Value {
        let each = value.as_object().into_iter().flatten();
        let mut written = Map::new();
        for (name, definition) in each {
            let place = step(at, name);
            if let Some(reference) = leaves(self.root, definition).endless {
                self.obstacle(&place, LossReason::Endless(reference.to_owned()));
            }
            // A definition that accepts anything would matter only if a reference leads to it, but
            // a schema that merely contains one is refused too.
            written.insert(name.clone(), self.schema(definition, &place));
        }
        Value::Object(written)
    }

    fn constraint(
        &mut self,
        keyword: &str,
        value: &Value,
        at: &str,
        written: &mut Map<String, Value>,
    ) {
        let refusal = match keyword {
            "multipleOf" | "maximum" | "exclusiveMaximum" | "minimum" | "exclusiveMinimum"
            | "minItems" | "maxItems" => None,
            "format" => value
                .as_str()
                .filter(|format| !FORMATS.contains(format))
                .map(|format| LossReason::Format(format.to_owned())),
            "pattern" => {
                value.as_str().filter(|pattern| !is_regular(pattern)).map(|_| LossReason::Pattern)
            }
            other => Some(LossReason::Keyword(other.to_owned())),
        };
        match refusal {
            None => {
                written.insert(keyword.to_owned(), value.clone());
            }
            Some(reason) => self.obstacle(at, reason),
        }
    }

    /// Writes `keyword` if it only describes, and returns whether it does. A default goes into the
    /// description, so that the model knows it; the tool applies it.
    fn annotation(
        &mut self,
        keyword: &str,
        value: &Value,
        at: &str,
        written: &mut Map<String, Value>,
    ) -> bool {
        let here = || step(at, keyword);
        match keyword {
            "description" => {
                let text = value.as_str().unwrap_or_default();
                let default = written.get("description").and_then(Value::as_str);
                let joined = default.map_or(text.to_owned(), |default| join(text, default));
                written.insert("description".into(), joined.into());
            }
            "title" => {
                written.insert("title".into(), value.clone());
            }
            "default" => {
                let note = format!("Default: {value}");
                let text = written.get("description").and_then(Value::as_str);
                let joined = text.map_or(note.clone(), |text| join(text, &note));
                written.insert("description".into(), joined.into());
                self.loss(&here(), LossEffect::Described, LossReason::Keyword(keyword.to_owned()));
            }
            // Neither restricts values, and the schema has the provider's dialect anyway.
            "$schema" | "$comment" => {}
            _ if ANNOTATIONS.contains(&keyword) => {
                self.loss(&here(), LossEffect::Removed, LossReason::Keyword(keyword.to_owned()));
            }
            _ => return false,
        }
        true
    }

    /// Returns whether the nulls of two alternatives could be confused: both are arrays, or both
    /// are objects with the same names and nothing that distinguishes them.
    fn are_ambiguous(&self, found: &[&Map<String, Value>]) -> bool {
        let mut arrays = Vec::new();
        let mut objects: BTreeMap<BTreeSet<&str>, Vec<&Map<String, Value>>> = BTreeMap::new();
        for leaf in found.iter().copied() {
            if accepts_type(leaf, "array") {
                arrays.push(leaf);
            }
            if accepts_type(leaf, "object") {
                let names = leaf.get("properties").and_then(Value::as_object);
                let names = names.into_iter().flat_map(Map::keys).map(String::as_str).collect();
                objects.entry(names).or_default().push(leaf);
            }
        }
        let widens = |leaves: &[&Map<String, Value>]| {
            leaves.len() > 1 && leaves.iter().any(|leaf| widens(self.root, leaf))
        };
        widens(&arrays)
            || objects.values().any(|alike| {
                widens(alike)
                    && alike.iter().enumerate().any(|(index, one)| {
                        alike[index + 1..].iter().any(|other| !self.are_told_apart(one, other))
                    })
            })
    }

    /// Returns whether two objects with the same names have a required property whose values
    /// differ.
    fn are_told_apart(&self, one: &Map<String, Value>, other: &Map<String, Value>) -> bool {
        let values = |leaf: &'_ Map<String, Value>, name: &str| -> Option<Vec<Value>> {
            let property = leaf.get("properties")?.get(name)?;
            Some(listed_alone(self.root, property)?.into_iter().cloned().collect())
        };
        required(one).filter(|name| required(other).any(|known| known == *name)).any(|name| match (
            values(one, name),
            values(other, name),
        ) {
            (Some(ours), Some(theirs)) => ours.iter().all(|value| !theirs.contains(value)),
            _ => false,
        })
    }

    fn obstacle(&mut self, at: &str, reason: LossReason) {
        self.obstacles.push(Loss { at: at.to_owned(), effect: LossEffect::NotStrict, reason });
    }

    fn loss(&mut self, at: &str, effect: LossEffect, reason: LossReason) {
        self.losses.push(Loss { at: at.to_owned(), effect, reason });
    }
}

fn join(text: &str, note: &str) -> String {
    if text.is_empty() { note.to_owned() } else { format!("{text} ({note})") }
}

/// Adds null to the values of `schema`. A constant is kept, as an alternative.
fn nullable(schema: Value) -> Value {
    let Value::Object(mut members) = schema else { return schema };
    if let Some(Value::Array(alternatives)) = members.get_mut("anyOf") {
        alternatives.push(json!({ "type": "null" }));
        return Value::Object(members);
    }
    if members.contains_key("$ref") || members.contains_key("const") {
        let description = members.shift_remove("description");
        let mut around = Map::new();
        around.extend(description.map(|text| ("description".to_owned(), text)));
        around.insert("anyOf".into(), json!([members, { "type": "null" }]));
        return Value::Object(around);
    }
    match members.get_mut("type") {
        Some(Value::Array(types)) if types.iter().any(|name| name == "null") => {}
        Some(Value::Array(types)) => types.push("null".into()),
        Some(single) => *single = json!([single.take(), "null"]),
        None => {}
    }
    if let Some(Value::Array(values)) = members.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
    Value::Object(members)
}

/// Returns whether a pattern is a regular language, as constrained sampling requires.
fn is_regular(pattern: &str) -> bool {
    let mut rest = pattern.chars().peekable();
    while let Some(here) = rest.next() {
        match here {
            '\\' if rest.next().is_some_and(|escaped| matches!(escaped, '1'..='9' | 'k')) => {
                return false;
            }
            '(' if rest.peek() == Some(&'?') => {
                rest.next();
                if rest.next() != Some(':') {
                    return false;
                }
            }
            _ => {}
        }
    }
    true
}
