//! The parameters of a tool as lines of help, and the parameters that a call lacks.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use ikigai_protocol::ToolSchema;
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::output::visible;

use super::{ProgramDefinition, by_flags, in_json, own_flags, parameters, types};

/// Returns the help of one tool: its description, its parameters with their flags, and an example.
pub(crate) fn help(schema: &ToolSchema, definition: ProgramDefinition) -> String {
    let name = &schema.name;
    format!(
        "{}\n\nUsage: ikigai tool call {name} [OPTIONS] [JSON | @FILE | - | --PARAMETER VALUE…]\n\n{}\n\
         Example:\n  {}\n\n\
         `ikigai tool call --help` lists the options of every call, such as `--pretty` and `--timeout`. \
         `ikigai tool\nshow {name}` shows what the tool may touch.\n",
        visible(schema.description.trim_end()),
        parameter_lines(schema, definition),
        example(schema, definition),
    )
}

/// Returns an example call of the tool, with flags if no parameter has the name of an ikigai flag.
pub(crate) fn example(schema: &ToolSchema, definition: ProgramDefinition) -> String {
    visible(&by_flags(schema, None, definition).unwrap_or_else(|| in_json(schema, None)))
}

/// Returns the parameters of a tool, each with its flag, its type and its description.
pub(crate) fn parameter_lines(schema: &ToolSchema, definition: ProgramDefinition) -> String {
    let (own, required) = (own_flags(definition), required(schema));
    let mut text = "Parameters:\n".to_owned();
    for (name, property) in parameters(schema) {
        let flag = match own.contains(name) {
            // ikigai has a flag with this name.
            true => format!("{name}, in JSON only"),
            false => format!("--{name}"),
        };
        let required = if required.contains(&name.as_str()) { ", required" } else { "" };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {flag}  {}{required}", values(property));
        let description = property.get("description").and_then(Value::as_str).unwrap_or_default();
        for line in description.trim_end().lines() {
            let _ = writeln!(text, "      {line}");
        }
    }
    if parameters(schema).is_empty() {
        text.push_str("  none\n");
    }
    visible(&text) + "\n"
}

/// Returns the values that a parameter accepts: its type or a list of its values, and its default.
fn values(property: &Value) -> String {
    let listed = property.get("enum").and_then(Value::as_array);
    let mut text = match (listed, &types(property)[..]) {
        (Some(values), _) => {
            let values: Vec<String> = values.iter().map(word).collect();
            values.join(" | ")
        }
        (None, []) => "any value".to_owned(),
        (None, ["array"]) => {
            let items = property.get("items").map(types).unwrap_or_default();
            format!(
                "list of {}; repeat the flag",
                if items.is_empty() { "values".to_owned() } else { items.join(" or ") }
            )
        }
        (None, types) => types.join(" or "),
    };
    if let Some(default) = property.get("default") {
        // Writing to a string cannot fail.
        let _ = write!(text, " [default: {}]", word(default));
    }
    text
}

/// Returns a value as a user types it: a text without quotes, and other values as JSON.
fn word(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns the parameters that the schema requires.
pub(super) fn required(schema: &ToolSchema) -> Vec<&str> {
    let required = schema.parameters.get("required").and_then(Value::as_array);
    required.into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Returns the required parameters that the arguments of a call lack. If the arguments are not a
/// JSON object, the host refuses them, so the list is empty.
pub(crate) fn missing<'a>(schema: &'a ToolSchema, arguments: &[u8]) -> Vec<&'a str> {
    let Ok(given) = serde_json::from_slice::<BTreeMap<String, IgnoredAny>>(arguments) else {
        return Vec::new();
    };
    let mut missing = required(schema);
    missing.retain(|name| !given.contains_key(*name));
    missing
}

#[cfg(test)]
mod tests {
    use clap::{Arg, Command};
    use serde_json::json;

    use super::*;

    fn program() -> Command {
        let call = Command::new("call").arg(Arg::new("timeout").long("timeout"));
        Command::new("ikigai").subcommand(Command::new("tool").subcommand(call))
    }

    fn schema() -> ToolSchema {
        let schema = json!({ "name": "greet", "description": "Greet somebody.\n", "parameters": {
            "type": "object", "required": ["name"], "properties": {
                "name": { "type": "string", "description": "Who is greeted\nby name" },
                "tone": { "type": "string", "enum": ["warm", "dry"], "default": "dry" },
                "words": { "type": "array", "items": { "type": "string" } },
                "timeout": { "type": ["integer", "null"] },
                "any": {},
            } } });
        ToolSchema::parse(schema.to_string().as_bytes()).expect("a schema")
    }

    #[test]
    fn the_help_of_a_tool_has_its_parameters_before_the_options_of_ikigai() {
        let help = help(&schema(), program);
        let lines: Vec<&str> = help.lines().collect();
        let expected = [
            "Greet somebody.",
            "",
            "Usage: ikigai tool call greet [OPTIONS] [JSON | @FILE | - | --PARAMETER VALUE…]",
            "",
            "Parameters:",
            "  --name  string, required",
            "      Who is greeted",
            "      by name",
            "  --tone  warm | dry [default: dry]",
            "  --words  list of string; repeat the flag",
            "  timeout, in JSON only  integer or null",
            "  --any  any value",
            "",
            "Example:",
            "  ikigai tool call greet --name NAME",
        ];
        assert_eq!(lines[..expected.len()], expected, "{help}");
    }

    #[test]
    fn a_call_lacks_what_the_schema_requires() {
        let schema = schema();
        let lacks = |json: &str| missing(&schema, json.as_bytes());
        assert_eq!(lacks(r#"{"tone":"dry"}"#), ["name"]);
        assert_eq!(lacks("{}"), ["name"]);
        for arguments in [r#"{"name":null}"#, r#"{"name":"x","more":1}"#, "[]", "{", "text"] {
            assert!(lacks(arguments).is_empty(), "{arguments}");
        }
        let deep = format!("{{\"name\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(lacks(&deep).is_empty());
    }
}
