//! The script of a `bash` call, read from the arguments in the same way as the tool reads them: the
//! property `command` of a JSON object. The tool ignores other properties, and uses the last one if
//! several have this name.

use std::fmt;

use serde::de::{Deserializer as _, IgnoredAny, MapAccess, Visitor};
use serde_json::{Deserializer, Error, Value};

/// Returns the script of a call, or `None` if the tool would not run a script.
pub(super) fn script(arguments: &[u8]) -> Option<String> {
    let mut reader = Deserializer::from_slice(arguments);
    let script: Result<Option<String>, Error> = reader.deserialize_map(ScriptVisitor);
    // Nothing may follow the object.
    script.and_then(|script| reader.end().map(|()| script)).ok().flatten()
}

struct ScriptVisitor;

impl<'de> Visitor<'de> for ScriptVisitor {
    type Value = Option<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut script = None;
        while let Some(key) = map.next_key::<String>()? {
            if key != "command" {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            script = match map.next_value::<Value>()? {
                Value::String(text) => Some(text),
                _ => None,
            };
        }
        Ok(script)
    }
}
