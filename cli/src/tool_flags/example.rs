//! Example calls to start from: with the required parameters, or else with the first parameter.

use ikigai_host::policy::shell_quoted;
use ikigai_protocol::ToolSchema;
use serde_json::{Map, Value, json};

use super::usage::required;
use super::{ProgramDefinition, own_flags, parameters, types};

/// Returns a call with its arguments in JSON. `typed` replaces the first text, if it is given.
pub(crate) fn in_json(schema: &ToolSchema, typed: Option<&str>) -> String {
    let arguments: Map<String, Value> = arguments(schema, typed).into_iter().collect();
    let json = Value::Object(arguments).to_string();
    format!("ikigai tool call {} {}", schema.name, shell_quoted(&json))
}

/// Returns a call with its arguments as flags, unless ikigai has a flag with the same name.
pub(crate) fn by_flags(
    schema: &ToolSchema,
    typed: Option<&str>,
    definition: ProgramDefinition,
) -> Option<String> {
    let own = own_flags(definition);
    let mut line = format!("ikigai tool call {}", schema.name);
    for (name, value) in arguments(schema, typed) {
        if own.contains(&name) {
            return None;
        }
        line += &match value {
            Value::Bool(true) => format!(" --{name}"),
            Value::String(text) => format!(" --{name} {}", shell_quoted(&text)),
            other => format!(" --{name} {}", shell_quoted(&other.to_string())),
        };
    }
    Some(line)
}

/// Returns the parameters of an example with their values.
fn arguments(schema: &ToolSchema, typed: Option<&str>) -> Vec<(String, Value)> {
    let all = parameters(schema);
    let required = required(schema);
    let mut shown: Vec<_> =
        all.iter().filter(|(name, _)| required.contains(&name.as_str())).collect();
    if shown.is_empty() {
        shown.extend(all.first());
    }
    let mut typed = typed;
    let value = |(name, property): &(&String, &Value)| {
        let is_text = types(property) == ["string"] && property.get("enum").is_none();
        let value = match typed.take_if(|_| is_text) {
            Some(text) => text.into(),
            None => stand_in(name, property),
        };
        ((*name).clone(), value)
    };
    shown.into_iter().map(value).collect()
}

/// Returns a value of the right type: one from the schema, or a placeholder.
fn stand_in(name: &str, property: &Value) -> Value {
    let given = ["examples", "enum"].into_iter().find_map(|key| property.get(key)?.get(0));
    if let Some(value) = given.or_else(|| property.get("default")) {
        return value.clone();
    }
    match types(property).first() {
        Some(&"array") => json!([stand_in(name, property.get("items").unwrap_or(&Value::Null))]),
        Some(&"boolean") => json!(true),
        Some(&"integer" | &"number") => json!(1),
        Some(&"object") => json!({}),
        Some(&"null") => Value::Null,
        _ => name.to_uppercase().into(),
    }
}

#[cfg(test)]
mod tests {
    use clap::{Arg, Command};

    use super::*;

    fn program() -> Command {
        let call = Command::new("call").arg(Arg::new("timeout").long("timeout"));
        Command::new("ikigai").subcommand(Command::new("tool").subcommand(call))
    }

    fn schema(parameters: &Value) -> ToolSchema {
        let schema = json!({ "name": "x", "description": "x", "parameters": parameters });
        ToolSchema::parse(schema.to_string().as_bytes()).expect("a schema")
    }

    #[test]
    fn an_example_has_what_is_required_and_what_was_typed() {
        let edit =
            schema(&json!({ "type": "object", "required": ["file_path", "count"], "properties": {
            "all": { "type": "boolean" },
            "file_path": { "type": "string" },
            "count": { "type": "integer" },
        } }));
        assert_eq!(
            in_json(&edit, Some("a b.txt")),
            r#"ikigai tool call x '{"file_path":"a b.txt","count":1}'"#
        );
        let flags = by_flags(&edit, None, program).expect("flags");
        assert_eq!(flags, "ikigai tool call x --file_path FILE_PATH --count 1");
        let optional = schema(&json!({ "type": "object", "properties": {
            "kind": { "type": "string", "enum": ["big"] },
            "more": { "type": "string" },
        } }));
        assert_eq!(in_json(&optional, Some("text")), r#"ikigai tool call x '{"kind":"big"}'"#);
        let own =
            schema(&json!({ "type": "object", "properties": { "timeout": { "type": "number" } } }));
        assert_eq!(
            (by_flags(&own, None, program), in_json(&own, None).contains("timeout")),
            (None, true)
        );
        let none = schema(&json!({ "type": "object", "properties": {} }));
        assert_eq!(in_json(&none, Some("text")), "ikigai tool call x '{}'");
    }
}
