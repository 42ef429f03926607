//! The peers that a tool may connect to.
//!
//! Owns the meaning of a `net` list's entries for names and addresses. Does not resolve or connect:
//! the code that does so asks here for each address.

mod public;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use ipnet::{IpNet, Ipv4Net};

pub use public::is_public;

/// The peers that a tool may connect to. The default allows no peers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Net {
    /// True if every public address is allowed (`*`).
    pub any: bool,
    /// The named peers.
    pub peers: Vec<Peer>,
}

/// One entry of a `net` list: `HOST:PORT`, `*.HOST:PORT`, `ADDRESS:PORT`, `NETWORK/BITS:PORT`,
/// `[IPV6]:PORT`; `*` as the port means every port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The host.
    pub host: PeerHost,
    /// The port; `None` for every port.
    pub port: Option<u16>,
}

/// The host of a [`Peer`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerHost {
    /// A DNS name, in lower case, without a final dot.
    Name(String),
    /// The names with exactly one label before this one (`*.NAME`). The name itself must have a
    /// dot, so that a grant cannot cover all of `com`.
    OneLabel(String),
    /// A network; a single address is a network too. Its private addresses count as named.
    Range(IpNet),
}

impl Net {
    /// Returns whether no peer is allowed.
    #[must_use]
    pub fn is_none(&self) -> bool {
        !self.any && self.peers.is_empty()
    }

    /// Returns whether an address of this machine's loopback is named.
    pub(crate) fn has_loopback(&self) -> bool {
        let loopback = [
            IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(127, 0, 0, 0), 8)),
            IpAddr::from(Ipv6Addr::LOCALHOST).into(),
        ];
        let meets =
            |range: &IpNet| loopback.iter().any(|it| range.contains(it) || it.contains(range));
        self.peers.iter().any(|peer| matches!(&peer.host, PeerHost::Range(range) if meets(range)))
    }

    /// Parses the entries of a `net` list.
    ///
    /// # Errors
    ///
    /// Fails if an entry is malformed. The text names the first such entry and its mistake.
    pub fn parse<'a>(entries: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let mut net = Self::default();
        for entry in entries {
            if entry == "*" {
                net.any = true;
            } else {
                net.peers.push(entry.parse().map_err(|why| format!("`{entry}` {why}"))?);
            }
        }
        Ok(net)
    }

    /// Returns only peers that both lists allow. A network and `*`, or a network and a name, have
    /// no peers in common, because their shared addresses are known only when an address is used.
    #[must_use]
    pub fn meet(&self, other: &Self) -> Self {
        let pairs = self
            .peers
            .iter()
            .flat_map(|one| other.peers.iter().filter_map(move |other| one.meet(other)));
        let mut peers: Vec<Peer> = Vec::new();
        // A name covers its public addresses, and so does `*`.
        let named = |net: &Self, any: bool| {
            let is_name = |peer: &&Peer| !matches!(peer.host, PeerHost::Range(_));
            net.peers.iter().filter(is_name).filter(|_| any).cloned().collect::<Vec<_>>()
        };
        for peer in pairs.chain(named(self, other.any)).chain(named(other, self.any)) {
            if !peers.contains(&peer) {
                peers.push(peer);
            }
        }
        Self { any: self.any && other.any, peers }
    }

    /// Returns whether a name may be looked up and connected to on `port`, or on any port if `port`
    /// is `None`.
    #[must_use]
    pub fn allows_name(&self, name: &str, port: Option<u16>) -> bool {
        let name = normal(name);
        self.any || self.peers.iter().any(|peer| peer.host.is_name(&name) && peer.allows_port(port))
    }

    /// Returns whether a network in the list contains the address.
    #[must_use]
    pub(crate) fn names_address(&self, address: SocketAddr) -> bool {
        self.names_ip(address.ip(), Some(address.port()))
    }

    /// Returns whether a network in the list contains the address, for `port`, or for any port if
    /// `port` is `None`.
    #[must_use]
    pub(crate) fn names_ip(&self, ip: IpAddr, port: Option<u16>) -> bool {
        let ip = ip.to_canonical();
        self.peers.iter().any(|peer| {
            matches!(&peer.host, PeerHost::Range(range) if range.contains(&ip))
                && peer.allows_port(port)
        })
    }

    /// Returns whether an address may be connected to, independently of the name that it was
    /// resolved from.
    #[must_use]
    pub fn allows_address(&self, address: SocketAddr) -> bool {
        self.names_address(address) || (self.any && is_public(address.ip()))
    }
}

impl PeerHost {
    /// Returns whether it matches this name, which is in normal form.
    fn is_name(&self, name: &str) -> bool {
        match self {
            Self::Name(own) => own == name,
            Self::OneLabel(own) => {
                name.split_once('.').is_some_and(|(label, rest)| !label.is_empty() && rest == own)
            }
            Self::Range(_) => false,
        }
    }
}

impl Peer {
    fn meet(&self, other: &Self) -> Option<Self> {
        let host = match (&self.host, &other.host) {
            (PeerHost::OneLabel(one), PeerHost::OneLabel(other)) if one == other => {
                self.host.clone()
            }
            (PeerHost::Name(name), names) | (names, PeerHost::Name(name))
                if names.is_name(name) =>
            {
                PeerHost::Name(name.clone())
            }
            (PeerHost::Range(one), PeerHost::Range(other)) if one.contains(other) => {
                PeerHost::Range(*other)
            }
            (PeerHost::Range(one), PeerHost::Range(other)) if other.contains(one) => {
                PeerHost::Range(*one)
            }
            _ => return None,
        };
        let port = match (self.port, other.port) {
            (Some(one), Some(other)) if one != other => return None,
            (one, other) => one.or(other),
        };
        Some(Self { host, port })
    }

    fn allows_port(&self, port: Option<u16>) -> bool {
        match (self.port, port) {
            (None, _) | (_, None) => true,
            (Some(own), Some(port)) => own == port,
        }
    }
}

fn normal(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

impl FromStr for Peer {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.contains("://") {
            return Err("is a URL; write its HOST:PORT");
        }
        let (host, port) = text.rsplit_once(':').ok_or("has no port; write HOST:PORT or HOST:*")?;
        let port = match port {
            "*" => None,
            digits => match digits.parse() {
                Ok(port) if port != 0 => Some(port),
                _ => return Err("has a port that is neither a number from 1 to 65535 nor `*`"),
            },
        };
        let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        if bracketed.is_none() && host.contains(':') {
            return Err("needs its IPv6 address in brackets, such as [::1]:80");
        }
        let host = bracketed.unwrap_or(host);
        let range = host
            .parse::<IpNet>()
            .map(|range| canonical(range.trunc()))
            .or_else(|_| host.parse::<IpAddr>().map(|ip| IpNet::from(ip.to_canonical())));
        let host = match (range, host.strip_prefix("*.")) {
            (Ok(range), _) => PeerHost::Range(range),
            (Err(_), _) if bracketed.is_some() => {
                return Err("has brackets around something that is not an address");
            }
            (Err(_), Some(rest)) => PeerHost::OneLabel(
                Some(host_name(rest)?)
                    .filter(|name| name.contains('.'))
                    .ok_or("stands for too many hosts; write `*.` before two labels or more")?,
            ),
            (Err(_), None) => PeerHost::Name(host_name(host)?),
        };
        Ok(Self { host, port })
    }
}

/// Converts an IPv4 network that is written as IPv6 (`::ffff:10.0.0.0/104`) to an IPv4 network.
fn canonical(range: IpNet) -> IpNet {
    let IpAddr::V6(addr) = range.addr() else { return range };
    let inner = addr.to_ipv4_mapped().zip(range.prefix_len().checked_sub(96));
    match inner.map(|(addr, bits)| Ipv4Net::new(addr, bits)) {
        Some(Ok(inner)) => inner.into(),
        _ => range,
    }
}

/// Parses a DNS name: labels of letters, digits, hyphens and underscores.
fn host_name(text: &str) -> Result<String, &'static str> {
    let is_label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            // In a command, such a name would be a flag.
            && !label.starts_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    let name = normal(text);
    // A text of only digits and dots is a malformed address, which a resolver may still accept in
    // its own way.
    let is_number = name.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if name.len() > 253 || is_number || !name.split('.').all(is_label) {
        return Err("has a host that is neither a name, an address nor a network");
    }
    Ok(name)
}

impl fmt::Display for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let any = self.any.then(|| "*".to_owned());
        let texts: Vec<String> =
            any.into_iter().chain(self.peers.iter().map(Peer::to_string)).collect();
        f.write_str(&texts.join(" "))
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            PeerHost::Name(name) => f.write_str(name)?,
            PeerHost::OneLabel(name) => write!(f, "*.{name}")?,
            PeerHost::Range(range) => {
                let one = range.prefix_len() == range.max_prefix_len();
                let text = if one { range.addr().to_string() } else { range.to_string() };
                if range.addr().is_ipv6() { write!(f, "[{text}]")? } else { f.write_str(&text)? }
            }
        }
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => f.write_str(":*"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_and_written_alike() {
        for text in [
            "*.a.example:443",
            "db.internal:5432",
            "10.0.0.0/8:*",
            "127.0.0.1:80",
            "[::1]:443",
            "[fd00::/8]:*",
        ] {
            assert_eq!(text.parse::<Peer>().expect(text).to_string(), text);
        }
        let mapped: Peer = "[::ffff:10.0.0.0/104]:80".parse().expect("a network");
        assert_eq!(mapped.to_string(), "10.0.0.0/8:80");
        assert_eq!("Example.COM.:1".parse::<Peer>().expect("a name").to_string(), "example.com:1");
        for text in [
            "host",
            "host:0",
            "host:65536",
            ":80",
            "::1:80",
            "[host]:80",
            "a b:1",
            "1.2.3:4",
            "*:80",
            "*.com:80",
            "*.*.a.example:80",
            "a.*.example:80",
            "*a.example:80",
            "*.10.0.0.1:80",
            "*.:80",
            "[*.a.example]:80",
            "http://host:80",
            "--unconfined:80",
            "*.-a.example:80",
        ] {
            assert!(text.parse::<Peer>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_two_lists_share_is_never_more_than_either() {
        let met = |one: &[&str], other: &[&str]| {
            let net = |list: &[&str]| Net::parse(list.iter().copied()).expect("a list");
            let (one, other) = (net(one), net(other));
            let met = one.meet(&other);
            let back = other.meet(&one);
            assert_eq!(met.any, back.any);
            assert!(met.peers.iter().all(|peer| back.peers.contains(peer)), "{met} and {back}");
            met.to_string()
        };
        assert_eq!(met(&["*"], &["*"]), "*");
        assert_eq!(met(&["*"], &["a.example:443", "10.0.0.0/8:*"]), "a.example:443");
        assert_eq!(met(&["a.example:*"], &["a.example:443", "b.example:1"]), "a.example:443");
        assert_eq!(met(&["a.example:1"], &["a.example:2"]), "");
        assert_eq!(met(&["10.0.0.0/8:*"], &["10.1.0.0/16:5432"]), "10.1.0.0/16:5432");
        assert_eq!(met(&["10.0.0.0/8:1"], &["a.example:1", "11.0.0.0/8:1"]), "");
        assert_eq!(met(&[], &["*"]), "");
        assert_eq!(met(&["*"], &["*.a.example:443"]), "*.a.example:443");
        assert_eq!(met(&["*.a.example:443"], &["*.a.example:*"]), "*.a.example:443");
        assert_eq!(
            met(&["*.a.example:*"], &["x.a.example:443", "a.example:443"]),
            "x.a.example:443"
        );
        assert_eq!(met(&["*.a.example:1"], &["y.x.a.example:1", "*.x.a.example:1"]), "");
        assert_eq!(met(&["*.a.example:1"], &["10.0.0.0/8:1"]), "");
    }

    #[test]
    fn names_and_addresses_are_matched_whole() {
        let net = Net::parse(["db.internal:5432", "10.0.0.0/8:*"]).expect("a list");
        assert!(net.allows_name("DB.internal.", Some(5432)));
        assert!(!net.allows_name("db.internal", Some(5433)));
        assert!(!net.allows_name("x.db.internal", Some(5432)));
        let labels = Net::parse(["*.crates.example:443"]).expect("a list");
        assert!(labels.allows_name("Index.crates.example.", Some(443)));
        for name in ["crates.example", "a.b.crates.example", ".crates.example", "xcrates.example"] {
            assert!(!labels.allows_name(name, Some(443)), "{name}");
        }
        assert!(!labels.allows_name("index.crates.example", Some(80)));
        let names = |text: &str| net.names_address(text.parse().expect("an address"));
        assert!(names("10.1.2.3:80") && names("[::ffff:10.1.2.3]:80"));
        assert!(!names("11.0.0.1:80"));
        let any = Net::parse(["*", "127.0.0.1:80"]).expect("a list");
        let allows = |text: &str| any.allows_address(text.parse().expect("an address"));
        assert!(allows("1.1.1.1:9") && allows("127.0.0.1:80") && any.allows_name("x.y", None));
        assert!(!allows("127.0.0.1:81") && !allows("10.0.0.1:80") && !allows("[::1]:80"));
        assert!(any.names_ip("127.0.0.1".parse().expect("an address"), None));
    }
}
