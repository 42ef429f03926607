//! The protocol of servers, as the host sees it: traits that the embedding program implements.

use std::ffi::OsString;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use rustls::ClientConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use super::attended::Attended;
use super::description::ToolDescription;
use crate::exec::Refusals;
use crate::exec::net::tls;
use crate::policy::{Grant, is_public};

/// The result of an operation, as a future: `Box::pin(async move { … })`.
pub type ServerFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The protocol of servers, for [`HostBuilder::servers`](crate::HostBuilder::servers).
///
/// A revision is a word that [`McpConnection::revision`] returned for the same server before. It saves
/// asking for it again.
pub trait Connect: Send + Sync {
    /// Opens a connection to a server that was just started, over its stdin and stdout. Fails with
    /// the reason for the user.
    fn to_process(
        &self,
        streams: ServerStreams,
        revision: Option<String>,
    ) -> ServerFuture<'static, Result<Arc<dyn McpConnection>, String>>;

    /// Opens a connection to a server over HTTP. Fails with the reason for the user.
    fn to_remote(
        &self,
        remote: Remote,
        revision: Option<String>,
    ) -> ServerFuture<'static, Result<Arc<dyn McpConnection>, String>>;
}

/// The host's ends of the streams of a server's process.
pub struct ServerStreams {
    /// Its stdin.
    pub stdin: Box<dyn AsyncWrite + Send + Unpin>,
    /// Its stdout.
    pub stdout: Box<dyn AsyncRead + Send + Unpin>,
}

/// A server over HTTP.
#[derive(Clone, Debug)]
pub struct Remote {
    /// The name of its definition.
    pub name: String,
    /// The address of its endpoint.
    pub url: String,
    /// The source of its token.
    pub auth: Auth,
    /// Decides which addresses may be connected to.
    pub judge: AddressGate,
}

/// The source of the token for a server over HTTP.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Auth {
    /// The server gets no token.
    #[default]
    None,
    /// The variable of this name in the environment of the host.
    Variable(String),
    /// The output of this program, which is run as the user of the host. No tool may be able to
    /// replace it: [`Authority::for_user_command`](crate::policy::Authority::for_user_command).
    Command {
        /// The absolute path of the program.
        program: PathBuf,
        /// Its arguments.
        args: Vec<OsString>,
    },
    /// The login of the user at the issuer that the server names.
    OAuth,
}

/// Decides by the `net` of a server's grant which addresses may be connected to, for a server over
/// HTTP and for what it refers to.
#[derive(Clone)]
pub struct AddressGate {
    grant: Arc<Grant>,
    refusals: Refusals,
}

impl AddressGate {
    /// Returns the check by a grant, which notes what it refuses.
    pub(crate) fn new(grant: Arc<Grant>, refusals: Refusals) -> Self {
        Self { grant, refusals }
    }

    /// Returns the configuration of TLS, with the certificates that this machine trusts.
    ///
    /// # Errors
    ///
    /// Fails if the machine has no certificate.
    pub fn tls(&self) -> Result<Arc<ClientConfig>, String> {
        tls::config()
    }

    /// Returns the addresses of a host that may be connected to; never an empty list.
    ///
    /// # Errors
    ///
    /// Fails if the host is not granted, does not resolve, or has no address that is granted.
    pub async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let net = &self.grant.net;
        let is_name = literal(host).is_none();
        if is_name && !net.any && !net.allows_name(host, Some(port)) {
            self.refusals.note(format!("net {host}:{port}"));
            return Err(refused(format!("`{host}:{port}` is not granted")));
        }
        // A name lends its grant to public addresses only.
        let is_allowed = |address: &SocketAddr| {
            let is_allowed = (is_name && is_public(address.ip())) || net.allows_address(*address);
            if !is_allowed {
                let ip = if is_name { format!(" ({})", address.ip()) } else { String::new() };
                self.refusals.note(format!("net {host}:{port}{ip}"));
            }
            is_allowed
        };
        addresses(host, port, is_allowed).await
    }

    /// Returns the addresses of a host to which a user may log in for this server; never an empty
    /// list. The issuer of tokens is seldom on the same host as its server, and no grant names it.
    /// So public addresses are allowed, in addition to granted ones, and this machine's own if the
    /// server is on it.
    ///
    /// # Errors
    ///
    /// Fails if the host does not resolve, or has no such address.
    pub async fn resolve_issuer(
        &self,
        host: &str,
        port: u16,
        server_is_here: bool,
    ) -> io::Result<Vec<SocketAddr>> {
        let net = &self.grant.net;
        let is_allowed = |address: &SocketAddr| {
            is_public(address.ip())
                || net.allows_address(*address)
                || (server_is_here && address.ip().is_loopback())
        };
        addresses(host, port, is_allowed).await
    }
}

/// Returns the addresses of a host that are allowed.
async fn addresses(
    host: &str,
    port: u16,
    is_allowed: impl Fn(&SocketAddr) -> bool,
) -> io::Result<Vec<SocketAddr>> {
    let found = match literal(host) {
        Some(ip) => vec![SocketAddr::new(ip, port)],
        None => tokio::net::lookup_host((host, port)).await?.collect(),
    };
    let allowed: Vec<SocketAddr> = found.into_iter().filter(is_allowed).collect();
    if allowed.is_empty() {
        return Err(refused(format!("no address of `{host}:{port}` is granted")));
    }
    Ok(allowed)
}

/// Returns a host that is an address itself.
fn literal(host: &str) -> Option<IpAddr> {
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

fn refused(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, what)
}

impl fmt::Debug for AddressGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Judge").field(&self.grant.net).finish()
    }
}

/// An open connection to a server. Dropping it ends it.
pub trait McpConnection: Send + Sync {
    /// Returns the revision of the protocol as a word.
    fn revision(&self) -> String;

    /// Returns all tools that the server has now. Fails with the reason for the user.
    fn tools(&self) -> ServerFuture<'_, Result<ServerTools, String>>;

    /// Calls a tool by the server's own name for it. `arguments` are the text of one JSON object.
    /// The answer is the JSON text of `{content, structuredContent?, isError?}`. Cancelling
    /// `cancel` tells the server, and ends the wait. The questions and reports of the server during
    /// the call are for `attended`.
    fn call<'a>(
        &'a self,
        tool: &'a str,
        arguments: Bytes,
        cancel: CancellationToken,
        attended: &'a Attended<'a>,
    ) -> ServerFuture<'a, Result<ServerAnswer, ServerCallError>>;

    /// Resolves when the list of tools has changed since the last call of this method.
    fn changed(&self) -> ServerFuture<'_, ()>;

    /// Closes the connection as the protocol requires.
    fn close(&self) -> ServerFuture<'_, ()>;
}

/// The answer of a tool as JSON text.
#[derive(Clone, Debug)]
pub struct ServerAnswer(pub Bytes);

/// The tools of a server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerTools {
    /// The tools.
    pub tools: Vec<ToolDescription>,
    /// The names of the tools that cannot be used, each with the reason.
    pub skipped: Vec<(String, String)>,
}

/// The reason that a call has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServerCallError {
    /// The server answered with an error of the protocol.
    #[error("{message} (error {code})")]
    Refused {
        /// The code.
        code: i64,
        /// The message.
        message: String,
    },
    /// The answer is malformed. The text is the reason.
    #[error("the answer is malformed: {0}")]
    Malformed(String),
    /// The connection has ended.
    #[error("{0}")]
    Lost(String),
    /// The server wants another token. The text says how to get one.
    #[error("{0}")]
    Unauthorized(String),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::DeniedAccesses;
    use crate::policy::Net;

    #[tokio::test]
    async fn what_a_server_over_http_leads_to_and_is_not_granted_is_noted() {
        let net = Net::parse(["localhost:1", "a.test:443"]).expect("a list");
        let refusals = Refusals::default();
        let grant = Arc::new(Grant { net, ..Grant::default() });
        let judge = AddressGate::new(grant, refusals.clone());
        for (host, port) in [("b.test", 443), ("a.test", 80), ("127.0.0.1", 1)] {
            assert!(judge.resolve(host, port).await.is_err(), "{host}:{port}");
        }
        let denied = refusals.take();
        assert_eq!(denied.first, ["net b.test:443", "net a.test:80", "net 127.0.0.1:1"]);
        // A name lends its grant to public addresses only.
        assert!(judge.resolve("localhost", 1).await.is_err());
        let denied = refusals.take();
        assert!(denied.first.contains(&"net localhost:1 (127.0.0.1)".to_owned()), "{denied:?}");
        assert_eq!(refusals.so_far(), DeniedAccesses::default());
    }
}
