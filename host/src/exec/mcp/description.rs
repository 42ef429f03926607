//! The description of a tool by its server, and the digest that the user approves.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use ikigai_protocol::Digest;

/// A tool as its server describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolDescription {
    /// The name.
    pub name: String,
    /// The title for people.
    pub title: Option<String>,
    /// The description for the model.
    pub description: String,
    /// The JSON Schema of the arguments.
    pub parameters: Map<String, Value>,
    /// The JSON Schema of the structured part of results.
    pub returns: Option<Map<String, Value>>,
    /// The claims of the server about the effects of the tool. ikigai does not rely on them.
    pub annotations: Option<Map<String, Value>>,
}

impl ToolDescription {
    /// Returns the digest of everything that the server says about the tool. The order of members
    /// does not matter.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let mut text = String::new();
        let member = |map: &Map<String, Value>| Value::Object(map.clone());
        let parts = [
            Value::from(self.name.as_str()),
            Value::from(self.title.as_deref()),
            Value::from(self.description.as_str()),
            member(&self.parameters),
            self.returns.as_ref().map_or(Value::Null, member),
            self.annotations.as_ref().map_or(Value::Null, member),
        ];
        canonical(&Value::from(parts.to_vec()), &mut text);
        Digest::from_bytes(text.as_bytes())
    }
}

/// Appends a value without white space, the members of objects in the order of their names.
fn canonical(value: &Value, text: &mut String) {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|(name, _)| *name);
            text.push('{');
            for (index, (name, value)) in members.into_iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                text.push_str(&Value::from(name.as_str()).to_string());
                text.push(':');
                canonical(value, text);
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                canonical(item, text);
            }
            text.push(']');
        }
        scalar => text.push_str(&scalar.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn description(parameters: &str) -> ToolDescription {
        ToolDescription {
            name: "search".to_owned(),
            title: None,
            description: "Searches.".to_owned(),
            parameters: serde_json::from_str(parameters).expect("an object"),
            returns: None,
            annotations: None,
        }
    }

    #[test]
    fn the_order_of_members_does_not_change_a_digest_and_everything_else_does() {
        let one = description(r#"{"type":"object","properties":{"b":{},"a":[1,{"y":1,"x":2}]}}"#);
        let same = description(r#"{"properties":{"a":[1,{"x":2,"y":1}],"b":{}},"type":"object"}"#);
        assert_eq!(one.digest(), same.digest());
        let other = description(r#"{"type":"object","properties":{"b":{},"a":[{"y":1,"x":2},1]}}"#);
        assert_ne!(one.digest(), other.digest(), "the order of a list");
        let mut changed = vec![one.clone(); 5];
        changed[0].name.push('2');
        changed[1].title = Some(String::new());
        changed[2].description.push(' ');
        changed[3].returns = Some(Map::new());
        changed[4].annotations = Some(Map::new());
        for changed in changed {
            assert_ne!(one.digest(), changed.digest(), "{changed:?}");
        }
    }

    #[test]
    fn a_text_cannot_move_from_one_part_to_the_next() {
        let mut one = description("{}");
        one.title = Some("a".to_owned());
        one.description = "b".to_owned();
        let mut other = description("{}");
        other.title = Some("a\",\"b".to_owned());
        other.description = String::new();
        assert_ne!(one.digest(), other.digest());
    }
}
