//! The protocol of servers for the host: implements the host's trait with the client half of
//! `ikigai-mcp`. Has the tokens of servers over HTTP (`tokens`): from a variable, a command
//! (`command`), or a login (`logins`, with `oauth` for its addresses).

mod command;
pub(crate) mod logins;
pub(crate) mod oauth;
mod tokens;

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::HeaderMap;
use ikigai_host::exec::mcp::{
    AddressGate, Attended, Auth, Connect, McpConnection, Remote, ServerAnswer, ServerCallError,
    ServerFuture, ServerStreams, ServerTools, ToolDescription,
};
use ikigai_host::front_end;
use ikigai_host::policy::Authority;
use ikigai_mcp::{
    BoxFuture, CallProgress, ClientIdentity, ConnectError, Era, FormReply, FormRequest,
    HostResolver, HttpServer, Interaction, RemoteTool, connect_http, connect_streams,
};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use logins::Logins;
use tokens::{ServerTokens, unauthorized};

use crate::user_command::{self, CommandGate};

/// The client half of the protocol, as this program introduces itself.
pub(crate) struct Servers {
    logins: Logins,
    /// The policy of the host that the servers are for.
    authority: Arc<OnceLock<Arc<Authority>>>,
}

impl Servers {
    /// Returns the client half with the logins of a user.
    pub(crate) fn new(logins: Logins) -> Self {
        Self { logins, authority: Arc::default() }
    }

    /// Sets the policy that checks the commands for tokens. No such command starts before.
    pub(crate) fn set_authority(&self, authority: &Arc<Authority>) {
        self.authority.get_or_init(|| Arc::clone(authority));
    }

    fn gate(&self) -> CommandGate {
        let authority = Arc::clone(&self.authority);
        CommandGate::new(move |words| match authority.get() {
            Some(authority) => user_command::check(authority, words),
            None => Err("the policy is not known yet".to_owned()),
        })
    }
}

impl Connect for Servers {
    fn to_process(
        &self,
        streams: ServerStreams,
        revision: Option<String>,
    ) -> ServerFuture<'static, Result<Arc<dyn McpConnection>, String>> {
        let ServerStreams { stdin, stdout } = streams;
        let era = revision.as_deref().and_then(era);
        let opening = Box::pin(connect_streams(client(), stdout, stdin, era));
        Box::pin(async move {
            let connection = opening.await.map_err(|error| error.to_string())?;
            Ok(Arc::new(OpenServer::new(connection, None)) as Arc<dyn McpConnection>)
        })
    }

    fn to_remote(
        &self,
        remote: Remote,
        revision: Option<String>,
    ) -> ServerFuture<'static, Result<Arc<dyn McpConnection>, String>> {
        let era = revision.as_deref().and_then(era);
        let tokens = ServerTokens::for_remote(&remote, &self.logins, self.gate());
        Box::pin(async move {
            let tokens = tokens?;
            let Remote { name, url, auth, judge } = remote;
            let tls = judge.tls()?;
            let server = HttpServer {
                url,
                allow_loopback: true,
                headers: HeaderMap::new(),
                tokens: Some(Arc::new(tokens)),
                resolver: Arc::new(AddressResolver(judge)),
                tls: (*tls).clone(),
            };
            let connection = match connect_http(client(), server, era).await {
                Ok(connection) => connection,
                Err(ConnectError::Unauthorized(challenge)) => {
                    return Err(unauthorized(&name, &auth, &challenge));
                }
                Err(error) => return Err(error.to_string()),
            };
            Ok(Arc::new(OpenServer::new(connection, Some((name, auth)))) as Arc<dyn McpConnection>)
        })
    }
}

/// Adapts the check of a grant to the protocol's check of addresses.
struct AddressResolver(AddressGate);

impl HostResolver for AddressResolver {
    fn resolve(&self, host: &str, port: u16) -> BoxFuture<'static, Result<Vec<IpAddr>, String>> {
        let (judge, host) = (self.0.clone(), host.to_owned());
        Box::pin(async move {
            let found = judge.resolve(&host, port).await.map_err(|error| error.to_string())?;
            Ok(found.into_iter().map(|address| address.ip()).collect())
        })
    }
}

fn client() -> ClientIdentity {
    ClientIdentity {
        name: "ikigai".to_owned(),
        title: "ikigai".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// The words that store a protocol revision.
const ERAS: [(&str, Era); 2] = [("modern", Era::Modern), ("legacy", Era::Legacy)];

fn era(word: &str) -> Option<Era> {
    ERAS.iter().find(|(known, _)| *known == word).map(|(_, era)| *era)
}

/// An open connection, until it is closed.
struct OpenServer {
    /// The name of a server over HTTP, and the source of its token.
    remote: Option<(String, Auth)>,
    connection: Mutex<Option<Arc<ikigai_mcp::RemoteConnection>>>,
    era: Era,
    changes: tokio::sync::Mutex<watch::Receiver<u64>>,
}

impl OpenServer {
    fn new(connection: ikigai_mcp::RemoteConnection, remote: Option<(String, Auth)>) -> Self {
        let (era, changes) = (connection.era(), connection.changed().into());
        Self { remote, connection: Mutex::new(Some(Arc::new(connection))), era, changes }
    }

    fn connection(&self) -> Option<Arc<ikigai_mcp::RemoteConnection>> {
        self.connection.lock().clone()
    }
}

/// The reason for calls that fail because the connection has ended.
const CLOSED: &str = "the connection was closed";

impl McpConnection for OpenServer {
    fn revision(&self) -> String {
        let word = ERAS.iter().find(|(_, known)| *known == self.era);
        word.map_or("", |(word, _)| word).to_owned()
    }

    fn tools(&self) -> ServerFuture<'_, Result<ServerTools, String>> {
        Box::pin(async {
            let connection = self.connection().ok_or(CLOSED)?;
            let listed = connection.tools().await.map_err(|error| error.to_string())?;
            if let Some(reason) = listed.cut {
                tracing::warn!("the list of tools of a server is cut: {reason}");
            }
            let tools = listed.tools.into_iter().map(description).collect();
            Ok(ServerTools { tools, skipped: listed.skipped })
        })
    }

    fn call<'a>(
        &'a self,
        tool: &'a str,
        arguments: Bytes,
        cancel: CancellationToken,
        attended: &'a Attended<'a>,
    ) -> ServerFuture<'a, Result<ServerAnswer, ServerCallError>> {
        use ikigai_mcp::RemoteCallError as Error;

        Box::pin(async move {
            let connection = self.connection().ok_or(ServerCallError::Lost(CLOSED.to_owned()))?;
            let caller = CallInteraction(attended);
            let answered = connection.call(tool, arguments, &cancel, &caller).await;
            answered.map(ServerAnswer).map_err(|error| match error {
                Error::Refused { code, message } => {
                    ServerCallError::Refused { code: code.into(), message }
                }
                Error::Malformed(reason) => ServerCallError::Malformed(reason),
                Error::Unauthorized(challenge) => {
                    ServerCallError::Unauthorized(match &self.remote {
                        Some((server, auth)) => unauthorized(server, auth, &challenge),
                        None => Error::Unauthorized(challenge).to_string(),
                    })
                }
                Error::NoToken(reason) => ServerCallError::Unauthorized(reason),
                other @ (Error::Arguments | Error::Cancelled | Error::Closed(_)) => {
                    ServerCallError::Lost(other.to_string())
                }
            })
        })
    }

    fn changed(&self) -> ServerFuture<'_, ()> {
        Box::pin(async {
            if self.changes.lock().await.changed().await.is_err() {
                // The connection has ended, so no change will follow.
                std::future::pending().await
            }
        })
    }

    fn close(&self) -> ServerFuture<'_, ()> {
        Box::pin(async {
            let connection = self.connection.lock().take();
            // A connection that is still in use ends with its last call.
            if let Some(Ok(connection)) = connection.map(Arc::try_unwrap) {
                connection.close().await;
            }
        })
    }
}

/// The user or client for whom a server is called.
struct CallInteraction<'a>(&'a Attended<'a>);

impl Interaction for CallInteraction<'_> {
    fn fill(&self, form: FormRequest) -> BoxFuture<'_, FormReply> {
        Box::pin(async move {
            match self.0.fill(&form.message, form.schema).await {
                front_end::FormAnswer::Accepted(values) => FormReply::Accepted(values),
                front_end::FormAnswer::Declined => FormReply::Declined,
                front_end::FormAnswer::Cancelled => FormReply::Cancelled,
            }
        })
    }

    fn progress(&self, progress: CallProgress) {
        let CallProgress { progress, total, message } = progress;
        self.0.report(front_end::ToolProgress { progress, total, message });
    }
}

fn description(tool: RemoteTool) -> ToolDescription {
    let RemoteTool { name, title, description, input, output, annotations } = tool;
    ToolDescription { name, title, description, parameters: input, returns: output, annotations }
}
