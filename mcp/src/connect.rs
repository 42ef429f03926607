//! A client: the tools of another server, listed and called.
//!
//! Owns the connection to a server: the handshake in either era of the protocol, the list of tools,
//! the calls and their results. The bytes of arguments and results pass through unread. The caller
//! starts the process, chooses the server's tools, decides which ones to trust, and limits the
//! number of requests in flight.

mod call;
mod forms;
mod http;
mod lent;
mod oauth;
mod repeated;
mod tools;

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ::http::HeaderMap;
use parking_lot::Mutex;
use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationCapability,
    ErrorData, FormElicitationCapability, Implementation, ProtocolVersion, SubscriptionFilter,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, Peer, RequestContext, RoleClient, RunningService,
    serve_client_with_lifecycle,
};
use rmcp::transport::Transport;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::form::{FormReply, FormRequest};
use crate::wire::{ClientWire, UpstreamState, plain};

pub use crate::wire::CallProgress;
pub use call::RemoteCallError;
use http::no_token;
pub use http::{BoxFuture, HostResolver, HttpServer, TokenSource, connect_http};
use lent::LentTransport;
pub use oauth::{
    Authorization, Callback, Issuer, OAuthClient, OAuthError, OAuthHttp, OAuthSession, Protection,
    insufficient_scope,
};
use repeated::Repeated;
pub use tools::{RemoteTool, RemoteTools};

/// The readers of this module for the fuzz targets.
pub(crate) mod fuzzing {
    /// Returns a parameter of the challenge with the scheme `Bearer`.
    #[must_use]
    pub fn challenge_parameter(challenge: &str, name: &str) -> Option<String> {
        super::oauth::parameter(challenge, name)
    }
}

/// The time within which a server must introduce itself.
const HANDSHAKE: Duration = Duration::from_secs(30);

/// The time limit for the first request of the newer era. If a server does not answer in time, the
/// client tries the handshake of the older era. The library's own timeout, 10 s, applies if it is
/// shorter.
const SILENCE: Duration = Duration::from_secs(5);

/// The pauses between two subscriptions, for a server that ends them.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// The name with which a client introduces itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientIdentity {
    /// The name for programs.
    pub name: String,
    /// The name for people.
    pub title: String,
    /// The version of the program.
    pub version: String,
}

/// The way in which a server opens a connection. It is worth remembering: finding it out costs a
/// message, and some seconds if the server does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Era {
    /// The revision 2026-07-28, in which each request carries everything about itself.
    Modern,
    /// An older revision, which opens with `initialize`.
    Legacy,
}

/// The reason why a connection could not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The server closed the connection, or sent something that the protocol forbids.
    #[error("the connection ended before the server introduced itself: {0}")]
    Closed(String),
    /// The server sent nothing useful in time.
    #[error("the server did not introduce itself within {} s", HANDSHAKE.as_secs())]
    Timeout,
    /// The server answered with an error.
    #[error("the server refused the connection: {message} (code {code})")]
    Refused {
        /// The code of the protocol.
        code: i32,
        /// The server's message.
        message: String,
    },
    /// The server uses a revision of the protocol that this client does not know.
    #[error("the server uses the revision `{0}` of the protocol, which ikigai does not know")]
    Revision(String),
    /// A connection to this address is not allowed. Nothing was sent.
    #[error("no connection can be made: {0}")]
    Address(String),
    /// The server wants a token, or a different one. Holds its `WWW-Authenticate` header.
    #[error("the server requires a valid token")]
    Unauthorized(String),
    /// The source of tokens did not supply one. Holds its reason. Nothing was sent.
    #[error("{0}")]
    NoToken(String),
    /// The server's introduction is not valid.
    #[error("the server violated the protocol: {0}")]
    Protocol(String),
}

/// A connection to a server. Dropping it ends the connection.
pub struct RemoteConnection {
    service: RunningService<RoleClient, FormHandler>,
    upstream: Arc<UpstreamState>,
    era: Era,
    /// True if messages have headers, which may repeat arguments.
    is_http: bool,
    /// The arguments that are repeated as headers, by tool name.
    repeated: Mutex<HashMap<String, Repeated>>,
    /// The task that keeps a subscription; it ends with the connection.
    _listening: JoinSet<()>,
}

impl std::fmt::Debug for RemoteConnection {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Connection").field("era", &self.era).finish_non_exhaustive()
    }
}

/// Connects to a server over two streams, with one message per line.
///
/// Without an `era`, the client finds out which one the server uses. Otherwise it tries the given
/// era first. A server that was `Modern` may have become `Legacy`. A server that was `Legacy` is
/// not asked for anything newer, unless it refuses the older handshake.
///
/// # Errors
///
/// Fails if the server does not introduce itself in time, or refuses the connection.
pub async fn connect_streams(
    client: ClientIdentity,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
    era: Option<Era>,
) -> Result<RemoteConnection, ConnectError> {
    let upstream = Arc::new(UpstreamState::default());
    let wire = ClientWire::new(input, output, Arc::clone(&upstream), SILENCE);
    open(client, wire, upstream, era).await
}

/// Connects to the server at the other end of a wire.
async fn open(
    client: ClientIdentity,
    wire: impl Transport<RoleClient> + 'static,
    upstream: Arc<UpstreamState>,
    era: Option<Era>,
) -> Result<RemoteConnection, ConnectError> {
    let (lent, back) = LentTransport::new(wire);
    let opened = connect(client.clone(), lent, Arc::clone(&upstream), lifecycle(era)).await;
    if let Err(ConnectError::Refused { .. }) = opened
        && upstream.is_modern()
        && let Ok(wire) = back.await
    {
        // The server was given up while it started, or an update removed the older revisions.
        let discover = ClientLifecycleMode::Discover { preferred_versions: preferred_versions() };
        return connect(client, wire, upstream, discover).await;
    }
    opened
}

/// Returns the revisions without a handshake that the client asks a server for.
fn preferred_versions() -> Vec<ProtocolVersion> {
    vec![ProtocolVersion::V_2026_07_28]
}

/// Returns the way to open a connection to a server of an era.
fn lifecycle(era: Option<Era>) -> ClientLifecycleMode {
    match era {
        Some(Era::Legacy) => ClientLifecycleMode::Initialize,
        None | Some(Era::Modern) => ClientLifecycleMode::Auto {
            preferred_versions: preferred_versions(),
            legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
        },
    }
}

/// A handshake that is under way.
type Handshake = Pin<
    Box<
        dyn Future<Output = Result<RunningService<RoleClient, FormHandler>, ClientInitializeError>>
            + Send,
    >,
>;

/// Shakes hands with the server behind a transport.
async fn connect(
    client: ClientIdentity,
    transport: impl Transport<RoleClient> + 'static,
    upstream: Arc<UpstreamState>,
    lifecycle: ClientLifecycleMode,
) -> Result<RemoteConnection, ConnectError> {
    // Boxed, because the caller's compiler cannot prove that the library's own future is `Send`.
    let handshake: Handshake = Box::pin(serve_client_with_lifecycle(
        FormHandler(client, upstream.clone()),
        transport,
        lifecycle,
    ));
    let service = tokio::time::timeout(HANDSHAKE, handshake)
        .await
        .map_err(|_| ConnectError::Timeout)?
        .map_err(|error| ConnectError::from_initialization(error, &upstream))?;
    let info = service.peer_info();
    let info = info.ok_or_else(|| ConnectError::Protocol("it did not introduce itself".into()))?;
    let version = &info.protocol_version;
    if !ProtocolVersion::KNOWN_VERSIONS.contains(version) {
        return Err(ConnectError::Revision(plain(version.as_str())));
    }
    let era = if version.has_initialize() { Era::Legacy } else { Era::Modern };
    let tools = info.capabilities.tools.as_ref();
    let tells = tools.is_some_and(|tools| tools.list_changed == Some(true));
    let mut listening = JoinSet::new();
    if era == Era::Modern && tells {
        listening.spawn(listen(service.peer().clone(), Arc::clone(&upstream)));
    }
    let repeated = Mutex::default();
    Ok(RemoteConnection { service, upstream, era, is_http: false, repeated, _listening: listening })
}

impl RemoteConnection {
    /// Returns the era of the server.
    #[must_use]
    pub fn era(&self) -> Era {
        self.era
    }

    /// Stores the arguments that are repeated as headers from now on.
    fn repeat(&self, repeated: HashMap<String, Repeated>) {
        *self.repeated.lock() = repeated;
    }

    /// Returns the headers that repeat arguments of a call.
    fn headers(&self, tool: &str, arguments: &RawValue) -> HeaderMap {
        let repeated = self.repeated.lock();
        // The arguments may be long, so they are not read while the lock is held.
        let of_tool = repeated.get(tool).cloned();
        drop(repeated);
        of_tool.map(|it| it.headers(arguments)).unwrap_or_default()
    }

    /// Returns a counter that grows with each change of the server's list of tools that the server
    /// reports. In the newer era it may grow without a change.
    #[must_use]
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.upstream.changes()
    }

    /// Waits until the connection has ended, and returns the reason: for example, the server closed
    /// its stream or exceeded a bound.
    pub async fn closed(&self) -> Arc<str> {
        self.upstream.ended().await
    }

    /// Closes the connection. The server has two seconds to read what is already on its way.
    pub async fn close(self) {
        self.upstream.end("the connection was closed");
        if let Err(error) = self.service.cancel().await {
            tracing::error!("a connection to a server ended in a panic: {error}");
        }
    }
}

impl ConnectError {
    fn from_initialization(error: ClientInitializeError, upstream: &UpstreamState) -> Self {
        if let Some(challenge) = error.auth_challenge() {
            return Self::Unauthorized(challenge.to_owned());
        }
        if let ClientInitializeError::TransportError { error, .. } = &error
            && let Some(reason) = no_token(error)
        {
            return Self::NoToken(reason);
        }
        match error {
            ClientInitializeError::JsonRpcError(ErrorData { code, message, .. }) => {
                Self::Refused { code: code.0, message: message.into_owned() }
            }
            // The answer to the older handshake says more. The answer to the newer one only says
            // that the method does not exist.
            ClientInitializeError::LegacyFallbackFailed { fallback, .. } => {
                Self::from_initialization(*fallback, upstream)
            }
            ClientInitializeError::TransportError { error, .. } => {
                let reason = upstream.reason().map(|reason| reason.to_string());
                Self::Closed(reason.unwrap_or_else(|| innermost(&error)))
            }
            other => match upstream.reason() {
                Some(reason) => Self::Closed(reason.to_string()),
                None => Self::Protocol(plain(&other.to_string())),
            },
        }
    }
}

/// Returns the innermost cause of an error. The library wraps it in words about itself.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    plain(&cause.to_string())
}

/// The handler of the server's requests that the library passes on. These are only forms, since the
/// wire answers all others.
struct FormHandler(ClientIdentity, Arc<UpstreamState>);

impl ClientHandler for FormHandler {
    fn get_info(&self) -> ClientConfig {
        let ClientIdentity { name, title, version } = &self.0;
        let program = Implementation::new(name, version).with_title(title);
        let elicitation =
            ElicitationCapability::default().with_form(FormElicitationCapability::default());
        let capabilities =
            ClientCapabilities::builder().enable_elicitation_with(elicitation).build();
        // The newest revision that opens with `initialize`. The newer era is requested by other
        // means.
        ClientConfig::new(capabilities, program)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn create_elicitation(
        &self,
        form: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let filled =
            context.ct.run_until_cancelled(self.1.fill(FormRequest::from_params(form))).await;
        Ok(filled.unwrap_or(FormReply::Cancelled).into())
    }
}

/// Keeps a subscription to changes of the list of tools. The reader of the messages counts the
/// changes.
async fn listen(peer: Peer<RoleClient>, upstream: Arc<UpstreamState>) {
    let mut pause = FIRST_PAUSE;
    loop {
        let filter = SubscriptionFilter::builder().tools_list_changed().build();
        match peer.listen(filter).await {
            Ok(mut subscription) => {
                while let Ok(Some(_)) = subscription.next().await {}
                // The server does not report changes from the time without a subscription, so one
                // is assumed.
                upstream.change();
            }
            Err(error) => {
                tracing::debug!("a server does not allow listening: {}", plain(&error.to_string()))
            }
        }
        if upstream.reason().is_some() {
            return;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{
        AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, duplex,
    };

    use super::*;

    /// Returns the server's ends of the streams, for a client that gives up on a server after one
    /// millisecond.
    fn connecting() -> (Lines<BufReader<DuplexStream>>, DuplexStream, Connecting) {
        let (client_output, input) = duplex(1024);
        let (output, client_input) = duplex(1024);
        let client = ClientIdentity { name: "c".into(), title: "C".into(), version: "1".into() };
        let upstream = Arc::new(UpstreamState::default());
        let silence = Duration::from_millis(1);
        let wire = ClientWire::new(client_input, client_output, Arc::clone(&upstream), silence);
        let connecting = tokio::spawn(open(client, wire, upstream, None));
        (BufReader::new(input).lines(), output, connecting)
    }

    type Connecting = tokio::task::JoinHandle<Result<RemoteConnection, ConnectError>>;

    async fn asked(lines: &mut Lines<BufReader<DuplexStream>>, what: &str) {
        let line = lines.next_line().await.expect("readable").expect("a line");
        assert!(line.contains(what), "{line}");
    }

    async fn say(output: &mut DuplexStream, lines: &[&str]) {
        for line in lines {
            output.write_all(format!("{line}\n").as_bytes()).await.expect("it reads");
        }
    }

    #[tokio::test]
    async fn a_server_that_says_nothing_to_the_newer_era_is_asked_for_the_older_one() {
        let (mut lines, mut output, connecting) = connecting();
        asked(&mut lines, "server/discover").await;
        asked(&mut lines, r#""id":1,"method":"initialize""#).await;
        let of_the_older_era = [
            // The late answer to the first question is ignored.
            r#"{"jsonrpc":"2.0","id":0,"error":{"code":-32601,"message":"?"}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-03-26","capabilities":{}}}"#,
        ];
        say(&mut output, &of_the_older_era).await;
        let connection = connecting.await.expect("no panic").expect("connected");
        assert_eq!(connection.era(), Era::Legacy);
    }

    #[tokio::test]
    async fn a_server_of_the_newer_era_that_starts_slowly_is_asked_again() {
        const INTRODUCTION: &str = r#"{"jsonrpc":"2.0","id":0,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{},"ttlMs":0,"cacheScope":"private"}}"#;
        const REFUSAL: &str =
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no such method"}}"#;
        let (mut lines, mut output, connecting) = connecting();
        // It reads both requests once it has started.
        asked(&mut lines, "server/discover").await;
        asked(&mut lines, r#""method":"initialize""#).await;
        say(&mut output, &[INTRODUCTION, REFUSAL]).await;
        asked(&mut lines, "server/discover").await;
        say(&mut output, &[INTRODUCTION]).await;
        let connection = connecting.await.expect("no panic").expect("connected");
        assert_eq!(connection.era(), Era::Modern);
    }
}
