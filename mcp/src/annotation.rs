//! The member `x-mcp-header` of a schema, by which a server asks clients to repeat an argument as
//! an HTTP header.

use serde_json::{Map, Value};

/// The member of a schema that names a header.
pub(crate) const ANNOTATION: &str = "x-mcp-header";

/// The members of a schema that map arbitrary names to schemas.
const MAPS: [&str; 5] =
    ["properties", "$defs", "definitions", "dependentSchemas", "patternProperties"];

/// The members of a schema that hold values or names, in which an annotation has no meaning.
const VALUES: [&str; 5] = ["const", "default", "dependentRequired", "enum", "examples"];

/// Returns whether there is an annotation in a member of a schema.
pub(crate) fn is_annotated(member: &str, value: &Value) -> bool {
    match value {
        _ if VALUES.contains(&member) => false,
        Value::Array(schemas) => schemas.iter().any(|schema| is_annotated("", schema)),
        Value::Object(members) if MAPS.contains(&member) => {
            members.values().any(|schema| is_annotated("", schema))
        }
        Value::Object(members) => is_schema_annotated(members),
        _ => false,
    }
}

/// Returns whether there is an annotation in a schema.
pub(crate) fn is_schema_annotated(schema: &Map<String, Value>) -> bool {
    schema.contains_key(ANNOTATION)
        || schema.iter().any(|(member, value)| is_annotated(member, value))
}

/// Removes all annotations from a schema.
pub(crate) fn strip(schema: &mut Map<String, Value>) {
    schema.remove(ANNOTATION);
    for (member, value) in schema {
        strip_member(member, value);
    }
}

fn strip_member(member: &str, value: &mut Value) {
    match value {
        _ if VALUES.contains(&member) => {}
        Value::Array(schemas) => {
            schemas.iter_mut().for_each(|schema| strip_member("", schema));
        }
        Value::Object(members) if MAPS.contains(&member) => {
            members.values_mut().for_each(|schema| strip_member("", schema));
        }
        Value::Object(members) => strip(members),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn annotations_alone_are_removed() {
        let note = json!({ "x-mcp-header": "A" });
        let schema = |annotated: &Value| {
            let named = json!({ "type": "string", "x-mcp-header": annotated["x-mcp-header"] });
            let mut schema = json!({
                "properties": {
                    // An argument with this name is an ordinary argument.
                    "x-mcp-header": { "type": "string", "default": note, "examples": [note] },
                    "a": named,
                    "b": { "type": "array", "items": named },
                },
                "$defs": { "properties": { "anyOf": [named, { "const": note }] } },
                "required": ["x-mcp-header"],
            });
            schema["x-mcp-header"] = annotated["x-mcp-header"].clone();
            let Value::Object(schema) = schema else { unreachable!("an object") };
            schema
        };
        let mut stripped = schema(&note);
        assert!(is_schema_annotated(&stripped));
        strip(&mut stripped);
        assert!(!is_schema_annotated(&stripped), "{stripped:?}");
        let text = serde_json::to_string(&stripped).expect("JSON");
        // The five matches are the argument, its two values, the constant and the required name.
        assert_eq!(text.matches("x-mcp-header").count(), 5, "{text}");
    }
}
