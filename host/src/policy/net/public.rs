//! The public addresses: the addresses that a name may resolve to, and that `*` stands for.
//!
//! Other addresses are allowed only if they are named as addresses. A machine trusts its own
//! network, and an attacker can make a name resolve to any address in it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};

const fn v4(a: u8, b: u8, c: u8, d: u8, bits: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), bits)
}

const fn v6(a: u16, b: u16, c: u16, bits: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0), bits)
}

/// The networks of IANA's registry of special-purpose IPv4 addresses, and multicast.
const SPECIAL_V4: &[Ipv4Net] = &[
    v4(0, 0, 0, 0, 8),
    v4(10, 0, 0, 0, 8),
    // Shared by the customers of a carrier (RFC 6598).
    v4(100, 64, 0, 0, 10),
    v4(127, 0, 0, 0, 8),
    // Link-local, which includes the metadata services of clouds.
    v4(169, 254, 0, 0, 16),
    v4(172, 16, 0, 0, 12),
    v4(192, 0, 0, 0, 24),
    v4(192, 0, 2, 0, 24),
    v4(192, 31, 196, 0, 24),
    v4(192, 52, 193, 0, 24),
    v4(192, 88, 99, 0, 24),
    v4(192, 168, 0, 0, 16),
    v4(192, 175, 48, 0, 24),
    v4(198, 18, 0, 0, 15),
    v4(198, 51, 100, 0, 24),
    v4(203, 0, 113, 0, 24),
    v4(224, 0, 0, 0, 4),
    v4(240, 0, 0, 0, 4),
];

/// The network that IANA assigns global unicast addresses from. Loopback, link-local, unique local,
/// multicast and the unspecified address lie outside.
const GLOBAL_V6: Ipv6Net = v6(0x2000, 0, 0, 3);

/// The networks in it that are special-purpose: IETF protocols (Teredo among them), documentation,
/// and the anycast of AS112.
const SPECIAL_V6: &[Ipv6Net] = &[
    v6(0x2001, 0, 0, 23),
    v6(0x2001, 0xdb8, 0, 32),
    v6(0x2620, 0x4f, 0x8000, 48),
    v6(0x3fff, 0, 0, 20),
];

/// Returns the IPv4 address that this address leads to: NAT64 (RFC 6052), 6to4 (RFC 3056).
fn embedded(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    let two = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    match ip.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => Some(two(high, low)),
        _ => None,
    }
}

/// Returns whether any host on the Internet may have this address.
#[must_use]
pub fn is_public(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => !SPECIAL_V4.iter().any(|special| special.contains(&ip)),
        IpAddr::V6(ip) => match embedded(ip) {
            Some(inner) => is_public(inner.into()),
            None => {
                GLOBAL_V6.contains(&ip) && !SPECIAL_V6.iter().any(|special| special.contains(&ip))
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_addresses_are_told_from_public_ones_in_every_spelling() {
        for text in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.255",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.255.255",
            "198.19.0.1",
            "203.0.113.9",
            "224.0.0.1",
            "239.255.255.250",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::7f00:1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:0:127.0.0.1",
            "64:ff9b::10.0.0.1",
            "64:ff9b::169.254.169.254",
            "64:ff9b:1::8.8.8.8",
            "100::1",
            "2001::1",
            "2001:0:7f00:1::",
            "2001:db8::1",
            "2002:7f00:1::",
            "2002:a00:1::1",
            "3fff::1",
            "5f00::1",
            "fc00::1",
            "fd12:3456::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "4000::1",
        ] {
            assert!(!is_public(text.parse().expect(text)), "{text}");
        }
        for text in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.1",
            "169.253.255.255",
            "172.15.255.255",
            "172.32.0.0",
            "192.167.255.255",
            "223.255.255.255",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "2002:808:808::1",
            "2001:4860:4860::8888",
            "2606:4700::1111",
            "2a00:1450::1",
        ] {
            assert!(is_public(text.parse().expect(text)), "{text}");
        }
    }
}
