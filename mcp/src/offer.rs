//! The trait by which a program offers its tools and resources, and the data that passes through
//! it.
//!
//! All types here are this crate's own. The program that implements [`Offer`] does not see the
//! types of the protocol's library.

use std::collections::hash_map::DefaultHasher;
use std::fmt;
use std::hash::{Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Map, Value};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use crate::annotation;
use crate::connect::{BoxFuture, CallProgress};
use crate::form::{FormReply, FormRequest};

/// The tools and resources of a server, and the way to use them.
///
/// Many tasks call the methods at once. A future that is dropped must leave nothing running.
/// `client` is the unverified name and version that a client reports.
pub trait Offer: Send + Sync + 'static {
    /// Returns the current tools. Called for each page of each list, so it should return the same
    /// [`Arc`] until the answer changes.
    fn catalog(&self) -> impl Future<Output = Arc<Catalog>> + Send;

    /// Calls a tool. Cancelling [`ClientCall::cancel`] must end the call and everything that it started.
    ///
    /// # Errors
    ///
    /// Fails if the request itself is wrong. Then nothing ran. A tool that fails is an [`CallAnswer`].
    fn call(&self, call: ClientCall)
    -> impl Future<Output = Result<CallAnswer, Unanswered>> + Send;

    /// Reports a call that the server itself refused: it had no room for the call, or the call was
    /// cancelled while it waited.
    fn refused(&self, name: &str, client: Option<String>, reason: &str);

    /// Reports a request that the server refused because the access token of the principal does not
    /// cover it.
    fn forbidden(&self, request: ForbiddenRequest, reason: &str);

    /// Returns whether the program offers resources at all.
    fn has_resources(&self) -> bool;

    /// Returns the URI template of all resources, as RFC 6570 defines it.
    fn template(&self) -> UriTemplate;

    /// Returns all resources, in the order of their URIs.
    ///
    /// # Errors
    ///
    /// Fails if the resources cannot be read, or if this client may not read them.
    fn resources(
        &self,
        client: Option<String>,
    ) -> impl Future<Output = Result<Vec<Resource>, ResourceError>> + Send;

    /// Returns the text of a resource.
    ///
    /// # Errors
    ///
    /// Fails if no resource has this URI, or if it cannot be read.
    fn read(
        &self,
        uri: &str,
        client: Option<String>,
    ) -> impl Future<Output = Result<ResourceText, ResourceError>> + Send;

    /// Returns the changes from now on. If a receiver lags and loses some, the server reports the
    /// lists as changed.
    fn changes(&self) -> broadcast::Receiver<CatalogChange>;

    /// Starts to watch a resource for changes. One call of [`unwatch`](Self::unwatch) ends each
    /// watch.
    ///
    /// # Errors
    ///
    /// Fails if no resource can have this URI, or if the client may not read it.
    fn watch(
        &self,
        uri: &str,
        client: Option<String>,
    ) -> impl Future<Output = Result<(), ResourceError>> + Send;

    /// Ends one watch of a resource.
    fn unwatch(&self, uri: &str);
}

/// A change that clients are notified of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CatalogChange {
    /// The list of tools.
    Tools,
    /// The list of resources.
    Resources,
    /// The text of the resource with this URI.
    Resource(Arc<str>),
}

/// A request that an access token does not cover.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForbiddenRequest {
    /// A call of a tool.
    Call {
        /// The name of the tool.
        name: String,
        /// The arguments, as in [`ClientCall::arguments`].
        arguments: Bytes,
    },
    /// A request for the list of all resources.
    List,
    /// A request for the text of the resource with this URI.
    Read(String),
    /// A subscription to the resource with this URI.
    Watch(String),
}

/// A call of a tool.
#[derive(Clone, Debug)]
pub struct ClientCall {
    /// The name of the tool.
    pub name: String,
    /// The arguments: the text of one JSON value, as the client wrote it. If it is not an object,
    /// the offer refuses the call.
    pub arguments: Bytes,
    /// Cancelled when the client no longer wants the answer.
    pub cancel: CancellationToken,
    /// The unverified name and version that the client reports.
    pub client: Option<String>,
    /// Asks the client's user about the call.
    pub asker: Arc<dyn Asker>,
}

/// Asks the user of the client about one call, and reports the call's progress to the client.
pub trait Asker: fmt::Debug + Send + Sync {
    /// Asks whether the call may run. `message` is the question that the user sees.
    ///
    /// Dropping the future withdraws the question.
    fn ask<'a>(&'a self, message: &'a str) -> BoxFuture<'a, AskReply>;

    /// Asks the user to fill a form while the call runs. The form is declined if the client does
    /// not support forms, or if the client could get it only as the result of the call, which is
    /// still running.
    ///
    /// Dropping the future withdraws the form.
    fn fill(&self, form: FormRequest) -> BoxFuture<'_, FormReply>;

    /// Reports the progress of the call to the client, if the client asked for reports. A new
    /// report replaces an earlier one that was not sent yet.
    fn report(&self, progress: CallProgress);
}

/// The reply to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskReply {
    /// The answer.
    pub verdict: QuestionVerdict,
    /// The time that the user took.
    pub waited: Duration,
}

/// The answer to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QuestionVerdict {
    /// The call may run.
    Yes,
    /// The call may not run.
    No,
    /// The user did not answer in time.
    Timeout,
    /// The user cannot be asked, for this reason.
    Unavailable(String),
    /// The client gets the question as the result of this call, no matter what the offer returns.
    Pending,
}

impl From<QuestionVerdict> for AskReply {
    fn from(verdict: QuestionVerdict) -> Self {
        Self { verdict, waited: Duration::ZERO }
    }
}

/// The answer to a call, which the client gets as the tool's result.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallAnswer {
    /// The answer for the model.
    pub body: AnswerBody,
    /// True if the model should treat the answer as a failure.
    pub is_error: bool,
    /// The same answer as data, for tools that declare a schema of their results.
    pub structured: Option<Value>,
    /// A resource with the whole text, if `body` is only a part of it.
    pub whole: Option<Resource>,
    /// Members for programs. Their names have a prefix: `ikigai/error_code`.
    pub meta: Map<String, Value>,
}

impl CallAnswer {
    /// Returns an answer that the model should treat as a failure.
    #[must_use]
    pub fn failed(text: impl Into<String>) -> Self {
        Self { body: AnswerBody::Text(text.into()), is_error: true, ..Self::default() }
    }
}

/// The part of an answer that the model reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerBody {
    /// A text.
    Text(String),
    /// The text of a JSON list of content blocks, in the protocol's format.
    Blocks(String),
}

impl Default for AnswerBody {
    fn default() -> Self {
        Self::Text(String::new())
    }
}

/// The reason why nothing ran. The client gets a protocol error, which most clients do not show to
/// the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// The tool does not exist, or the arguments are not a JSON object.
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
    /// The effects that the tool's grant allows.
    pub hints: ToolHints,
    /// The maximum length of its results in characters.
    pub result_characters: usize,
}

/// The effects of a tool. Clients use them to decide whether to ask the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolHints {
    /// True if it changes nothing.
    pub read_only: bool,
    /// True if it can contact other machines.
    pub open_world: bool,
}

/// The tools of a server at one time, ordered by name.
#[derive(Debug, Default)]
pub struct Catalog {
    entries: Vec<ToolEntry>,
    revision: u64,
}

impl Catalog {
    /// Creates a catalog of these tools, whose names must differ. Removes every request in a schema
    /// to repeat an argument as an HTTP header, because this server would not check that the header
    /// and the argument agree.
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

    /// Returns a number that changes when the tools change.
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
    /// The display name.
    pub name: String,
    /// The size of its text in bytes, if known.
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

/// The reason why a resource was not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResourceError {
    /// No resource has this URI.
    #[error("{0}")]
    NotFound(String),
    /// The client may not read it, or it is too large.
    #[error("{0}")]
    Refused(String),
    /// The store failed.
    #[error("{0}")]
    Failed(String),
}

/// The template for the URIs of resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UriTemplate {
    /// The template, as RFC 6570 defines it.
    pub uri: &'static str,
    /// The display name.
    pub name: &'static str,
    /// The description for the user or the model.
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
        let hints = ToolHints { read_only: true, open_world: false };
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
        // A schema that needs no change is not copied.
        assert!(Arc::ptr_eq(&Catalog::new(vec![entry(&plain)]).entries()[0].input, &plain));
    }
}
