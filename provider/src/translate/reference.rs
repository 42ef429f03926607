//! References inside a schema, and the values that a schema accepts once they are followed.
//!
//! Strict mode uses this to know what is nullable, and the repair of arguments must decide the
//! same. This module knows nothing about providers.

use std::collections::HashSet;

use serde_json::{Map, Value};

/// The schemas that a schema consists of once its references and alternatives are followed.
pub(crate) struct Leaves<'a> {
    /// The schemas without `$ref` and without `anyOf`, in their order.
    pub(crate) schemas: Vec<&'a Map<String, Value>>,
    /// A reference that leads back to itself before it leads to a schema.
    pub(crate) endless: Option<&'a str>,
}

/// Returns the target of a reference: the root, or a definition at the root. Other references are
/// not followed.
pub(crate) fn resolve<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    if reference == "#" {
        return Some(root);
    }
    let path = reference.strip_prefix("#/")?;
    let (container, name) = path.split_once('/')?;
    if !matches!(container, "$defs" | "definitions") || name.contains('/') {
        return None;
    }
    root.pointer(&reference[1..])
}

/// Follows the references and alternatives of `schema`.
pub(crate) fn leaves<'a>(root: &'a Value, schema: &'a Value) -> Leaves<'a> {
    let mut walk = ReferenceWalk {
        root,
        path: Vec::new(),
        seen: HashSet::new(),
        endless: None,
        found: vec![],
    };
    walk.enter(schema);
    Leaves { schemas: walk.found, endless: walk.endless }
}

struct ReferenceWalk<'a> {
    root: &'a Value,
    path: Vec<&'a str>,
    /// The definitions that were expanded. Expanding one again would add nothing, and nested
    /// alternatives would grow exponentially.
    seen: HashSet<&'a str>,
    endless: Option<&'a str>,
    found: Vec<&'a Map<String, Value>>,
}

impl<'a> ReferenceWalk<'a> {
    fn enter(&mut self, schema: &'a Value) {
        let Value::Object(members) = schema else { return };
        if let Some(reference) = members.get("$ref").and_then(Value::as_str) {
            if self.path.contains(&reference) {
                self.endless = Some(reference);
            } else if !self.seen.contains(reference)
                && let Some(target) = resolve(self.root, reference)
            {
                self.seen.insert(reference);
                self.path.push(reference);
                self.enter(target);
                self.path.pop();
            }
        } else if let Some(Value::Array(alternatives)) = members.get("anyOf") {
            for alternative in alternatives {
                self.enter(alternative);
            }
        } else {
            self.found.push(members);
        }
    }
}

pub(crate) fn allows_null(root: &Value, schema: &Value) -> bool {
    leaves(root, schema).schemas.into_iter().any(leaf_allows_null)
}

fn leaf_allows_null(leaf: &Map<String, Value>) -> bool {
    let typed = match leaf.get("type") {
        Some(Value::Array(types)) => types.iter().any(|name| name == "null"),
        Some(name) => name == "null",
        None => true,
    };
    typed
        && leaf.get("const").is_none_or(Value::is_null)
        && leaf
            .get("enum")
            .and_then(Value::as_array)
            .is_none_or(|values| values.contains(&Value::Null))
}

pub(crate) fn required(leaf: &Map<String, Value>) -> impl Iterator<Item = &str> {
    leaf.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// Returns whether strict mode makes a property of `leaf` nullable: it is optional and did not
/// accept null.
pub(crate) fn is_widened(
    root: &Value,
    leaf: &Map<String, Value>,
    name: &str,
    property: &Value,
) -> bool {
    required(leaf).all(|listed| listed != name) && !allows_null(root, property)
}

fn widens_within<'a>(root: &'a Value, schema: &'a Value, seen: &mut HashSet<*const Value>) -> bool {
    seen.insert(std::ptr::from_ref(schema))
        && leaves(root, schema).schemas.into_iter().any(|leaf| leaf_widens(root, leaf, seen))
}

/// Returns whether strict mode makes any property in `leaf` nullable, at any depth.
pub(crate) fn widens(root: &Value, leaf: &Map<String, Value>) -> bool {
    leaf_widens(root, leaf, &mut HashSet::new())
}

fn leaf_widens<'a>(
    root: &'a Value,
    leaf: &'a Map<String, Value>,
    seen: &mut HashSet<*const Value>,
) -> bool {
    let properties = leaf.get("properties").and_then(Value::as_object).into_iter().flatten();
    for (name, property) in properties {
        if is_widened(root, leaf, name, property) || widens_within(root, property, seen) {
            return true;
        }
    }
    leaf.get("items").is_some_and(|items| widens_within(root, items, seen))
}

/// Returns whether `leaf` accepts values of the JSON type `name`, according to `type`. Without
/// `type` the listed values decide. An integer is also a number.
pub(crate) fn accepts_type(leaf: &Map<String, Value>, name: &str) -> bool {
    let is = |value: &Value| value == name || (value == "number" && name == "integer");
    match leaf.get("type") {
        Some(Value::Array(types)) => types.iter().any(is),
        Some(value) => is(value),
        None => listed(leaf).is_none_or(|values| values.iter().any(|value| type_of(value) == name)),
    }
}

/// Returns the values in `enum` or `const`.
pub(crate) fn listed(leaf: &Map<String, Value>) -> Option<Vec<&Value>> {
    match (leaf.get("const"), leaf.get("enum")) {
        (Some(value), _) => Some(vec![value]),
        (None, Some(Value::Array(values))) => Some(values.iter().collect()),
        _ => None,
    }
}

/// Returns the listed values of a property that has only one schema. Such properties distinguish
/// objects.
pub(crate) fn listed_alone<'a>(root: &'a Value, schema: &'a Value) -> Option<Vec<&'a Value>> {
    match leaves(root, schema).schemas.as_slice() {
        [leaf] => listed(leaf),
        _ => None,
    }
}

/// Returns the JSON type of `value`; a number without a fraction is an `integer`.
pub(crate) fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.as_f64().is_some_and(|float| float.fract() == 0.0) => {
            "integer"
        }
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Appends a segment to a JSON pointer, escaped as in RFC 6901.
pub(crate) fn step(at: &str, name: &str) -> String {
    format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"))
}
