//! Requests whose arguments and results pass through as bytes, and the ways in which they can end.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CancelledNotification, CancelledNotificationParam,
    ClientRequest, ErrorData,
};
use rmcp::service::{PeerRequestOptions, RequestHandle, RoleClient, ServiceError};
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::forms::{ROUNDS, ResultStatus};
use super::http::no_token;
use super::{Era, RemoteConnection, innermost};
use crate::form::Interaction;
use crate::wire::{ExtensionRequest, InputAnswers, PendingForm};

/// The reason why a request has no result. Nothing is sent twice, because a call may have run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RemoteCallError {
    /// The arguments are not a JSON object. Nothing was sent.
    #[error("the arguments are not a JSON object")]
    Arguments,
    /// The server answered with an error of the protocol.
    #[error("the server refused: {message} (code {code})")]
    Refused {
        /// The code of the protocol.
        code: i32,
        /// The server's message.
        message: String,
    },
    /// The server's answer is not valid.
    #[error("the server's answer is malformed: {0}")]
    Malformed(String),
    /// The call was cancelled, and the server was notified.
    #[error("the call was cancelled")]
    Cancelled,
    /// The server wants a token, or a different one. Holds its `WWW-Authenticate` header. Nothing
    /// ran.
    #[error("the server requires a valid token")]
    Unauthorized(String),
    /// The source of tokens did not supply one. Holds its reason. Nothing ran.
    #[error("{0}")]
    NoToken(String),
    /// The connection ended before the answer came.
    #[error("the connection ended: {0}")]
    Closed(String),
}

impl RemoteConnection {
    /// Calls a tool. Returns the JSON text of its result as the server wrote it: an object with
    /// `content`, and perhaps `structuredContent`, `isError` and members about the protocol.
    ///
    /// `arguments` is the text of a JSON object. The server gets it unchanged, except for line
    /// breaks between its values. If `cancel` is cancelled, or the future is dropped, the server is
    /// notified that the call was cancelled. While the call runs, the server may have `interaction`
    /// fill forms.
    ///
    /// # Errors
    ///
    /// Fails if the call has no result. A tool that failed is a result with `isError`.
    pub async fn call(
        &self,
        name: &str,
        arguments: Bytes,
        cancel: &CancellationToken,
        interaction: &dyn Interaction,
    ) -> Result<Bytes, RemoteCallError> {
        let arguments: Arc<RawValue> = object(arguments)?.into();
        let headers = self.headers(name, &arguments);
        let mut answers = InputAnswers::default();
        for left in (0..ROUNDS).rev() {
            let (asked, mut questions) =
                ExtensionRequest::call(Arc::clone(&arguments), headers.clone(), answers);
            let mut call = CallToolRequest::new(CallToolRequestParams::new(name.to_owned()));
            call.extensions.insert(Arc::clone(&asked));
            let request = ClientRequest::CallToolRequest(call);
            let answer = self.ask(request, &asked, cancel);
            let result = tokio::select! {
                biased;
                result = answer => result?,
                never = attend(&asked, &mut questions, interaction) => match never {},
            };
            match ResultStatus::read(&result, self.era == Era::Modern)? {
                ResultStatus::Complete => return Ok(result),
                // No request would carry the answers.
                ResultStatus::Asking(_) if left == 0 => break,
                ResultStatus::Asking(required) => {
                    let answered = cancel.run_until_cancelled(required.answered(interaction)).await;
                    answers = answered.ok_or(RemoteCallError::Cancelled)?;
                }
            }
        }
        Err(RemoteCallError::Malformed(format!("the server asked in {ROUNDS} results in a row")))
    }

    /// Sends a request that has `asked` among its extensions, and waits for its result.
    pub(super) async fn ask(
        &self,
        request: ClientRequest,
        asked: &ExtensionRequest,
        cancel: &CancellationToken,
    ) -> Result<Bytes, RemoteCallError> {
        if cancel.is_cancelled() {
            return Err(RemoteCallError::Cancelled);
        }
        let options = PeerRequestOptions::no_options();
        let sent = self.service.send_request_with_option(request, options).await;
        let mut flight = InFlight::from_handle(sent.map_err(|error| self.failed(error))?);
        let answer = tokio::select! {
            biased;
            answer = flight.answer() => answer,
            reason = self.upstream.ended() => {
                flight.forget();
                return Err(RemoteCallError::Closed(reason.to_string()));
            }
            () = cancel.cancelled() => return Err(RemoteCallError::Cancelled),
        };
        flight.forget();
        answer.map_err(|error| self.failed(error))?;
        asked.result().ok_or_else(|| RemoteCallError::Malformed("no result".to_owned()))
    }

    fn failed(&self, error: ServiceError) -> RemoteCallError {
        if let Some(challenge) = error.auth_challenge() {
            return RemoteCallError::Unauthorized(challenge.to_owned());
        }
        if let Some(reason) = no_token(&error) {
            return RemoteCallError::NoToken(reason);
        }
        match error {
            ServiceError::McpError(ErrorData { code, message, .. }) => {
                RemoteCallError::Refused { code: code.0, message: message.into_owned() }
            }
            other => {
                let reason = self.upstream.reason();
                RemoteCallError::Closed(
                    reason.map_or_else(|| innermost(&other), |it| it.to_string()),
                )
            }
        }
    }
}

/// A request whose answer is still wanted. Dropping it sends the server a cancellation.
struct InFlight(Option<RequestHandle<RoleClient>>);

impl InFlight {
    fn from_handle(handle: RequestHandle<RoleClient>) -> Self {
        Self(Some(handle))
    }

    /// Waits until the library has the answer.
    async fn answer(&mut self) -> Result<(), ServiceError> {
        let answer = match &mut self.0 {
            Some(handle) => (&mut handle.rx).await.ok(),
            None => None,
        };
        answer.unwrap_or(Err(ServiceError::TransportClosed)).map(|_| ())
    }

    /// Prevents the cancellation, since the request is over.
    fn forget(&mut self) {
        self.0 = None;
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let Some(handle) = self.0.take() else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            let params = CancelledNotificationParam::new(Some(handle.id.clone()), None);
            let cancelled = CancelledNotification::new(params).into();
            if handle.peer.send_notification(cancelled).await.is_ok() {
                // The library now answers the request itself, and would log an error if the
                // receiver were gone.
                let _ = handle.rx.await;
            }
        });
    }
}

/// Returns the arguments on one line.
fn object(arguments: Bytes) -> Result<Box<RawValue>, RemoteCallError> {
    let mut arguments = Vec::from(arguments);
    // In JSON, line breaks can occur only between values.
    for byte in &mut arguments {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    let text = String::from_utf8(arguments).map_err(|_| RemoteCallError::Arguments)?;
    let value = RawValue::from_string(text).map_err(|_| RemoteCallError::Arguments)?;
    if value.get().starts_with('{') { Ok(value) } else { Err(RemoteCallError::Arguments) }
}

/// Passes on the server's progress reports and forms while a call runs, one form after the other.
async fn attend(
    asked: &ExtensionRequest,
    questions: &mut mpsc::Receiver<PendingForm>,
    interaction: &dyn Interaction,
) -> Infallible {
    let mut progress = asked.progress();
    let reports = async {
        // The sender lives as long as `asked`.
        while progress.changed().await.is_ok() {
            let latest = progress.borrow_and_update().clone();
            latest.into_iter().for_each(|it| interaction.progress(it));
        }
    };
    let forms = async {
        while let Some(PendingForm { form, mut answer }) = questions.recv().await {
            tokio::select! {
                filled = interaction.fill(form) => {
                    // The server may have stopped waiting at this moment.
                    let _ = answer.send(filled);
                }
                () = answer.closed() => {}
            }
        }
    };
    tokio::join!(reports, forms);
    std::future::pending().await
}
