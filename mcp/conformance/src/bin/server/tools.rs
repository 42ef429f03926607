//! The tools of the suite, as clients list them, and the answers of tools with a fixed answer.

use std::sync::Arc;

use ikigai_mcp::{ToolEntry, ToolHints};
use serde_json::{Map, Value, json};

/// An image of one pixel.
const IMAGE: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";

/// A sound without a sample.
const SOUND: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAgD4AAAB9AAACABAAZGF0YQAAAAA=";

/// The tool whose schema has keywords that must stay unchanged.
const SCHEMA: &str = "json_schema_2020_12_tool";

/// The tools by name, each with a description.
const TOOLS: &[(&str, &str)] = &[
    ("json_schema_2020_12_tool", "Has a schema with many keywords"),
    ("test_audio_content", "Answers with a sound"),
    ("test_elicitation", "Asks for a name and an address"),
    ("test_elicitation_sep1034_defaults", "Asks with a form whose fields have defaults"),
    ("test_elicitation_sep1330_enums", "Asks with a form of choices"),
    ("test_embedded_resource", "Answers with a resource"),
    ("test_error_handling", "Fails"),
    ("test_image_content", "Answers with an image"),
    ("test_input_required_result_capabilities", "Asks before it answers"),
    ("test_input_required_result_elicitation", "Asks before it answers"),
    ("test_input_required_result_request_state", "Asks before it answers"),
    ("test_input_required_result_tampered_state", "Asks before it answers"),
    ("test_logging_tool", "Answers with a text"),
    ("test_missing_capability", "Asks before it answers"),
    ("test_multiple_content_types", "Answers with a text, an image and a resource"),
    ("test_simple_text", "Answers with a text"),
    ("test_streaming_elicitation", "Asks before it answers"),
    ("test_tool_with_progress", "Tells how far it is"),
    ("test_trigger_tool_change", "Changes the list of tools"),
];

/// Returns the tools. `changed` is true after an odd number of changes. The list then has one more
/// tool.
pub(crate) fn entries(changed: bool) -> Vec<ToolEntry> {
    let more = changed.then_some(("test_more", "Is there at times"));
    TOOLS.iter().copied().chain(more).map(|(name, description)| entry(name, description)).collect()
}

fn entry(name: &str, description: &str) -> ToolEntry {
    let input = match name {
        SCHEMA => keywords(),
        "test_elicitation" => json!({
            "type": "object",
            "properties": { "message": { "type": "string" } },
            "required": ["message"],
        }),
        _ => json!({ "type": "object" }),
    };
    ToolEntry {
        name: name.to_owned(),
        description: description.to_owned(),
        input: Arc::new(object(input)),
        output: None,
        hints: ToolHints { read_only: true, open_world: false },
        result_characters: 30_000,
    }
}

/// Returns the schema that the suite prescribes.
fn keywords() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": { "street": { "type": "string" }, "city": { "type": "string" } },
            },
        },
        "properties": {
            "name": { "type": "string" },
            "address": { "$ref": "#/$defs/address" },
            "contactMethod": { "type": "string", "enum": ["phone", "email"] },
            "phone": { "type": "string" },
            "email": { "type": "string" },
        },
        "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
        "if": {
            "properties": { "contactMethod": { "const": "phone" } },
            "required": ["contactMethod"],
        },
        "then": { "required": ["phone"] },
        "else": { "required": ["email"] },
        "additionalProperties": false,
    })
}

/// Returns the content of a tool's fixed answer.
pub(crate) fn content(name: &str) -> Option<Value> {
    let image = json!({ "type": "image", "data": IMAGE, "mimeType": "image/png" });
    let text = |text: &str| json!({ "type": "text", "text": text });
    Some(match name {
        "test_simple_text" => json!([text("This is a simple text response for testing.")]),
        "test_image_content" => json!([image]),
        "test_audio_content" => {
            json!([{ "type": "audio", "data": SOUND, "mimeType": "audio/wav" }])
        }
        "test_embedded_resource" => json!([resource(
            "test://embedded-resource",
            "text/plain",
            "This is an embedded resource content.",
        )]),
        "test_multiple_content_types" => json!([
            text("Multiple content types test:"),
            image,
            resource(
                "test://mixed-content-resource",
                "application/json",
                r#"{"test":"data","value":123}"#,
            ),
        ]),
        SCHEMA | "test_logging_tool" | "test_more" => json!([text("done")]),
        _ => return None,
    })
}

fn resource(uri: &str, mime_type: &str, text: &str) -> Value {
    let resource = json!({ "uri": uri, "mimeType": mime_type, "text": text });
    json!({ "type": "resource", "resource": resource })
}

/// Returns the members of an object.
pub(crate) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        other => unreachable!("`{other}` is no object"),
    }
}
