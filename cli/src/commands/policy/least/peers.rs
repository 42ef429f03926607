//! Folds the hosts that calls accessed into the list `net` of a policy.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use ikigai_host::policy::{Net, PeerHost, is_public};

/// The most hosts that are proposed.
const MOST_PEERS: usize = 32;

/// A host with its port, as a tool asked for it. A name that was only looked up has no port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AskedPeer {
    pub(crate) host: String,
    pub(crate) port: Option<u16>,
}

impl AskedPeer {
    /// Returns the peer as a policy has it.
    pub(crate) fn written(&self) -> String {
        let Self { host, port } = self;
        let ip = host.trim_matches(['[', ']']).parse::<IpAddr>();
        match (ip, port) {
            (Ok(ip), Some(port)) => SocketAddr::new(ip.to_canonical(), *port).to_string(),
            (_, port) => {
                let port = port.map_or_else(|| "*".to_owned(), |port| port.to_string());
                format!("{}:{port}", host.trim_end_matches('.').to_ascii_lowercase())
            }
        }
    }

    /// Returns whether a policy can name exactly this peer.
    pub(crate) fn is_nameable(&self) -> bool {
        let written = self.written();
        let Ok(net) = Net::parse([written.as_str()]) else { return false };
        let [peer] = &net.peers[..] else { return false };
        let is_wide = matches!(
            &peer.host,
            PeerHost::Range(range) if range.prefix_len() != range.max_prefix_len()
        );
        // An address needs its port.
        let is_name = matches!(&peer.host, PeerHost::Name(_));
        (is_name || self.port.is_some())
            && !net.any
            && !is_wide
            && !self.host.contains('*')
            && peer.port == self.port
    }

    /// Returns whether the list allows the peer already.
    pub(crate) fn is_in(&self, net: &Net) -> bool {
        match (self.host.trim_matches(['[', ']']).parse::<IpAddr>(), self.port) {
            (Ok(ip), Some(port)) => net.allows_address(SocketAddr::new(ip, port)),
            (_, port) => net.allows_name(&self.host, port),
        }
    }

    /// Returns whether the peer is an address of this machine or of a private network.
    fn is_private(&self) -> bool {
        let ip = self.host.trim_matches(['[', ']']).parse::<IpAddr>();
        ip.is_ok_and(|ip| !is_public(ip))
    }
}

/// The list `net` that covers the hosts that calls accessed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Peers {
    /// The entries; the present ones that stay come first.
    pub(crate) entries: Vec<String>,
    /// The hosts that no policy can name, or that exceed the limit.
    pub(crate) left: Vec<AskedPeer>,
    /// The new entries that are addresses of this machine or of a private network.
    pub(crate) private: Vec<String>,
}

/// Returns the list for these hosts, which includes the entries that stay.
pub(crate) fn fold(asked: &BTreeSet<AskedPeer>, kept: &Net) -> Peers {
    let any = kept.any.then(|| "*".to_owned());
    let entries = any.into_iter().chain(kept.peers.iter().map(ToString::to_string));
    let mut peers = Peers { entries: entries.collect(), ..Peers::default() };
    // A name may be looked up if any of its ports is granted.
    let has_port = |host: &str| asked.iter().any(|peer| peer.host == host && peer.port.is_some());
    let asked = asked.iter().filter(|peer| peer.port.is_some() || !has_port(&peer.host));
    for peer in asked.filter(|peer| !peer.is_in(kept)) {
        let written = peer.written();
        if !peer.is_nameable() || peers.entries.len() >= MOST_PEERS.max(kept.peers.len()) {
            peers.left.push(peer.clone());
        } else if !peers.entries.contains(&written) {
            if peer.is_private() {
                peers.private.push(written.clone());
            }
            peers.entries.push(written);
        }
    }
    peers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(host: &str, port: Option<u16>) -> AskedPeer {
        AskedPeer { host: host.to_owned(), port }
    }

    fn folded(asked: &[(&str, u16)], kept: &[&str]) -> Peers {
        let kept = Net::parse(kept.iter().copied()).expect("a list");
        fold(&asked.iter().map(|(host, port)| peer(host, Some(*port))).collect(), &kept)
    }

    #[test]
    fn a_name_that_was_looked_up_alone_is_every_port_unless_one_is_known() {
        let asked =
            [peer("a.example", None), peer("b.example", None), peer("b.example", Some(443))];
        let asked = BTreeSet::from(asked);
        assert_eq!(fold(&asked, &Net::default()).entries, ["a.example:*", "b.example:443"]);
        let kept = Net::parse(["a.example:80"]).expect("a list");
        assert_eq!(fold(&asked, &kept).entries, ["a.example:80", "b.example:443"]);
        let hostile = BTreeSet::from(["*", "10.0.0.0/8", "", "::1"].map(|name| peer(name, None)));
        let folded = fold(&hostile, &Net::default());
        assert!(folded.entries.is_empty() && folded.left.len() == 4, "{folded:?}");
    }

    #[test]
    fn hosts_are_named_as_the_tool_asked_for_them() {
        let peers = folded(
            &[("API.example.com.", 443), ("api.example.com", 443), ("1.2.3.4", 80), ("::1", 5432)],
            &[],
        );
        assert_eq!(peers.entries, ["1.2.3.4:80", "[::1]:5432", "api.example.com:443"]);
        assert_eq!(peers.private, ["[::1]:5432"]);
        assert!(peers.left.is_empty(), "{peers:?}");
    }

    #[test]
    fn what_is_kept_covers_what_lies_in_it() {
        let kept = ["db.internal:*", "10.0.0.0/8:5432"];
        let asked = [("db.internal", 1), ("10.9.8.7", 5432), ("10.9.8.7", 80)];
        let peers = folded(&asked, &kept);
        assert_eq!(peers.entries, ["db.internal:*", "10.0.0.0/8:5432", "10.9.8.7:80"]);
        let all = folded(&[("example.com", 443), ("127.0.0.1", 80)], &["*"]);
        assert_eq!(all.entries, ["*", "127.0.0.1:80"]);
    }

    #[test]
    fn a_hostile_name_opens_nothing_else() {
        let names = [
            "*",
            "0.0.0.0/0",
            "[::/0]",
            "a b",
            "a:*",
            "",
            "x\"]\nenv = [\"KEY",
            "http://a",
            "*.example.com",
            "a\u{202e}b",
        ];
        for name in names {
            let peers = folded(&[(name, 443)], &[]);
            assert!(peers.entries.is_empty() && peers.left.len() == 1, "{name:?} {peers:?}");
        }
        assert!(folded(&[("a", 0)], &[]).entries.is_empty());
        let many: Vec<String> = (0..10_000).map(|n| format!("h{n}.example")).collect();
        let many: Vec<(&str, u16)> = many.iter().map(|name| (name.as_str(), 1)).collect();
        let peers = folded(&many, &[]);
        assert_eq!((peers.entries.len(), peers.left.len()), (MOST_PEERS, 10_000 - MOST_PEERS));
    }
}
