//! Arguments through strict mode and back: the tool receives what it would have received under its
//! own schema.

use ikigai_protocol::ToolSchema;
use ikigai_provider::{Provider, ToolBounds, strip_nulls, translate};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Map, Value, json};

use crate::{generator, tool};

/// Returns the arguments without the nulls of strict mode.
fn repaired(schema: &ToolSchema, sent: &Value) -> Value {
    let text = sent.to_string();
    let repaired = strip_nulls(schema, &text).unwrap_or(text);
    serde_json::from_str(&repaired).unwrap_or_else(|error| panic!("{error}: {repaired}"))
}

/// A generator of arguments that match a schema, and of the same arguments in strict mode.
struct Sampler<'a> {
    root: &'a Value,
    state: u64,
    /// Set for an object that is one of several alternatives and contains a null. If such an object
    /// also omits an argument, strict mode does not send it. It may be read as another alternative,
    /// in which the null stands for an omitted argument.
    is_ambiguous: bool,
}

impl Sampler<'_> {
    fn roll(&mut self, sides: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        usize::try_from(self.state % 1_000_003).expect("small") % sides
    }

    /// Returns whether the schema itself accepts null, according to a validator.
    fn is_nullable(&self, schema: &Value) -> bool {
        let alone = json!({ "$defs": self.root["$defs"], "allOf": [schema] });
        jsonschema::validator_for(&alone).expect("compiles").is_valid(&Value::Null)
    }

    /// Returns a value under the tool's own schema, and the same under the strict one.
    fn sample(&mut self, schema: &Value, depth: usize) -> Option<(Value, Value)> {
        if depth > 12 {
            return None;
        }
        if let Some(reference) = schema["$ref"].as_str() {
            let target = self.root.pointer(&reference[1..]).expect("resolves").clone();
            return self.sample(&target, depth + 1);
        }
        if let Some(alternatives) = schema["anyOf"].as_array() {
            let first = self.roll(alternatives.len());
            let order = alternatives[first..].iter().chain(&alternatives[..first]);
            let sampled = order.into_iter().find_map(|one| self.sample(one, depth + 1));
            let members = sampled.iter().filter_map(|(own, _)| own.as_object()).flatten();
            self.is_ambiguous |= members.into_iter().any(|(_, value)| value.is_null());
            return sampled;
        }
        if let Some(values) = schema["enum"].as_array() {
            let value = values[self.roll(values.len())].clone();
            return Some((value.clone(), value));
        }
        if let Some(value) = schema.get("const") {
            return Some((value.clone(), value.clone()));
        }
        let types = match &schema["type"] {
            Value::Array(types) => types.clone(),
            single => vec![single.clone()],
        };
        let scalar = match types[self.roll(types.len())].as_str().expect("a type") {
            "string" => json!("2020-01-01T00:00:00Z"),
            "integer" => json!(7),
            "number" => json!(1.5),
            "boolean" => json!(true),
            "null" => Value::Null,
            "array" => {
                let length = self.roll(3);
                let all: Vec<_> =
                    (0..length).filter_map(|_| self.sample(&schema["items"], depth + 1)).collect();
                let (own, strict): (Vec<_>, Vec<_>) = all.into_iter().unzip();
                return Some((own.into(), strict.into()));
            }
            _ => return self.object(schema, depth),
        };
        Some((scalar.clone(), scalar))
    }

    fn object(&mut self, schema: &Value, depth: usize) -> Option<(Value, Value)> {
        let (mut own, mut strict) = (Map::new(), Map::new());
        for (name, property) in schema["properties"].as_object().expect("properties") {
            let is_required =
                schema["required"].as_array().into_iter().flatten().any(|listed| listed == name);
            let sampled = if !is_required && self.roll(2) == 0 {
                None
            } else {
                self.sample(property, depth + 1)
            };
            match sampled {
                Some((value, sent)) => {
                    own.insert(name.clone(), value);
                    strict.insert(name.clone(), sent);
                }
                None if is_required => return None,
                None => {
                    // A null that the tool accepts anyway cannot be distinguished from an absent
                    // argument, and is kept; the translation reports that.
                    if self.is_nullable(property) {
                        own.insert(name.clone(), Value::Null);
                    }
                    strict.insert(name.clone(), Value::Null);
                }
            }
        }
        Some((own.into(), strict.into()))
    }
}

fn is_strict(schema: &ToolSchema) -> Option<Value> {
    let value = translate(Provider::OpenAi, ToolBounds::for_provider(Provider::OpenAi), schema)
        .expect("translates")
        .value;
    (value["strict"] == true).then(|| value["parameters"].clone())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn what_was_left_out_stays_left_out(parameters in generator::plain_parameters(), seed in 1_u64..) {
        let schema = tool("t", &parameters);
        let mut sampler = Sampler { root: &parameters, state: seed, is_ambiguous: false };
        let Some((own, sent)) = sampler.sample(&parameters, 0) else { return Ok(()) };
        let valid = |schema: &Value, value: &Value| {
            jsonschema::validator_for(schema).expect("compiles").is_valid(value)
        };
        prop_assert!(valid(&parameters, &own), "the sampler is wrong: {own}\n{parameters:#}");
        match is_strict(&schema) {
            Some(strict) => {
                prop_assert!(valid(&strict, &sent), "{sent} under\n{strict:#}");
                prop_assert_eq!(repaired(&schema, &sent), own.clone(), "{}\n{:#}", sent, parameters);
                if !sampler.is_ambiguous {
                    // Arguments without such nulls are not changed.
                    prop_assert_eq!(strip_nulls(&schema, &own.to_string()), None);
                }
            }
            None => prop_assert_eq!(strip_nulls(&schema, &sent.to_string()), None),
        }
    }
}

/// Checks that enough of the schemas are strict for the property above.
#[test]
fn enough_generated_schemas_are_strict() {
    let mut runner = TestRunner::deterministic();
    let generated = generator::plain_parameters();
    let mut strict = 0;
    for _ in 0..300 {
        let parameters = generated.new_tree(&mut runner).expect("generates").current();
        strict += usize::from(is_strict(&tool("t", &parameters)).is_some());
    }
    assert!(strict > 100, "{strict} of 300");
}

#[test]
fn nulls_are_removed_wherever_strict_mode_put_them_and_nowhere_else() {
    let node = json!({ "type": "object", "required": ["id"], "properties": {
        "id": { "type": "integer" }, "next": { "$ref": "#/$defs/node" } } });
    let schema = tool(
        "t",
        &json!({ "type": "object", "$defs": { "node": node }, "required": ["must"], "properties": {
        "must": { "type": ["string", "null"] },
        "own": { "type": ["string", "null"] },
        "plain": { "type": "string" },
        "kind": { "enum": ["a", "b"] },
        "list": { "type": "array", "items": { "$ref": "#/$defs/node" } },
        "either": { "anyOf": [
            { "type": "object", "required": ["t"], "properties": {
                "t": { "const": "x" }, "v": { "type": ["integer", "null"] } } },
            { "type": "object", "required": ["t"], "properties": {
                "t": { "const": "y" }, "v": { "type": "integer" } } }] } } }),
    );
    assert!(is_strict(&schema).is_some());
    let cases = [
        (
            json!({ "must": null, "own": null, "plain": null, "kind": null, "list": null, "either": null }),
            json!({ "must": null, "own": null }),
        ),
        (
            json!({ "must": "m", "list": [{ "id": 1, "next": { "id": 2, "next": null } }] }),
            json!({ "must": "m", "list": [{ "id": 1, "next": { "id": 2 } }] }),
        ),
        (
            json!({ "either": { "t": "x", "v": null } }),
            json!({ "either": { "t": "x", "v": null } }),
        ),
        (json!({ "either": { "t": "y", "v": null } }), json!({ "either": { "t": "y" } })),
        // Arguments that match no schema are refused by the tool.
        (
            json!({ "unknown": null, "plain": 1, "list": [null] }),
            json!({ "unknown": null, "plain": 1, "list": [null] }),
        ),
        (json!([null]), json!([null])),
    ];
    for (sent, expected) in cases {
        assert_eq!(repaired(&schema, &sent), expected, "{sent}");
    }
}

#[test]
fn nothing_is_removed_where_strict_mode_was_off() {
    let schema = tool(
        "t",
        &json!({ "type": "object", "additionalProperties": true, "properties": {
        "a": { "type": "string" } } }),
    );
    assert_eq!(strip_nulls(&schema, r#"{"a":null}"#), None);
}

/// Returns a tool with some optional properties, including a nested one.
fn nesting() -> ToolSchema {
    let schema = tool(
        "t",
        &json!({ "type": "object", "required": ["n"], "properties": {
            "n": { "type": "number" }, "a": { "type": "string" }, "b": { "type": "string" },
            "list": { "type": "array", "items": { "$ref": "#" } }, "next": { "$ref": "#" } } }),
    );
    assert!(is_strict(&schema).is_some());
    schema
}

#[test]
fn what_stays_is_as_it_was_written() {
    let schema = nesting();
    for (sent, expected) in [
        (r#"{"n":12345678901234567890123,"a":null}"#, r#"{"n":12345678901234567890123}"#),
        (r#"{"n":1e400,"a":null}"#, r#"{"n":1e400}"#),
        (r#"{"a":null, "n": 1.0}"#, r#"{"n": 1.0}"#),
        (r#"{ "a" : null , "b":null,"n" : -0 , "next": null }"#, r#"{ "n" : -0 }"#),
        (r#"{ "a":null , "b":null }"#, "{  }"),
        (r#" {"n":1,"a":"\u00e9\/","b":null} "#, r#" {"n":1,"a":"\u00e9\/"} "#),
        // A name counts without its escapes.
        (r#"{"\u0061":null,"\ud800":null,"n":1}"#, r#"{"\ud800":null,"n":1}"#),
        // Two members with one name are treated separately.
        (r#"{"a":null,"n":1,"a":"x","n":2,"a":null}"#, r#"{"n":1,"a":"x","n":2}"#),
        (
            r#"{"list":[{"n":1,"a":null},{"n":2},{"b":null,"n":3}],"n":0,"next":{"a":null,"n":9}}"#,
            r#"{"list":[{"n":1},{"n":2},{"n":3}],"n":0,"next":{"n":9}}"#,
        ),
    ] {
        assert_eq!(strip_nulls(&schema, sent).as_deref(), Some(expected), "{sent}");
        assert_eq!(strip_nulls(&schema, expected), None, "{expected}");
    }
}

#[test]
fn what_is_no_json_is_left_alone() {
    for sent in ["", "{", r#"{"a":null"#, r#"{"a":null} {}"#, "null", r#"{"n":null}"#, "[null]"] {
        assert_eq!(strip_nulls(&nesting(), sent), None, "{sent}");
    }
}

#[test]
fn nulls_are_removed_at_depths_that_no_tree_has() {
    let nested = |depth: usize, inner: &str| {
        format!("{}{inner}{}", r#"{"n":1,"next":"#.repeat(depth), "}".repeat(depth))
    };
    let (sent, expected) = (r#"{"n":1,"a":null}"#, r#"{"n":1}"#);
    for depth in [1, 127, 128, 1000] {
        let repaired = strip_nulls(&nesting(), &nested(depth, sent));
        assert_eq!(repaired, Some(nested(depth, expected)), "{depth}");
    }
    // The depth limit ends it, and not the stack.
    assert_eq!(strip_nulls(&nesting(), &nested(10_000, sent)), None);
}
