//! The JSON Schema that `ikigai ask --schema` demands of an answer: reading it, the instruction to
//! the model, and the check of the answer.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use anyhow::Context as _;
use jsonschema::Validator;
use serde_json::Value;

use crate::error::CliError;

/// The largest file that is read: 1 MiB. The whole schema is sent with each request.
const MAX_BYTES: u64 = 1 << 20;

/// The most mismatches that are reported.
const MAX_MISMATCHES: usize = 8;

/// The longest description of a mismatch, in characters. It quotes the answer.
const MAX_TEXT: usize = 300;

/// A schema that compiles.
#[derive(Debug)]
pub(super) struct AnswerSchema {
    schema: Value,
    validator: Validator,
}

impl AnswerSchema {
    /// Reads the file.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, is too large, or does not contain a JSON Schema.
    pub(super) fn read(path: &Path) -> Result<Self, CliError> {
        let read = || -> anyhow::Result<Self> {
            let mut text = String::new();
            File::open(path)?.take(MAX_BYTES + 1).read_to_string(&mut text)?;
            anyhow::ensure!(text.len() as u64 <= MAX_BYTES, "it has more than {MAX_BYTES} bytes");
            Self::parse(&text)
        };
        read()
            .with_context(|| format!("`{}` is not used as a schema", path.display()))
            .map_err(CliError::usage)
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let schema: Value = serde_json::from_str(text)?;
        anyhow::ensure!(schema.is_object(), "it is not a JSON object");
        let validator = jsonschema::validator_for(&schema).map_err(|error| {
            let place = place(&error.instance_path().to_string());
            anyhow::Error::msg(format!("{place}: {}", in_short(&error.to_string())))
        })?;
        Ok(Self { schema, validator })
    }

    /// Returns the schema. A provider that supports schemas enforces it.
    pub(super) fn schema(&self) -> &Value {
        &self.schema
    }

    /// Returns the sentence that tells the model about the schema.
    pub(super) fn instruction(&self) -> String {
        format!(
            "Your last answer in this turn, the one after which you call no tool, must be one JSON \
             value that matches this JSON Schema, without any text around it:\n\n{}",
            self.schema
        )
    }

    /// Returns the JSON of an answer, without the fence that some models put around it.
    ///
    /// # Errors
    ///
    /// Fails if the answer is not JSON, or does not match. The text lists the places.
    pub(super) fn check<'a>(&self, answer: &'a str) -> Result<&'a str, String> {
        let json = without_fence(answer.trim());
        let value: Value = serde_json::from_str(json)
            .map_err(|error| format!("the answer is not one JSON value: {error}"))?;
        let errors = self.validator.iter_errors(&value).take(MAX_MISMATCHES);
        let mismatches: Vec<String> = errors
            .map(|error| {
                let place = place(&error.instance_path().to_string());
                format!("{place}: {}", in_short(&error.to_string()))
            })
            .collect();
        if mismatches.is_empty() {
            return Ok(json);
        }
        Err(format!("the answer does not match the schema: {}", mismatches.join("; ")))
    }
}

/// Returns a JSON Pointer in words for the user.
fn place(pointer: &str) -> String {
    if pointer.is_empty() { "at the top".to_owned() } else { format!("at `{pointer}`") }
}

fn in_short(text: &str) -> String {
    match text.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Returns the text inside a fence of three backticks, if the fence encloses the whole text.
fn without_fence(text: &str) -> &str {
    let fenced = text.strip_prefix("```").and_then(|text| text.strip_suffix("```"));
    let Some((language, inner)) = fenced.and_then(|text| text.split_once('\n')) else {
        return text;
    };
    if matches!(language.trim(), "" | "json") { inner.trim() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &str = r#"{
        "type": "object",
        "properties": { "port": { "type": "integer" }, "hosts": { "type": "array",
            "items": { "type": "string" } } },
        "required": ["port"]
    }"#;

    #[test]
    fn an_answer_matches_or_the_places_are_named() {
        let schema = AnswerSchema::parse(SCHEMA).expect("a schema");
        for answer in ["{\"port\": 1}", "\n{\"port\":1}\n", "```json\n{\"port\":1}\n```"] {
            let json = schema.check(answer).expect(answer);
            assert!(json.starts_with("{\"port\"") && json.ends_with('}'), "{json}");
        }
        let refused = schema.check(r#"{"hosts": ["a", 2]}"#).expect_err("a mismatch");
        assert!(
            refused.contains("at the top: ") && refused.contains("at `/hosts/1`: "),
            "{refused}"
        );
        for answer in ["", "It is 1.", "{\"port\": 1} and more", "```\nnothing\n```"] {
            let refused = schema.check(answer).expect_err(answer);
            assert!(refused.starts_with("the answer is not one JSON value"), "{refused}");
        }
        let long = format!("{{\"port\": \"{}\"}}", "x".repeat(10_000));
        assert!(schema.check(&long).expect_err("a mismatch").len() < 1_000);
    }

    #[test]
    fn a_file_that_is_no_schema_is_refused_with_the_place() {
        let refused = |text: &str| AnswerSchema::parse(text).expect_err(text).to_string();
        assert!(refused("{").contains("EOF"));
        assert_eq!(refused("[]"), "it is not a JSON object");
        let refused = refused(r#"{"properties": {"a": {"type": "strnig"}}}"#);
        assert!(refused.starts_with("at `/properties/a/type`: "), "{refused}");
    }
}
