//! The gate to the network: decides which peers a call may reach, for components and native tools.
//!
//! Every way to the network asks one [`NetworkGate`], which knows the grant of the call: the sockets and
//! the requests of a component, and the [`relay`] of a native tool. A name is resolved only here,
//! and only if it is granted. Addresses that may not be connected to are left out. Every connection
//! and every datagram is checked by its address again. Before a peer is refused, the user is asked
//! about it if the front end can ask. The answer is for the peer as it was asked for, so that a
//! name still opens only public addresses.

#[cfg(test)]
mod lookups;
#[cfg(target_os = "linux")]
pub(super) mod relay;
pub(super) mod tls;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::pin::Pin;
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::Duration;

use http::uri::Authority;
use parking_lot::Mutex;
use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use url::Host;

use super::widening::Widening;
use super::{DeniedAccesses, Refusals};
use crate::policy::{Grant, Net, RequestedAccess, UsedAccess, is_public};

/// The number of addresses that all names of one call may lead to: more than any tool needs, and
/// little memory.
const MAX_RESOLVED: usize = 1024;

/// The time that one of several addresses has to answer before the next is tried.
const NEXT_ADDRESS_AFTER: Duration = Duration::from_secs(5);

/// A resolver of host names.
pub trait NameResolver: Send + Sync {
    /// Returns the addresses of `name`, in the order in which they are to be tried. `name` is in
    /// lower case and ASCII. `place` counts the lookup against the limit of its call. A resolver
    /// that still works when the future is dropped must keep `place` until it has ended.
    fn resolve<'a>(
        &'a self,
        name: &'a str,
        place: OwnedSemaphorePermit,
    ) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;
}

/// The largest number of concurrent lookups of one call. Each occupies a thread of the host until
/// the operating system's resolver has answered, even if the call does not wait for it any more.
pub(super) const LOOKUPS_OF_A_CALL: usize = 4;

/// The concurrent lookups of a process. Each occupies a thread, even after its call has ended.
static LOOKUPS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(32)));

/// The longest time of a lookup.
const LOOKUP_TIME: Duration = Duration::from_secs(15);

/// The resolver of the operating system: `/etc/hosts`, DNS, and its other sources.
struct SystemResolver;

impl NameResolver for SystemResolver {
    fn resolve<'a>(
        &'a self,
        name: &'a str,
        place: OwnedSemaphorePermit,
    ) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>> {
        Box::pin(async move {
            let permit = Arc::clone(&LOOKUPS).acquire_owned().await.map_err(io::Error::other)?;
            let name = name.to_owned();
            let found = tokio::task::spawn_blocking(move || {
                let _kept = (permit, place);
                let found = (name.as_str(), 0).to_socket_addrs()?;
                Ok(found.map(|address| address.ip()).collect())
            });
            tokio::time::timeout(LOOKUP_TIME, found).await??
        })
    }
}

/// The resolver and the TLS configuration that all calls of a process share.
pub struct SharedNetwork {
    resolver: Box<dyn NameResolver>,
    /// The trusted certificates; `None` means the machine's.
    trusted: Option<Vec<CertificateDer<'static>>>,
    /// Made when the first guest needs it.
    tls: OnceLock<Result<Arc<ClientConfig>, String>>,
}

impl Default for SharedNetwork {
    fn default() -> Self {
        Self { resolver: Box::new(SystemResolver), trusted: None, tls: OnceLock::new() }
    }
}

impl SharedNetwork {
    /// Replaces the operating system's resolver.
    #[must_use]
    pub fn resolving_with(self, resolver: impl NameResolver + 'static) -> Self {
        Self { resolver: Box::new(resolver), ..self }
    }

    /// Replaces the authorities that the machine trusts, by certificates in DER.
    #[must_use]
    pub fn trusting(self, certificates: Vec<Vec<u8>>) -> Self {
        Self { trusted: Some(certificates.into_iter().map(Into::into).collect()), ..self }
    }

    fn tls(&self) -> Result<Arc<ClientConfig>, String> {
        let made = self.tls.get_or_init(|| match &self.trusted {
            Some(trusted) => tls::trusting(trusted.clone()),
            None => tls::config(),
        });
        made.clone()
    }
}

impl fmt::Debug for SharedNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network").finish_non_exhaustive()
    }
}

/// A host and a port that a program asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PeerAddress {
    pub(super) host: Host,
    pub(super) port: u16,
}

impl PeerAddress {
    /// Returns the peer that an authority names. If the authority has no port, `otherwise` is the
    /// port. A user name is not valid in HTTP, and looks like a host: `granted@other`.
    pub(super) fn of_authority(authority: &Authority, otherwise: Option<u16>) -> Option<Self> {
        if authority.as_str().contains('@') {
            return None;
        }
        let host = authority.host();
        let port = match authority.as_str().strip_prefix(host)? {
            "" => otherwise?,
            port => {
                let digits = port.strip_prefix(':')?;
                // The parser accepts a sign before a number, which a port cannot have.
                let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
                digits.parse().ok().filter(|_| is_number)?
            }
        };
        Some(Self { host: parse_host(host)?, port: Some(port).filter(|port| *port != 0)? })
    }
}

impl fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// The access of one call to the network, and its refusals.
pub(super) struct NetworkGate {
    grant: Arc<Grant>,
    network: Arc<SharedNetwork>,
    /// True if the program resolves names itself and connects to their addresses later.
    remembers: bool,
    /// The way to ask for more.
    widening: Option<Arc<Widening>>,
    /// True if the program may try to use more than its grant: the user is asked about it, or it is
    /// recorded.
    is_open: bool,
    /// The peers of the grant and those that this call was allowed, as bounds leave them.
    widened: Mutex<Net>,
    /// Public addresses, with the granted names that resolved to them in this call.
    resolved: Mutex<HashMap<IpAddr, HashSet<String>>>,
    lookups: Arc<Semaphore>,
    denied: Refusals,
}

/// The reason that a peer was not connected to.
#[derive(Debug)]
pub(super) enum NoConnection {
    /// Its name has no address that may be used.
    Name(NoAddress),
    /// It is an address that is not granted.
    NotGranted,
    /// It took too long to answer.
    TimedOut,
    /// It refused, or cannot be reached.
    Failed(io::Error),
}

/// The reason that a name has no address that may be used.
#[derive(Debug)]
pub(super) enum NoAddress {
    /// It is not granted.
    NotGranted,
    /// It resolves to addresses that are not public, which only a grant that names them allows.
    NotPublic,
    /// It does not resolve.
    Unresolved(io::Error),
    /// The call has looked up too many names.
    TooMany,
}

impl NetworkGate {
    /// Returns the access of a component to the network.
    pub(super) fn new(
        grant: Arc<Grant>,
        network: Arc<SharedNetwork>,
        widening: Option<Arc<Widening>>,
    ) -> Self {
        let is_open = widening.as_ref().is_some_and(|widening| widening.watches());
        Self {
            grant,
            network,
            remembers: true,
            widening,
            is_open,
            widened: Mutex::default(),
            resolved: Mutex::default(),
            lookups: Arc::new(Semaphore::new(LOOKUPS_OF_A_CALL)),
            denied: Refusals::default(),
        }
    }

    /// Returns the access of a native tool to the network. The relay resolves every name that the
    /// tool connects to, so resolving a name opens no address to the tool. Refusals are noted in
    /// `denied`.
    #[cfg(target_os = "linux")]
    pub(super) fn of_relay(
        grant: Arc<Grant>,
        network: Arc<SharedNetwork>,
        widening: Option<Arc<Widening>>,
        denied: Refusals,
    ) -> Self {
        Self { remembers: false, denied, ..Self::new(grant, network, widening) }
    }

    /// Returns the configuration of TLS.
    pub(super) fn tls(&self) -> Result<Arc<ClientConfig>, String> {
        self.network.tls()
    }

    /// Returns whether nothing can be reached: a component then gets no socket at all.
    pub(super) fn is_none(&self) -> bool {
        self.grant.net.is_none() && !self.is_open
    }

    /// Returns whether the program could connect to something, by its grant or by what it was
    /// allowed up to now.
    pub(super) fn had_network(&self) -> bool {
        self.has(|net| !net.is_none()) || self.records_all()
    }

    /// Returns whether this is true of the grant, or of what the call was allowed.
    fn has(&self, allows: impl Fn(&Net) -> bool) -> bool {
        allows(&self.grant.net) || allows(&self.widened.lock())
    }

    /// Returns whether the call is recorded. Such a call may reach every public address.
    fn records_all(&self) -> bool {
        let recording = self.widening.as_ref().and_then(|widening| widening.recording());
        recording.is_some_and(|recording| recording.net)
    }

    /// Returns whether the program may have a peer, or look up a name, beyond its grant. Asks the
    /// user if the front end can ask.
    async fn may_widen(&self, reached: RequestedAccess) -> bool {
        let Some(widening) = &self.widening else { return false };
        if self.records_all() {
            let is_permitted = widening.recording_permits(&reached);
            widening.refused(reached);
            return is_permitted;
        }
        if !self.is_open {
            widening.refused(reached);
            return false;
        }
        if !widening.may(reached).await {
            return false;
        }
        let mut widened = self.widened.lock();
        *widened = widening.net();
        true
    }

    /// Notes that the program made use of its grant for a peer.
    fn used(&self, host: String, port: u16) {
        if let Some(widening) = &self.widening {
            widening.used(UsedAccess::Peer { host, port });
        }
    }

    /// Notes that the program was refused `what`.
    pub(super) fn deny(&self, what: impl AsRef<str>) {
        self.denied.note(format!("net {}", what.as_ref()));
    }

    /// Returns the refusals so far.
    pub(super) fn denied(&self) -> DeniedAccesses {
        self.denied.so_far()
    }

    /// Returns whether a name is refused whose port is not known yet, because neither the grant nor
    /// the user can allow it. The refusal is noted at once: the program may not wait for an answer.
    pub(super) fn refuses(&self, name: &str) -> bool {
        let may_be_allowed = self.is_open || self.records_all();
        if may_be_allowed || self.has(|net| net.allows_name(name, None)) {
            return false;
        }
        if let Some(widening) = &self.widening {
            widening.refused(RequestedAccess::Host { host: name.to_owned() });
        }
        self.deny(name);
        true
    }

    /// Returns the addresses of a name that may be connected to on `port`, or on some port if it
    /// is not known yet; never an empty list.
    pub(super) async fn resolve(
        &self,
        name: &str,
        port: Option<u16>,
    ) -> Result<Vec<IpAddr>, NoAddress> {
        let peer = port.map_or_else(|| name.to_owned(), |port| format!("{name}:{port}"));
        if !self.has(|net| net.allows_name(name, port)) {
            let host = name.to_owned();
            let is_allowed = match port {
                Some(port) => self.may_widen(RequestedAccess::Peer { host, port }).await,
                // A recording notes the name when it is connected to, with the port.
                None => self.records_all() || self.may_widen(RequestedAccess::Host { host }).await,
            };
            if !is_allowed {
                self.deny(peer);
                return Err(NoAddress::NotGranted);
            }
        }
        let place = Arc::clone(&self.lookups).acquire_owned().await;
        let place = place.map_err(|error| NoAddress::Unresolved(io::Error::other(error)))?;
        let found = self.network.resolver.resolve(name, place).await;
        let found = found.map_err(NoAddress::Unresolved)?;
        let may_reach = |ip: &IpAddr| is_public(*ip) || self.has(|net| net.names_ip(*ip, port));
        let (usable, refused): (Vec<IpAddr>, Vec<IpAddr>) =
            found.iter().map(IpAddr::to_canonical).partition(may_reach);
        for ip in &refused {
            self.deny(format!("{peer} ({ip})"));
            if let (Some(widening), Some(port)) = (&self.widening, port) {
                widening.refused(RequestedAccess::Peer { host: ip.to_string(), port });
            }
        }
        if usable.is_empty() {
            let nothing = || NoAddress::Unresolved(io::ErrorKind::NotFound.into());
            return Err(if refused.is_empty() { nothing() } else { NoAddress::NotPublic });
        }
        self.remember(name, &usable)?;
        Ok(usable)
    }

    fn remember(&self, name: &str, found: &[IpAddr]) -> Result<(), NoAddress> {
        // With `*` every public address is granted already.
        if !self.remembers || self.grant.net.any {
            return Ok(());
        }
        let mut resolved = self.resolved.lock();
        for ip in found.iter().filter(|ip| is_public(**ip)) {
            if resolved.len() >= MAX_RESOLVED && !resolved.contains_key(ip) {
                return Err(NoAddress::TooMany);
            }
            resolved.entry(*ip).or_default().insert(name.to_owned());
        }
        Ok(())
    }

    /// Returns whether the program may connect or send to an address.
    pub(super) fn allows(&self, address: SocketAddr) -> bool {
        self.has(|net| net.allows_address(address)) || self.name_of(address).is_some()
    }

    /// Returns a granted name that led to the address.
    fn name_of(&self, address: SocketAddr) -> Option<String> {
        let resolved = self.resolved.lock();
        let names = resolved.get(&address.ip().to_canonical())?;
        let is_granted = |name: &&String| {
            let port = Some(address.port());
            self.records_all() || self.has(|net| net.allows_name(name, port))
        };
        names.iter().find(is_granted).cloned()
    }

    /// Returns whether a name is granted on a port.
    #[cfg(target_os = "linux")]
    pub(super) fn names(&self, name: &str, port: u16) -> bool {
        self.records_all() || self.has(|net| net.allows_name(name, Some(port)))
    }

    /// Connects to a peer. Its name is resolved once, here, and the connection goes to the address
    /// that was checked.
    ///
    /// The last of its addresses has the time `most`, if there is a limit.
    pub(super) async fn connect(
        &self,
        peer: &PeerAddress,
        most: Option<Duration>,
    ) -> Result<TcpStream, NoConnection> {
        let address = |ip: IpAddr| SocketAddr::new(ip.to_canonical(), peer.port);
        let addresses: Vec<SocketAddr> = match &peer.host {
            Host::Domain(name) => {
                let found = self.resolve(name, Some(peer.port)).await;
                found.map_err(NoConnection::Name)?.into_iter().map(address).collect()
            }
            Host::Ipv4(ip) => self.literal(address((*ip).into())).await?,
            Host::Ipv6(ip) => self.literal(address((*ip).into())).await?,
        };
        let mut failed = NoConnection::Name(NoAddress::Unresolved(io::ErrorKind::NotFound.into()));
        for (at, address) in addresses.iter().enumerate() {
            let connecting = TcpStream::connect(address);
            let is_last = at + 1 == addresses.len();
            let connected = match if is_last { most } else { Some(NEXT_ADDRESS_AFTER) } {
                Some(time) => timeout(time, connecting).await.ok(),
                None => Some(connecting.await),
            };
            match connected {
                Some(Ok(stream)) => {
                    if let Host::Domain(name) = &peer.host {
                        self.used(name.clone(), peer.port);
                    }
                    return Ok(stream);
                }
                Some(Err(error)) => failed = NoConnection::Failed(error),
                None => failed = NoConnection::TimedOut,
            }
        }
        Err(failed)
    }

    async fn literal(&self, address: SocketAddr) -> Result<Vec<SocketAddr>, NoConnection> {
        if self.check(address).await { Ok(vec![address]) } else { Err(NoConnection::NotGranted) }
    }

    /// Returns whether the program may connect or send to an address. Asks the user if that is
    /// needed and possible. Notes a refusal.
    pub(super) async fn check(&self, address: SocketAddr) -> bool {
        let (ip, port) = (address.ip().to_canonical(), address.port());
        let asked_for = self.name_of(address).unwrap_or_else(|| ip.to_string());
        let reached = RequestedAccess::Peer { host: ip.to_string(), port };
        let allowed = self.allows(address) || self.may_widen(reached).await;
        match allowed {
            true => self.used(asked_for, port),
            false => self.deny(SocketAddr::new(ip, port).to_string()),
        }
        allowed
    }
}

/// Parses a host as a program writes it, into an address or a name in its normal form. Returns
/// nothing if it is neither.
pub(super) fn parse_host(text: &str) -> Option<Host> {
    /// The longest text of a host in bytes. A name has at most 253 characters, and each may be
    /// written in other scripts.
    const LONGEST: usize = 1_024;
    if text.len() > LONGEST {
        return None;
    }
    // Sockets take IPv6 addresses without brackets, URLs do not.
    if let Ok(ip) = text.parse() {
        return Some(Host::Ipv6(ip));
    }
    match Host::parse(text).ok()? {
        Host::Domain(name) => {
            let name = name.trim_end_matches('.');
            let is_name = !name.is_empty() && name.len() <= 253;
            is_name.then(|| Host::Domain(name.to_owned()))
        }
        ip => Some(ip),
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::exec::widening::tests::recorded;
    use crate::front_end::Recording;
    use crate::policy::Net;

    /// A resolver that answers with one list after the other, then with the last for ever.
    struct ScriptedResolver(Vec<&'static [&'static str]>, AtomicUsize);

    impl NameResolver for ScriptedResolver {
        fn resolve<'a>(
            &'a self,
            _: &'a str,
            _: OwnedSemaphorePermit,
        ) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>> {
            let at = self.1.fetch_add(1, Ordering::Relaxed).min(self.0.len() - 1);
            Box::pin(ready(Ok(self.0[at]
                .iter()
                .map(|ip| ip.parse().expect("an address"))
                .collect())))
        }
    }

    fn reach(net: &[&str], answers: Vec<&'static [&'static str]>) -> NetworkGate {
        let net = Net::parse(net.iter().copied()).expect("a list");
        let network =
            SharedNetwork::default().resolving_with(ScriptedResolver(answers, AtomicUsize::new(0)));
        NetworkGate::new(Arc::new(Grant { net, ..Grant::default() }), Arc::new(network), None)
    }

    fn address(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    #[tokio::test]
    async fn an_address_is_reached_by_the_name_that_led_to_it_on_its_port_alone() {
        let reach = reach(&["a.test:443", "b.test:80"], vec![&["1.1.1.1", "2606:4700::1111"]]);
        assert!(!reach.allows(address("1.1.1.1:443")));
        let found = reach.resolve("a.test", None).await.expect("found");
        assert_eq!(found.len(), 2);
        assert!(
            reach.allows(address("1.1.1.1:443")) && reach.allows(address("[2606:4700::1111]:443"))
        );
        assert!(reach.allows(address("[::ffff:1.1.1.1]:443")));
        assert!(!reach.check(address("1.1.1.1:80")).await);
        assert!(!reach.check(address("1.0.0.1:443")).await);
        assert_eq!(reach.denied().first, ["net 1.1.1.1:80", "net 1.0.0.1:443"]);
        // Once the other name leads there too, its port is open as well.
        reach.resolve("b.test", None).await.expect("found");
        assert!(reach.allows(address("1.1.1.1:80")) && !reach.allows(address("1.1.1.1:81")));
    }

    #[tokio::test]
    async fn a_name_never_leads_to_an_address_that_would_have_to_be_named() {
        let inside: &[&str] = &["127.0.0.1", "10.0.0.1", "::ffff:169.254.169.254", "fe80::1"];
        let own = reach(&["a.test:80"], vec![inside, &["10.0.0.1", "1.1.1.1"]]);
        assert!(matches!(own.resolve("a.test", Some(80)).await, Err(NoAddress::NotPublic)));
        assert_eq!(own.denied().count, 4);
        assert_eq!(own.denied().first[2], "net a.test:80 (169.254.169.254)");
        assert!(!own.allows(address("10.0.0.1:80")));
        // The second answer differs, as an attacker's name server may answer.
        let found = own.resolve("a.test", Some(80)).await.expect("found");
        assert_eq!(found, ["1.1.1.1".parse::<IpAddr>().expect("an address")]);
        assert!(!own.allows(address("10.0.0.1:80")) && own.allows(address("1.1.1.1:80")));

        let named = reach(&["a.test:80", "10.0.0.0/8:80"], vec![inside]);
        assert_eq!(named.resolve("a.test", Some(80)).await.expect("found").len(), 1);
        let elsewhere = reach(&["a.test:80", "10.0.0.0/8:81"], vec![inside]);
        assert!(elsewhere.resolve("a.test", Some(80)).await.is_err());
        let any = reach(&["*"], vec![inside]);
        assert!(matches!(any.resolve("b.test", Some(80)).await, Err(NoAddress::NotPublic)));
    }

    #[tokio::test]
    async fn a_name_that_is_not_granted_is_never_asked_for() {
        let reach = reach(&["a.test:80"], vec![&["1.1.1.1"]]);
        for (name, port) in [("b.test", None), ("secret.a.test", Some(80)), ("a.test", Some(81))] {
            let found = reach.resolve(name, port).await;
            assert!(matches!(found, Err(NoAddress::NotGranted)), "{name}: {found:?}");
        }
        let denied = reach.denied();
        assert_eq!(denied.first, ["net b.test", "net secret.a.test:80", "net a.test:81"]);
    }

    /// A resolver that never answers, and keeps the places of its lookups.
    #[derive(Clone, Default)]
    struct StuckResolver(Arc<Mutex<Vec<OwnedSemaphorePermit>>>);

    impl NameResolver for StuckResolver {
        fn resolve<'a>(
            &'a self,
            _: &'a str,
            place: OwnedSemaphorePermit,
        ) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>> {
            self.0.lock().push(place);
            Box::pin(std::future::pending())
        }
    }

    #[tokio::test]
    async fn lookups_that_are_dropped_and_not_answered_keep_their_places() {
        let stuck = StuckResolver::default();
        let network = Arc::new(SharedNetwork::default().resolving_with(stuck.clone()));
        let net = Net::parse(["a.test:80"]).expect("a list");
        let grant = Arc::new(Grant { net, ..Grant::default() });
        let reach = NetworkGate::new(Arc::clone(&grant), Arc::clone(&network), None);
        let begin = async |reach: &NetworkGate| {
            let asked = reach.resolve("a.test", None);
            assert!(timeout(Duration::ZERO, asked).await.is_err(), "it is never answered");
            stuck.0.lock().len()
        };
        for begun in 1..=LOOKUPS_OF_A_CALL {
            assert_eq!(begin(&reach).await, begun);
        }
        assert_eq!(begin(&reach).await, LOOKUPS_OF_A_CALL, "no further one of this call");
        let other = NetworkGate::new(grant, network, None);
        assert_eq!(begin(&other).await, LOOKUPS_OF_A_CALL + 1, "one of another call");
    }

    #[tokio::test]
    async fn a_recording_reaches_public_addresses_where_it_may_and_notes_each_peer() {
        let inside: &[&str] = &["10.0.0.1"];
        for net in [false, true] {
            let recording = Recording { permissive: true, net };
            let widening = Arc::new(recorded(recording, &[("store.test", 443)]));
            let answers = vec![&["1.1.1.1", "10.0.0.1"][..], inside];
            let network = SharedNetwork::default()
                .resolving_with(ScriptedResolver(answers, AtomicUsize::new(0)));
            let way = Some(Arc::clone(&widening));
            let reach = NetworkGate::new(Arc::default(), Arc::new(network), way);
            assert_eq!(reach.check(address("9.9.9.9:443")).await, net);
            for private in ["10.0.0.1:443", "127.0.0.1:443", "169.254.169.254:80", "[::1]:443"] {
                assert!(!reach.check(address(private)).await, "{private}");
            }
            let found = reach.resolve("a.test", Some(443)).await;
            match net {
                true => assert_eq!(found.expect("found").len(), 1, "the public one alone"),
                false => assert!(matches!(found, Err(NoAddress::NotGranted)), "{found:?}"),
            }
            assert!(reach.resolve("store.test", Some(443)).await.is_err());
            if net {
                assert!(matches!(
                    reach.resolve("b.test", Some(443)).await,
                    Err(NoAddress::NotPublic)
                ));
            }
            let noted = widening.noted().beyond_the_grant();
            let private = [("10.0.0.1", 443), ("::1", 443)];
            let public = [("9.9.9.9", 443), ("a.test", 443), ("store.test", 443)];
            for (host, port) in public.into_iter().chain(private) {
                let peer = RequestedAccess::Peer { host: host.to_owned(), port };
                assert!(noted.contains(&peer), "{peer}: {noted:?}");
            }
        }
    }

    #[test]
    fn hosts_are_read_in_their_normal_form() {
        let read = |text: &str| parse_host(text).map(|host| host.to_string());
        assert_eq!(read("Example.COM.").as_deref(), Some("example.com"));
        assert_eq!(read("bücher.example").as_deref(), Some("xn--bcher-kva.example"));
        for loopback in ["127.0.0.1", "0x7f.1", "2130706433", "127.1"] {
            assert_eq!(read(loopback).as_deref(), Some("127.0.0.1"), "{loopback}");
        }
        assert_eq!(
            (read("::1").as_deref(), read("[::1]").as_deref()),
            (Some("[::1]"), Some("[::1]"))
        );
        let long = |zeros| format!("{}1.1.1.1", "0".repeat(zeros));
        assert_eq!(read(&long(1_000)).as_deref(), Some("1.1.1.1"));
        for text in
            ["", ".", "a b", "a/b", "a:80", "user@a", "a\0b", &"x.".repeat(200), &long(1_024)]
        {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
