//! The forms of the tools that ask for input.

use ikigai_mcp::FormRequest;
use serde_json::{Value, json};

use crate::tools::object;

/// Returns the form of a tool. `arguments` are the arguments of its call.
pub(crate) fn form(name: &str, arguments: &Value) -> Option<FormRequest> {
    let (message, properties, required) = match name {
        "test_elicitation" => {
            let message = arguments["message"].as_str().unwrap_or_default();
            (message, plain(), json!(["username", "email"]))
        }
        "test_elicitation_sep1034_defaults" => ("Change what is wrong", defaults(), json!([])),
        "test_elicitation_sep1330_enums" => ("Choose", choices(), json!([])),
        _ => return None,
    };
    let schema = json!({ "type": "object", "properties": properties, "required": required });
    Some(FormRequest { message: message.to_owned(), schema: object(schema) })
}

fn plain() -> Value {
    json!({
        "username": { "type": "string", "description": "User's response" },
        "email": { "type": "string", "description": "User's email address" },
    })
}

fn defaults() -> Value {
    json!({
        "name": { "type": "string", "default": "John Doe" },
        "age": { "type": "integer", "default": 30 },
        "score": { "type": "number", "default": 95.5 },
        "status": {
            "type": "string",
            "enum": ["active", "inactive", "pending"],
            "default": "active",
        },
        "verified": { "type": "boolean", "default": true },
    })
}

fn choices() -> Value {
    let named = |value: &str, title: &str| json!({ "const": value, "title": title });
    let values =
        [named("value1", "The first"), named("value2", "The second"), named("value3", "The third")];
    json!({
        "untitledSingle": { "type": "string", "enum": ["option1", "option2", "option3"] },
        "titledSingle": { "type": "string", "oneOf": values },
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {
            "type": "array",
            "minItems": 1,
            "maxItems": 3,
            "items": { "type": "string", "enum": ["option1", "option2", "option3"] },
        },
        "titledMulti": {
            "type": "array",
            "minItems": 1,
            "maxItems": 3,
            "items": { "anyOf": values },
        },
    })
}
