//! The offer: the calls of the tools, and the resources.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ikigai_mcp::{
    AnswerBody, CallAnswer, CallProgress, Catalog, CatalogChange, ClientCall, ForbiddenRequest,
    FormReply, Offer, QuestionVerdict, Resource, ResourceError, ResourceText, Unanswered,
    UriTemplate,
};
use serde_json::{Value, json};
use tokio::sync::broadcast;

use crate::{forms, tools};

/// The time between two progress reports. The server sends a client at most ten per second.
const BETWEEN_REPORTS: Duration = Duration::from_millis(300);

/// The resources, by their URIs.
const RESOURCES: [&str; 2] = ["test://static-text", "test://watched-resource"];

/// The prefix and the suffix of the template's URIs.
const TEMPLATE: (&str, &str) = ("test://template/", "/data");

/// The tools and resources of the suite.
pub(crate) struct Fixtures {
    changes: broadcast::Sender<CatalogChange>,
    /// The number of changes of the list of tools.
    changed: AtomicUsize,
}

impl Default for Fixtures {
    fn default() -> Self {
        Self { changes: broadcast::Sender::new(16), changed: AtomicUsize::new(0) }
    }
}

impl Offer for Fixtures {
    async fn catalog(&self) -> Arc<Catalog> {
        let changed = self.changed.load(Ordering::Relaxed) % 2 == 1;
        Arc::new(Catalog::new(tools::entries(changed)))
    }

    async fn call(&self, call: ClientCall) -> Result<CallAnswer, Unanswered> {
        if let Some(content) = tools::content(&call.name) {
            return Ok(CallAnswer {
                body: AnswerBody::Blocks(content.to_string()),
                ..CallAnswer::default()
            });
        }
        match &*call.name {
            "test_error_handling" => {
                Ok(CallAnswer::failed("This tool intentionally returns an error for testing"))
            }
            "test_tool_with_progress" => Ok(progress(&call).await),
            "test_trigger_tool_change" => {
                self.changed.fetch_add(1, Ordering::Relaxed);
                // There may be no listener.
                let _ = self.changes.send(CatalogChange::Tools);
                Ok(text("changed"))
            }
            "test_missing_capability" | "test_streaming_elicitation" => Ok(consent(&call).await),
            name if name.starts_with("test_input_required_result_") => Ok(consent(&call).await),
            name => {
                let arguments = serde_json::from_slice(&call.arguments).unwrap_or_default();
                let unknown = || Unanswered::Invalid(format!("there is no tool `{name}`"));
                let form = forms::form(name, &arguments).ok_or_else(unknown)?;
                Ok(text(&filled(call.asker.fill(form).await)))
            }
        }
    }

    fn refused(&self, _: &str, _: Option<String>, _: &str) {}

    fn forbidden(&self, _: ForbiddenRequest, _: &str) {}

    fn has_resources(&self) -> bool {
        true
    }

    fn template(&self) -> UriTemplate {
        UriTemplate {
            uri: "test://template/{id}/data",
            name: "template",
            description: "A resource for each id",
        }
    }

    async fn resources(&self, _: Option<String>) -> Result<Vec<Resource>, ResourceError> {
        let resource = |uri: &&str| Resource {
            uri: (*uri).to_owned(),
            name: uri.trim_start_matches("test://").to_owned(),
            size: None,
        };
        Ok(RESOURCES.iter().map(resource).collect())
    }

    async fn read(&self, uri: &str, _: Option<String>) -> Result<ResourceText, ResourceError> {
        let (prefix, suffix) = TEMPLATE;
        let id = uri.strip_prefix(prefix).and_then(|rest| rest.strip_suffix(suffix));
        let (mime_type, text) = match id {
            Some(id) => {
                let data = json!({ "id": id, "templateTest": true, "data": "Data" });
                ("application/json", data.to_string())
            }
            None if RESOURCES.contains(&uri) => {
                ("text/plain", "This is the content of the static text resource.".to_owned())
            }
            None => return Err(ResourceError::NotFound(format!("there is no `{uri}`"))),
        };
        Ok(ResourceText { mime_type, text })
    }

    fn changes(&self) -> broadcast::Receiver<CatalogChange> {
        self.changes.subscribe()
    }

    async fn watch(&self, uri: &str, client: Option<String>) -> Result<(), ResourceError> {
        self.read(uri, client).await.map(|_| ())
    }

    fn unwatch(&self, _: &str) {}
}

fn text(text: &str) -> CallAnswer {
    CallAnswer { body: AnswerBody::Text(text.to_owned()), ..CallAnswer::default() }
}

/// Reports the progress of a call: at its beginning, in the middle and at its end.
async fn progress(call: &ClientCall) -> CallAnswer {
    for progress in [0.0, 50.0, 100.0] {
        call.asker.report(CallProgress { progress, total: Some(100.0), message: None });
        tokio::time::sleep(BETWEEN_REPORTS).await;
    }
    text("done")
}

/// Answers once the user has agreed.
async fn consent(call: &ClientCall) -> CallAnswer {
    match call.asker.ask("May the test go on?").await.verdict {
        // The suite looks for this word.
        QuestionVerdict::Yes => text("state-ok"),
        other => CallAnswer::failed(format!("nobody agreed: {other:?}")),
    }
}

fn filled(filled: FormReply) -> String {
    let (action, content) = match filled {
        FormReply::Accepted(values) => ("accept", Value::Object(values)),
        FormReply::Declined => ("decline", json!({})),
        FormReply::Cancelled => ("cancel", json!({})),
    };
    format!("User response: action={action}, content={content}")
}
