//! Generators of schemas as tools may print them: those that strict mode can express, and all
//! others.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Generates parameters that strict mode can mostly express; the rest is ambiguous or too deep.
pub(crate) fn plain_parameters() -> impl Strategy<Value = Value> {
    (object(plain(), Just(None).boxed()), plain()).prop_map(|(mut parameters, definition)| {
        parameters["$defs"] = json!({ "D": definition, "L": recursive() });
        parameters
    })
}

/// Generates parameters with anything that JSON Schema has, some in the form of older drafts.
pub(crate) fn any_parameters() -> impl Strategy<Value = Value> {
    let at_root = prop_oneof![
        6 => Just(json!({})),
        1 => Just(json!({ "anyOf": [{ "required": ["a"] }, { "required": ["b"] }] })),
        1 => Just(json!({ "oneOf": [{ "$ref": "#/$defs/D" }], "not": { "required": ["zz"] } })),
        1 => Just(json!({ "allOf": [true], "properties": {} })),
        1 => Just(json!({ "allOf": [{ "type": "object" }], "additionalProperties": { "$ref": "#/allOf/0" } })),
        1 => Just(json!({ "patternProperties": { "^x": { "type": "array" } } })),
        1 => Just(json!({ "$schema": "http://json-schema.org/draft-07/schema#" })),
    ];
    let everything = anything();
    (object(everything.clone(), openness(everything.clone())), everything, at_root).prop_map(
        |(mut parameters, definition, extra)| {
            parameters["$defs"] = json!({ "D": definition, "L": recursive() });
            for (word, value) in extra.as_object().expect("object") {
                parameters[word] = value.clone();
            }
            parameters
        },
    )
}

fn recursive() -> Value {
    json!({ "type": "object", "properties": {
        "value": { "type": "string" },
        "next": { "$ref": "#/$defs/L" },
        "maybe": { "anyOf": [{ "$ref": "#/$defs/L" }, { "type": "null" }] } }, "required": ["value"] })
}

fn scalar() -> impl Strategy<Value = Value> + Clone {
    prop_oneof![
        Just(json!({ "type": "string" })),
        Just(json!({ "type": "string", "description": "text" })),
        Just(json!({ "type": "string", "format": "date-time", "default": "x" })),
        Just(json!({ "type": "integer", "minimum": 1, "maximum": 9 })),
        Just(json!({ "type": ["number", "null"] })),
        Just(json!({ "type": ["string", "integer"] })),
        Just(json!({ "type": "boolean", "title": "T" })),
        Just(json!({ "type": "string", "enum": ["a", "b"] })),
        Just(json!({ "enum": ["a", null] })),
        Just(json!({ "enum": [1, "x", true] })),
        Just(json!({ "const": "c" })),
        Just(json!({ "type": "integer", "const": 3 })),
        Just(json!({ "type": "null" })),
        Just(json!({ "$ref": "#/$defs/D" })),
        Just(json!({ "$ref": "#/$defs/L", "description": "a list" })),
    ]
}

fn plain() -> BoxedStrategy<Value> {
    let inner = scalar().boxed();
    inner
        .prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                inner.clone().prop_map(|items| json!({ "type": "array", "items": items })),
                object(inner.clone(), Just(None).boxed()),
                object(inner.clone(), Just(None).boxed()).prop_map(|mut nullable| {
                    nullable["type"] = json!(["object", "null"]);
                    nullable
                }),
                prop::collection::vec(alike(inner.clone()), 2..4)
                    .prop_map(|all| json!({ "anyOf": all })),
                prop::collection::vec(inner, 1..4)
                    .prop_map(|all| json!({ "anyOf": all, "description": "one of" })),
            ]
        })
        .boxed()
}

/// Generates alternatives of similar objects, some with a constant that distinguishes them.
fn alike(inner: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    let kind = prop::option::of(prop::sample::select(vec!["x", "y", "z"]));
    (inner, kind, any::<bool>())
        .prop_map(|(value, kind, is_required)| {
            let mut schema =
                json!({ "type": "object", "properties": { "v": value }, "required": [] });
            let mut required = Vec::new();
            if let Some(kind) = kind {
                schema["properties"]["kind"] = json!({ "const": kind });
                required.push("kind");
            }
            if is_required {
                required.push("v");
            }
            schema["required"] = json!(required);
            schema
        })
        .boxed()
}

/// Generates keywords that strict mode, a provider, or 2020-12 does not have.
fn odd() -> impl Strategy<Value = Value> + Clone {
    prop_oneof![
        Just(json!({ "type": "array" })),
        Just(
            json!({ "type": ["array", "null"], "items": [{ "type": "string" }], "additionalItems": false })
        ),
        Just(json!({ "type": "array", "prefixItems": [{ "type": "array" }] })),
        Just(json!({ "type": "string", "minLength": 1, "maxLength": 4 })),
        Just(json!({ "type": "string", "format": "uri" })),
        Just(json!({ "type": "string", "pattern": "^(?!x)a$" })),
        Just(json!({ "type": "string", "pattern": "^a(?:b|c)$", "examples": ["ab"] })),
        Just(json!({ "type": "string", "enum": ["", "a"] })),
        Just(json!({ "type": "string", "enum": [1] })),
        Just(json!({ "enum": [{ "a": 1 }, [2]] })),
        Just(json!({ "type": "object" })),
        Just(json!({ "type": "object", "properties": {} })),
        Just(json!({ "type": "object", "properties": {}, "additionalProperties": false })),
        Just(json!({ "type": "object", "properties": { "a": true }, "required": ["b"] })),
        Just(json!({ "type": "number", "exclusiveMinimum": 0, "multipleOf": 0.5 })),
        Just(json!({ "type": "array", "items": true, "uniqueItems": true, "minItems": 2 })),
        Just(json!({ "$ref": "#/properties/a" })),
        Just(json!({ "$ref": "#" })),
        Just(
            json!({ "$comment": "c", "type": "string", "deprecated": true, "x-own": { "items": [1] } })
        ),
        Just(
            json!({ "type": "string", "if": { "minLength": 2 }, "then": { "type": "array" }, "else": false })
        ),
        Just(
            json!({ "type": "object", "propertyNames": { "pattern": "^a" }, "dependencies": { "a": ["b"] } })
        ),
    ]
}

fn anything() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![2 => scalar(), 1 => odd()].boxed();
    leaf.prop_recursive(4, 32, 4, |inner| {
        let some = prop::collection::vec(inner.clone(), 1..4);
        prop_oneof![
            inner.clone().prop_map(|items| json!({ "type": "array", "items": items })),
            object(inner.clone(), openness(inner.clone())),
            (prop::sample::select(vec!["anyOf", "oneOf", "allOf"]), some)
                .prop_map(|(word, all)| json!({ word: all })),
            inner.prop_map(|not| json!({ "type": "string", "not": not })),
        ]
    })
    .boxed()
}

fn openness(inner: BoxedStrategy<Value>) -> BoxedStrategy<Option<Value>> {
    prop_oneof![
        4 => Just(None),
        2 => Just(Some(json!(false))),
        1 => Just(Some(json!(true))),
        1 => inner.prop_map(Some),
    ]
    .boxed()
}

fn object(
    inner: BoxedStrategy<Value>,
    openness: BoxedStrategy<Option<Value>>,
) -> BoxedStrategy<Value> {
    let name = prop_oneof![8 => "[a-d]", 1 => "[a-d][/~.]x", 1 => "ü| |[a-z]{66}"];
    let members = prop::collection::btree_map(name, (inner, any::<bool>()), 0..4);
    (members, openness)
        .prop_map(|(members, open)| {
            let required: Vec<&String> = members
                .iter()
                .filter(|(_, (_, required))| *required)
                .map(|(name, _)| name)
                .collect();
            let mut schema = Map::new();
            schema.insert("type".into(), json!("object"));
            schema.insert("required".into(), json!(required));
            let properties =
                members.iter().map(|(name, (schema, _))| (name.clone(), schema.clone()));
            schema.insert("properties".into(), Value::Object(properties.collect()));
            schema.extend(open.map(|open| ("additionalProperties".to_owned(), open)));
            Value::Object(schema)
        })
        .boxed()
}
