//! A server's form for the user, and its answer, on either side of a connection.

use std::pin::Pin;

use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema};
use serde_json::{Map, Value};

use crate::wire::CallProgress;

/// Represents the user for whom a call is made. The server may address the user while the call
/// runs.
pub trait Interaction: Send + Sync {
    /// Asks the user to fill a form. The future is dropped when the server stops waiting for the
    /// answer.
    fn fill(&self, form: FormRequest) -> Pin<Box<dyn Future<Output = FormReply> + Send + '_>>;

    /// Receives a progress report of the call.
    fn progress(&self, progress: CallProgress);
}

/// The interaction of a call without a user: declines every form.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unattended;

impl Interaction for Unattended {
    fn fill(&self, _: FormRequest) -> Pin<Box<dyn Future<Output = FormReply> + Send + '_>> {
        Box::pin(std::future::ready(FormReply::Declined))
    }

    fn progress(&self, _: CallProgress) {}
}

/// A form that a server sends. Its texts may be meant to deceive.
#[derive(Clone, Debug, PartialEq)]
pub struct FormRequest {
    /// The reason for which the server asks.
    pub message: String,
    /// The JSON Schema of the answer: an object whose properties are primitive.
    pub schema: Map<String, Value>,
}

/// The answer to a form.
#[derive(Clone, Debug, PartialEq)]
pub enum FormReply {
    /// The form with its values.
    Accepted(Map<String, Value>),
    /// The user does not want to answer, or cannot be asked.
    Declined,
    /// The user dismissed the form without an answer.
    Cancelled,
}

impl FormRequest {
    /// Returns the form in a request. Returns `None` if the request opens a web page instead,
    /// because ikigai could not tell the user what that page leads to.
    pub(crate) fn from_params(params: ElicitRequestParams) -> Option<Self> {
        let ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } = params
        else {
            return None;
        };
        match serde_json::to_value(requested_schema) {
            Ok(Value::Object(schema)) => Some(Self { message, schema }),
            _ => None,
        }
    }

    /// Returns the request with a form, if its schema is valid for a form.
    pub(crate) fn into_params(self) -> Option<ElicitRequestParams> {
        let requested_schema: ElicitationSchema =
            serde_json::from_value(Value::Object(self.schema)).ok()?;
        let Self { message, .. } = self;
        Some(ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema })
    }
}

impl From<FormReply> for ElicitResult {
    fn from(filled: FormReply) -> Self {
        match filled {
            FormReply::Accepted(values) => {
                Self::new(ElicitationAction::Accept).with_content(Value::Object(values))
            }
            FormReply::Declined => Self::new(ElicitationAction::Decline),
            FormReply::Cancelled => Self::new(ElicitationAction::Cancel),
        }
    }
}

impl From<ElicitResult> for FormReply {
    fn from(result: ElicitResult) -> Self {
        match (result.action, result.content) {
            (ElicitationAction::Accept, Some(Value::Object(values))) => Self::Accepted(values),
            // A form without fields.
            (ElicitationAction::Accept, None) => Self::Accepted(Map::new()),
            (ElicitationAction::Cancel, _) => Self::Cancelled,
            _ => Self::Declined,
        }
    }
}
