//! A network peer that a tool needs.
//!
//! This module resolves no names, and does not know which addresses are public.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A peer as in a policy: `HOST:PORT`, `ADDRESS:PORT`, `NETWORK/BITS:PORT`, `[IPV6]:PORT`, or `*`
/// for every public address. The port may be `*`, which means every port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NetworkPeer {
    /// Every public address.
    Any,
    /// One host or network.
    At {
        /// The name in lower case, or the address or network, as in `10.0.0.0/8` and `[fd00::7]`.
        host: String,
        /// The port. `None` means every port.
        port: Option<u16>,
    },
}

/// The reason why a text is not a peer. Its text completes a sentence that begins with that text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeerError {
    /// The text has a scheme.
    #[error("is a URL; write its HOST:PORT")]
    Url,
    /// The port is missing.
    #[error("has no port; write HOST:PORT or HOST:*")]
    NoPort,
    /// The port is not valid.
    #[error("has a port that is neither a number from 1 to 65535 nor `*`")]
    Port,
    /// An IPv6 address has no brackets.
    #[error("needs its IPv6 address in brackets, such as [::1]:80")]
    Brackets,
    /// The host is not valid.
    #[error("has a host that is neither a name, an address nor a network")]
    Host,
}

impl NetworkPeer {
    /// Returns whether a grant of this peer includes `inner`, judging only by the texts. Does not
    /// detect that one network contains another.
    pub(super) fn covers(&self, inner: &Self) -> bool {
        match (self, inner) {
            // `*` opens public addresses. A name always means public addresses, but a literal
            // address may be private.
            (Self::Any, Self::Any) => true,
            (Self::Any, Self::At { host, .. }) => !is_numeric(host),
            (Self::At { .. }, Self::Any) => false,
            (Self::At { host, port }, Self::At { host: inner, port: inner_port }) => {
                host == inner && (port.is_none() || port == inner_port)
            }
        }
    }
}

/// Returns whether a host is an address or a network.
fn is_numeric(host: &str) -> bool {
    host.starts_with('[') || host.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'/'))
}

impl FromStr for NetworkPeer {
    type Err = PeerError;

    fn from_str(text: &str) -> Result<Self, PeerError> {
        if text == "*" {
            return Ok(Self::Any);
        }
        if text.contains("://") {
            return Err(PeerError::Url);
        }
        let (host, port) = text.rsplit_once(':').ok_or(PeerError::NoPort)?;
        let port = match port {
            "*" => None,
            digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => match digits.parse() {
                Ok(port) if port != 0 => Some(port),
                _ => return Err(PeerError::Port),
            },
            _ => return Err(PeerError::Port),
        };
        let host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(inner) => format!("[{}]", network::<Ipv6Addr>(inner, 128).ok_or(PeerError::Host)?),
            None if host.contains(':') => return Err(PeerError::Brackets),
            None => match network::<Ipv4Addr>(host, 32) {
                Some(network) => network,
                None => name(host).ok_or(PeerError::Host)?,
            },
        };
        Ok(Self::At { host, port })
    }
}

/// Returns the text of an address, or of a network of at most `most` bits.
fn network<A: FromStr + fmt::Display>(text: &str, most: u8) -> Option<String> {
    let Some((address, bits)) = text.split_once('/') else {
        return text.parse::<A>().ok().map(|address| address.to_string());
    };
    let address: A = address.parse().ok()?;
    let bits: u8 = bits.parse().ok().filter(|bits| *bits <= most)?;
    Some(format!("{address}/{bits}"))
}

/// Returns a DNS name in lower case, without a trailing dot.
fn name(text: &str) -> Option<String> {
    let name = text.trim_end_matches('.').to_ascii_lowercase();
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    // A resolver might interpret a name of only digits and dots as an address.
    let is_name = name.len() <= 253 && !is_numeric(&name) && name.split('.').all(is_label);
    is_name.then_some(name)
}

impl fmt::Display for NetworkPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::At { host, port: Some(port) } => write!(f, "{host}:{port}"),
            Self::At { host, port: None } => write!(f, "{host}:*"),
        }
    }
}

impl serde::Serialize for NetworkPeer {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
