//! A server: an [`Offer`] as the handler of the protocol's library.
//!
//! Owns the path from a request to the offer and back, and the end of a connection. The bounds on a
//! connection's calls are in `calls`; the lists with their pages are in `lists`.

mod asker;
mod calls;
mod elicitation;
mod http;
mod lists;
mod notices;
mod questions;
#[cfg(test)]
mod timeout;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CustomRequest, CustomResult, ErrorData,
    Implementation, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, ResourcesCapability,
    ServerCapabilities, ServerConfig, SubscriptionFilter, ToolsCapability,
};
use rmcp::service::{
    NotificationContext, QuitReason, RequestContext, RoleServer, ServerInitializeError,
    SubscriptionContext, serve_server_with_ct,
};
use rmcp::{ServerHandler, model};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::connect::Era;
use crate::offer::Offer;
use crate::wire::{RawArguments, StandardStreams, Wire, standard_streams};
use asker::ClientAsker;
use calls::ClientCalls;
pub(crate) use http::fuzzing;
pub use http::{
    AccessScope, ClientAccess, HttpBounds, HttpSettings, InvalidAdmission, InvalidOAuth,
    InvalidToken, OAuth, Principal, SharedToken, Tls, TlsError, listen, serve_http,
};
use notices::{ConnectionNotices, LISTENERS};
use questions::{QuestionedCall, ServerQuestions};

/// The time in which calls in flight must end after the client has sent its last message. The
/// client still reads in this time.
const GRACE: Duration = Duration::from_secs(2);

/// The names and the instructions with which a server introduces itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerIdentity {
    /// The name for programs.
    pub name: String,
    /// The name for people.
    pub title: String,
    /// The version of the program.
    pub version: String,
    /// The instructions for the model, which some clients pass on.
    pub instructions: String,
}

/// The reason why a connection could not be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The standard streams cannot be used.
    #[error("stdin or stdout cannot be used")]
    Streams(#[source] io::Error),
    /// The system has no source of randomness for the key of the questions.
    #[error("the system has no random numbers")]
    Random(#[source] getrandom::Error),
    /// The library ended the connection.
    #[error("the connection ended with a fault of the protocol: {0}")]
    Protocol(String),
}

/// Serves the client at the standard streams, until it closes stdin or stdout, or `cancel` is
/// cancelled. When the future resolves, no call of this connection is running.
///
/// # Errors
///
/// Fails if the streams cannot be used. A client that breaks the protocol gets error responses; the
/// function does not fail because of that.
pub async fn serve_stdio<O: Offer>(
    offer: Arc<O>,
    server: ServerIdentity,
    cancel: CancellationToken,
) -> Result<(), ServeError> {
    let StandardStreams { input, output, closed } =
        standard_streams().map_err(ServeError::Streams)?;
    let stop = cancel.child_token();
    let served = serve_streams(offer, server, input, output, stop.clone());
    let mut served = std::pin::pin!(served);
    tokio::select! {
        served = &mut served => return served,
        // The client no longer reads answers.
        () = closed => stop.cancel(),
    }
    served.await
}

/// Serves a client over two streams, as [`serve_stdio`] does.
///
/// # Errors
///
/// Fails if the library ends the connection because of a protocol error.
pub async fn serve_streams<O: Offer>(
    offer: Arc<O>,
    server: ServerIdentity,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
    cancel: CancellationToken,
) -> Result<(), ServeError> {
    let questions = Arc::new(ServerQuestions::new().map_err(ServeError::Random)?);
    serve_asking(offer, server, questions, (input, output), cancel).await
}

/// Serves a client over two streams, with these open questions.
async fn serve_asking<O: Offer>(
    offer: Arc<O>,
    server: ServerIdentity,
    questions: Arc<ServerQuestions>,
    (input, output): (
        impl AsyncRead + Send + Unpin + 'static,
        impl AsyncWrite + Send + Unpin + 'static,
    ),
    cancel: CancellationToken,
) -> Result<(), ServeError> {
    let calls = Arc::new(ClientCalls::of_client());
    let has_ended = CancellationToken::new();
    let wire = Wire::new(input, output, has_ended.clone());
    let output = wire.output();
    let stop = cancel.child_token();
    let ends = tokio::spawn({
        let (calls, stop, output) = (Arc::clone(&calls), stop.clone(), output.clone());
        let has_ended = has_ended.clone();
        async move {
            tokio::select! {
                // The client no longer reads answers.
                () = output.closed() => {}
                () = stop.cancelled() => {}
                () = has_ended.cancelled() => tokio::time::sleep(GRACE).await,
            }
            has_ended.cancel();
            calls.close();
            stop.cancel();
        }
    });
    let listeners = Arc::new(Semaphore::new(LISTENERS));
    let notices = ConnectionNotices::new(Arc::clone(&offer), &has_ended, listeners);
    let server = Arc::new(server);
    let principal = None;
    let handler = ConnectionHandler {
        offer,
        server,
        calls: Arc::clone(&calls),
        notices,
        questions,
        principal,
    };
    let served = match serve_server_with_ct(handler, wire, stop.clone()).await {
        Ok(running) => match running.waiting().await {
            Ok(QuitReason::JoinError(error)) | Err(error) => {
                Err(ServeError::Protocol(error.to_string()))
            }
            Ok(_) => Ok(()),
        },
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => {
            Ok(())
        }
        Err(_) if stop.is_cancelled() => Ok(()),
        Err(error) => Err(ServeError::Protocol(error.to_string())),
    };
    stop.cancel();
    calls.close();
    calls.ended().await;
    // The library closes only connections whose first phase has ended.
    output.finish().await;
    ends.abort();
    served
}

/// The handler of one connection. Over HTTP, the handler of one session, or of one request without
/// a session.
struct ConnectionHandler<O: Offer> {
    offer: Arc<O>,
    server: Arc<ServerIdentity>,
    calls: Arc<ClientCalls>,
    notices: ConnectionNotices<O>,
    questions: Arc<ServerQuestions>,
    /// The caller. `None` over streams, because the client's user started the server.
    principal: Option<Arc<str>>,
}

impl<O: Offer> ServerHandler for ConnectionHandler<O> {
    fn get_info(&self) -> ServerConfig {
        let ServerIdentity { name, title, version, instructions } = &*self.server;
        let mut capabilities = ServerCapabilities::default();
        let mut tools = ToolsCapability::default();
        tools.list_changed = Some(true);
        capabilities.tools = Some(tools);
        if self.offer.has_resources() {
            let mut resources = ResourcesCapability::default();
            resources.list_changed = Some(true);
            resources.subscribe = Some(true);
            capabilities.resources = Some(resources);
        }
        let program = Implementation::new(name, version).with_title(title);
        ServerConfig::new(capabilities).with_server_info(program).with_instructions(instructions)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let catalog = self.offer.catalog().await;
        lists::tools(&catalog, cursor(request).as_deref(), is_modern(&context))
    }

    async fn call_tool(
        &self,
        mut request: CallToolRequestParams,
        mut context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = RawArguments::take(&mut context.extensions).unwrap_or("{}".into());
        let name = std::mem::take(&mut request.name).into_owned();
        let (principal, tool) = (self.principal.clone(), name.clone());
        let subject = QuestionedCall { principal, tool, arguments: arguments.clone() };
        let repeated = (request.request_state.take(), request.input_responses.take());
        let era = if is_modern(&context) { Era::Modern } else { Era::Legacy };
        let questions = (&self.questions, self.calls.questions());
        let asker = ClientAsker::new(questions, &context, era, subject, repeated);
        match asker {
            Ok(asker) => {
                self.calls.run(&*self.offer, name, arguments, context, Arc::new(asker)).await
            }
            Err(error) => {
                self.offer.refused(&name, calls::client(&context), &error.message);
                Err(error)
            }
        }
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        self.has_resources("resources/list")?;
        let resources =
            self.offer.resources(calls::client(&context)).await.map_err(lists::list_error)?;
        lists::resources(resources, cursor(request).as_deref(), is_modern(&context))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        self.has_resources("resources/templates/list")?;
        Ok(lists::templates(self.offer.template()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        self.has_resources("resources/read")?;
        let uri = &*request.uri;
        let read = self.offer.read(uri, calls::client(&context)).await;
        let read = read.map_err(|it| lists::read_error(it, uri))?;
        Ok(lists::text(uri, read, is_modern(&context)).into())
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(notices::accepted(requested))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        self.notices.listen(&context).await
    }

    async fn subscribe(
        &self,
        request: model::SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.has_subscriptions("resources/subscribe", &context)?;
        self.notices.subscribe(&request.uri, calls::client(&context)).await
    }

    async fn unsubscribe(
        &self,
        request: model::UnsubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.has_subscriptions("resources/unsubscribe", &context)?;
        self.notices.unsubscribe(&request.uri);
        Ok(())
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        // A client of the newest revision listens to the changes that it wants.
        if context.peer.peer_info().is_some() {
            self.notices.tell_unasked(context.peer);
        }
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        Err(lists::unknown(&request, is_modern(&context)))
    }
}

impl<O: Offer> ConnectionHandler<O> {
    /// Refuses a resource method if the program offers no resources.
    fn has_resources(&self, method: &'static str) -> Result<(), ErrorData> {
        if self.offer.has_resources() {
            return Ok(());
        }
        Err(lists::no_method(method))
    }

    /// Refuses subscriptions of the newest revision, in which clients listen instead.
    fn has_subscriptions(
        &self,
        method: &'static str,
        context: &RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if is_modern(context) {
            return Err(lists::no_method(method));
        }
        self.has_resources(method)
    }
}

fn cursor(request: Option<PaginatedRequestParams>) -> Option<String> {
    request.and_then(|request| request.cursor)
}

/// Returns whether the request uses the revision 2026-07-28 or a later one.
fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    let version = context.protocol_version();
    version.is_some_and(|version| version >= model::ProtocolVersion::V_2026_07_28)
}
