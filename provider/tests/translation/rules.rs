//! The rules of the translation, one by one.

use std::str::FromStr;

use ikigai_provider::{
    Inexpressible, Loss, LossEffect, LossReason, Provider, ToolBounds, translate, translate_all,
};
use serde_json::{Value, json};

use crate::{checker, tool};

fn sent(provider: Provider, parameters: &Value) -> (Value, Vec<Loss>) {
    let translation =
        translate(provider, ToolBounds::for_provider(provider), &tool("t", parameters))
            .expect("translates");
    (translation.value, translation.losses)
}

/// Returns the strict form of one optional property of an object.
fn optional(property: Value) -> Value {
    let (value, _) = sent(
        Provider::OpenAi,
        &json!({ "type": "object", "properties": { "p": property },
        "$defs": { "d": { "type": "string" } } }),
    );
    assert_eq!(value["strict"], true, "{value:#}");
    value["parameters"]["properties"]["p"].clone()
}

#[test]
fn providers_are_named_as_in_the_configuration() {
    for provider in Provider::ALL {
        assert_eq!(Provider::from_str(provider.as_str()), Ok(provider));
    }
    let error = Provider::from_str("OpenAI").expect_err("unknown");
    assert!(error.to_string().starts_with("unknown provider `OpenAI`"), "{error}");
}

#[test]
fn the_shapes_are_those_of_the_providers() {
    let parameters =
        json!({ "type": "object", "properties": { "a": { "type": "string" } }, "required": ["a"] });
    let mut closed = parameters.clone();
    closed["additionalProperties"] = json!(false);
    let function =
        json!({ "name": "t", "description": "Does it", "parameters": closed, "strict": true });
    let mut flat = function.clone();
    flat["type"] = json!("function");
    let cases = [
        (Provider::OpenAi, flat),
        (Provider::OpenAiChat, json!({ "type": "function", "function": function })),
        (
            Provider::Anthropic,
            json!({ "name": "t", "description": "Does it", "input_schema": parameters }),
        ),
        (
            Provider::Google,
            json!({ "name": "t", "description": "Does it", "parameters": parameters }),
        ),
    ];
    for (provider, expected) in cases {
        assert_eq!(sent(provider, &parameters), (expected, vec![]), "{provider}");
    }
}

#[test]
fn every_level_is_closed_and_requires_everything() {
    let parameters = json!({ "type": "object", "properties": { "list": { "type": "array", "items": {
        "type": "object", "properties": { "a": { "type": "integer" }, "b": { "type": "string" } },
        "required": ["b"] } } } });
    let (value, losses) = sent(Provider::OpenAi, &parameters);
    assert_eq!(losses, []);
    assert_eq!(
        value["parameters"],
        json!({
        "type": "object", "required": ["list"], "additionalProperties": false,
        "properties": { "list": { "type": ["array", "null"], "items": {
            "type": "object", "required": ["a", "b"], "additionalProperties": false,
            "properties": { "a": { "type": ["integer", "null"] }, "b": { "type": "string" } } } } } })
    );
}

#[test]
fn optional_properties_become_nullable_each_in_its_way() {
    let cases = [
        (json!({ "type": "integer" }), json!({ "type": ["integer", "null"] })),
        (
            json!({ "type": ["integer", "string"] }),
            json!({ "type": ["integer", "string", "null"] }),
        ),
        (
            json!({ "type": "string", "enum": ["a"] }),
            json!({ "type": ["string", "null"], "enum": ["a", null] }),
        ),
        (
            json!({ "enum": ["a", 1] }),
            json!({ "type": ["string", "integer", "null"], "enum": ["a", 1, null] }),
        ),
        (
            json!({ "const": 1 }),
            json!({ "anyOf": [{ "type": "integer", "const": 1 }, { "type": "null" }] }),
        ),
        (
            json!({ "$ref": "#/$defs/d" }),
            json!({ "anyOf": [{ "$ref": "#/$defs/d" }, { "type": "null" }] }),
        ),
        (
            json!({ "$ref": "#/$defs/d", "description": "x" }),
            json!({ "description": "x", "anyOf": [{ "$ref": "#/$defs/d" }, { "type": "null" }] }),
        ),
        (
            json!({ "anyOf": [{ "type": "string" }, { "type": "integer" }] }),
            json!({ "anyOf": [{ "type": "string" }, { "type": "integer" }, { "type": "null" }] }),
        ),
        (json!({ "type": ["string", "null"] }), json!({ "type": ["string", "null"] })),
        (
            json!({ "anyOf": [{ "type": "string" }, { "type": "null" }] }),
            json!({ "anyOf": [{ "type": "string" }, { "type": "null" }] }),
        ),
        (
            json!({ "type": ["string", "null"], "enum": ["a"] }),
            json!({ "type": ["string", "null"], "enum": ["a", null] }),
        ),
    ];
    for (property, expected) in cases {
        assert_eq!(optional(property.clone()), expected, "{property}");
    }
}

#[test]
fn a_null_that_was_there_before_is_reported() {
    let (_, losses) = sent(
        Provider::OpenAi,
        &json!({ "type": "object", "properties": { "p": { "type": ["string", "null"] } } }),
    );
    let expected = Loss {
        at: "/properties/p".into(),
        effect: LossEffect::NullForAbsent,
        reason: LossReason::AlreadyNullable,
    };
    assert_eq!(losses, [expected]);
}

#[test]
fn a_default_moves_into_the_description() {
    for property in [
        json!({ "type": "integer", "description": "How many", "default": 3 }),
        json!({ "default": 3, "type": "integer", "description": "How many" }),
    ] {
        assert_eq!(optional(property)["description"], "How many (Default: 3)");
    }
    assert_eq!(optional(json!({ "type": "integer", "default": 3 }))["description"], "Default: 3");
}

#[test]
fn what_strict_mode_cannot_say_goes_out_unchanged_and_says_why() {
    let property = |schema: Value| json!({ "type": "object", "properties": { "p": schema } });
    let object = |word: &str, value: Value| {
        let mut parameters =
            json!({ "type": "object", "properties": { "a": { "type": "string" } } });
        parameters[word] = value;
        parameters
    };
    let cases = [
        (object("additionalProperties", json!(true)), "``", ""),
        (
            property(json!({ "type": "object" })),
            "`/properties/p`",
            "names that the schema does not list",
        ),
        (
            property(json!({ "type": "object", "additionalProperties": { "type": "string" } })),
            "`/properties/p`",
            "names",
        ),
        (
            object("patternProperties", json!({ "x": true })),
            "`/patternProperties`",
            "no `patternProperties`",
        ),
        (
            property(json!({ "oneOf": [{ "type": "string" }] })),
            "`/properties/p/oneOf`",
            "no `oneOf`",
        ),
        (
            property(json!({ "allOf": [{ "type": "string" }] })),
            "`/properties/p/allOf`",
            "no `allOf`",
        ),
        (property(json!({ "type": "string", "not": {} })), "`/properties/p/not`", "no `not`"),
        (object("if", json!({})), "`/if`", "no `if`"),
        (property(json!({ "type": "string", "format": "uri" })), "`/properties/p/format`", "`uri`"),
        (
            property(json!({ "type": "string", "pattern": "(?=a)" })),
            "`/properties/p/pattern`",
            "look-around",
        ),
        (property(json!({ "type": "array", "items": {} })), "`/properties/p/items`", "any value"),
        (property(json!({ "$ref": "#/properties/p" })), "`/properties/p`", "not a definition"),
        (object("required", json!(["b"])), "`/required`", "`b`"),
    ];
    for (parameters, at, why) in cases {
        let at = if at == "``" { "`/`" } else { at };
        let (value, losses) = sent(Provider::OpenAi, &parameters);
        assert_eq!(value["strict"], false, "{parameters}");
        assert_eq!(value["parameters"], parameters);
        let texts: Vec<String> = losses.iter().map(ToString::to_string).collect();
        let found = texts.iter().any(|text| {
            text.starts_with(&format!("{at}: sent with `strict: false`")) && text.contains(why)
        });
        assert!(found, "{parameters}: {texts:?}");
    }
}

#[test]
fn alternatives_that_nulls_make_alike_are_not_strict() {
    let one_of = |first: Value, second: Value| {
        json!({ "type": "object", "required": ["p"], "properties": {
        "p": { "anyOf": [first, second] } } })
    };
    let with = |v: Value| json!({ "type": "object", "properties": { "v": v } });
    let alike =
        one_of(with(json!({ "type": "integer" })), with(json!({ "type": ["string", "null"] })));
    let (value, losses) = sent(Provider::OpenAi, &alike);
    assert_eq!(value["strict"], false);
    assert_eq!(losses[0].reason, LossReason::Ambiguous);
    let other = json!({ "type": "object", "properties": { "w": { "type": "string" } } });
    assert_eq!(
        sent(Provider::OpenAi, &one_of(with(json!({ "type": "integer" })), other)).0["strict"],
        true
    );
}

#[test]
fn a_definition_that_is_only_itself_is_not_strict() {
    let parameters = json!({ "type": "object", "properties": { "p": { "$ref": "#/$defs/a" } },
        "$defs": { "a": { "anyOf": [{ "$ref": "#/$defs/a" }, { "type": "string" }] } } });
    let (value, losses) = sent(Provider::OpenAi, &parameters);
    assert_eq!(value["strict"], false);
    assert!(
        losses.iter().any(|loss| loss.reason == LossReason::Endless("#/$defs/a".into())),
        "{losses:?}"
    );
}

#[test]
fn the_documented_sizes_hold() {
    let of_size = |count: usize| {
        let properties: serde_json::Map<String, Value> =
            (0..count).map(|index| (format!("p{index}"), json!({ "type": "string" }))).collect();
        json!({ "type": "object", "properties": properties })
    };
    let of_values = |count: usize| {
        let values: Vec<usize> = (0..count).collect();
        json!({ "type": "object", "properties": { "p": { "type": "integer", "enum": values } }, "required": ["p"] })
    };
    let of_depth = |depth: usize| {
        (1..depth).fold(
            json!({ "type": "object", "properties": {}, "additionalProperties": false }),
            |inner, _| json!({ "type": "object", "properties": { "p": inner }, "required": ["p"] }),
        )
    };
    let long = |count: usize| {
        let values: Vec<String> = (0..300).map(|index| format!("{index:0>count$}")).collect();
        json!({ "type": "object", "properties": { "p": { "type": "string", "enum": values } }, "required": ["p"] })
    };
    let cases = [
        (of_size(5_000), of_size(5_001)),
        (of_values(1_000), of_values(1_001)),
        (of_depth(10), of_depth(11)),
        (long(50), long(51)),
    ];
    for (fits, exceeds) in cases {
        let (value, losses) = sent(Provider::OpenAi, &fits);
        assert_eq!(value["strict"], true, "{losses:?}");
        let (value, losses) = sent(Provider::OpenAi, &exceeds);
        assert_eq!(value["strict"], false);
        assert!(matches!(losses[0].reason, LossReason::Limit { .. }), "{losses:?}");
    }
}

#[test]
fn words_that_are_refused_at_the_root_are_not_sent_there() {
    let parameters = json!({ "type": "object", "properties": { "a": { "type": "string" } },
        "anyOf": [{ "required": ["a"] }], "not": { "required": ["b"] } });
    let (openai, losses) = sent(Provider::OpenAiChat, &parameters);
    assert_eq!(
        openai["function"]["parameters"],
        json!({ "type": "object", "properties": { "a": { "type": "string" } } })
    );
    assert!(
        losses.iter().any(|loss| loss.at == "/anyOf" && loss.effect == LossEffect::Removed),
        "{losses:?}"
    );
    let (anthropic, losses) = sent(Provider::Anthropic, &parameters);
    assert!(anthropic["input_schema"].get("anyOf").is_none());
    assert!(anthropic["input_schema"].get("not").is_some());
    assert_eq!(losses.len(), 1);
}

#[test]
fn arrays_of_anything_say_so_to_openai() {
    let parameters = json!({ "type": "object", "properties": { "a": { "type": "array" } } });
    assert_eq!(
        sent(Provider::OpenAi, &parameters).0["parameters"]["properties"]["a"],
        json!({ "type": "array", "items": {} })
    );
    assert_eq!(sent(Provider::Anthropic, &parameters).0["input_schema"], parameters);
}

#[test]
fn older_drafts_are_brought_to_the_newest() {
    let parameters = json!({ "$schema": "http://json-schema.org/draft-04/schema#", "type": "object", "properties": {
        "t": { "type": "array", "items": [{ "type": "string" }], "additionalItems": false },
        "n": { "type": "number", "minimum": 1, "exclusiveMinimum": true } } });
    let (value, losses) = sent(Provider::Anthropic, &parameters);
    assert_eq!(
        value["input_schema"],
        json!({ "type": "object", "properties": {
        "t": { "type": "array", "prefixItems": [{ "type": "string" }], "items": false },
        "n": { "type": "number", "exclusiveMinimum": 1 } } })
    );
    let places: Vec<&str> = losses.iter().map(|loss| loss.at.as_str()).collect();
    assert_eq!(places, ["/properties/t/items", "/properties/n/exclusiveMinimum"]);
}

/// Generators of schemas usually omit `$schema`.
#[test]
fn an_older_draft_is_known_without_its_name() {
    let parameters = json!({ "type": "object", "properties": {
        "t": { "type": "array", "items": [{ "type": "string" }, { "type": "integer" }] },
        "n": { "type": "number", "minimum": 1, "exclusiveMinimum": true } } });
    for provider in Provider::ALL {
        let (value, _) = sent(provider, &parameters);
        assert_eq!(checker::entry(provider, &value), [""; 0], "{provider}: {value:#}");
        let text = value.to_string();
        assert!(text.contains("prefixItems") && !text.contains(r#""exclusiveMinimum":true"#));
    }
}

#[test]
fn a_property_that_accepts_anything_is_offered() {
    for property in [json!({}), json!(true), json!({ "description": "any value" })] {
        let parameters = json!({ "type": "object", "properties": { "p": property } });
        let expected = if property == json!(true) { json!({}) } else { property };
        for (provider, place) in [
            (Provider::OpenAi, "/parameters/properties/p"),
            (Provider::OpenAiChat, "/function/parameters/properties/p"),
            (Provider::Anthropic, "/input_schema/properties/p"),
            (Provider::Google, "/parametersJsonSchema/properties/p"),
        ] {
            let (value, _) = sent(provider, &parameters);
            assert_eq!(value.pointer(place), Some(&expected), "{provider}: {value:#}");
            assert_eq!(checker::entry(provider, &value), [""; 0], "{provider}: {value:#}");
        }
    }
}

#[test]
fn google_has_two_forms_and_none() {
    let form = |parameters: Value| sent(Provider::Google, &parameters).0;
    let none = form(
        json!({ "type": "object", "properties": {}, "$schema": "s", "additionalProperties": false }),
    );
    assert_eq!(none, json!({ "name": "t", "description": "Does it" }));

    let nested = json!({ "type": "object", "additionalProperties": false, "properties": {
        "o": { "type": ["object", "null"], "additionalProperties": false, "properties": { "a": { "type": "string" } } },
        "e": { "type": ["string", "null"], "enum": ["x", null] },
        "u": { "anyOf": [{ "type": "string" }, { "type": "integer" }, { "type": "null" }] } } });
    assert_eq!(
        form(nested)["parameters"],
        json!({ "type": "object", "properties": {
        "o": { "type": "object", "properties": { "a": { "type": "string" } }, "nullable": true },
        "e": { "type": "string", "enum": ["x"], "nullable": true },
        "u": { "anyOf": [{ "type": "string" }, { "type": "integer" }], "nullable": true } } })
    );

    for property in [
        json!({ "$ref": "#" }),
        json!({ "type": ["string", "integer"] }),
        json!({ "type": "integer", "enum": [1] }),
        json!({ "type": "object", "additionalProperties": { "type": "string" } }),
        json!({ "const": 1 }),
        json!({ "type": "object", "properties": { "a": { "type": "string" } }, "additionalProperties": true }),
        json!({ "type": "string", "format": "uri" }),
        json!({ "type": "string", "enum": [""] }),
    ] {
        let whole = json!({ "type": "object", "properties": { "p": property }, "additionalProperties": false });
        let (value, losses) = sent(Provider::Google, &whole);
        assert_eq!(value["parametersJsonSchema"], whole);
        assert!(value.get("parameters").is_none());
        assert!(
            losses.iter().all(|loss| loss.effect == LossEffect::AsJsonSchema) && !losses.is_empty(),
            "{losses:?}"
        );
    }
}

#[test]
fn a_tool_that_cannot_be_expressed_is_left_out_alone() {
    let none = json!({ "type": "object", "properties": {} });
    let good = tool("good", &none);
    let mut dotted = good.clone();
    dotted.name = "a.b".into();
    let mut long = good.clone();
    long.name = "x".repeat(65);
    let keyed =
        tool("keyed", &json!({ "type": "object", "properties": { "a b": { "type": "string" } } }));
    let broken = tool(
        "broken",
        &json!({ "type": "object", "properties": { "a": { "type": "array", "items": { "type": "text" } } } }),
    );
    let dangling = tool(
        "dangling",
        &json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/gone" } } }),
    );
    let schemas = [good.clone(), dotted, long, keyed, broken, dangling, good];
    let left_out = |provider| -> Vec<String> {
        translate_all(provider, ToolBounds::for_provider(provider), &schemas)
            .left_out
            .into_iter()
            .map(|one| one.tool)
            .collect()
    };
    let long = "x".repeat(65);
    assert_eq!(left_out(Provider::OpenAi), ["a.b", "broken", "dangling", "good", &long]);
    assert_eq!(
        left_out(Provider::Anthropic),
        ["a.b", "broken", "dangling", "good", "keyed", &long]
    );
    assert_eq!(left_out(Provider::Google), ["broken", "dangling", "good", &long]);
    let malformed =
        translate(Provider::Google, ToolBounds::for_provider(Provider::Google), &schemas[4])
            .expect_err("is refused");
    assert_eq!(
        malformed.to_string(),
        "`/properties/a/items/type` in `parameters` must be one of the seven types, or a list of different ones"
    );
    assert!(matches!(
        translate(Provider::OpenAi, ToolBounds::for_provider(Provider::OpenAi), &schemas[1]),
        Err(Inexpressible::Name { .. })
    ));
}

#[test]
fn no_tools_are_an_empty_list() {
    for provider in Provider::ALL {
        assert_eq!(
            translate_all(provider, ToolBounds::for_provider(provider), []).value,
            json!([])
        );
    }
}

#[test]
fn what_is_for_the_host_is_sent_to_no_provider() {
    let property = json!({ "type": "string", "x-ikigai-access": "ro" });
    let parameters =
        json!({ "type": "object", "properties": { "p": property }, "required": ["p"] });
    for provider in Provider::ALL {
        let (value, losses) = sent(provider, &parameters);
        assert!(!value.to_string().contains("x-ikigai"), "{provider}: {value}");
        assert_eq!(losses, [], "{provider}");
    }
}
