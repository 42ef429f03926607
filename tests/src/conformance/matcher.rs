//! The matchers of a case's expectations.

use regex::RegexBuilder;
use serde_json::{Map, Value};

/// The number of characters that are shown of a text that did not match.
const SHOWN: usize = 160;

/// Checks `found` against `expected`; `path` is the position in the JSON.
pub(super) fn check(expected: &Value, found: &Value, path: &str) -> Result<(), String> {
    match (expected, found) {
        (Value::Object(operators), _) if is_matcher(operators) => {
            operators.iter().try_for_each(|(name, operand)| apply(name, operand, found, path))
        }
        (Value::Object(wanted), Value::Object(found)) => {
            let partial = wanted.contains_key("$partial");
            let wanted: Vec<_> = wanted.iter().filter(|(key, _)| *key != "$partial").collect();
            for (key, expected) in &wanted {
                let found = found.get(*key).ok_or_else(|| format!("{path}.{key}: missing"))?;
                check(expected, found, &format!("{path}.{key}"))?;
            }
            match found.keys().find(|key| !wanted.iter().any(|(name, _)| name == key)) {
                Some(extra) if !partial => Err(format!("{path}: unexpected key `{extra}`")),
                _ => Ok(()),
            }
        }
        (Value::Array(wanted), Value::Array(found)) if wanted.len() == found.len() => {
            wanted.iter().zip(found).try_for_each(|(expected, found)| check(expected, found, path))
        }
        _ if expected == found => Ok(()),
        _ => Err(format!(
            "{path}: {} is not {}",
            short(&found.to_string()),
            short(&expected.to_string())
        )),
    }
}

fn is_matcher(members: &Map<String, Value>) -> bool {
    !members.is_empty() && members.keys().all(|key| key.starts_with('$') && key != "$partial")
}

fn apply(name: &str, operand: &Value, found: &Value, path: &str) -> Result<(), String> {
    let text = found.as_str();
    let wanted = operand.as_str();
    let both = text.zip(wanted);
    let holds = match name {
        "$any" => true,
        "$re" => both.is_some_and(|(text, pattern)| {
            let whole =
                RegexBuilder::new(&format!("^(?:{pattern})$")).dot_matches_new_line(true).build();
            whole.expect("a pattern in a case").is_match(text)
        }),
        "$contains" => both.is_some_and(|(text, wanted)| text.contains(wanted)),
        "$contains_all" => operand.as_array().is_some_and(|list| {
            list.iter()
                .all(|each| text.zip(each.as_str()).is_some_and(|(text, each)| text.contains(each)))
        }),
        "$not_contains" => !both.is_some_and(|(text, wanted)| text.contains(wanted)),
        "$prefix" => both.is_some_and(|(text, wanted)| text.starts_with(wanted)),
        "$suffix" => both.is_some_and(|(text, wanted)| text.ends_with(wanted)),
        "$oneof" => operand
            .as_array()
            .is_some_and(|list| list.iter().any(|each| check(each, found, path).is_ok())),
        "$and" => {
            return operand
                .as_array()
                .into_iter()
                .flatten()
                .try_for_each(|each| check(each, found, path));
        }
        "$type" => match wanted {
            Some("string") => found.is_string(),
            Some("int") => found.is_i64() || found.is_u64(),
            Some("bool") => found.is_boolean(),
            Some("object") => found.is_object(),
            _ => return Err(format!("{path}: unknown type {operand}")),
        },
        "$len" => text.is_some_and(|text| Some(text.chars().count() as u64) == operand.as_u64()),
        "$repeat" => text.is_some_and(|text| text == repeated(operand)),
        _ => return Err(format!("{path}: unknown matcher `{name}`")),
    };
    let shown = || {
        format!(
            "{path}: {} fails {name} {}",
            short(&found.to_string()),
            short(&operand.to_string())
        )
    };
    if holds { Ok(()) } else { Err(shown()) }
}

/// Expands `{prefix, text, n, suffix}`.
pub(super) fn repeated(value: &Value) -> String {
    let part = |name: &str| value[name].as_str().unwrap_or("");
    let count = usize::try_from(value["n"].as_u64().unwrap_or(0)).expect("a count in a case");
    [part("prefix"), &part("text").repeat(count), part("suffix")].concat()
}

/// Truncates a text for a message.
pub(super) fn short(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}... ({} bytes)", &text[..end], text.len()),
    }
}
