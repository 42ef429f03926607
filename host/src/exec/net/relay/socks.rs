//! The request of SOCKS 5 (RFC 1928), without authentication, only for connections.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use url::Host;

use super::ahead::BufferedStream;
use crate::exec::net::{NoAddress, NoConnection, PeerAddress, parse_host};

/// The first byte of SOCKS 5. No HTTP request begins with it.
pub(super) const VERSION: u8 = 5;

/// The method without authentication, and the answer that no method is acceptable.
const NO_AUTHENTICATION: u8 = 0;
const NO_METHOD: u8 = 0xff;

/// The request for a connection; the others are for listening and for datagrams.
const CONNECT: u8 = 1;

/// The answer after which the tunnel begins.
pub(super) const SUCCESS: [u8; 10] = reply(0);

/// The answer to a request that the rules of the relay do not allow.
pub(super) const NOT_ALLOWED: [u8; 10] = reply(2);

/// Returns an answer, with an address that no machine has.
const fn reply(code: u8) -> [u8; 10] {
    [VERSION, code, 0, 1, 0, 0, 0, 0, 0, 0]
}

/// Returns the answer to a request for a peer that was not connected to.
pub(super) fn refusal(error: &NoConnection) -> [u8; 10] {
    reply(match error {
        NoConnection::NotGranted
        | NoConnection::Name(NoAddress::NotGranted | NoAddress::NotPublic | NoAddress::TooMany) => {
            2
        }
        NoConnection::Name(NoAddress::Unresolved(_)) | NoConnection::TimedOut => 4,
        NoConnection::Failed(error) if error.kind() == io::ErrorKind::ConnectionRefused => 5,
        NoConnection::Failed(_) => 1,
    })
}

/// Reads the peer of a request, or returns the answer to a malformed request.
pub(super) async fn ask(
    client: &mut BufferedStream<TcpStream>,
) -> io::Result<Result<PeerAddress, Vec<u8>>> {
    let count = usize::from(client.at_least(2).await?[1]);
    client.at_least(2 + count).await?;
    let greeting = client.take(2 + count);
    if !greeting[2..].contains(&NO_AUTHENTICATION) {
        return Ok(Err(vec![VERSION, NO_METHOD]));
    }
    client.stream.write_all(&[VERSION, NO_AUTHENTICATION]).await?;
    let start = client.at_least(5).await?;
    let length = match (start[0], start[3]) {
        (VERSION, 1) => 4,
        (VERSION, 3) => 1 + usize::from(start[4]),
        (VERSION, 4) => 16,
        (VERSION, _) => return Ok(Err(reply(8).to_vec())),
        _ => return Ok(Err(reply(1).to_vec())),
    };
    client.at_least(4 + length + 2).await?;
    let request = client.take(4 + length + 2);
    if request[1] != CONNECT {
        return Ok(Err(reply(7).to_vec()));
    }
    Ok(peer(&request).ok_or_else(|| reply(1).to_vec()))
}

/// Returns the peer of a whole request. A name that spells an address counts as that address.
fn peer(request: &[u8]) -> Option<PeerAddress> {
    let (address, port) = request.get(4..)?.split_last_chunk::<2>()?;
    let host = match request[3] {
        1 => Host::Ipv4(Ipv4Addr::from(<[u8; 4]>::try_from(address).ok()?)),
        4 => Host::Ipv6(Ipv6Addr::from(<[u8; 16]>::try_from(address).ok()?)),
        _ => parse_host(std::str::from_utf8(address.get(1..)?).ok()?)?,
    };
    let port = u16::from_be_bytes(*port);
    (port != 0).then_some(PeerAddress { host, port })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_read_in_each_of_its_forms() {
        let read = |kind: u8, address: &[u8], port: u16| {
            let request = [&[VERSION, CONNECT, 0, kind], address, &port.to_be_bytes()].concat();
            peer(&request).map(|peer| peer.to_string())
        };
        assert_eq!(read(1, &[127, 0, 0, 1], 80).as_deref(), Some("127.0.0.1:80"));
        assert_eq!(read(4, &Ipv6Addr::LOCALHOST.octets(), 80).as_deref(), Some("[::1]:80"));
        assert_eq!(read(3, b"\x06A.test", 443).as_deref(), Some("a.test:443"));
        // A name in another spelling of an address is that address.
        assert_eq!(read(3, b"\x050x7f1", 80).as_deref(), Some("0.0.7.241:80"));
        assert_eq!(read(3, b"\x060x7f.1", 80).as_deref(), Some("127.0.0.1:80"));
        for (kind, address, port) in
            [(3, &b"\0"[..], 80), (3, b"\x03a b", 80), (3, b"\x02\xff\xff", 80), (1, &[1; 4], 0)]
        {
            assert_eq!(read(kind, address, port), None, "{address:?}");
        }
    }
}
