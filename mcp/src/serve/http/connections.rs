//! The connections of a server: how many each client may have, and which one is closed for a new
//! one.
//!
//! A connection is unknown until a request on it has been authenticated. Unknown connections get a
//! small share and little time, so that a process without a token cannot use up the places that
//! clients need. A known connection counts for its principal, and for the session of its last
//! request.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::settings::HttpBounds;

/// The connections of a server.
pub(super) struct HttpConnections {
    bounds: HttpBounds,
    open: Mutex<OpenConnections>,
    /// Notified when a connection has ended, or has become a principal's.
    given_back: Notify,
}

/// The result of an attempt to take a place.
enum ConnectionAdmission {
    Admitted(AdmittedConnection),
    /// Principals have all places.
    Full,
    /// The connection that must make room has not yet had its minimum time, which ends then.
    Wait(Instant),
}

/// The open connections, in the order in which they were accepted.
#[derive(Default)]
struct OpenConnections {
    next: u64,
    entries: BTreeMap<u64, OpenConnection>,
}

struct OpenConnection {
    peer: IpAddr,
    owner: ConnectionOwner,
    since: Instant,
    closed: CancellationToken,
}

/// The client to which a connection belongs.
#[derive(PartialEq, Eq)]
enum ConnectionOwner {
    /// The client is unknown. `is_asking` is true while the server checks a request.
    Nobody { is_asking: bool },
    /// A principal, and the session of its last request.
    Principal { name: Arc<str>, session: Option<Box<str>> },
}

/// The share of the connections that is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    /// The share of the principal.
    Principal,
    /// The share of the session.
    Session,
}

/// An open connection. Dropping it makes room for another.
pub(super) struct AdmittedConnection {
    all: Arc<HttpConnections>,
    number: u64,
    closed: CancellationToken,
}

impl HttpConnections {
    /// Creates an empty set of connections with these bounds.
    pub(super) fn new(bounds: HttpBounds) -> Arc<Self> {
        Arc::new(Self { bounds, open: Mutex::default(), given_back: Notify::new() })
    }

    /// Takes a place for a connection from this address. Returns `None` if principals have all
    /// places. If all places or the share of the unknown connections are used up, an unknown
    /// connection makes room: the oldest from the address with the most. It keeps its place until
    /// it had time to show a token, and this function waits for that.
    pub(super) async fn admit(self: &Arc<Self>, peer: IpAddr) -> Option<AdmittedConnection> {
        loop {
            // Created before the attempt, so that it notices every place that becomes free from
            // here on.
            let given_back = self.given_back.notified();
            match self.try_admit(peer) {
                ConnectionAdmission::Admitted(connection) => return Some(connection),
                ConnectionAdmission::Full => return None,
                ConnectionAdmission::Wait(until) => {
                    // After either event, a place is free or a connection can make room.
                    let _ = tokio::time::timeout_at(until, given_back).await;
                }
            }
        }
    }

    fn try_admit(self: &Arc<Self>, peer: IpAddr) -> ConnectionAdmission {
        let mut open = self.open.lock();
        let unknown = open.entries.values().filter(|it| it.is_of_nobody()).count();
        let is_full = open.entries.len() >= self.bounds.connections;
        if is_full || unknown >= self.bounds.unauthenticated {
            let Some((number, since)) = open.to_give_up() else { return ConnectionAdmission::Full };
            let until = since + self.bounds.asks_within;
            if Instant::now() < until {
                return ConnectionAdmission::Wait(until);
            }
            if let Some(entry) = open.entries.remove(&number) {
                entry.closed.cancel();
            }
        }
        let (number, closed) = (open.next, CancellationToken::new());
        open.next += 1;
        let owner = ConnectionOwner::Nobody { is_asking: false };
        let (peer, since) = (network(peer), Instant::now());
        open.entries.insert(number, OpenConnection { peer, owner, since, closed: closed.clone() });
        ConnectionAdmission::Admitted(AdmittedConnection { all: Arc::clone(self), number, closed })
    }
}

impl OpenConnections {
    /// Returns the connection that must make room, and when it began.
    fn to_give_up(&self) -> Option<(u64, Instant)> {
        let unknown = || self.entries.iter().filter(|(_, it)| it.is_of_nobody());
        let mut counts: BTreeMap<IpAddr, usize> = BTreeMap::new();
        for (_, entry) in unknown() {
            *counts.entry(entry.peer).or_default() += 1;
        }
        let (most, _) = counts.into_iter().max_by_key(|(_, count)| *count)?;
        let oldest = unknown().find(|(_, entry)| entry.peer == most)?;
        Some((*oldest.0, oldest.1.since))
    }
}

impl OpenConnection {
    fn is_of_nobody(&self) -> bool {
        matches!(self.owner, ConnectionOwner::Nobody { .. })
    }
}

impl AdmittedConnection {
    /// Returns the token that is cancelled when this connection must make room.
    pub(super) fn closed(&self) -> &CancellationToken {
        &self.closed
    }

    /// Resolves when the connection has been unknown for too long. Does not interrupt a request
    /// that the server is checking.
    pub(super) async fn is_unknown_for_too_long(&self) {
        loop {
            tokio::time::sleep(self.bounds().unauthenticated_within).await;
            if !self.is_asking() {
                break;
            }
        }
        if self.has_principal() {
            std::future::pending().await
        }
    }

    fn is_asking(&self) -> bool {
        let open = self.all.open.lock();
        let owner = open.entries.get(&self.number).map(|it| &it.owner);
        matches!(owner, Some(ConnectionOwner::Nobody { is_asking: true }))
    }

    fn has_principal(&self) -> bool {
        let open = self.all.open.lock();
        let owner = open.entries.get(&self.number).map(|it| &it.owner);
        matches!(owner, Some(ConnectionOwner::Principal { .. }))
    }

    /// Records whether a request is being checked.
    pub(super) fn asks(&self, now: bool) {
        let mut open = self.all.open.lock();
        let owner = open.entries.get_mut(&self.number).map(|it| &mut it.owner);
        if let Some(ConnectionOwner::Nobody { is_asking }) = owner {
            *is_asking = now;
        }
    }

    /// Assigns the connection to a principal, and to the session with this id.
    ///
    /// # Errors
    ///
    /// Fails if the principal or the session already has the maximum number of connections.
    pub(super) fn belongs_to(
        &self,
        principal: &Arc<str>,
        session: Option<&str>,
    ) -> Result<(), Full> {
        let mut open = self.all.open.lock();
        let owner = ConnectionOwner::Principal {
            name: Arc::clone(principal),
            session: session.map(Box::from),
        };
        let before = open.entries.get(&self.number).map(|it| &it.owner);
        if before == Some(&owner) {
            return Ok(());
        }
        let (mut of_principal, mut of_session) = (0, 0);
        let others = open.entries.iter().filter(|(number, _)| **number != self.number);
        for (_, entry) in others {
            let ConnectionOwner::Principal { name, session: its } = &entry.owner else { continue };
            if name == principal {
                of_principal += 1;
                of_session += usize::from(session.is_some() && its.as_deref() == session);
            }
        }
        if of_principal >= self.bounds().of_principal {
            return Err(Full::Principal);
        }
        if of_session >= self.bounds().of_session {
            return Err(Full::Session);
        }
        // A connection that was just told to make room has left the map, and is about to end.
        if let Some(entry) = open.entries.get_mut(&self.number) {
            entry.owner = owner;
            self.all.given_back.notify_one();
        }
        Ok(())
    }

    fn bounds(&self) -> &HttpBounds {
        &self.all.bounds
    }
}

impl Drop for AdmittedConnection {
    fn drop(&mut self) {
        self.all.open.lock().entries.remove(&self.number);
        self.all.given_back.notify_one();
    }
}

/// Returns the network of a peer. An IPv6 peer has a whole /64 network.
fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn connections() -> Arc<HttpConnections> {
        HttpConnections::new(HttpBounds {
            connections: 8,
            unauthenticated: 3,
            of_principal: 4,
            of_session: 2,
            asks_within: Duration::ZERO,
            ..HttpBounds::default()
        })
    }

    fn peer(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn admitted(all: &Arc<HttpConnections>, text: &str) -> Option<AdmittedConnection> {
        match all.try_admit(peer(text)) {
            ConnectionAdmission::Admitted(connection) => Some(connection),
            ConnectionAdmission::Full => None,
            ConnectionAdmission::Wait(_) => panic!("nobody is waited for"),
        }
    }

    #[tokio::test]
    async fn a_connection_has_the_time_to_show_its_token_before_it_makes_room() {
        let bounds = HttpBounds { asks_within: Duration::from_secs(3600), ..connections().bounds };
        let all = HttpConnections::new(bounds);
        let mut first = Vec::new();
        for _ in 0..3 {
            first.push(all.admit(peer("127.0.0.1")).await.expect("a place"));
        }
        let next = || all.admit(peer("127.0.0.1"));
        assert!(matches!(all.try_admit(peer("127.0.0.1")), ConnectionAdmission::Wait(_)));
        // A connection that shows a token makes room, and so does a connection that ends.
        let (fourth, shown) =
            tokio::join!(next(), async { first[0].belongs_to(&"a".into(), None) });
        assert_eq!((fourth.is_some(), shown), (true, Ok(())));
        let (fifth, ()) = tokio::join!(next(), async { drop(first.pop()) });
        assert!(fifth.is_some() && !first.iter().any(|it| it.closed().is_cancelled()));
    }

    #[test]
    fn whoever_has_most_connections_without_a_token_gives_up_the_oldest() {
        let all = connections();
        let admit = |text: &str| admitted(&all, text).expect("a place");
        let is_closed = |connection: &AdmittedConnection| connection.closed().is_cancelled();
        let other = admit("192.0.2.1");
        let first = admit("::ffff:192.0.2.2");
        let second = admit("192.0.2.2");
        let third = admit("192.0.2.2");
        assert_eq!([&other, &first, &second, &third].map(is_closed), [false, true, false, false]);
        // Two addresses in the same network count as one peer.
        let all = connections();
        let admit = |text: &str| admitted(&all, text).expect("a place");
        let other = admit("2001:db8:1::1");
        let first = admit("2001:db8:2::1");
        let _second = admit("2001:db8:2::2");
        let _third = admit("2001:db8:2::3");
        assert!(is_closed(&first) && !is_closed(&other));
    }

    #[test]
    fn a_connection_of_a_principal_is_not_given_up_and_its_share_is_bounded() {
        let all = connections();
        let admit = || admitted(&all, "127.0.0.1");
        let of = |principal: &str, session: Option<&str>| {
            let connection = admit().expect("a place");
            connection.belongs_to(&principal.into(), session).map(|()| connection)
        };
        let ann: Vec<_> = (0..4).map(|_| of("ann", None).expect("room")).collect();
        assert_eq!(of("ann", None).err(), Some(Full::Principal));
        // Using a connection again takes no second place.
        assert_eq!(ann[0].belongs_to(&"ann".into(), None), Ok(()));
        let bob = [of("bob", Some("s")).expect("room"), of("bob", Some("s")).expect("room")];
        assert_eq!(of("bob", Some("s")).err(), Some(Full::Session));
        let other = of("bob", Some("other")).expect("room");
        let idle = admit().expect("a place");
        let next = admit().expect("that of the idle one");
        assert!(idle.closed().is_cancelled());
        next.belongs_to(&"cleo".into(), None).expect("room");
        assert!(admit().is_none(), "all places are those of principals");
        assert!(ann.iter().chain(&bob).chain([&other]).all(|it| !it.closed().is_cancelled()));
        drop(ann);
        assert!(admit().is_some());
        drop(idle);
        assert_eq!(all.open.lock().entries.len(), 4);
    }
}
