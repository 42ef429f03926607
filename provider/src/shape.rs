//! The shape that an answer must have: a JSON Schema in the form of one provider.
//!
//! A provider that accepts the schema writes nothing that contradicts it, except if an answer is
//! cut off or refused.

use serde_json::{Map, Value};
use thiserror::Error;

use crate::arguments::strip;
use crate::translate::{dialect, limits, strict};
use crate::{Inexpressible, Loss, Provider};

/// The shape of an answer, in the form of one provider.
#[derive(Clone, Debug, PartialEq)]
pub struct AnswerShape {
    provider: Provider,
    /// The schema as it was given, without the forms of older drafts.
    given: Value,
    /// The schema as it is sent.
    sent: Value,
}

/// The reason why a provider cannot enforce a schema.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ShapeError {
    /// The schema is not a valid JSON Schema.
    #[error("`{}` in the schema must be {expected}", place(at))]
    Malformed {
        /// A JSON pointer into the schema.
        at: String,
        /// The kind of value that is valid there.
        expected: &'static str,
    },
    /// The schema's values are not objects, and the provider writes only objects.
    #[error(
        "`{provider}` writes only answers of the type `object`; put the schema into a property of \
         an object"
    )]
    NoObject {
        /// The provider.
        provider: Provider,
    },
    /// The provider cannot enforce this schema.
    #[error("`{provider}` does not keep to such a schema: {}", sentence(.obstacles))]
    NotKept {
        /// The provider.
        provider: Provider,
        /// The parts of the schema that it cannot express.
        obstacles: Vec<Loss>,
    },
}

/// Returns a JSON pointer as users see it.
fn place(at: &str) -> &str {
    if at.is_empty() { "/" } else { at }
}

/// Returns obstacles in one line: the position of each, and its reason.
fn sentence(obstacles: &[Loss]) -> String {
    let of = |loss: &Loss| format!("`{}`: {}", place(&loss.at), loss.reason);
    obstacles.iter().map(of).collect::<Vec<_>>().join("; ")
}

impl AnswerShape {
    /// Translates a JSON Schema for a provider.
    ///
    /// # Errors
    ///
    /// Fails with a [`ShapeError`] if the schema is not valid, or if the provider has no form in
    /// which it enforces the schema.
    pub fn new(provider: Provider, schema: &Value) -> Result<Self, ShapeError> {
        let mut given = dialect::modern(schema).map_err(malformed)?.schema;
        // The schema now has the provider's dialect, and some providers refuse the name of another.
        if let Value::Object(members) = &mut given {
            members.shift_remove("$schema");
        }
        if provider != Provider::Google && given.get("type").is_none_or(|kind| kind != "object") {
            return Err(ShapeError::NoObject { provider });
        }
        let sent = match provider {
            Provider::OpenAi | Provider::OpenAiChat => {
                let strict = strict::strict(&given);
                strict.map_err(|obstacles| ShapeError::NotKept { provider, obstacles })?.0
            }
            Provider::Anthropic => {
                let obstacles = limits::exceeded(&given);
                if !obstacles.is_empty() {
                    return Err(ShapeError::NotKept { provider, obstacles });
                }
                let mut closed = given.clone();
                close(&mut closed);
                closed
            }
            Provider::Google => given.clone(),
        };
        Ok(Self { provider, given, sent })
    }

    /// Returns an answer without the values that only the provider's form required: in strict mode,
    /// a property that may be omitted is `null`. Returns nothing if there is nothing to change.
    #[must_use]
    pub fn as_given(&self, answer: &str) -> Option<String> {
        if self.provider.is_strict() { strip(&self.given, answer) } else { None }
    }

    pub(crate) fn sent(&self) -> &Value {
        &self.sent
    }
}

fn malformed(error: Inexpressible) -> ShapeError {
    match error {
        Inexpressible::Malformed { at, expected } => ShapeError::Malformed { at, expected },
        // The dialect has no other error; the rest is about names and numbers of tools.
        _ => ShapeError::Malformed { at: String::new(), expected: "JSON Schema" },
    }
}

/// Declares for each object that it has no other properties, which Anthropic requires:
/// <https://platform.claude.com/docs/en/build-with-claude/structured-outputs>. An answer that
/// satisfies this satisfies the schema too.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            members.values_mut().for_each(close);
            if is_open(members) {
                members.insert("additionalProperties".to_owned(), Value::Bool(false));
            }
        }
        Value::Array(elements) => elements.iter_mut().for_each(close),
        _ => {}
    }
}

fn is_open(members: &Map<String, Value>) -> bool {
    members.get("type").is_some_and(|kind| kind == "object")
        && members.get("properties").is_none_or(Value::is_object)
        && !members.contains_key("additionalProperties")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn person() -> Value {
        json!({
            "type": "object",
            "properties": {
                "name": { "type": "string" },
                "age": { "type": "integer" },
                "pets": { "type": "array", "items": {
                    "type": "object", "properties": { "kind": { "type": "string" } },
                    "required": ["kind"] } },
            },
            "required": ["name"],
        })
    }

    #[test]
    fn each_provider_gets_the_schema_in_its_form() {
        for provider in Provider::ALL {
            let shape = AnswerShape::new(provider, &person()).expect("a shape");
            let sent = shape.sent();
            let is_google = provider == Provider::Google;
            assert_eq!(sent == &person(), is_google, "{provider}");
            for at in ["/additionalProperties", "/properties/pets/items/additionalProperties"] {
                let expected = (provider == Provider::Anthropic).then_some(&Value::Bool(false));
                if !provider.is_strict() {
                    assert_eq!(sent.pointer(at), expected, "{provider}");
                }
            }
            assert_eq!(provider.is_strict(), sent["required"] == json!(["name", "age", "pets"]));
        }
    }

    #[test]
    fn nulls_of_strict_mode_are_taken_out_of_the_answer() {
        let answer = r#"{"name":"a","age":null,"pets":[]}"#;
        for provider in Provider::ALL {
            let shape = AnswerShape::new(provider, &person()).expect("a shape");
            let expected = provider.is_strict().then(|| r#"{"name":"a","pets":[]}"#.to_owned());
            assert_eq!(shape.as_given(answer), expected, "{provider}");
            assert_eq!(shape.as_given("no JSON"), None);
        }
    }

    #[test]
    fn what_no_provider_keeps_to_is_refused() {
        for provider in Provider::ALL {
            let told = |schema: Value| {
                AnswerShape::new(provider, &schema).expect_err("a refusal").to_string()
            };
            assert_eq!(told(json!([])), "`/` in the schema must be an object or a boolean");
            let wrong = told(json!({ "type": "object", "properties": [] }));
            assert!(wrong.starts_with("`/properties` in the schema must be"), "{wrong}");
            if provider == Provider::Google {
                continue;
            }
            let list = told(json!({ "type": "array", "items": { "type": "string" } }));
            assert!(list.contains("only answers of the type `object`"), "{list}");
        }
        let any = json!({ "type": "object", "properties": { "a": {} } });
        let told = AnswerShape::new(Provider::OpenAi, &any).expect_err("a refusal").to_string();
        assert_eq!(
            told,
            "`openai` does not keep to such a schema: `/properties/a`: without `type` any value is \
             accepted; `/properties/a`: an array without `items` may hold anything"
        );
    }
}
