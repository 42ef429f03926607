//! The definition of a peer: a JSON file that a test writes. The test may change it between starts,
//! or while the peer runs.
//!
//! | key | value |
//! |-|-|
//! | `speaks` | `"legacy"`, `"modern"` or `"both"`, the default |
//! | `discover` | `"exit"`: a `legacy` peer exits at `server/discover`, which it does not know |
//! | `banner` | a text for stdout before anything else |
//! | `die` | a text for stderr: the peer exits with it at the first request |
//! | `hang` | `true`: nothing is read |
//! | `flood` | `"stdout"` or `"stderr"`: it is flooded from the start |
//! | `journal` | a file to which a line is added for each message and event |
//! | `page` | the number of tools on a page |
//! | `endless` | `true`: each page has the cursor of the next |
//! | `announces` | `false`: a change of the tools is not announced |
//! | `http` | an object, for a peer over HTTP: see [`Http`] |
//! | `tools` | the tools, each as it is listed, and with `does`, its behaviour |

mod http;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::behaviour::Behaviour;

pub(crate) use http::{Fault, Http, Issuer, OauthOptions, Redirect};

/// The behaviour of a peer.
#[derive(Debug)]
pub(crate) struct Definition {
    pub(crate) legacy: bool,
    pub(crate) modern: bool,
    /// A peer that speaks only the older generation exits at a request of the newer one.
    pub(crate) exits: bool,
    pub(crate) banner: Option<String>,
    pub(crate) die: Option<String>,
    pub(crate) hang: bool,
    pub(crate) flood: Option<Stream>,
    pub(crate) journal: Option<PathBuf>,
    pub(crate) page: usize,
    pub(crate) endless: bool,
    pub(crate) announces: bool,
    pub(crate) http: Http,
    pub(crate) tools: Vec<Tool>,
    /// The text of the file.
    pub(crate) text: Vec<u8>,
}

/// An output of the program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

/// A tool of the list.
#[derive(Debug)]
pub(crate) struct Tool {
    pub(crate) does: Behaviour,
    /// The tool as it is listed.
    pub(crate) listed: Map<String, Value>,
}

impl Tool {
    /// Returns the name of the tool.
    pub(crate) fn name(&self) -> &str {
        self.listed.get("name").and_then(Value::as_str).unwrap_or_default()
    }
}

impl Definition {
    /// Reads a file.
    pub(crate) fn read(file: &Path) -> Result<Self, String> {
        let text =
            fs::read(file).map_err(|error| format!("cannot read `{}`: {error}", file.display()))?;
        let value = serde_json::from_slice(&text)
            .map_err(|error| format!("`{}` is no JSON: {error}", file.display()))?;
        let definition =
            Self::from_value(value).map_err(|error| format!("`{}`: {error}", file.display()))?;
        Ok(Self { text, ..definition })
    }

    /// Parses a definition. An unknown key is an error, because a test that mistypes a key would
    /// test nothing.
    fn from_value(value: Value) -> Result<Self, String> {
        let Value::Object(mut keys) = value else {
            return Err("a definition is an object".to_owned());
        };
        let speaks = text(&mut keys, "speaks")?;
        let (legacy, modern) = match speaks.as_deref() {
            None | Some("both") => (true, true),
            Some("legacy") => (true, false),
            Some("modern") => (false, true),
            Some(other) => return Err(format!("`speaks` is `{other}`")),
        };
        let exits = match text(&mut keys, "discover")?.as_deref() {
            None => false,
            Some("exit") => true,
            Some(other) => return Err(format!("`discover` is `{other}`")),
        };
        let flood = match text(&mut keys, "flood")?.as_deref() {
            None => None,
            Some("stdout") => Some(Stream::Stdout),
            Some("stderr") => Some(Stream::Stderr),
            Some(other) => return Err(format!("`flood` is `{other}`")),
        };
        let page = match keys.shift_remove("page") {
            None => usize::MAX,
            Some(page) => page
                .as_u64()
                .and_then(|page| usize::try_from(page).ok())
                .filter(|page| *page > 0)
                .ok_or_else(|| format!("`page` is `{page}`"))?,
        };
        let definition = Self {
            legacy,
            modern,
            exits,
            banner: text(&mut keys, "banner")?,
            die: text(&mut keys, "die")?,
            hang: flag(&mut keys, "hang")?.unwrap_or(false),
            flood,
            journal: text(&mut keys, "journal")?.map(PathBuf::from),
            page,
            endless: flag(&mut keys, "endless")?.unwrap_or(false),
            announces: flag(&mut keys, "announces")?.unwrap_or(true),
            http: Http::from_value(keys.shift_remove("http"))?,
            tools: tools(keys.shift_remove("tools"))?,
            text: Vec::new(),
        };
        nothing_left(&keys)?;
        Ok(definition)
    }
}

/// Refuses a key that was not used.
pub(crate) fn nothing_left(keys: &Map<String, Value>) -> Result<(), String> {
    keys.keys().next().map_or(Ok(()), |unknown| Err(format!("there is no key `{unknown}`")))
}

fn tools(value: Option<Value>) -> Result<Vec<Tool>, String> {
    let list = match value {
        None => Vec::new(),
        Some(Value::Array(list)) => list,
        Some(other) => return Err(format!("`tools` is `{other}`")),
    };
    let tools = list.into_iter().map(|tool| {
        let Value::Object(mut listed) = tool else { return Err(format!("a tool is `{tool}`")) };
        let does = text(&mut listed, "does")?;
        let does = Behaviour::named(does.as_deref().unwrap_or("echo"))?;
        if !listed.get("name").is_some_and(Value::is_string) {
            return Err("a tool has no name".to_owned());
        }
        listed.entry("inputSchema").or_insert_with(|| does.schema());
        Ok(Tool { does, listed })
    });
    tools.collect()
}

pub(crate) fn text(keys: &mut Map<String, Value>, key: &str) -> Result<Option<String>, String> {
    match keys.shift_remove(key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(format!("`{key}` is `{other}`, not a text")),
    }
}

pub(crate) fn flag(keys: &mut Map<String, Value>, key: &str) -> Result<Option<bool>, String> {
    match keys.shift_remove(key) {
        None => Ok(None),
        Some(Value::Bool(flag)) => Ok(Some(flag)),
        Some(other) => Err(format!("`{key}` is `{other}`, not `true` or `false`")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_tool_is_listed_as_it_was_written_without_its_behaviour() {
        let definition = Definition::from_value(json!({
            "speaks": "legacy",
            "discover": "exit",
            "tools": [{ "name": "a", "does": "read", "title": "\u{202e}A", "x": 1 }],
        }));
        let definition = definition.expect("a definition");
        assert!(definition.legacy && !definition.modern);
        assert!(definition.exits);
        let [tool] = &definition.tools[..] else { panic!("{definition:?}") };
        let keys: Vec<_> = tool.listed.keys().map(String::as_str).collect();
        assert_eq!(keys, ["name", "title", "x", "inputSchema"]);
        assert_eq!(tool.listed["inputSchema"]["required"], json!(["path"]));
    }

    #[test]
    fn a_definition_with_a_mistake_is_refused() {
        for (definition, error) in [
            (json!([]), "a definition is an object"),
            (json!({ "speak": "legacy" }), "there is no key `speak`"),
            (json!({ "speaks": "latin" }), "`speaks` is `latin`"),
            (json!({ "discover": "laugh" }), "`discover` is `laugh`"),
            (json!({ "hang": 1 }), "`hang` is `1`, not `true` or `false`"),
            (json!({ "page": 0 }), "`page` is `0`"),
            (json!({ "tools": [{ "does": "echo" }] }), "a tool has no name"),
            (json!({ "tools": [{ "name": "a", "does": "sing" }] }), "there is no behaviour `sing`"),
        ] {
            assert_eq!(Definition::from_value(definition).expect_err("a mistake"), error);
        }
    }
}
