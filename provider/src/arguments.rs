//! The repair of a call's arguments after strict mode.
//!
//! Strict mode makes every optional property required and nullable, so a model passes null instead
//! of omitting an argument. The tool must not receive those nulls, but it must receive the nulls
//! that its schema allows.
//!
//! Members are cut out of the text, which is otherwise unchanged: a tree of values would lose the
//! digits of numbers, and would limit their size and the depth.

mod members;

use std::collections::HashSet;
use std::ops::Range;

use ikigai_protocol::ToolSchema;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use self::members::{ArgumentMember, elements, kind, members};
use crate::translate::reference::{accepts_type, is_widened, leaves, listed_alone, required};
use crate::translate::{dialect, strict};

/// The depth to which nulls are searched. Each level is parsed again inside the level around it, so
/// deeper arguments would take long. Real arguments are not nested that deeply.
const MAX_DEPTH: usize = 1000;

/// Removes the nulls that strict mode introduced, at every depth up to 1000. Returns nothing if
/// there is nothing to remove. That is the case if the schema was sent with `strict: false`, or if
/// the arguments have no such null or are not JSON. The rest of the text is kept byte for byte.
///
/// This is for providers for which [`crate::Provider::is_strict`] returns true. An argument whose
/// schema accepts null keeps it. Arguments that do not match the schema are kept, and the tool
/// refuses them.
#[must_use]
pub fn strip_nulls(schema: &ToolSchema, arguments: &str) -> Option<String> {
    let modern = dialect::modern(&schema.parameters).ok()?;
    strict::strict(&modern.schema).ok()?;
    strip(&modern.schema, arguments)
}

/// Removes the nulls from a text that was written by the strict form of this schema, which
/// satisfies [`dialect::modern`].
pub(crate) fn strip(schema: &Value, arguments: &str) -> Option<String> {
    let value: &RawValue = serde_json::from_str(arguments).ok()?;
    let cuts = cuts(schema, arguments, value);
    let (mut kept, mut end) = (String::new(), 0);
    for cut in &cuts {
        kept.push_str(&arguments[end..cut.start]);
        end = cut.end;
    }
    kept.push_str(&arguments[end..]);
    (!cuts.is_empty()).then_some(kept)
}

/// Returns the ranges to remove from the text that a value was read from, in their order.
fn cuts(root: &Value, text: &str, value: &RawValue) -> Vec<Range<usize>> {
    let mut cuts = Vec::new();
    // Recursion would need a stack as deep as the arguments.
    let mut open = vec![(root, value, 0)];
    while let Some((schema, place, depth)) = open.pop() {
        let mut enter = |schema, place| {
            if depth < MAX_DEPTH {
                open.push((schema, place, depth + 1));
            }
        };
        match kind(place) {
            "object" => {
                let members = members(place);
                let Some(leaf) = choose(root, schema, &members) else { continue };
                let mut is_null = Vec::new();
                for member in &members {
                    let property = property(leaf, member);
                    is_null.push(property.is_some_and(|property| {
                        member.is_null() && is_widened(root, leaf, &member.name, property)
                    }));
                    if let Some(property) = property {
                        enter(property, member.value);
                    }
                }
                cuts.extend(members::cuts(text, &members, &is_null));
            }
            "array" => {
                let leaf = of_type(root, schema, "array").next();
                if let Some(items) = leaf.and_then(|leaf| leaf.get("items")) {
                    elements(place).into_iter().for_each(|element| enter(items, element));
                }
            }
            _ => {}
        }
    }
    cuts.sort_by_key(|cut| cut.start);
    cuts
}

fn of_type<'a>(
    root: &'a Value,
    schema: &'a Value,
    name: &'static str,
) -> impl Iterator<Item = &'a Map<String, Value>> {
    leaves(root, schema).schemas.into_iter().filter(move |leaf| accepts_type(leaf, name))
}

/// Returns the alternative that the model chose. Strict mode makes the model pass every property,
/// so an exact match decides. Servers that do not enforce strict mode omit some.
fn choose<'a>(
    root: &'a Value,
    schema: &'a Value,
    members: &[ArgumentMember<'_>],
) -> Option<&'a Map<String, Value>> {
    let of_type: Vec<_> = of_type(root, schema, "object").collect();
    // Under strict mode, alternatives of other types do not differ in their nulls.
    if of_type.len() <= 1 {
        return of_type.into_iter().next();
    }
    let names: HashSet<&str> = members.iter().map(|member| member.name.as_str()).collect();
    let fitting: Vec<_> =
        of_type.into_iter().filter(|leaf| fits(root, leaf, members, &names)).collect();
    let is_complete = |leaf: &&&Map<String, Value>| {
        properties(leaf).is_none_or(|all| all.keys().all(|name| names.contains(name.as_str())))
    };
    fitting.iter().find(is_complete).or_else(|| fitting.first()).copied()
}

/// Returns whether the schema declares every member, and whether each member has one of the values
/// that its schema lists, if it lists any.
fn fits(
    root: &Value,
    leaf: &Map<String, Value>,
    members: &[ArgumentMember<'_>],
    names: &HashSet<&str>,
) -> bool {
    members.iter().all(|member| match property(leaf, member) {
        None => false,
        Some(property) => {
            listed_alone(root, property).is_none_or(|values| member.is_one_of(&values))
                || (member.is_null() && is_widened(root, leaf, &member.name, property))
        }
    }) && required(leaf).all(|name| names.contains(name))
}

fn property<'a>(leaf: &'a Map<String, Value>, member: &ArgumentMember<'_>) -> Option<&'a Value> {
    properties(leaf)?.get(member.name.as_str())
}

fn properties(leaf: &Map<String, Value>) -> Option<&Map<String, Value>> {
    leaf.get("properties").and_then(Value::as_object)
}
