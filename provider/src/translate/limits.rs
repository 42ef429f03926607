//! The documented limits on a schema in OpenAI's strict mode, and how a schema is measured.
//!
//! Every number is from the section on supported schemas of
//! <https://platform.openai.com/docs/guides/structured-outputs/supported-schemas> (2026).

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::reference::{leaves, listed};
use crate::loss::{Loss, LossEffect, LossReason};

/// The maximum number of properties of all objects of a schema together.
pub const MAX_PROPERTIES: usize = 5_000;

/// The maximum depth of objects and arrays, including the outermost. The page mentions "levels of
/// nesting" and does not specify whether arrays count; here they do.
pub const MAX_LEVELS: usize = 10;

/// The maximum number of values of all enumerations of a schema together.
pub const MAX_ENUM_VALUES: usize = 1_000;

/// The maximum number of characters of all names of properties and definitions and of all listed
/// values together.
pub const MAX_NAME_CHARACTERS: usize = 120_000;

/// The number of values above which an enumeration has a limit on its characters.
pub const LARGE_ENUM_VALUES: usize = 250;

/// The maximum number of characters of an enumeration of more than [`LARGE_ENUM_VALUES`] strings.
pub const MAX_LARGE_ENUM_CHARACTERS: usize = 15_000;

#[derive(Default)]
struct SchemaSize {
    properties: usize,
    enum_values: usize,
    names: usize,
    large_enum: usize,
}

/// Returns the limits that `schema`, in its strict form, exceeds.
pub(crate) fn exceeded(schema: &Value) -> Vec<Loss> {
    let mut size = SchemaSize::default();
    measure(schema, &mut size);
    let found = [
        ("properties", size.properties, MAX_PROPERTIES),
        ("levels of nesting", levels(schema), MAX_LEVELS),
        ("values of enumerations", size.enum_values, MAX_ENUM_VALUES),
        ("characters of names and values", size.names, MAX_NAME_CHARACTERS),
        ("characters of one enumeration", size.large_enum, MAX_LARGE_ENUM_CHARACTERS),
    ];
    let over = found.into_iter().filter(|(_, found, limit)| found > limit);
    over.map(|(what, found, limit)| Loss {
        at: String::new(),
        effect: LossEffect::NotStrict,
        reason: LossReason::Limit { what, found, limit },
    })
    .collect()
}

fn measure(schema: &Value, size: &mut SchemaSize) {
    let Value::Object(members) = schema else { return };
    if let Some(values) = listed(members) {
        let characters = values.iter().filter_map(|value| value.as_str()).map(count).sum();
        size.names += characters;
        if members.contains_key("enum") {
            size.enum_values += values.len();
            if values.len() > LARGE_ENUM_VALUES {
                size.large_enum = size.large_enum.max(characters);
            }
        }
    }
    size.properties += named(members, "properties").count();
    for (name, inner) in
        ["properties", "$defs", "definitions"].iter().flat_map(|key| named(members, key))
    {
        size.names += count(name);
        measure(inner, size);
    }
    for inner in members.get("anyOf").and_then(Value::as_array).into_iter().flatten() {
        measure(inner, size);
    }
    if let Some(items) = members.get("items") {
        measure(items, size);
    }
}

fn count(text: &str) -> usize {
    text.chars().count()
}

fn named<'a>(
    members: &'a Map<String, Value>,
    key: &str,
) -> impl Iterator<Item = (&'a String, &'a Value)> {
    members.get(key).and_then(Value::as_object).into_iter().flatten()
}

/// Returns the depth of the values of `schema`; a recursive definition counts once.
fn levels(schema: &Value) -> usize {
    SchemaDepth { root: schema, known: HashMap::new() }.measure(schema)
}

struct SchemaDepth<'a> {
    root: &'a Value,
    /// The depths of the schemas measured so far. A schema that is being measured has depth zero,
    /// so that recursion ends.
    known: HashMap<*const Map<String, Value>, usize>,
}

impl<'a> SchemaDepth<'a> {
    fn measure(&mut self, schema: &'a Value) -> usize {
        leaves(self.root, schema)
            .schemas
            .into_iter()
            .map(|leaf| self.of_leaf(leaf))
            .max()
            .unwrap_or(0)
    }

    fn of_leaf(&mut self, leaf: &'a Map<String, Value>) -> usize {
        let here = std::ptr::from_ref(leaf);
        if let Some(depth) = self.known.get(&here) {
            return *depth;
        }
        self.known.insert(here, 0);
        let inner = named(leaf, "properties").map(|(_, inner)| inner).chain(leaf.get("items"));
        let deepest = inner.map(|schema| self.measure(schema)).max();
        let is_nesting = leaf.contains_key("properties") || leaf.contains_key("items");
        let depth = usize::from(is_nesting) + deepest.unwrap_or(0);
        self.known.insert(here, depth);
        depth
    }
}
