//! The output of a tool for `--schema`.

use ikigai_protocol::ToolSchema;

/// Checks that an accepted schema survives its own canonical form, and compiles as JSON Schema or
/// is refused with a reason.
pub(crate) fn run(data: &[u8]) {
    let Ok(schema) = ToolSchema::parse(data) else { return };
    let text = schema.to_value().to_string();
    let again = ToolSchema::parse(text.as_bytes())
        .unwrap_or_else(|error| panic!("its own form is refused: {error}: {text}"));
    assert_eq!(again, schema);
    if let Err(error) = jsonschema::validator_for(&schema.parameters) {
        assert!(!error.to_string().is_empty(), "refused without a reason: {text}");
    }
}
