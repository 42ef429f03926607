//! The schema that a tool prints for `--schema`: its checks, and the conversion of the
//! specification's shorthand into JSON Schema.

use serde_json::{Map, Value};
use thiserror::Error;

/// The largest accepted schema, in bytes.
pub const MAX_SCHEMA_BYTES: usize = 1 << 20;

/// The names that belong to the host and that no tool can have.
pub const RESERVED_NAMES: &[&str] = &["slash_command", "mcp_assets"];

/// The longest name, in bytes: the limit that all model providers accept.
const MAX_NAME_BYTES: usize = 64;

/// The keywords that give a property its meaning if `type` is absent.
const TYPE_ALTERNATIVES: &[&str] = &["$ref", "enum", "const", "anyOf", "oneOf", "allOf"];

/// The word for [`ResultKind::Content`].
const CONTENT: &str = "content";

/// The key of a property whose value is the path of a file that the tool will use: `"ro"` if it
/// reads the file, `"rw"` if it writes it. It is for the host, and is not sent to model
/// providers.
pub const ACCESS_MARK: &str = "x-ikigai-access";

/// The primitive types of JSON Schema.
const TYPES: &[&str] = &["array", "boolean", "integer", "null", "number", "object", "string"];

/// The schema of a tool, checked: its name, its description, and the JSON Schema of its arguments.
/// `parameters` always has `type: "object"` and `properties`.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSchema {
    /// The name, which matches `^[a-zA-Z_][a-zA-Z0-9_]{0,63}$`.
    pub name: String,
    /// The description for the model.
    pub description: String,
    /// The JSON Schema of the arguments.
    pub parameters: Value,
    /// The JSON Schema of the answer, as the tool gave it. For [`ResultKind::Content`] it is the
    /// schema of `structuredContent`.
    pub returns: Option<Value>,
    /// The form of the answer.
    pub result: ResultKind,
}

/// The form of a tool's answers: the member `result` of its schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResultKind {
    /// Any JSON value.
    #[default]
    Json,
    /// `"content"`: an object with `content`, a list of content blocks of the Model Context
    /// Protocol, and optionally `structuredContent` and `isError`.
    Content,
}

/// The reason why a schema is refused.
#[derive(Debug, Error)]
pub enum SchemaError {
    /// The schema is larger than [`MAX_SCHEMA_BYTES`].
    #[error("schema is {bytes} bytes, over the limit of {MAX_SCHEMA_BYTES}")]
    TooLarge {
        /// The number of bytes that were read.
        bytes: usize,
    },
    /// The tool printed nothing.
    #[error("schema is empty")]
    Empty,
    /// The output is not JSON.
    #[error("schema is not valid JSON: {0}")]
    Json(String),
    /// The output is JSON, but not an object.
    #[error("schema is {found}, not an object")]
    NotAnObject {
        /// The JSON type of the output.
        found: &'static str,
    },
    /// A member is missing or of the wrong type.
    #[error("`{member}` must be {expected}")]
    Member {
        /// The path of the member from the root, such as `parameters.properties.path`.
        member: String,
        /// The expected value.
        expected: &'static str,
    },
    /// The name does not have the form that all providers accept.
    #[error("name `{name}` does not match ^[a-zA-Z_][a-zA-Z0-9_]{{0,63}}$")]
    Name {
        /// The name, with hyphens already replaced.
        name: String,
    },
    /// The name belongs to the host.
    #[error("name `{name}` is reserved for the host")]
    Reserved {
        /// The name, one of [`RESERVED_NAMES`].
        name: String,
    },
}

/// Returns `true` if `name` may be offered to a model.
#[must_use]
pub fn is_tool_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    name.len() <= MAX_NAME_BYTES
        && bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

impl ToolSchema {
    /// Parses the output of a tool for `--schema`.
    ///
    /// Hyphens in the name become underscores, and the shorthand of `parameters` becomes JSON
    /// Schema. The host checks afterwards that the result compiles as JSON Schema.
    ///
    /// # Errors
    ///
    /// Returns a [`SchemaError`] for the first rule that the schema breaks.
    pub fn parse(text: &[u8]) -> Result<Self, SchemaError> {
        if text.len() > MAX_SCHEMA_BYTES {
            return Err(SchemaError::TooLarge { bytes: text.len() });
        }
        if text.iter().all(u8::is_ascii_whitespace) {
            return Err(SchemaError::Empty);
        }
        match serde_json::from_slice(text) {
            Ok(Value::Object(members)) => Self::from_members(members),
            Ok(other) => Err(SchemaError::NotAnObject { found: type_name(&other) }),
            Err(error) => Err(SchemaError::Json(error.to_string())),
        }
    }

    fn from_members(mut members: Map<String, Value>) -> Result<Self, SchemaError> {
        let name = take_string(&mut members, "name")?.replace('-', "_");
        if !is_tool_name(&name) {
            return Err(SchemaError::Name { name });
        }
        if RESERVED_NAMES.contains(&name.as_str()) {
            return Err(SchemaError::Reserved { name });
        }
        let description = take_string(&mut members, "description")?;
        let Some(Value::Object(parameters)) = members.shift_remove("parameters") else {
            return Err(member("parameters", "an object"));
        };
        let parameters =
            if is_shorthand(&parameters) { expand_shorthand(parameters)? } else { parameters };
        check_properties(&parameters)?;
        let returns = members.shift_remove("returns").filter(|value| !value.is_null());
        let result = match members.shift_remove("result") {
            None | Some(Value::Null) => ResultKind::Json,
            Some(Value::String(word)) if word == CONTENT => ResultKind::Content,
            Some(_) => return Err(member("result", "`content` or absent")),
        };
        Ok(Self { name, description, parameters: Value::Object(parameters), returns, result })
    }

    /// Returns the canonical form: name, description and parameters. If the tool has `returns`,
    /// it is included, wrapped as the envelope carries it.
    #[must_use]
    pub fn canonical(&self) -> Value {
        let mut form = Map::new();
        form.insert("name".into(), self.name.clone().into());
        form.insert("description".into(), self.description.clone().into());
        form.insert("parameters".into(), self.parameters.clone());
        if let Some(returns) = self.model_returns() {
            form.insert("returns".into(), wrap_returns(returns));
        }
        Value::Object(form)
    }

    /// Returns the JSON Schema of the answer as a model reads it. `None` for a tool that answers
    /// with content, because the model reads the text of the content.
    #[must_use]
    pub fn model_returns(&self) -> Option<&Value> {
        self.returns.as_ref().filter(|_| self.result == ResultKind::Json)
    }

    /// Returns the form that tools print, which [`Self::parse`] reads back.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let mut form = Map::new();
        form.insert("name".into(), self.name.clone().into());
        form.insert("description".into(), self.description.clone().into());
        form.insert("parameters".into(), self.parameters.clone());
        if let Some(returns) = &self.returns {
            form.insert("returns".into(), returns.clone());
        }
        if self.result == ResultKind::Content {
            form.insert("result".into(), CONTENT.into());
        }
        Value::Object(form)
    }
}

/// Returns `true` if `parameters` is the shorthand.
///
/// It is the shorthand if and only if it cannot be JSON Schema's own form: if `type` is not the
/// string `object`. A tool with a *parameter* called `type` gives it an object, so the two
/// cannot be confused.
fn is_shorthand(parameters: &Map<String, Value>) -> bool {
    parameters.get("type").and_then(Value::as_str) != Some("object")
}

fn expand_shorthand(parameters: Map<String, Value>) -> Result<Map<String, Value>, SchemaError> {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (name, property) in parameters {
        let place = || format!("parameters.{name}");
        let Value::Object(mut property) = property else {
            return Err(member(&place(), "an object"));
        };
        // In JSON Schema's own form a property may accept anything. In the shorthand, a member
        // without a meaning shows that the whole was not meant as shorthand: `{"properties": {…}}`
        // without `type` is not a tool with a parameter called `properties`.
        if !has_meaning(&property) {
            return Err(member(&place(), PROPERTY));
        }
        // Only the shorthand's own boolean is lifted. An array is JSON Schema's `required` of a
        // nested object and stays in place.
        if let Some(flag) = property.get("required").and_then(Value::as_bool) {
            property.shift_remove("required");
            if flag {
                required.push(Value::String(name.clone()));
            }
        }
        properties.insert(name, Value::Object(property));
    }
    let mut expanded = Map::new();
    expanded.insert("type".into(), "object".into());
    expanded.insert("properties".into(), Value::Object(properties));
    if !required.is_empty() {
        expanded.insert("required".into(), Value::Array(required));
    }
    Ok(expanded)
}

/// Checks that each property is a JSON Schema; `{}` and `true` accept anything and are valid.
fn check_properties(parameters: &Map<String, Value>) -> Result<(), SchemaError> {
    let Some(Value::Object(properties)) = parameters.get("properties") else {
        return Err(member("parameters.properties", "an object"));
    };
    for (name, property) in properties {
        let place = || format!("parameters.properties.{name}");
        match property {
            Value::Bool(_) => {}
            Value::Object(property) if !property.get(ACCESS_MARK).is_none_or(is_access) => {
                return Err(member(&format!("{}.{ACCESS_MARK}", place()), "`ro` or `rw`"));
            }
            Value::Object(property) if property.get("type").is_none_or(is_type) => {}
            Value::Object(_) => return Err(member(&place(), PROPERTY)),
            _ => return Err(member(&place(), "an object or a boolean")),
        }
    }
    Ok(())
}

/// The expectation in the message about a refused property.
const PROPERTY: &str =
    "a JSON Schema with a valid `type`, `$ref`, `enum`, `const`, `anyOf`, `oneOf` or `allOf`";

/// Returns whether the value of [`ACCESS_MARK`] is valid in a policy file.
fn is_access(value: &Value) -> bool {
    matches!(value.as_str(), Some("ro" | "rw"))
}

fn has_meaning(property: &Map<String, Value>) -> bool {
    match property.get("type") {
        Some(value) => is_type(value),
        None => TYPE_ALTERNATIVES.iter().any(|keyword| property.contains_key(*keyword)),
    }
}

fn is_type(value: &Value) -> bool {
    let known = |value: &Value| value.as_str().is_some_and(|name| TYPES.contains(&name));
    match value {
        Value::Array(types) => !types.is_empty() && types.iter().all(known),
        single => known(single),
    }
}

fn take_string(members: &mut Map<String, Value>, name: &str) -> Result<String, SchemaError> {
    match members.shift_remove(name) {
        Some(Value::String(text)) => Ok(text),
        _ => Err(member(name, "a string")),
    }
}

fn member(place: &str, expected: &'static str) -> SchemaError {
    SchemaError::Member { member: place.to_owned(), expected }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn wrap_returns(returns: &Value) -> Value {
    let mut result = Map::new();
    result.insert("description".into(), "Present only when tool_success is true".into());
    if let Value::Object(own) = returns {
        result.extend(own.clone());
    }
    serde_json::json!({
        "tool_success": {
            "type": "boolean",
            "description": "True if the tool ran, false if the host reports an error"
        },
        "result": result,
        "error": {
            "type": "string",
            "description": "Present only when tool_success is false"
        },
        "error_code": {
            "type": "string",
            "description": "Machine-readable code, present only when tool_success is false"
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parse(value: &Value) -> Result<ToolSchema, String> {
        ToolSchema::parse(value.to_string().as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_plain_schema_is_kept_as_it_is() {
        let value = json!({"name": "db_query", "description": "d", "parameters":
            {"type": "object", "properties": {"q": {"type": ["string", "null"]}}, "required": ["q"]},
            "returns": {"type": "object"}});
        assert_eq!(parse(&value).expect("parses").to_value(), value);
    }

    #[test]
    fn an_answer_in_content_blocks_is_said_so() {
        let mut value = json!({"name": "shot", "description": "d",
            "parameters": {"type": "object", "properties": {}}, "returns": {"type": "object"}});
        assert_eq!(parse(&value).expect("parses").result, ResultKind::Json);
        value["result"] = "content".into();
        let schema = parse(&value).expect("parses");
        assert_eq!((schema.result, schema.to_value()), (ResultKind::Content, value.clone()));
        assert_eq!(schema.canonical().get("returns"), None);
        for other in [json!("Content"), json!({}), json!(true)] {
            value["result"] = other;
            assert_eq!(parse(&value).expect_err("refused"), "`result` must be `content` or absent");
        }
    }

    #[test]
    fn the_shorthand_becomes_json_schema() {
        let value = json!({"name": "a-b", "description": "", "parameters": {
            "type": {"type": "string", "required": true}, "n": {"type": "integer", "required": false}}});
        let schema = parse(&value).expect("parses");
        assert_eq!(schema.name, "a_b");
        assert_eq!(
            schema.parameters,
            json!({"type": "object", "properties": {"type": {"type": "string"}, "n": {"type": "integer"}},
                   "required": ["type"]})
        );
    }

    #[test]
    fn no_parameters_at_all_is_the_shorthand_for_none() {
        let schema =
            parse(&json!({"name": "now", "description": "", "parameters": {}})).expect("parses");
        assert_eq!(schema.parameters, json!({"type": "object", "properties": {}}));
    }

    #[test]
    fn a_path_is_marked_with_the_access_that_it_takes() {
        let schema = |mark: &str| {
            let text = format!(
                r#"{{"name":"a","description":"b","parameters":{{"x":{{"type":"string",
                "{ACCESS_MARK}":{mark}}}}}}}"#
            );
            ToolSchema::parse(text.as_bytes())
        };
        assert!(schema("\"ro\"").is_ok() && schema("\"rw\"").is_ok());
        for wrong in ["\"read\"", "true", "null"] {
            let error = schema(wrong).expect_err("no access").to_string();
            assert!(error.contains("parameters.properties.x.x-ikigai-access"), "{error}");
        }
    }

    #[test]
    fn a_property_may_accept_anything() {
        for property in [json!({}), json!(true), json!(false), json!({"description": "any value"})]
        {
            let parameters = json!({"type": "object", "properties": {"p": property}});
            let value = json!({"name": "x", "description": "", "parameters": parameters});
            assert_eq!(parse(&value).expect("parses").to_value(), value);
        }
    }

    #[test]
    fn bad_schemas_are_refused_with_the_place() {
        let with =
            |parameters: Value| json!({"name": "x", "description": "", "parameters": parameters});
        let cases = [
            (json!([]), "schema is an array, not an object"),
            (json!({"description": ""}), "`name` must be a string"),
            (json!({"name": "1x"}), "name `1x` does not match ^[a-zA-Z_][a-zA-Z0-9_]{0,63}$"),
            (json!({"name": "a".repeat(65)}), "does not match"),
            (json!({"name": "é"}), "does not match"),
            (json!({"name": "slash-command"}), "name `slash_command` is reserved for the host"),
            (json!({"name": "x"}), "`description` must be a string"),
            (json!({"name": "x", "description": ""}), "`parameters` must be an object"),
            (with(json!({"type": "object"})), "`parameters.properties` must be an object"),
            (with(json!({"type": "array"})), "`parameters.type` must be an object"),
            (
                with(json!({"type": "object", "properties": {"p": "string"}})),
                "`parameters.properties.p` must be an object or a boolean",
            ),
            // Forms of JSON Schema without `type: "object"`, which are not shorthand either.
            (
                with(json!({"properties": {"p": {"type": "string"}}})),
                "`parameters.properties` must be",
            ),
            (with(json!({"p": {}})), "`parameters.p` must be a JSON Schema with"),
            (
                with(json!({"type": "object", "properties": {"p": {"type": "text"}}})),
                "`parameters.properties.p` must be",
            ),
            (
                with(json!({"type": "object", "properties": {"p": {"type": []}}})),
                "`parameters.properties.p` must be",
            ),
        ];
        for (value, message) in cases {
            let error = parse(&value).expect_err(&value.to_string());
            assert!(error.contains(message), "{value}: {error}");
        }
        assert!(matches!(ToolSchema::parse(b" \n"), Err(SchemaError::Empty)));
        assert!(matches!(ToolSchema::parse(b"{} {}"), Err(SchemaError::Json(_))));
        let deep = format!("{{\"name\":{}", "[".repeat(100_000));
        assert!(matches!(ToolSchema::parse(deep.as_bytes()), Err(SchemaError::Json(_))));
        let large = vec![b' '; MAX_SCHEMA_BYTES + 1];
        assert!(matches!(ToolSchema::parse(&large), Err(SchemaError::TooLarge { .. })));
    }
}
