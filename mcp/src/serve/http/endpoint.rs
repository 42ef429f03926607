//! One request: the checks in their order, and the call of the protocol's library.
//!
//! `Host` and `Origin` are checked first, then the principal, then the body. The library gets a
//! request without the call's arguments and without secret headers.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    AUTHORIZATION, CONNECTION, COOKIE, HeaderName, HeaderValue, PROXY_AUTHORIZATION,
};
use http::request::Parts;
use http::{Method, Request, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use parking_lot::Mutex;
use rmcp::model::ClientRequest;
use rmcp::transport::StreamableHttpService;
use rmcp::transport::streamable_http_server::StreamableHttpServerConfig;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::body::BodyMemory;
use super::connections::{AdmittedConnection, Full as NoRoom};
use super::cors;
use super::expiry;
use super::principal::{AccessScope, Principal};
use super::reply::{self, BoxedResponse, HttpRefusal, unread};
use super::sessions::{OwnSessions, Sessions};
use super::settings::HttpSettings;
use crate::offer::{ForbiddenRequest, Offer};
use crate::serve::calls::ClientCalls;
use crate::serve::notices::ConnectionNotices;
use crate::serve::questions::ServerQuestions;
use crate::serve::{ConnectionHandler, ServerIdentity};
use crate::wire::MessageBody;

/// The path of the server.
pub(super) const PATH: &str = "/mcp";

/// The method that begins a session.
const INITIALIZE: &str = "initialize";

/// The method whose answer is a stream of changes.
const LISTEN: &str = "subscriptions/listen";

/// The header with the id of a session.
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// Returns the offer for a principal.
type Offers<O> = Box<dyn Fn(&Principal) -> Arc<O> + Send + Sync>;

/// Answers every request of the server.
pub(super) struct Endpoint<O> {
    offers: Offers<O>,
    server: Arc<ServerIdentity>,
    settings: HttpSettings,
    sessions: Arc<Sessions>,
    calls: Arc<ClientCalls>,
    /// The calls of each principal that has calls.
    principals: Mutex<HashMap<Arc<str>, Weak<ClientCalls>>>,
    listeners: Arc<Semaphore>,
    questions: Arc<ServerQuestions>,
    reading: BodyMemory,
    /// Holds one permit for each request whose answer has not begun.
    answering: Semaphore,
    config: StreamableHttpServerConfig,
}

impl<O: Offer> Endpoint<O> {
    /// Creates an endpoint whose sessions and streams end when `stop` is cancelled.
    pub(super) fn new(
        offers: impl Fn(&Principal) -> Arc<O> + Send + Sync + 'static,
        server: ServerIdentity,
        settings: HttpSettings,
        questions: ServerQuestions,
        stop: CancellationToken,
    ) -> Arc<Self> {
        let config = StreamableHttpServerConfig::default()
            .with_json_response(true)
            .with_cancellation_token(stop)
            // Both were checked before.
            .disable_allowed_hosts()
            .disable_allowed_origins();
        let bounds = settings.bounds;
        Arc::new(Self {
            offers: Box::new(offers),
            server: Arc::new(server),
            settings,
            sessions: Sessions::new(bounds.sessions, bounds.idle),
            calls: Arc::new(ClientCalls::of_server()),
            principals: Mutex::default(),
            listeners: Arc::new(Semaphore::new(bounds.listeners)),
            questions: Arc::new(questions),
            reading: BodyMemory::default(),
            answering: Semaphore::new(bounds.connections),
            config,
        })
    }

    /// Ends all calls. Resolves when none is running and their answers have begun. Waits at most
    /// `within` for clients that send their requests slowly.
    pub(super) async fn end_calls(&self, within: Duration) {
        self.calls.close();
        self.calls.ended().await;
        let all = u32::try_from(self.settings.bounds.connections).unwrap_or(u32::MAX);
        if tokio::time::timeout(within, self.answering.acquire_many(all)).await.is_err() {
            tracing::debug!("the server ended before some requests had come");
        }
    }

    /// Answers a request.
    pub(super) async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
        connection: Arc<AdmittedConnection>,
    ) -> BoxedResponse {
        // A connection has one request at a time, and the semaphore is never closed.
        let _answering = self.answering.acquire().await;
        connection.asks(true);
        let reply = self.checked(request, &connection).await;
        connection.asks(false);
        reply
    }

    async fn checked(
        self: &Arc<Self>,
        request: Request<Incoming>,
        connection: &AdmittedConnection,
    ) -> BoxedResponse {
        let (head, body) = request.into_parts();
        let origin = match self.settings.admission.check(&head) {
            Ok(origin) => origin,
            Err(refusal) => return *refusal,
        };
        let Some(origin) = origin else { return self.admitted(head, body, connection).await };
        let reply = if cors::is_preflight(&head) {
            cors::preflight()
        } else {
            self.admitted(head, body, connection).await
        };
        cors::readable(reply, origin)
    }

    async fn admitted(
        self: &Arc<Self>,
        head: Parts,
        body: Incoming,
        connection: &AdmittedConnection,
    ) -> BoxedResponse {
        self.answered(head, body, connection).await.unwrap_or_else(|refusal| *refusal)
    }

    async fn answered(
        self: &Arc<Self>,
        mut head: Parts,
        body: Incoming,
        connection: &AdmittedConnection,
    ) -> Result<BoxedResponse, HttpRefusal> {
        if let Some(description) = self.settings.access.metadata(&head) {
            return Ok(reply::json(StatusCode::OK, description));
        }
        if head.uri.path() != PATH {
            return Err(unread(StatusCode::NOT_FOUND, "there is nothing at this path"));
        }
        let principal = self.settings.access.principal(&head.headers).await?;
        let session = head.headers.get(SESSION).and_then(|id| id.to_str().ok().map(Box::from));
        connection.belongs_to(principal.shared_name(), session.as_deref()).map_err(no_room)?;
        // The code below does not need these headers, and a missing header cannot be logged.
        for secret in [AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION] {
            head.headers.remove(secret);
        }
        if head.method != Method::POST {
            let request = Request::from_parts(head, Full::new(Bytes::new()));
            let answer = self.library(&principal).handle(request).await;
            return Ok(expiry::ending(answer, principal.ends()));
        }
        let body = self.reading.read(body, self.settings.bounds.body_within).await?;
        self.check_method(&principal, &body)?;
        self.check_id(&principal, session.as_deref(), &body)?;
        // Other answers end with their request. The answer of a call that began in time is sent.
        let ends = principal.ends().filter(|_| body.method.as_deref() == Some(LISTEN));
        let request = Self::without_arguments(head, body);
        let answer = self.library(&principal).handle(request).await;
        Ok(expiry::ending(answer, ends))
    }

    /// Checks that the principal may use the method of a message. Reports a refusal to the offer.
    fn check_method(&self, principal: &Principal, body: &MessageBody) -> Result<(), HttpRefusal> {
        let Some(method) = body.method.as_deref() else { return Ok(()) };
        if let Some(scope) = AccessScope::for_method(method).filter(|scope| !principal.may(*scope))
        {
            if let Some(request) = forbidden(body) {
                let reason = format!("the access token lacks the scope `{}`", scope.as_str());
                (self.offers)(principal).forbidden(request, &reason);
            }
            return Err(self.settings.access.insufficient(scope));
        }
        if method == INITIALIZE && !self.sessions.has_room(principal.name()) {
            let reason = "there are as many sessions as there can be; try again later";
            return Err(unread(StatusCode::SERVICE_UNAVAILABLE, reason));
        }
        Ok(())
    }

    /// Checks that no other request of the session has this request's id. The refusal has no id,
    /// because the client would match it to the other request.
    fn check_id(
        &self,
        principal: &Principal,
        session: Option<&str>,
        body: &MessageBody,
    ) -> Result<(), HttpRefusal> {
        let (Some(session), Some(id), Some(_)) = (session, &body.id, &body.method) else {
            return Ok(());
        };
        match self.sessions.taken(principal, session, id) {
            Some(error) => Err(reply::refused(StatusCode::BAD_REQUEST, error, None)),
            None => Ok(()),
        }
    }

    /// Returns the request for the library, with the arguments of a call as an extension.
    fn without_arguments(mut head: Parts, body: MessageBody) -> Request<Full<Bytes>> {
        let MessageBody { text, arguments, .. } = body;
        if let Some(arguments) = arguments {
            head.extensions.insert(arguments);
        }
        Request::from_parts(head, Full::new(text))
    }

    /// Returns the library's service for the requests of one principal.
    fn library(
        self: &Arc<Self>,
        principal: &Principal,
    ) -> StreamableHttpService<ConnectionHandler<O>, OwnSessions> {
        let sessions = self.sessions.for_principal(principal);
        let (endpoint, principal) = (Arc::clone(self), principal.clone());
        let handler = move || Ok(endpoint.handler(&principal));
        StreamableHttpService::new(handler, sessions, self.config.clone())
    }

    /// Returns a handler for a session or a single request of a principal.
    fn handler(&self, principal: &Principal) -> ConnectionHandler<O> {
        let offer = (self.offers)(principal);
        let stop = &self.config.cancellation_token;
        let notices = ConnectionNotices::new(Arc::clone(&offer), stop, Arc::clone(&self.listeners));
        let (server, calls) = (Arc::clone(&self.server), self.calls_of(principal));
        let questions = Arc::clone(&self.questions);
        let principal = Some(Arc::clone(principal.shared_name()));
        ConnectionHandler { offer, server, calls, notices, questions, principal }
    }

    /// Returns the calls of a principal. All its clients share their bounds.
    fn calls_of(&self, principal: &Principal) -> Arc<ClientCalls> {
        let mut principals = self.principals.lock();
        let name = principal.shared_name();
        if let Some(calls) = principals.get(name).and_then(Weak::upgrade) {
            return calls;
        }
        principals.retain(|_, calls| calls.strong_count() > 0);
        let calls = Arc::new(ClientCalls::within(Arc::clone(&self.calls)));
        principals.insert(Arc::clone(name), Arc::downgrade(&calls));
        calls
    }
}

/// Returns the request of a message for the report of its refusal. Returns `None` if the request
/// would leave no record even if it were answered.
fn forbidden(body: &MessageBody) -> Option<ForbiddenRequest> {
    Some(match body.request()? {
        ClientRequest::CallToolRequest(call) => {
            let arguments = body.arguments.clone().map_or(Bytes::from_static(b"{}"), |raw| raw.0);
            ForbiddenRequest::Call { name: call.params.name.into_owned(), arguments }
        }
        ClientRequest::ListResourcesRequest(_) => ForbiddenRequest::List,
        ClientRequest::ReadResourceRequest(read) => ForbiddenRequest::Read(read.params.uri),
        ClientRequest::SubscribeRequest(watch) => ForbiddenRequest::Watch(watch.params.uri),
        _ => return None,
    })
}

/// Returns the answer to a request on a connection that exceeds its client's share. The connection
/// is closed.
fn no_room(share: NoRoom) -> HttpRefusal {
    let reason = match share {
        NoRoom::Principal => "the principal has as many connections as it may have",
        NoRoom::Session => "the session has as many connections as it may have",
    };
    let refusal = unread(StatusCode::SERVICE_UNAVAILABLE, reason);
    reply::with(refusal, CONNECTION, HeaderValue::from_static("close"))
}
