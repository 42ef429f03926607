//! The trait by which a program offers its tools and resources, and the data that crosses it.
//!
//! Everything here is this crate's own: the program that implements [`Offer`] does not see the
//! types of the protocol's library.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use crate::annotation;
use crate::serve::Asker;

/// The tools and resources of a server, and the way to use them.
///
/// Methods are called by many tasks at once. A future that is dropped must leave nothing running.
/// `client` is the name and version that a client gives itself, which nobody has checked.
pub trait Offer: Send + Sync + 'static {
    /// Returns the tools as they are now. Asked for each page of each list, so that an answer that
    /// has not changed should be the same [`Arc`].
    fn catalog(&self) -> impl Future<Output = Arc<Catalog>> + Send;

    /// Calls a tool. Cancelling [`Call::cancel`] must end the call and all that it started.
    ///
    /// # Errors
    ///
    /// Nothing ran, and the request itself is wrong. A tool that fails is an [`Answer`].
    fn call(&self, call: Call) -> impl Future<Output = Result<Answer, Unanswered>> + Send;

    /// Notes a call that the server itself refused, because it had no room for it or because it was
    /// cancelled while it waited.
    fn refused(&self, name: &str, client: Option<String>, reason: &str);

    /// Returns whether there are resources at all.
    fn has_resources(&self) -> bool;

    /// Returns the form of all URIs of resources, as RFC 6570 writes it.
    fn template(&self) -> Template;

    /// Returns all resources, in the order of their URIs.
    ///
    /// # Errors
    ///
    /// The resources cannot be read, or not by this client.
    fn resources(
        &self,
        client: Option<String>,
    ) -> impl Future<Output = Result<Vec<Resource>, ResourceError>> + Send;

    /// Returns the text of a resource.
    ///
    /// # Errors
    ///
    /// There is none of this URI, or it cannot be read.
    fn read(
        &self,
        uri: &str,
        client: Option<String>,
    ) -> impl Future<Output = Result<ResourceText, ResourceError>> + Send;

    /// Returns the changes from now on. A receiver that lags may lose some, and then reports the
    /// lists as changed.
    fn changes(&self) -> broadcast::Receiver<Change>;

    /// Notes that somebody wants to know of changes of a resource from now on. Each watch is ended
    /// by one [`unwatch`](Self::unwatch).
    ///
    /// # Errors
    ///
    /// No resource can have this URI, or the client may not read it.
    fn watch(
        &self,
        uri: &str,
        client: Option<String>,
    ) -> impl Future<Output = Result<(), ResourceError>> + Send;

    /// Notes that somebody no longer wants to know.
    fn unwatch(&self, uri: &str);
}

/// A change that clients are notified of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The list of tools.
    Tools,
    /// The list of resources.
    Resources,
    /// The text of the resource with this URI.
    Resource(Arc<str>),
}

/// A call of a tool.
#[derive(Clone, Debug)]
pub struct Call {
    /// The name of the tool.
    pub name: String,
    /// The arguments: the text of one JSON object, as the client wrote it.
    pub arguments: Bytes,
    /// Cancelled when the client no longer wants the answer.
    pub cancel: CancellationToken,
    /// The name and version that the client gives itself, which nobody has checked.
    pub client: Option<String>,
    /// Asks the person behind the client whether the call may run.
    pub asker: Asker,
}

/// The answer of a call that a client is given as the tool's result.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// The answer for the model.
    pub body: Body,
    /// True if the model should take it for a failure.
    pub is_error: bool,
    /// The same as data, for tools that declare a schema of their results.
    pub structured: Option<Value>,
    /// A resource with the whole text, where `body` is a part of it.
    pub whole: Option<Resource>,
    /// Members for programs. Their names have a prefix: `ikigai/error_code`.
    pub meta: Map<String, Value>,
}

impl Answer {
    /// Returns an answer that the model should take for a failure.
    #[must_use]
    pub fn failed(text: impl Into<String>) -> Self {
        Self { body: Body::Text(text.into()), is_error: true, ..Self::default() }
    }
}

/// The part of an answer that the model reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// A text.
    Text(String),
    /// The text of a JSON list of content blocks, in the form of the protocol.
    Blocks(String),
}

impl Default for Body {
    fn default() -> Self {
        Self::Text(String::new())
    }
}

/// The reason for which nothing ran. The client gets an error of the protocol, which most do not
/// show to the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// There is no such tool, or the arguments are no JSON object.
    #[error("{0}")]
    Invalid(String),
}

/// A tool, as a client lists it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolEntry {
    /// The name.
    pub name: String,
    /// The description for the model.
    pub description: String,
    /// The JSON Schema of the arguments, whose root has `type: "object"`.
    pub input: Arc<Map<String, Value>>,
    /// The JSON Schema of the result, whose root has `type: "object"`.
    pub output: Option<Arc<Map<String, Value>>>,
    /// The effects that its grant allows.
    pub hints: Hints,
    /// The most characters of its results.
    pub result_characters: usize,
}

/// The effects of a tool. Clients use them to decide whether to ask a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hints {
    /// True if it changes nothing.
    pub read_only: bool,
    /// True if it may reach other machines.
    pub open_world: bool,
}

/// The tools of a server at one time, in the order of their names.
#[derive(Debug, Default)]
pub struct Catalog {
    entries: Vec<ToolEntry>,
    revision: u64,
}

impl Catalog {
    /// Creates a catalog of these tools, whose names differ. No argument has to be repeated as a
    /// header of HTTP, whatever a schema says: nobody would check that the two are the same.
    #[must_use]
    pub fn new(mut entries: Vec<ToolEntry>) -> Self {
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        for ToolEntry { input, .. } in &mut entries {
            if annotation::is_schema_annotated(input) {
                annotation::strip(Arc::make_mut(input));
            }
        }
        let mut hasher = DefaultHasher::new();
        for entry in &entries {
            let ToolEntry { name, description, input, output, hints, result_characters } = entry;
            (name, description, hints.read_only, hints.open_world).hash(&mut hasher);
            result_characters.hash(&mut hasher);
            input.hash(&mut hasher);
            output.hash(&mut hasher);
        }
        Self { entries, revision: hasher.finish() }
    }

    /// Returns the tools.
    #[must_use]
    pub fn entries(&self) -> &[ToolEntry] {
        &self.entries
    }

    /// Returns a number that differs for different tools.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }
}

/// A resource, as a client lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// The URI.
    pub uri: String,
    /// The name for a person.
    pub name: String,
    /// Bytes of its text, where that is known.
    pub size: Option<u64>,
}

/// The text of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceText {
    /// The MIME type.
    pub mime_type: &'static str,
    /// The text.
    pub text: String,
}

/// The reason for which a resource is not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResourceError {
    /// There is none of this URI.
    #[error("{0}")]
    NotFound(String),
    /// The client may not read it, or it is too large.
    #[error("{0}")]
    Refused(String),
    /// The store failed.
    #[error("{0}")]
    Failed(String),
}

/// The form of the URIs of resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Template {
    /// The form, as RFC 6570 writes it.
    pub uri: &'static str,
    /// The name for a person.
    pub name: &'static str,
    /// The description for a person or a model.
    pub description: &'static str,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_catalog_asks_for_no_headers() {
        let schema = |note: Value| {
            let Value::Object(schema) = json!({ "type": "object", "properties": { "a": note } })
            else {
                unreachable!("an object")
            };
            Arc::new(schema)
        };
        let hints = Hints { read_only: true, open_world: false };
        let entry = |input: &Arc<Map<String, Value>>| ToolEntry {
            name: "tool".to_owned(),
            description: String::new(),
            input: Arc::clone(input),
            output: None,
            hints,
            result_characters: 30_000,
        };
        let annotated = schema(json!({ "type": "string", "x-mcp-header": "A" }));
        let plain = schema(json!({ "type": "string" }));
        let catalog = Catalog::new(vec![entry(&annotated)]);
        assert_eq!(catalog.entries()[0].input, plain);
        assert_eq!(catalog.revision(), Catalog::new(vec![entry(&plain)]).revision());
        // What is left as it is, is not copied.
        assert!(Arc::ptr_eq(&Catalog::new(vec![entry(&plain)]).entries()[0].input, &plain));
    }
}
