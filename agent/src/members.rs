//! The members of a JSON object in their order, each as it was written.

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// The names and values of an object. A tree of values would lose the digits of numbers, and
/// limits the depth.
#[derive(Default)]
pub(super) struct RawMembers(pub(super) Vec<(String, Box<RawValue>)>);

impl RawMembers {
    /// Returns the members of a value that is an object.
    pub(super) fn from_value(value: &RawValue) -> Option<Self> {
        serde_json::from_str(value.get()).ok()
    }

    /// Returns the value of this name. If the name occurs several times, the last one counts, as
    /// for most readers.
    pub(super) fn get(&self, name: &str) -> Option<&RawValue> {
        self.0.iter().rev().find(|(own, _)| own == name).map(|(_, value)| &**value)
    }
}

impl<'de> Deserialize<'de> for RawMembers {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct MembersVisitor;
        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = RawMembers;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawMembers, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(RawMembers(members))
            }
        }
        from.deserialize_map(MembersVisitor)
    }
}

impl Serialize for RawMembers {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}
