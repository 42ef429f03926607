//! The relay: the network of a native tool whose grant names peers.
//!
//! The tool is in a network namespace that leads nowhere. Its supervisor makes a listener there and
//! hands it over, so that the host accepts the tool's connections. On one port the relay speaks
//! HTTP with `CONNECT`, HTTP with requests for a proxy, and SOCKS 5; the first byte tells them
//! apart. [`NetworkGate`] checks the name and the address of every peer, and the relay connects to the
//! peer from here.
//!
//! Owns the limits on connections and on bytes, and the variables that name the relay to programs.
//! TLS is not decrypted, but a TLS tunnel to a name must be for that name ([`hello`]).

mod ahead;
mod forward;
mod head;
mod hello;
mod socks;
mod traffic;
mod tunnel;

use std::io;
use std::net::TcpListener as StdListener;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use http::uri::Authority;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use self::ahead::BufferedStream;
use self::head::RequestHead;
use self::traffic::{Metered, SPENT, Traffic};
use super::{NetworkGate, NoAddress, NoConnection, PeerAddress};
use crate::policy::Grant;
use ikigai_supervisor::plan::RELAY;

/// The connections that each call may have at once and that other calls cannot take.
const OWN: usize = 4;

/// The further connections that a call may have at once, if other calls leave some.
const MORE: usize = 60;

/// The shared connections of all calls of a process. Each takes two descriptors, and a process
/// usually has 1,024.
const SHARED: usize = 160;

/// The places that calls share.
static ALL: Semaphore = Semaphore::const_new(SHARED);

/// The time in which a program has to say which peer it asks for, and in which the first TLS
/// message has to come once it has begun.
const HEAD_TIME: Duration = Duration::from_secs(10);

/// The time that a peer has to answer.
const CONNECT_TIME: Duration = Duration::from_secs(30);

/// The time without a byte in either direction after which a connection ends.
const IDLE: Duration = Duration::from_secs(300);

/// The time that a program has to read the reason for a refusal.
const LINGER: Duration = Duration::from_secs(1);

/// The pause after a connection could not be accepted, usually for lack of descriptors.
const NEXT_ACCEPT: Duration = Duration::from_millis(100);

/// The variables by which programs find a proxy. `ALL_PROXY` also names HTTP: some libraries were
/// built without SOCKS, and fail if the variable names it.
const PROXY_VARIABLES: [&str; 6] =
    ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];

/// The variables that list the peers for which programs use no proxy.
const EXCEPTIONS: [&str; 2] = ["NO_PROXY", "no_proxy"];

/// The names of a tool's own loopback, as programs compare them.
const OWN_LOOPBACK: &str = "localhost,127.0.0.1,::1";

/// The variable that makes Node.js use the other variables.
const OF_NODE: &str = "NODE_USE_ENV_PROXY";

/// Returns the variables that lead programs to the relay, with their values.
///
/// A tool with its own sockets finds its own servers on its loopback. If the grant has a peer on
/// this machine's loopback, the loopback stands for this machine's, and the tool reaches that
/// through the relay, too.
pub(in crate::exec) fn variables(grant: &Grant) -> impl Iterator<Item = (&'static str, String)> {
    let is_own = grant.own_sockets && !grant.net.has_loopback();
    let direct = if is_own { OWN_LOOPBACK } else { "" };
    let proxies = PROXY_VARIABLES.map(|name| (name, format!("http://{RELAY}")));
    let exceptions = EXCEPTIONS.map(|name| (name, direct.to_owned()));
    proxies.into_iter().chain(exceptions).chain([(OF_NODE, "1".to_owned())])
}

/// Serves the tool's connections until the tool has `ended`. No connection is left then.
///
/// # Errors
///
/// Fails if the descriptor is not a listener.
pub(in crate::exec) async fn serve(
    listener: OwnedFd,
    reach: &Arc<NetworkGate>,
    ended: &CancellationToken,
) -> io::Result<()> {
    let listener = StdListener::from(listener);
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    // The conversations end if this future is dropped.
    let mut conversations = JoinSet::new();
    let accepting = ended.run_until_cancelled(accept(&listener, reach, &mut conversations));
    let accepted = accepting.await.unwrap_or(Ok(()));
    conversations.shutdown().await;
    accepted
}

async fn accept(
    listener: &TcpListener,
    reach: &Arc<NetworkGate>,
    conversations: &mut JoinSet<()>,
) -> io::Result<()> {
    let places = ConnectionPermits::default();
    let traffic = Arc::new(Traffic::default());
    loop {
        let place = places.take().await.map_err(io::Error::other)?;
        while conversations.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, _)) => {
                let (reach, traffic) = (Arc::clone(reach), Arc::clone(&traffic));
                conversations.spawn(async move {
                    if let Err(error) = converse(stream, &reach, &traffic).await {
                        if error.kind() == io::ErrorKind::QuotaExceeded {
                            reach.deny(SPENT);
                        }
                        tracing::debug!(%error, "a connection of a tool broke");
                    }
                    drop(place);
                });
            }
            Err(error) => {
                tracing::debug!(%error, "a connection of a tool was not accepted");
                sleep(NEXT_ACCEPT).await;
            }
        }
    }
}

/// The places for the connections of one call.
struct ConnectionPermits {
    own: Arc<Semaphore>,
    more: Arc<Semaphore>,
}

/// A place for one connection.
#[derive(Debug)]
enum ConnectionPermit {
    Own { _permit: OwnedSemaphorePermit },
    Shared { _permit: OwnedSemaphorePermit, _shared: SemaphorePermit<'static> },
}

impl Default for ConnectionPermits {
    fn default() -> Self {
        Self { own: Arc::new(Semaphore::new(OWN)), more: Arc::new(Semaphore::new(MORE)) }
    }
}

impl ConnectionPermits {
    /// Waits for a place, which is the call's own or shared by calls.
    async fn take(&self) -> Result<ConnectionPermit, AcquireError> {
        let shared = async {
            let permit = Arc::clone(&self.more).acquire_owned().await?;
            Ok(ConnectionPermit::Shared { _permit: permit, _shared: ALL.acquire().await? })
        };
        tokio::select! {
            biased;
            permit = Arc::clone(&self.own).acquire_owned() => Ok(ConnectionPermit::Own { _permit: permit? }),
            place = shared => place,
        }
    }
}

/// The request of a program, once it is read.
enum ProxyRequest {
    /// A tunnel, by `CONNECT`.
    Tunnel(PeerAddress),
    /// A tunnel, by SOCKS.
    Socks(PeerAddress),
    /// One HTTP request.
    Forward(PeerAddress, Box<RequestHead>),
    /// A malformed request. The answer says so.
    Malformed(Vec<u8>),
}

async fn converse(
    stream: TcpStream,
    reach: &NetworkGate,
    traffic: &Arc<Traffic>,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut client = BufferedStream::new(stream);
    let asked = timeout(HEAD_TIME, ask(&mut client)).await??;
    let peer = match &asked {
        ProxyRequest::Tunnel(peer) | ProxyRequest::Socks(peer) | ProxyRequest::Forward(peer, _) => {
            peer
        }
        ProxyRequest::Malformed(answer) => return last_word(client, answer).await,
    };
    if traffic.is_spent() {
        reach.deny(SPENT);
        let refusal = match asked {
            ProxyRequest::Socks(_) => socks::NOT_ALLOWED.to_vec(),
            _ => answer("403 Forbidden", &format!("this call may exchange no {SPENT}")),
        };
        return last_word(client, &refusal).await;
    }
    let server = match connect(reach, peer).await {
        Ok(server) => Metered::new(server, Arc::clone(traffic)),
        Err(error) => {
            let answer = match asked {
                ProxyRequest::Socks(_) => socks::refusal(&error).to_vec(),
                _ => refusal(peer, &error),
            };
            return last_word(client, &answer).await;
        }
    };
    match asked {
        ProxyRequest::Tunnel(peer) => {
            client.stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
            tunnel::run(client, server, &peer, reach).await
        }
        ProxyRequest::Socks(peer) => {
            client.stream.write_all(&socks::SUCCESS).await?;
            tunnel::run(client, server, &peer, reach).await
        }
        ProxyRequest::Forward(peer, head) => forward::run(client, server, &peer, &head).await,
        ProxyRequest::Malformed(_) => Ok(()),
    }
}

/// Reads the request of a program.
async fn ask(client: &mut BufferedStream<TcpStream>) -> io::Result<ProxyRequest> {
    if client.at_least(1).await?.first() == Some(&socks::VERSION) {
        return Ok(match socks::ask(client).await? {
            Ok(peer) => ProxyRequest::Socks(peer),
            Err(answer) => ProxyRequest::Malformed(answer),
        });
    }
    let malformed = |why: &str| Ok(ProxyRequest::Malformed(answer("400 Bad Request", why)));
    let Some(bytes) = head::read(client).await? else {
        return malformed("the head of the request is too long, or has no end");
    };
    let Some(head) = RequestHead::parse(&bytes) else {
        return malformed("the head of the request is malformed");
    };
    if head.method == "CONNECT" {
        let authority = head.target.parse::<Authority>().ok();
        return match authority.and_then(|it| PeerAddress::of_authority(&it, None)) {
            Some(peer) => Ok(ProxyRequest::Tunnel(peer)),
            None => malformed("CONNECT takes HOST:PORT"),
        };
    }
    match head.peer() {
        Some(peer) if head.body().is_some() => Ok(ProxyRequest::Forward(peer, Box::new(head))),
        Some(_) => malformed("the length of the body is not clear"),
        None => malformed("a proxy takes requests for http://HOST/, and CONNECT for others"),
    }
}

async fn connect(reach: &NetworkGate, peer: &PeerAddress) -> Result<TcpStream, NoConnection> {
    let stream = reach.connect(peer, Some(CONNECT_TIME)).await?;
    stream.set_nodelay(true).map_err(NoConnection::Failed)?;
    Ok(stream)
}

/// Returns the answer to a request for a peer that was not connected to.
fn refusal(peer: &PeerAddress, error: &NoConnection) -> Vec<u8> {
    match error {
        NoConnection::NotGranted | NoConnection::Name(NoAddress::NotGranted) => {
            answer("403 Forbidden", &format!("{peer} is not granted to this tool"))
        }
        NoConnection::Name(NoAddress::NotPublic) => answer(
            "403 Forbidden",
            &format!("{peer} has an address that is not public, which would have to be granted"),
        ),
        NoConnection::Name(NoAddress::TooMany) => {
            answer("429 Too Many Requests", "this call has looked up too many names")
        }
        NoConnection::Name(NoAddress::Unresolved(_)) => {
            answer("502 Bad Gateway", &format!("{peer} could not be resolved"))
        }
        NoConnection::TimedOut => {
            answer("504 Gateway Timeout", &format!("{peer} did not answer in time"))
        }
        NoConnection::Failed(error) => {
            answer("502 Bad Gateway", &format!("{peer} could not be connected to: {error}"))
        }
    }
}

/// Returns an answer of the relay itself.
fn answer(status: &str, why: &str) -> Vec<u8> {
    let length = why.len() + 1;
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{why}\n"
    )
    .into_bytes()
}

/// Sends an answer and closes the connection. It still reads what the program sends, for a moment:
/// if a connection is closed with unread bytes in it, the kernel drops an answer that was not read.
async fn last_word(mut client: BufferedStream<TcpStream>, answer: &[u8]) -> io::Result<()> {
    let speaking = async {
        client.stream.write_all(answer).await?;
        client.stream.shutdown().await?;
        client.drain().await
    };
    timeout(LINGER, speaking).await.unwrap_or(Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Net;

    /// Takes a place if one is free.
    async fn at_once(places: &ConnectionPermits) -> Option<ConnectionPermit> {
        tokio::select! {
            biased;
            place = places.take() => place.ok(),
            () = std::future::ready(()) => None,
        }
    }

    #[tokio::test]
    async fn a_call_has_connections_of_its_own_where_others_have_all_that_are_shared() {
        let (greedy, other) = (ConnectionPermits::default(), ConnectionPermits::default());
        let mut taken = Vec::new();
        for _ in 0..OWN + MORE {
            taken.push(greedy.take().await.expect("a place"));
        }
        assert!(at_once(&greedy).await.is_none(), "a call has {} at most", OWN + MORE);
        let left = u32::try_from(ALL.available_permits()).expect("a small number");
        let all = ALL.acquire_many(left).await.expect("open");
        for _ in 0..OWN {
            taken.push(at_once(&other).await.expect("a place"));
        }
        assert!(at_once(&other).await.is_none(), "the others have the rest");
        // A call that waits has not taken a place that it does not use.
        drop(all);
        assert!(at_once(&other).await.is_some());
    }

    #[test]
    fn programs_are_led_to_the_relay_in_every_spelling_and_past_nothing_but_their_own_loopback() {
        let of = |own_sockets, peers: &[&str]| -> Vec<_> {
            let net = Net::parse(peers.iter().copied()).expect("a list");
            variables(&Grant { net, own_sockets, ..Grant::default() }).collect()
        };
        let all = of(false, &["a.test:1"]);
        for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY"] {
            assert!(all.contains(&(name, "http://127.0.0.1:3128".to_owned())), "{name}");
        }
        for (own_sockets, peers, direct) in [
            (false, &["a.test:1"][..], ""),
            (true, &["a.test:1", "10.0.0.0/8:1"], OWN_LOOPBACK),
            (true, &["127.0.0.1:5432"], ""),
            (true, &["0.0.0.0/0:*"], ""),
            (true, &["[::1]:80"], ""),
        ] {
            for name in EXCEPTIONS {
                let variable = (name, direct.to_owned());
                assert!(of(own_sockets, peers).contains(&variable), "{own_sockets} {peers:?}");
            }
        }
    }
}
