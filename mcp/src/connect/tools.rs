//! The list of a server's tools: all its pages, within bounds, without invalid tools.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use ikigai_protocol::is_invisible;
use rmcp::model::{ClientRequest, ListToolsRequest, PaginatedRequestParams};
use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::repeated::Repeated;
use super::{Era, RemoteCallError, RemoteConnection};
use crate::wire::{ExtensionRequest, plain};

/// The most tools of a server, including those that are left out.
const MAX_TOOLS: usize = 2000;

/// The most pages of a list.
const MAX_PAGES: usize = 200;

/// The longest definition of one tool in bytes.
const MAX_TOOL: usize = 1 << 20;

/// The memory for all tools of a server in bytes, as a tree, by a rough estimate.
const MAX_MEMORY: usize = 64 << 20;

/// The memory of one value in a tree in bytes.
const VALUE: usize = 64;

/// The longest name in bytes.
const MAX_NAME: usize = 256;

/// The tools of a server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RemoteTools {
    /// The tools in the server's order.
    pub tools: Vec<RemoteTool>,
    /// The tools that were left out: the displayable part of each name, with the reason.
    pub skipped: Vec<(String, String)>,
    /// The reason why the list is incomplete.
    pub cut: Option<String>,
}

/// A tool as a server lists it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct RemoteTool {
    /// The name by which it is called.
    pub name: String,
    /// The name for people.
    #[serde(default)]
    pub title: Option<String>,
    /// The description for the model.
    #[serde(default)]
    pub description: String,
    /// The JSON Schema of the arguments, whose root has `type: "object"`.
    #[serde(rename = "inputSchema")]
    pub input: Map<String, Value>,
    /// The JSON Schema of the result.
    #[serde(default, rename = "outputSchema")]
    pub output: Option<Map<String, Value>>,
    /// The server's own claims about the tool.
    #[serde(default)]
    pub annotations: Option<Map<String, Value>>,
}

impl RemoteConnection {
    /// Returns the tools of the server: at most 2,000, of at most 1 MiB each.
    ///
    /// # Errors
    ///
    /// Fails if the server does not answer with a list. A single invalid tool is left out instead.
    pub async fn tools(&self) -> Result<RemoteTools, RemoteCallError> {
        let has_headers = self.is_http && self.era == Era::Modern;
        let mut listing = ToolListReader { has_headers, ..ToolListReader::default() };
        let mut cursor = None;
        loop {
            let page = self.page(cursor.take()).await?;
            match listing.take(&page)? {
                Some(next) => cursor = Some(next),
                None => {
                    self.repeat(listing.repeated);
                    return Ok(listing.listed);
                }
            }
        }
    }

    async fn page(&self, cursor: Option<String>) -> Result<Bytes, RemoteCallError> {
        let asked = Arc::new(ExtensionRequest::default());
        let params = cursor.map(|it| PaginatedRequestParams::default().with_cursor(Some(it)));
        let mut request = ListToolsRequest { params, ..ListToolsRequest::default() };
        request.extensions.insert(Arc::clone(&asked));
        let request = ClientRequest::ListToolsRequest(request);
        self.ask(request, &asked, &CancellationToken::new()).await
    }
}

/// The part of a list that was read so far.
#[derive(Default)]
struct ToolListReader {
    /// True if arguments are repeated as headers when a schema asks for it.
    has_headers: bool,
    repeated: HashMap<String, Repeated>,
    listed: RemoteTools,
    names: HashSet<String>,
    cursors: HashSet<String>,
    memory: usize,
}

/// A page of a list, with its tools unparsed.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolPage<'a> {
    #[serde(borrow)]
    tools: PageTools<'a>,
    #[serde(default)]
    next_cursor: Option<String>,
}

/// The first tools of a page: at most one more than a server may have.
struct PageTools<'a>(Vec<&'a RawValue>);

impl<'de: 'a, 'a> Deserialize<'de> for PageTools<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bounded;

        impl<'de> Visitor<'de> for Bounded {
            type Value = PageTools<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a list of tools")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while entries.len() <= MAX_TOOLS
                    && let Some(entry) = list.next_element()?
                {
                    entries.push(entry);
                }
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(PageTools(entries))
            }
        }

        deserializer.deserialize_seq(Bounded)
    }
}

impl ToolListReader {
    /// Adds a page, and returns the cursor of the next page, if one should be requested.
    fn take(&mut self, page: &Bytes) -> Result<Option<String>, RemoteCallError> {
        let page: ToolPage<'_> = serde_json::from_slice(page)
            .map_err(|error| RemoteCallError::Malformed(plain(&error.to_string())))?;
        for entry in page.tools.0 {
            if self.listed.tools.len() + self.listed.skipped.len() == MAX_TOOLS {
                return Ok(self.cut(format!("the server lists more than {MAX_TOOLS} tools")));
            }
            match self.tool(entry) {
                Ok(tool) => self.listed.tools.push(tool),
                Err(reason) => self.listed.skipped.push((label(entry), reason)),
            }
        }
        let Some(cursor) = page.next_cursor else { return Ok(None) };
        if self.cursors.len() + 1 == MAX_PAGES {
            return Ok(self.cut(format!("the list has more than {MAX_PAGES} pages")));
        }
        if !self.cursors.insert(cursor.clone()) {
            return Ok(self.cut("the server leads back to a page that it has sent".to_owned()));
        }
        Ok(Some(cursor))
    }

    fn cut(&mut self, reason: String) -> Option<String> {
        self.listed.cut = Some(reason);
        None
    }

    /// Reads a tool.
    fn tool(&mut self, entry: &RawValue) -> Result<RemoteTool, String> {
        let text = entry.get();
        if text.len() > MAX_TOOL {
            return Err(format!("its description and schemas have more than {MAX_TOOL} bytes"));
        }
        let memory = self.memory + memory(text);
        if memory > MAX_MEMORY {
            return Err("the server's tools together are too large".to_owned());
        }
        let tool: RemoteTool = serde_json::from_str(text)
            .map_err(|error| format!("it is malformed: {}", plain(&error.to_string())))?;
        if tool.name.is_empty() || tool.name.len() > MAX_NAME {
            return Err(format!("its name does not have 1 to {MAX_NAME} bytes"));
        }
        if tool.name.chars().any(is_invisible) {
            return Err("its name has characters that do not show".to_owned());
        }
        if tool.input.get("type").and_then(Value::as_str) != Some("object") {
            return Err("the schema of its arguments is not of `type: \"object\"`".to_owned());
        }
        for schema in [Some(&tool.input), tool.output.as_ref()].into_iter().flatten() {
            if let Some(reference) = schema.values().find_map(foreign).or_else(|| own(schema)) {
                let reference = plain(reference);
                return Err(format!("its schema refers to `{reference}`, which is not part of it"));
            }
        }
        let repeated = if self.has_headers {
            Repeated::from_schema(&tool.input)?
        } else {
            Repeated::default()
        };
        if !self.names.insert(tool.name.clone()) {
            return Err("another tool of the server has the same name".to_owned());
        }
        if !repeated.is_empty() {
            self.repeated.insert(tool.name.clone(), repeated);
        }
        self.memory = memory;
        Ok(tool)
    }
}

/// Estimates the size of JSON as a tree, in bytes.
fn memory(text: &str) -> usize {
    let values = text.bytes().filter(|byte| matches!(byte, b',' | b':' | b'[' | b'{')).count();
    text.len() + values * VALUE
}

/// Returns a reference in a schema to another document.
fn foreign(value: &Value) -> Option<&str> {
    match value {
        Value::Array(values) => values.iter().find_map(foreign),
        Value::Object(members) => own(members).or_else(|| members.values().find_map(foreign)),
        _ => None,
    }
}

fn own(members: &Map<String, Value>) -> Option<&str> {
    let references = ["$ref", "$dynamicRef", "$recursiveRef"];
    let mut found = references.iter().filter_map(|it| members.get(*it)).filter_map(Value::as_str);
    found.find(|reference| !reference.starts_with('#'))
}

/// Returns the displayable part of the name of a tool that is left out.
fn label(entry: &RawValue) -> String {
    #[derive(Deserialize)]
    struct ToolName<'a> {
        #[serde(borrow, default)]
        name: Option<Cow<'a, str>>,
    }

    let named = serde_json::from_str::<ToolName<'_>>(entry.get()).ok();
    let name = named.and_then(|named| named.name).unwrap_or_default();
    name.chars()
        .take(MAX_LABEL)
        .map(|c| if is_invisible(c) { char::REPLACEMENT_CHARACTER } else { c })
        .collect()
}

/// The longest displayed name of a tool that is left out, in characters.
const MAX_LABEL: usize = 100;
