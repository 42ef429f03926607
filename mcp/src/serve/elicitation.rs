//! One question as a request to a client that shook hands.

use rmcp::model::{ClientResult, ElicitRequest, ElicitRequestParams, ElicitResult, ServerRequest};
use rmcp::service::{Peer, PeerRequestOptions, RequestHandle, RoleServer, ServiceError};

/// The reason in the cancellation that a client gets when its question is withdrawn.
const TAKEN_BACK: &str = "the question was taken back";

/// Sends forms to a client.
pub(super) struct Elicitation(Peer<RoleServer>);

impl Elicitation {
    pub(super) fn new(peer: Peer<RoleServer>) -> Self {
        Self(peer)
    }

    /// Sends a form, and waits for the result. Dropping the future withdraws the form.
    ///
    /// # Errors
    ///
    /// Returns the reason if the client did not send a valid result.
    pub(super) async fn ask(&self, form: ElicitRequestParams) -> Result<ElicitResult, String> {
        let request = ServerRequest::ElicitRequest(ElicitRequest::new(form));
        let options = PeerRequestOptions::no_options();
        let sent = self.0.send_cancellable_request(request, options).await;
        let mut open = PendingRequest(Some(sent.map_err(|error| reason(&error))?));
        match open.answer().await {
            Ok(ClientResult::ElicitResult(result)) => Ok(result),
            Ok(_) => Err("the client's answer is not one to the question".to_owned()),
            Err(error) => Err(reason(&error)),
        }
    }
}

fn reason(error: &ServiceError) -> String {
    format!("the client did not ask: {error}")
}

/// A request that was not answered yet.
struct PendingRequest(Option<RequestHandle<RoleServer>>);

impl PendingRequest {
    async fn answer(&mut self) -> Result<ClientResult, ServiceError> {
        let Some(handle) = &mut self.0 else { return Err(ServiceError::TransportClosed) };
        let answer = (&mut handle.rx).await.map_err(|_| ServiceError::TransportClosed)?;
        self.0 = None;
        answer
    }
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        let (Some(handle), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current())
        else {
            return;
        };
        runtime.spawn(async move {
            if let Err(error) = handle.cancel(Some(TAKEN_BACK.to_owned())).await {
                tracing::debug!("a question could not be taken back: {error}");
            }
        });
    }
}
