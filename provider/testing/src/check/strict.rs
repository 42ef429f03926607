//! OpenAI's rules for the schemas of strict tools, at every level:
//! <https://platform.openai.com/docs/guides/structured-outputs#supported-schemas>.

use serde_json::Value;

use super::{is_plain, list, text, unknown};

/// Returns the fault of a schema that is sent as strict, if it has one.
pub(super) fn fault(schema: &Value, place: &str) -> Option<String> {
    let members = schema.as_object()?;
    for word in ["oneOf", "allOf", "not", "if", "patternProperties", "dependentRequired"] {
        if members.contains_key(word) {
            return Some(format!("In context=({place}), '{word}' is not permitted."));
        }
    }
    if let Some(properties) = schema["properties"].as_object() {
        if schema["additionalProperties"] != Value::Bool(false) {
            return Some(format!(
                "In context=({place}), 'additionalProperties' is required to be supplied and to \
                 be false."
            ));
        }
        let required = list(&schema["required"]);
        for (name, property) in properties {
            if !required.iter().any(|known| known == name) {
                return Some(format!(
                    "In context=({place}), 'required' is required to be supplied and to be an \
                     array including every key in properties. Missing '{name}'."
                ));
            }
            let inner = fault(property, &format!("{place}'properties', '{name}', "));
            if inner.is_some() {
                return inner;
            }
        }
    }
    let alternatives = list(&schema["anyOf"]).iter().chain([&schema["items"]]);
    let definitions = schema["$defs"].as_object().into_iter().flat_map(|all| all.values());
    alternatives.chain(definitions).find_map(|inner| fault(inner, place))
}

/// Returns the fault of the parameters of an OpenAI tool, if they have one.
pub(super) fn fault_of_tool(name: &str, parameters: &Value, is_strict: bool) -> Option<String> {
    let wrong = if !parameters.is_null() && parameters["type"] != "object" {
        let kind = &parameters["type"];
        format!("schema must be a JSON Schema of 'type: \"object\"', got 'type: {kind}'.")
    } else if is_strict {
        fault(parameters, "")?
    } else {
        return None;
    };
    Some(format!("Invalid schema for function '{name}': {wrong}"))
}

/// Returns the fault of an answer's format, if it has one. It must have the members of
/// <https://platform.openai.com/docs/guides/structured-outputs>, and a strict schema must obey the
/// rules above.
pub(super) fn fault_of_format(format: &Value) -> Option<String> {
    let name = text(&format["name"]);
    if !is_plain(name, 64) {
        return Some("Invalid 'name' of a format: string does not match pattern.".to_owned());
    }
    if let Some(extra) = unknown(format, "type name description schema strict") {
        return Some(format!("Unknown parameter: '{extra}' of a format."));
    }
    let schema = &format["schema"];
    if schema["type"] != "object" {
        return Some(format!(
            "Invalid schema for response_format '{name}': schema must be a JSON Schema of 'type: \
             \"object\"', got 'type: {}'.",
            schema["type"]
        ));
    }
    let wrong = (format["strict"] == Value::Bool(true)).then(|| fault(schema, "")).flatten()?;
    Some(format!("Invalid schema for response_format '{name}': {wrong}"))
}

/// The names of the efforts.
pub(super) const EFFORTS: &[&str] = &["none", "minimal", "low", "medium", "high", "xhigh", "max"];
