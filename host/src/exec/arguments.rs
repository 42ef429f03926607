//! The arguments of a tool against the JSON Schema of its `parameters`.

use std::sync::OnceLock;

use jsonschema::{ValidationError, Validator};
use serde_json::Value;

/// The largest number of values in arguments that are checked, counted by the commas and brackets
/// of their text. A value takes far more memory as a tree than as text, so larger arguments are
/// left to the tool, which checks its arguments anyway.
const MAX_VALUES: usize = 100_000;

/// The most mismatches that are reported.
const MAX_MISMATCHES: usize = 8;

/// The longest description of a mismatch in characters: it may quote an argument.
const MAX_TEXT: usize = 300;

/// A part of arguments that the schema does not allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The place as a JSON Pointer; empty for the arguments as a whole.
    pub place: String,
    /// The description, for a model.
    pub text: String,
}

/// The schema of a tool's arguments, compiled when it is first needed.
#[derive(Debug, Default)]
pub(crate) struct ArgumentCheck(OnceLock<Option<Validator>>);

impl ArgumentCheck {
    /// Returns the first mismatches between `arguments` and the schema `parameters`. The list is
    /// empty if the arguments cannot be checked: the tool checks its arguments itself.
    pub(crate) fn mismatches(&self, parameters: &Value, arguments: &[u8]) -> Vec<Mismatch> {
        self.check(parameters, arguments).unwrap_or_default()
    }

    /// Checks `arguments` against the schema `parameters`, and returns the first mismatches.
    ///
    /// # Errors
    ///
    /// Fails with the reason if the arguments cannot be checked.
    pub(crate) fn check(
        &self,
        parameters: &Value,
        arguments: &[u8],
    ) -> Result<Vec<Mismatch>, String> {
        let is_value_mark = |byte: &&u8| matches!(byte, b',' | b'[' | b'{');
        if arguments.iter().filter(is_value_mark).count() > MAX_VALUES {
            return Err(format!("the arguments have more than {MAX_VALUES} values"));
        }
        let validator = self.0.get_or_init(|| compile(parameters).ok());
        // The registry has only tools whose schema compiles.
        let Some(validator) = validator else {
            return Err("the schema does not compile".to_owned());
        };
        let arguments = serde_json::from_slice(arguments)
            .map_err(|error| format!("the arguments are not valid JSON: {error}"))?;
        // Almost all calls are valid, and need no description of an error.
        if validator.is_valid(&arguments) {
            return Ok(Vec::new());
        }
        let errors = validator.iter_errors(&arguments).take(MAX_MISMATCHES);
        Ok(errors.map(|error| Mismatch::from_error(&error)).collect())
    }
}

impl Mismatch {
    fn from_error(error: &ValidationError<'_>) -> Self {
        let text = error.to_string();
        let text = match text.char_indices().nth(MAX_TEXT) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text,
        };
        Self { place: error.instance_path().to_string(), text }
    }
}

/// Compiles parameters as JSON Schema of the draft that `$schema` names. Without `$schema` they
/// are 2020-12 or an older draft: generators write the tuples of draft 7 and the bounds of draft 4
/// without a name, and every provider gets them translated to 2020-12.
pub(crate) fn compile(parameters: &Value) -> Result<Validator, ValidationError<'static>> {
    // References lead within the document only: no resolver that opens files or connections is
    // compiled in.
    let error = match jsonschema::validator_for(parameters) {
        Ok(validator) => return Ok(validator),
        Err(error) => error,
    };
    if parameters.get("$schema").is_some() {
        return Err(error);
    }
    jsonschema::draft7::new(parameters)
        .or_else(|_| jsonschema::draft4::new(parameters))
        .map_err(|_| error)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parameters_of_every_draft_compile_and_no_others() {
        let with = |property: Value| json!({ "type": "object", "properties": { "p": property } });
        let tuple = json!({ "type": "array", "items": [{ "type": "string" }] });
        let bound = json!({ "type": "number", "minimum": 0, "exclusiveMinimum": true });
        for property in
            [json!({}), json!(true), json!({ "prefixItems": [{}] }), tuple, bound.clone()]
        {
            assert!(compile(&with(property.clone())).is_ok(), "{property}");
        }
        for property in [
            json!({ "type": "string", "minLength": "many" }),
            json!({ "type": "array", "items": 3 }),
            json!({ "$ref": "https://example.com/schema" }),
        ] {
            assert!(compile(&with(property.clone())).is_err(), "{property}");
        }
        // The draft that `$schema` names applies.
        let mut named = with(bound);
        named["$schema"] = json!("http://json-schema.org/draft-07/schema#");
        assert!(compile(&named).is_err());
        named["$schema"] = json!("http://json-schema.org/draft-04/schema#");
        assert!(compile(&named).is_ok());
    }

    #[test]
    fn mismatches_name_their_place_and_are_bounded() {
        let schema = json!({
            "type": "object",
            "properties": { "path": { "type": "string" }, "n": { "type": "array", "items": { "type": "integer" } } },
            "required": ["path"],
        });
        let found = |arguments: &Value| {
            let text = arguments.to_string();
            ArgumentCheck::default().mismatches(&schema, text.as_bytes())
        };
        assert_eq!(found(&json!({ "path": "x", "n": [1, 2] })), []);
        let missing = found(&json!({ "n": [1, "two"] }));
        let places: Vec<&str> = missing.iter().map(|it| it.place.as_str()).collect();
        assert_eq!(places.len(), 2, "{missing:?}");
        assert!(places.contains(&"") && places.contains(&"/n/1"), "{places:?}");
        let many = found(&json!({ "path": 1, "n": vec!["x".repeat(10_000); 100] }));
        assert_eq!(many.len(), MAX_MISMATCHES);
        assert!(many.iter().all(|it| it.text.chars().count() <= MAX_TEXT + 1));
        // As a tree this would take a gigabyte.
        let huge = json!({ "path": 1, "n": vec![1; MAX_VALUES + 1] });
        assert_eq!(found(&huge), []);
        let checked = ArgumentCheck::default().check(&schema, huge.to_string().as_bytes());
        assert_eq!(checked, Err("the arguments have more than 100000 values".to_owned()));
    }
}
