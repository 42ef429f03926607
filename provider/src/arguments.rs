//! The arguments of a call, brought back from what strict mode made of the schema.
//!
//! Strict mode makes every optional property a required nullable one, so a model says null
//! for what it would leave out. The tool must not see those nulls; its own it must.

use ikigai_protocol::ToolSchema;
use serde_json::{Map, Value};

use crate::translate::reference::{
    accepts_type, is_widened, leaves, listed_alone, required, type_of,
};
use crate::translate::{dialect, strict};

/// Removes exactly the nulls that strict mode introduced, at every depth, and nothing where
/// the schema was sent with `strict: false`.
///
/// For the providers for which [`crate::Provider::is_strict`] holds. An argument whose schema
/// accepts null keeps it. Arguments that do not fit the schema are kept as far as they do not:
/// it is the tool that refuses them.
#[must_use]
pub fn strip_nulls(schema: &ToolSchema, arguments: Value) -> Value {
    let Ok(modern) = dialect::modern(&schema.parameters) else { return arguments };
    if strict::strict(&modern.schema).is_err() {
        return arguments;
    }
    let root = &modern.schema;
    strip(root, root, arguments)
}

fn strip(root: &Value, schema: &Value, value: Value) -> Value {
    let candidates = leaves(root, schema).schemas;
    let Some(leaf) = choose(root, &candidates, &value) else { return value };
    match value {
        Value::Object(members) => Value::Object(strip_members(root, leaf, members)),
        Value::Array(elements) => match leaf.get("items") {
            Some(items) => {
                elements.into_iter().map(|element| strip(root, items, element)).collect()
            }
            None => Value::Array(elements),
        },
        scalar => scalar,
    }
}

fn strip_members(
    root: &Value,
    leaf: &Map<String, Value>,
    members: Map<String, Value>,
) -> Map<String, Value> {
    let properties = leaf.get("properties").and_then(Value::as_object);
    let mut kept = Map::new();
    for (name, member) in members {
        let value = match properties.and_then(|all| all.get(&name)) {
            Some(property) if member.is_null() && is_widened(root, leaf, &name, property) => {
                continue;
            }
            Some(property) => strip(root, property, member),
            None => member,
        };
        kept.insert(name, value);
    }
    kept
}

/// The alternative that the model meant. Strict mode makes it give every property, so an exact
/// match decides; servers that do not enforce strict mode leave some out.
fn choose<'a>(
    root: &Value,
    candidates: &[&'a Map<String, Value>],
    value: &Value,
) -> Option<&'a Map<String, Value>> {
    let of_type: Vec<_> =
        candidates.iter().copied().filter(|leaf| accepts_type(leaf, type_of(value))).collect();
    let (Value::Object(members), true) = (value, of_type.len() > 1) else {
        // Strict mode lets no two alternatives of another type differ in their nulls.
        return of_type.into_iter().next();
    };
    let fitting: Vec<_> = of_type.into_iter().filter(|leaf| fits(root, leaf, members)).collect();
    let is_complete = |leaf: &&&Map<String, Value>| properties(leaf).count() == members.len();
    fitting.iter().find(is_complete).or_else(|| fitting.first()).copied()
}

/// Whether every member is declared, and none contradicts the values that its schema lists.
fn fits(root: &Value, leaf: &Map<String, Value>, members: &Map<String, Value>) -> bool {
    let declared = |name: &str| properties(leaf).find(|(known, _)| *known == name);
    members.iter().all(|(name, member)| match declared(name) {
        None => false,
        Some((_, property)) => {
            listed_alone(root, property).is_none_or(|values| values.contains(&member))
                || (member.is_null() && is_widened(root, leaf, name, property))
        }
    }) && required(leaf).all(|name| members.contains_key(name))
}

fn properties(leaf: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    leaf.get("properties").and_then(Value::as_object).into_iter().flatten()
}
