//! An offer with one tool that answers when the test permits it.

use std::sync::Arc;

use ikigai_mcp::{
    AnswerBody, CallAnswer, Catalog, CatalogChange, ClientCall, ForbiddenRequest, Offer, Resource,
    ResourceError, ResourceText, ServerIdentity, Unanswered, UriTemplate,
};
use tokio::sync::{Semaphore, broadcast, watch};

/// A tool that answers when it gets a permit.
pub(crate) struct Gate {
    pub(crate) permits: Semaphore,
    /// Sends changes to the listeners.
    pub(crate) changes: broadcast::Sender<CatalogChange>,
    seen: watch::Sender<Seen>,
    answer: String,
}

/// The calls that a [`Gate`] has seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) begun: usize,
    pub(crate) cancelled: usize,
    /// The arguments of the last call.
    pub(crate) arguments: String,
    /// The requests that the tokens of clients did not cover.
    pub(crate) forbidden: Vec<ForbiddenRequest>,
}

impl Gate {
    pub(crate) fn new(permits: usize, answer: String) -> Arc<Self> {
        let (permits, changes) = (Semaphore::new(permits), broadcast::Sender::new(1));
        Arc::new(Self { permits, changes, seen: watch::Sender::default(), answer })
    }

    pub(crate) fn begun(&self) -> usize {
        self.seen.borrow().begun
    }

    /// Waits until the calls so far are as expected.
    #[allow(dead_code, reason = "not every test waits")]
    pub(crate) async fn wait_until(&self, is_it: impl FnMut(&Seen) -> bool) -> Seen {
        let mut seen = self.seen.subscribe();
        seen.wait_for(is_it).await.expect("a gate").clone()
    }
}

impl Offer for Gate {
    async fn catalog(&self) -> Arc<Catalog> {
        Arc::default()
    }

    async fn call(&self, call: ClientCall) -> Result<CallAnswer, Unanswered> {
        self.seen.send_modify(|seen| {
            seen.begun += 1;
            seen.arguments = String::from_utf8_lossy(&call.arguments).into_owned();
        });
        tokio::select! {
            permit = self.permits.acquire() => permit.expect("open").forget(),
            () = call.cancel.cancelled() => self.seen.send_modify(|seen| seen.cancelled += 1),
        }
        Ok(CallAnswer { body: AnswerBody::Text(self.answer.clone()), ..CallAnswer::default() })
    }

    fn refused(&self, _: &str, _: Option<String>, _: &str) {}

    fn forbidden(&self, request: ForbiddenRequest, _: &str) {
        self.seen.send_modify(|seen| seen.forbidden.push(request));
    }

    fn has_resources(&self) -> bool {
        false
    }

    fn template(&self) -> UriTemplate {
        UriTemplate { uri: "", name: "", description: "" }
    }

    async fn resources(&self, _: Option<String>) -> Result<Vec<Resource>, ResourceError> {
        Ok(Vec::new())
    }

    async fn read(&self, uri: &str, _: Option<String>) -> Result<ResourceText, ResourceError> {
        Err(ResourceError::NotFound(uri.to_owned()))
    }

    fn changes(&self) -> broadcast::Receiver<CatalogChange> {
        self.changes.subscribe()
    }

    async fn watch(&self, uri: &str, _: Option<String>) -> Result<(), ResourceError> {
        Err(ResourceError::NotFound(uri.to_owned()))
    }

    fn unwatch(&self, _: &str) {}
}

/// Returns the names with which a test server introduces itself.
pub(crate) fn server() -> ServerIdentity {
    ServerIdentity {
        name: "test".to_owned(),
        title: "Test".to_owned(),
        version: "1".to_owned(),
        instructions: String::new(),
    }
}
