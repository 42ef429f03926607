//! Translates tools: the schema of one tool into the form of each provider, and all tools into the
//! `tools` of a request.
//!
//! This module translates everything around a schema, and has the rules for names. The modules
//! below it translate the schema itself, one for each form.

mod bounds;
mod description;
pub(crate) mod dialect;
mod google;
pub mod limits;
pub(crate) mod reference;
pub(crate) mod strict;

use std::collections::BTreeMap;

use ikigai_protocol::ToolSchema;
use serde_json::{Map, Value, json};

use crate::Provider;
use crate::loss::{Inexpressible, Loss, LossEffect, LossReason};

pub use bounds::{SAFE_DESCRIPTION, ToolBounds};

/// The names that OpenAI and Anthropic accept: the reference of `FunctionObject.name`, and
/// <https://docs.anthropic.com/en/docs/agents-and-tools/tool-use/implement-tool-use>.
const NAME_PATTERN: &str = "^[a-zA-Z0-9_-]{1,64}$";

/// The names that Google accepts: <https://ai.google.dev/api/caching#FunctionDeclaration>.
const GOOGLE_NAME_PATTERN: &str = "^[a-zA-Z_][a-zA-Z0-9_.-]{0,63}$";

/// The keys of `input_schema.properties` that Anthropic accepts, from its error message.
const KEY_PATTERN: &str = "^[a-zA-Z0-9_.-]{1,64}$";

/// The maximum length of the name of a tool or key, in bytes; all the patterns are ASCII.
pub(crate) const MAX_NAME_BYTES: usize = 64;

/// A tool in the form of one provider.
#[derive(Clone, Debug, PartialEq)]
pub struct Translation {
    /// The entry exactly as it is sent; for Google, one function declaration.
    pub value: Value,
    /// The parts of the schema that the form does not express.
    pub losses: Vec<Loss>,
}

/// All tools in the form of one provider.
#[derive(Clone, Debug, PartialEq)]
pub struct TranslatedTools {
    /// The member `tools` of a request: an array, empty if no tool is offered.
    pub value: Value,
    /// Every loss, with the name of its tool.
    pub losses: Vec<(String, Loss)>,
    /// The tools that are not in the list.
    pub left_out: Vec<OmittedTool>,
}

/// A tool that is not offered to a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OmittedTool {
    /// The name of the tool.
    pub tool: String,
    /// The reason why it is not offered.
    pub reason: Inexpressible,
}

/// Translates one tool for `provider`, within these bounds.
///
/// # Errors
///
/// Fails with [`Inexpressible`] if the provider would refuse the tool in any form, and the whole
/// request with it.
pub fn translate(
    provider: Provider,
    bounds: ToolBounds,
    schema: &ToolSchema,
) -> Result<Translation, Inexpressible> {
    check_name(provider, &schema.name)?;
    let dialect::Modern { schema: parameters, mut losses } = dialect::modern(&schema.parameters)?;
    let name = &schema.name;
    let description = description::description(schema, bounds.description, &mut losses);
    let value = match provider {
        Provider::OpenAi => {
            let (parameters, strict) = openai_parameters(parameters, &mut losses)?;
            json!({ "type": "function", "name": name, "description": description,
                    "parameters": parameters, "strict": strict })
        }
        Provider::OpenAiChat => {
            let (parameters, strict) = openai_parameters(parameters, &mut losses)?;
            json!({ "type": "function", "function": { "name": name, "description": description,
                    "parameters": parameters, "strict": strict } })
        }
        Provider::Anthropic => {
            check_keys(&parameters)?;
            let parameters = without_at_root(parameters, &["oneOf", "allOf", "anyOf"], &mut losses);
            dialect::modern(&parameters)?;
            json!({ "name": name, "description": description, "input_schema": parameters })
        }
        Provider::Google => {
            dialect::modern(&parameters)?;
            let (members, found) = google::parameters(&parameters);
            losses.extend(found);
            let mut declaration = Map::new();
            declaration.insert("name".into(), json!(name));
            declaration.insert("description".into(), json!(description));
            declaration.extend(members);
            Value::Object(declaration)
        }
    };
    Ok(Translation { value, losses })
}

/// Translates tools into the `tools` of a request, within these bounds and sorted by name: a
/// provider can cache a list that does not change between requests. `schemas` are in order of
/// importance. If there are more tools than the provider accepts, the first are offered. If two
/// tools have the same name, the first is offered.
pub fn translate_all<'a>(
    provider: Provider,
    bounds: ToolBounds,
    schemas: impl IntoIterator<Item = &'a ToolSchema>,
) -> TranslatedTools {
    let (mut entries, mut losses, mut left_out) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    for schema in schemas {
        let tool = &schema.name;
        let translation = if entries.contains_key(tool) {
            Err(Inexpressible::Duplicate { name: tool.clone() })
        } else {
            translate(provider, bounds, schema)
        };
        let translation = translation.and_then(|translation| match bounds.tools {
            Some(limit) if entries.len() >= limit => Err(Inexpressible::TooMany { limit }),
            _ => Ok(translation),
        });
        match translation {
            Ok(translation) => {
                entries.insert(tool, translation.value);
                losses.insert(tool, translation.losses);
            }
            Err(reason) => left_out.push(OmittedTool { tool: tool.clone(), reason }),
        }
    }
    left_out.sort_by(|one, other| one.tool.cmp(&other.tool));
    let of_tool = |(tool, losses): (&String, Vec<Loss>)| {
        let tool = tool.clone();
        losses.into_iter().map(move |loss| (tool.clone(), loss))
    };
    TranslatedTools {
        value: list(provider, entries.into_values().collect()),
        losses: losses.into_iter().flat_map(of_tool).collect(),
        left_out,
    }
}

fn list(provider: Provider, mut entries: Vec<Value>) -> Value {
    match provider {
        Provider::OpenAi | Provider::OpenAiChat => Value::Array(entries),
        Provider::Anthropic => {
            // The mark is the end of the cached part of the prompt, which includes all tools.
            if let Some(Value::Object(last)) = entries.last_mut() {
                last.insert("cache_control".into(), json!({ "type": "ephemeral" }));
            }
            Value::Array(entries)
        }
        Provider::Google if entries.is_empty() => json!([]),
        Provider::Google => json!([{ "functionDeclarations": entries }]),
    }
}

/// Returns the schema in strict mode, or unchanged with `strict: false`.
fn openai_parameters(
    parameters: Value,
    losses: &mut Vec<Loss>,
) -> Result<(Value, bool), Inexpressible> {
    match strict::strict(&parameters) {
        Ok((schema, found)) => {
            losses.extend(found);
            Ok((schema, true))
        }
        Err(obstacles) => {
            losses.extend(obstacles);
            // OpenAI refuses these even with `strict: false`: "schema must have type 'object' and
            // not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level".
            let refused = ["oneOf", "anyOf", "allOf", "enum", "not"];
            let mut schema = without_at_root(parameters, &refused, losses);
            dialect::fill_items(&mut schema);
            // A part that was removed may have been the target of a reference.
            dialect::modern(&schema)?;
            Ok((schema, false))
        }
    }
}

/// Removes keywords at the root for which a provider refuses the whole request. The tool itself
/// checks their meaning.
fn without_at_root(mut schema: Value, refused: &[&str], losses: &mut Vec<Loss>) -> Value {
    if let Value::Object(members) = &mut schema {
        for keyword in refused.iter().filter(|keyword| members.shift_remove(**keyword).is_some()) {
            let reason = LossReason::Keyword((*keyword).to_owned());
            losses.push(Loss { at: format!("/{keyword}"), effect: LossEffect::Removed, reason });
        }
    }
    schema
}

fn check_name(provider: Provider, name: &str) -> Result<(), Inexpressible> {
    if is_name(provider, name) {
        return Ok(());
    }
    let pattern = match provider {
        Provider::Google => GOOGLE_NAME_PATTERN,
        _ => NAME_PATTERN,
    };
    Err(Inexpressible::Name { name: name.to_owned(), pattern })
}

/// Returns whether the provider accepts this name of a tool.
pub(crate) fn is_name(provider: Provider, name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let matches = match provider {
        Provider::Google => {
            name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
                && name.bytes().all(|byte| plain(byte) || byte == b'.')
        }
        _ => !name.is_empty() && name.bytes().all(plain),
    };
    matches && name.len() <= MAX_NAME_BYTES
}

fn check_keys(parameters: &Value) -> Result<(), Inexpressible> {
    let is_key = |name: &String| {
        (1..=MAX_NAME_BYTES).contains(&name.len())
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'))
    };
    let properties = parameters.get("properties").and_then(Value::as_object);
    match properties.into_iter().flat_map(Map::keys).find(|name| !is_key(name)) {
        None => Ok(()),
        Some(name) => Err(Inexpressible::PropertyName { name: name.clone(), pattern: KEY_PATTERN }),
    }
}
