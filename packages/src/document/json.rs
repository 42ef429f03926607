//! The tree of a JSON document. Each value has its path.

use crate::harmless;
use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::error::MemberPath;
use super::{DocumentError, Node, NodeValue, TableMember, ValuePlace};

/// The longest path to a value. This crate's documents need at most four steps.
const DEEPEST: usize = 16;

/// Parses a document of at most `largest` bytes.
pub(crate) fn parse(text: &[u8], largest: usize) -> Result<Node, DocumentError> {
    if text.len() > largest {
        return Err(DocumentError::whole(format!("has more than {largest} bytes")));
    }
    let mut reader = serde_json::Deserializer::from_slice(text);
    let node = NodeSeed(MemberPath::default()).deserialize(&mut reader);
    let node = node.and_then(|node| reader.end().map(|()| node));
    node.map_err(|error| DocumentError::whole(format!("is not JSON: {error}")))
}

/// Reads the value at a path.
struct NodeSeed(MemberPath);

impl NodeSeed {
    fn node<E: Error>(self, value: NodeValue) -> Result<Node, E> {
        Ok(Node { place: ValuePlace::Member(self.0), value })
    }

    fn check_depth<E: Error>(&self) -> Result<(), E> {
        if self.0.depth() < DEEPEST {
            return Ok(());
        }
        Err(E::custom(format_args!("it nests more than {DEEPEST} values")))
    }
}

impl<'de> DeserializeSeed<'de> for NodeSeed {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for NodeSeed {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Node, E> {
        self.node(NodeValue::Bool(value))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Node, E> {
        self.node(NodeValue::Number(number))
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Node, E> {
        self.node(NodeValue::Other("number out of range"))
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Node, E> {
        self.node(NodeValue::Other("float"))
    }

    fn visit_unit<E: Error>(self) -> Result<Node, E> {
        self.node(NodeValue::Other("null"))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Node, E> {
        self.node(NodeValue::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Node, A::Error> {
        self.check_depth()?;
        let mut nodes = Vec::new();
        while let Some(node) = values.next_element_seed(NodeSeed(self.0.index(nodes.len())))? {
            nodes.push(node);
        }
        self.node(NodeValue::List(nodes))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        self.check_depth()?;
        let mut members: Vec<TableMember> = Vec::new();
        let mut keys = HashSet::new();
        while let Some(key) = map.next_key::<String>()? {
            // Two programs that read a duplicate key may each use a different value.
            if !keys.insert(key.clone()) {
                return Err(A::Error::custom(format_args!(
                    "`{}` is there twice",
                    harmless::line(&key)
                )));
            }
            let path = self.0.key(&key);
            let node = map.next_value_seed(NodeSeed(path.clone()))?;
            members.push(TableMember { key, place: ValuePlace::Member(path), node });
        }
        self.node(NodeValue::Table(members))
    }
}
