//! The library's HTTP transport. Adds bounds, and takes results out of messages before the library
//! parses them.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{BoxStream, StreamExt as _};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use reqwest::Response;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::service::{RoleClient, RxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, SseError, StreamableHttpClient, StreamableHttpClientTransport,
    StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::Sse;

use super::challenge;
use super::events::events;
use super::requests::{HttpError, RequestSender, body};
use crate::wire::{ExtensionRequest, OutgoingMessage, ServerMessage, UpstreamState, not_modern};

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

type Error = StreamableHttpError<HttpError>;

/// The library's transport, and the requests in flight.
pub(super) struct HttpWire {
    inner: StreamableHttpClientTransport<HttpClient>,
    upstream: Arc<UpstreamState>,
}

impl HttpWire {
    pub(super) fn new(
        inner: StreamableHttpClientTransport<HttpClient>,
        upstream: Arc<UpstreamState>,
    ) -> Self {
        Self { inner, upstream }
    }
}

impl Transport<RoleClient> for HttpWire {
    type Error = <StreamableHttpClientTransport<HttpClient> as Transport<RoleClient>>::Error;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.upstream.sent(&message);
        let id = match &message {
            JsonRpcMessage::Request(request) => Some(request.id.clone()),
            _ => None,
        };
        let (sending, upstream) = (self.inner.send(message), Arc::clone(&self.upstream));
        async move {
            let sent = sending.await;
            if let (Err(_), Some(id)) = (&sent, &id) {
                upstream.unsent(id);
            }
            sent
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let message = self.inner.receive().await;
        if message.is_none() {
            self.upstream.end("the connection to the server was given up");
        }
        message
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}

/// The HTTP client of the library.
#[derive(Clone)]
pub(super) struct HttpClient {
    requests: RequestSender,
    upstream: Arc<UpstreamState>,
}

impl HttpClient {
    pub(super) fn new(requests: RequestSender, upstream: Arc<UpstreamState>) -> Self {
        Self { requests, upstream }
    }

    /// Sends a request of the library.
    async fn send(
        &self,
        method: Method,
        session: Option<&str>,
        custom: HashMap<HeaderName, HeaderValue>,
        body: Bytes,
    ) -> Result<Response, Error> {
        let mut headers: HeaderMap = custom.into_iter().collect();
        headers.insert(
            header::ACCEPT,
            HeaderValue::from_static("application/json, text/event-stream"),
        );
        if !body.is_empty() {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
        }
        if let Some(session) = session {
            let session = HeaderValue::try_from(session).map_err(|_| unexpected("its session"))?;
            headers.insert(SESSION, session);
        }
        let response = self.requests.send(method, &headers, body).await.map_err(as_error)?;
        if response.status() == StatusCode::FORBIDDEN
            && response.headers().contains_key(header::WWW_AUTHENTICATE)
        {
            return Err(as_error(HttpError::Unauthorized(challenge(response.headers()))));
        }
        Ok(response)
    }

    /// Returns the answer in a JSON body.
    fn answer(&self, body: &Bytes) -> Result<ServerJsonRpcMessage, Error> {
        match ServerMessage::read(body, &self.upstream) {
            ServerMessage::Message(message) => Ok(*message),
            ServerMessage::Question(_) | ServerMessage::Ignored | ServerMessage::Noise => {
                Err(unexpected("an answer that is not a message"))
            }
        }
    }

    /// Returns the events of a response, without the messages that are handled here.
    fn events(
        &self,
        response: Response,
        session: Option<Arc<str>>,
        custom: HashMap<HeaderName, HeaderValue>,
    ) -> BoxStream<'static, Result<Sse, SseError>> {
        let client = self.clone();
        events(response)
            .then(move |event| {
                let (client, session, custom) = (client.clone(), session.clone(), custom.clone());
                async move { Ok(client.event(event?, session, custom).await) }
            })
            .boxed()
    }

    /// Reads one event. If it is a server's question, answers it before the next event is read.
    async fn event(
        &self,
        mut event: Sse,
        session: Option<Arc<str>>,
        custom: HashMap<HeaderName, HeaderValue>,
    ) -> Sse {
        let Some(data) = event.data.take().filter(|data| !data.trim().is_empty()) else {
            return event;
        };
        match ServerMessage::read(&Bytes::from(data), &self.upstream) {
            ServerMessage::Message(message) => match serde_json::to_string(&message) {
                Ok(message) => event.data = Some(message),
                Err(error) => tracing::error!("a message cannot be written as JSON: {error}"),
            },
            ServerMessage::Question(answer) => {
                let body = Bytes::from(answer.to_string());
                if let Err(error) = self.send(Method::POST, session.as_deref(), custom, body).await
                {
                    tracing::debug!("a question of a server could not be answered: {error}");
                }
            }
            ServerMessage::Ignored | ServerMessage::Noise => {}
        }
        event
    }
}

impl StreamableHttpClient for HttpClient {
    type Error = HttpError;

    async fn post_message(
        &self,
        _: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _: Option<String>,
        custom: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Error> {
        let text = Bytes::from(serde_json::to_vec(&OutgoingMessage::from_message(&message))?);
        let repeated = ExtensionRequest::headers(&message).into_iter().flatten();
        let repeated = repeated.map(|(name, value)| (name.clone(), value.clone()));
        let headers = custom.clone().into_iter().chain(repeated).collect();
        let response = self.send(Method::POST, session.as_deref(), headers, text).await?;
        let status = response.status();
        let id = response.headers().get(SESSION).and_then(|it| it.to_str().ok());
        let id = id.map(ToOwned::to_owned);
        if status == StatusCode::NOT_FOUND && session.is_some() {
            self.upstream.end("the server ended the session");
            return Err(Error::SessionExpired);
        }
        let JsonRpcMessage::Request(request) = &message else {
            // The body of this answer does not matter.
            return if status.is_success() {
                Ok(StreamableHttpPostResponse::Accepted)
            } else {
                Err(unexpected(&format!("HTTP {status}")))
            };
        };
        if status.is_success() && is(&response, EVENTS) {
            let session = session.or_else(|| id.as_deref().map(Arc::from));
            let events = self.events(response, session, custom);
            return Ok(StreamableHttpPostResponse::Sse(events, id));
        }
        let is_json = is(&response, JSON);
        let answer =
            if is_json { self.answer(&body(response).await.map_err(as_error)?).ok() } else { None };
        match answer {
            Some(answer) => Ok(StreamableHttpPostResponse::Json(answer, id)),
            None if status.is_client_error()
                && matches!(request.request, ClientRequest::DiscoverRequest(_)) =>
            {
                let error = not_modern(&format!("the server answered with HTTP {status}"));
                let answer = JsonRpcMessage::error(error, Some(request.id.clone()));
                Ok(StreamableHttpPostResponse::Json(answer, None))
            }
            None => Err(unexpected(&format!("HTTP {status} without a message"))),
        }
    }

    async fn delete_session(
        &self,
        _: Arc<str>,
        session: Arc<str>,
        _: Option<String>,
        custom: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Error> {
        let response = self.send(Method::DELETE, Some(&session), custom, Bytes::new()).await?;
        tracing::debug!("a session was deleted: HTTP {}", response.status());
        Ok(())
    }

    async fn get_stream(
        &self,
        _: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        _: Option<String>,
        custom: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Error> {
        let mut headers = custom.clone();
        if let Some(last) = last_event {
            let last = HeaderValue::try_from(last).map_err(|_| unexpected("the id of an event"))?;
            headers.insert(LAST_EVENT, last);
        }
        let response = self.send(Method::GET, session.as_deref(), headers, Bytes::new()).await?;
        match response.status() {
            StatusCode::METHOD_NOT_ALLOWED => Err(Error::ServerDoesNotSupportSse),
            status if !status.is_success() => Err(unexpected(&format!("HTTP {status}"))),
            _ if is(&response, EVENTS) => Ok(self.events(response, session, custom)),
            _ => Err(unexpected("a response that is not an event stream")),
        }
    }
}

/// Returns whether a response has this media type.
fn is(response: &Response, media_type: &str) -> bool {
    let value = response.headers().get(header::CONTENT_TYPE).and_then(|it| it.to_str().ok());
    let found = value.and_then(|it| it.split(';').next()).map(str::trim);
    found.is_some_and(|found| found.eq_ignore_ascii_case(media_type))
}

fn as_error(error: HttpError) -> Error {
    match error {
        HttpError::Unauthorized(challenge) => {
            Error::AuthRequired(AuthRequiredError::new(challenge))
        }
        // `Io` is the only library error that keeps its source: see `no_token`.
        none @ HttpError::NoToken(_) => Error::Io(std::io::Error::other(none)),
        failed @ HttpError::Failed(_) => Error::Client(failed),
    }
}

fn unexpected(answer: &str) -> Error {
    Error::UnexpectedServerResponse(format!("the server sent {answer}").into())
}
