//! A tunnel: the bytes of a connection, in both directions, until both have ended or nothing comes
//! any more.
//!
//! TLS is not decrypted. If the first bytes of a tunnel to a name are TLS, they must be for the
//! server of that name. Many servers share one address, and only one of them was granted.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use url::Host;

use super::ahead::{BufferedStream, MOST};
use super::hello::{self, CLIENT_HELLO, FirstBytes, HANDSHAKE, MAJOR, RECORD};
use super::traffic::Metered;
use super::{HEAD_TIME, IDLE, NetworkGate, PeerAddress};

/// The number of bytes by which a record may exceed the longest text (RFC 5246).
const EXPANSION: usize = 2_048;

/// The position of the version in a first message of TLS, behind its type and its length (RFC 8446).
const VERSION: usize = 4;

/// The size of a read, in bytes.
const CHUNK: usize = 16 << 10;

/// Passes bytes on until both sides have ended, or have been quiet for [`IDLE`].
pub(super) async fn run(
    client: BufferedStream<TcpStream>,
    server: Metered<TcpStream>,
    peer: &PeerAddress,
    reach: &NetworkGate,
) -> io::Result<()> {
    pass(client, server, (peer, reach), &Pulse::default()).await
}

async fn pass(
    mut client: BufferedStream<TcpStream>,
    mut server: Metered<TcpStream>,
    (peer, reach): (&PeerAddress, &NetworkGate),
    pulse: &Pulse,
) -> io::Result<()> {
    let taken = client.take(usize::MAX);
    let (reader, mut to_client) = client.stream.split();
    let mut reader = BufferedStream::with(reader, taken);
    let (mut from_server, mut to_server) = server.split();
    let up = async {
        // Servers of some protocols speak first.
        pulse.within(reader.at_least(1)).await.or_else(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => Ok(&[][..]),
            _ => Err(error),
        })?;
        let mut hello = timeout(HEAD_TIME, judge(&mut reader, peer, reach)).await??;
        while let Some(length) = hello {
            pulse.within(to_server.write_all(&reader.take(length))).await?;
            hello = next_hello(&mut reader, &mut to_server, (peer, reach), pulse).await?;
        }
        pulse.within(to_server.write_all(&reader.take(usize::MAX))).await?;
        copy(&mut reader.stream, &mut to_server, pulse).await
    };
    let down = copy(&mut from_server, &mut to_client, pulse);
    tokio::try_join!(up, down).map(drop)
}

/// Passes TLS records on until the handshake continues. A server may ask for the first message once
/// more (HelloRetryRequest), and uses the name in the second one. Checks such a message, and
/// returns its length. Returns nothing once the handshake or the stream has continued without it.
async fn next_hello(
    client: &mut BufferedStream<impl AsyncRead + Unpin>,
    server: &mut (impl AsyncWrite + Unpin),
    (peer, reach): (&PeerAddress, &NetworkGate),
    pulse: &Pulse,
) -> io::Result<Option<usize>> {
    loop {
        // A message that is cut after its first byte counts as well.
        let Some(head) = ahead(client, 6, pulse).await? else { return Ok(None) };
        let [kind, major, _, high, low, first] = head[..6] else { return Ok(None) };
        let length = usize::from(u16::from_be_bytes([high, low]));
        if major != MAJOR || length == 0 || length > RECORD + EXPANSION {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "no record of TLS"));
        }
        if kind == HANDSHAKE && first == CLIENT_HELLO {
            // The version stands behind the length. One encrypted message in 65,536 looks the same.
            let version = match length {
                ..=VERSION => Some(MAJOR),
                _ => ahead(client, 6 + VERSION, pulse).await?.map(|bytes| bytes[5 + VERSION]),
            };
            return match version {
                Some(MAJOR) => timeout(HEAD_TIME, judge(client, peer, reach)).await?,
                _ => Ok(None),
            };
        }
        if kind == HANDSHAKE {
            return Ok(None);
        }
        let record = 5 + length;
        if ahead(client, record, pulse).await?.is_none() {
            return Ok(None);
        }
        pulse.within(server.write_all(&client.take(record))).await?;
    }
}

/// Reads `count` bytes ahead. Returns nothing if the stream ends before.
async fn ahead<'a>(
    client: &'a mut BufferedStream<impl AsyncRead + Unpin>,
    count: usize,
    pulse: &Pulse,
) -> io::Result<Option<&'a [u8]>> {
    match pulse.within(client.at_least(count)).await {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

/// Refuses a first TLS message for a server to which this tunnel does not lead. Returns the length
/// of its records, or nothing for other bytes.
async fn judge(
    client: &mut BufferedStream<impl AsyncRead + Unpin>,
    peer: &PeerAddress,
    reach: &NetworkGate,
) -> io::Result<Option<usize>> {
    let refused = |what: String| {
        reach.deny(what);
        Err(io::Error::new(io::ErrorKind::PermissionDenied, "the tunnel is for another server"))
    };
    let seen = loop {
        match hello::look(client.bytes()) {
            // A stream that has ended sends no such message.
            FirstBytes::Less(1) => return Ok(None),
            FirstBytes::Less(needed) if needed > MOST => break FirstBytes::Malformed,
            FirstBytes::Less(needed) => match client.at_least(needed).await {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    let is_tls = client.bytes().first() == Some(&HANDSHAKE);
                    break if is_tls { FirstBytes::Malformed } else { FirstBytes::Other };
                }
                Err(error) => return Err(error),
            },
            seen => break seen,
        }
    };
    match (&peer.host, seen) {
        (_, FirstBytes::Other) => Ok(None),
        (Host::Domain(name), FirstBytes::Hello(Some(server), length)) if *name == server => {
            Ok(Some(length))
        }
        (Host::Domain(_), FirstBytes::Hello(None, _) | FirstBytes::Old) => {
            refused(format!("{peer} (TLS without the name of a server)"))
        }
        (Host::Domain(name), FirstBytes::Hello(Some(server), _)) => {
            refused(format!("{server}:{} (TLS in a tunnel to {name})", peer.port))
        }
        (_, FirstBytes::Hello(None, length)) => Ok(Some(length)),
        // A message in the form of SSL 2 has no second one.
        (_, FirstBytes::Old) => Ok(None),
        (address, FirstBytes::Hello(Some(server), length)) => {
            if server == address.to_string() || reach.names(&server, peer.port) {
                return Ok(Some(length));
            }
            refused(format!("{server}:{} (TLS in a tunnel to {address})", peer.port))
        }
        (_, FirstBytes::Malformed | FirstBytes::Less(_)) => {
            refused(format!("{peer} (malformed TLS)"))
        }
    }
}

/// Copies one direction. When it ends, the other side reads the end of the stream, too.
async fn copy(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    pulse: &Pulse,
) -> io::Result<()> {
    let mut bytes = vec![0; CHUNK];
    loop {
        let length = pulse.within(from.read(&mut bytes)).await?;
        if length == 0 {
            return to.shutdown().await;
        }
        pulse.within(to.write_all(&bytes[..length])).await?;
    }
}

/// The last sign of life of a connection, in either direction.
pub(super) struct Pulse {
    last: Mutex<Instant>,
    /// The time without such a sign after which the connection ends.
    idle: Duration,
}

impl Default for Pulse {
    fn default() -> Self {
        Self { last: Mutex::new(Instant::now()), idle: IDLE }
    }
}

impl Pulse {
    /// Waits for an operation of one direction, unless both have been quiet for too long.
    pub(super) async fn within<T>(
        &self,
        operation: impl Future<Output = io::Result<T>>,
    ) -> io::Result<T> {
        let mut operation = pin!(operation);
        loop {
            let quiet = self.last.lock().elapsed();
            let Some(left) = self.idle.checked_sub(quiet).filter(|left| !left.is_zero()) else {
                return Err(io::ErrorKind::TimedOut.into());
            };
            if let Ok(done) = timeout(left, &mut operation).await {
                *self.last.lock() = Instant::now();
                return done;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::io::duplex;
    use tokio::net::TcpListener;
    use tokio::sync::oneshot;
    use tokio::time::sleep;

    use super::*;
    use crate::exec::net::SharedNetwork;
    use crate::exec::net::relay::traffic::Traffic;
    use crate::policy::{Grant, Net};

    /// Returns a first message for this server, in one record.
    fn hello(name: &str) -> Vec<u8> {
        let name = name.as_bytes();
        let number = |length: usize| u16::try_from(length).expect("short").to_be_bytes();
        let names = [&[0][..], &number(name.len()), name].concat();
        let list = [&number(names.len())[..], &names].concat();
        let extension = [&[0, 0][..], &number(list.len()), &list].concat();
        let body = [&[3; 34][..], &[0, 0, 2, 0x13, 1, 1, 0], &number(extension.len()), &extension];
        let body = body.concat();
        let message = [&[CLIENT_HELLO, 0][..], &number(body.len()), &body].concat();
        record(HANDSHAKE, &message)
    }

    fn record(kind: u8, content: &[u8]) -> Vec<u8> {
        let length = u16::try_from(content.len()).expect("short").to_be_bytes();
        [&[kind, MAJOR, 3][..], &length, content].concat()
    }

    /// Returns a peer, and the network access of a call that is granted the peer.
    fn granted() -> (PeerAddress, NetworkGate) {
        let peer = PeerAddress { host: Host::Domain("granted.test".to_owned()), port: 443 };
        let net = Net::parse(["granted.test:443"]).expect("a list");
        let grant = Arc::new(Grant { net, ..Grant::default() });
        (peer, NetworkGate::new(grant, Arc::new(SharedNetwork::default()), None))
    }

    /// Passes on these bytes after a first message. Returns whether all of them were passed on.
    async fn passes(bytes: &[u8]) -> bool {
        let (peer, reach) = granted();
        let (mut to_server, mut server) = duplex(1 << 20);
        let mut client = BufferedStream::with(tokio::io::empty(), bytes.to_vec());
        let pulse = Pulse::default();
        let mut hello = Some(0);
        while let Some(length) = hello {
            to_server.write_all(&client.take(length)).await.expect("written");
            match next_hello(&mut client, &mut to_server, (&peer, &reach), &pulse).await {
                Ok(next) => hello = next,
                Err(_) => return false,
            }
        }
        to_server.write_all(&client.take(usize::MAX)).await.expect("written");
        drop(to_server);
        let mut passed = Vec::new();
        server.read_to_end(&mut passed).await.expect("read");
        assert_eq!(passed, bytes);
        true
    }

    #[tokio::test]
    async fn a_first_message_that_is_asked_for_again_is_judged_again() {
        let (granted, other) = (hello("granted.test"), hello("other.test"));
        let change = record(20, &[1]);
        let early = record(23, &[7; 100]);
        assert!(passes(&granted).await);
        assert!(passes(&[&change[..], &granted, &early].concat()).await);
        for before in [&b""[..], &change, &early, &[&early[..], &change].concat()] {
            assert!(!passes(&[before, &other].concat()).await, "{before:?}");
        }
        // Some servers take a message of more than 64 KiB.
        let long =
            record(HANDSHAKE, &[&[CLIENT_HELLO, 1, 0x11, 0x70, 3, 3][..], &[0; 16_000]].concat());
        assert!(!passes(&long).await);
        assert!(!passes(&[&change[..], &long].concat()).await);
        // In pieces as well.
        let pieces: Vec<u8> =
            other[5..].chunks(9).flat_map(|piece| record(HANDSHAKE, piece)).collect();
        assert!(!passes(&pieces).await);
        let cut: Vec<u8> =
            [record(HANDSHAKE, &other[5..6]), record(HANDSHAKE, &other[6..])].concat();
        assert!(!passes(&cut).await);
    }

    #[tokio::test]
    async fn a_handshake_that_goes_on_is_passed_as_it_is() {
        let exchange = record(HANDSHAKE, &[16, 0, 0, 1, 7]);
        let encrypted = record(HANDSHAKE, &[1, 0x80, 1, 2, 9, 4]);
        for bytes in [
            [&exchange[..], b"anything"].concat(),
            [&record(20, &[1])[..], &encrypted].concat(),
            record(23, &[1; 1_000]),
            record(23, &[1; 1_000])[..500].to_vec(),
            Vec::new(),
        ] {
            assert!(passes(&bytes).await, "{bytes:?}");
        }
        assert!(!passes(b"\x17\x02\x00\x00\x01\x00").await, "no record");
    }

    /// The idle limit of these tests. Nothing has to happen within it.
    const SHORT: Duration = Duration::from_millis(50);

    /// The time of a test that waits in vain.
    const IN_VAIN: Duration = Duration::from_secs(60);

    /// Returns both ends of a connection.
    async fn connection() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let address = listener.local_addr().expect("an address");
        let (near, far) = tokio::join!(TcpStream::connect(address), listener.accept());
        (near.expect("connected"), far.expect("accepted").0)
    }

    #[tokio::test]
    async fn a_tunnel_that_is_quiet_for_too_long_is_closed_on_both_sides() {
        let (peer, reach) = granted();
        for sent in [&b""[..], b"SSH-2.0-x"] {
            let (mut program, client) = connection().await;
            let (server, mut service) = connection().await;
            program.write_all(sent).await.expect("sent");
            let begun = Instant::now();
            let pulse = Pulse { idle: SHORT, ..Pulse::default() };
            let server = Metered::new(server, Traffic::with_limit(1_000));
            let passing = pass(BufferedStream::new(client), server, (&peer, &reach), &pulse);
            let passed = timeout(IN_VAIN, passing).await.expect("an end");
            assert_eq!(passed.expect_err("it is quiet").kind(), io::ErrorKind::TimedOut);
            assert!(begun.elapsed() >= SHORT, "{:?}", begun.elapsed());
            let mut heard = Vec::new();
            service.read_to_end(&mut heard).await.expect("closed");
            // A machine that stood still for so long has passed nothing on.
            assert!(sent.starts_with(&heard), "{heard:?}");
            // If it has unread bytes, the connection is reset.
            assert_eq!(program.read(&mut [0; 1]).await.unwrap_or(0), 0);
        }
    }

    #[tokio::test]
    async fn a_tunnel_ends_on_both_sides_once_the_bytes_of_the_call_are_used_up() {
        let (peer, reach) = granted();
        let traffic = Traffic::with_limit(3 * CHUNK as u64);
        let (mut program, client) = connection().await;
        let (server, mut service) = connection().await;
        let server = Metered::new(server, Arc::clone(&traffic));
        let passing = run(BufferedStream::new(client), server, &peer, &reach);
        // The program sends nothing, and the peer without end.
        let sending = async { while service.write_all(&[7; CHUNK]).await.is_ok() {} };
        let reading = async {
            let mut heard = 0;
            while let Ok(length @ 1..) = program.read(&mut [0; CHUNK]).await {
                heard += length;
            }
            heard
        };
        let all = async { tokio::join!(passing, sending, reading) };
        let (passed, (), heard) = timeout(IN_VAIN, all).await.expect("an end");
        assert_eq!(passed.expect_err("ended").kind(), io::ErrorKind::QuotaExceeded);
        assert!(traffic.is_spent() && (1..=4 * CHUNK).contains(&heard), "{heard}");
    }

    #[tokio::test]
    async fn a_byte_in_one_direction_keeps_the_other_open() {
        let pulse = Pulse { idle: SHORT, ..Pulse::default() };
        // Acts as the other direction, as if it had a byte again and again.
        let later = Instant::now() + 2 * IN_VAIN;
        *pulse.last.lock() = later;
        let (sender, receiver) = oneshot::channel();
        let waiting = pulse.within(async { receiver.await.map_err(io::Error::other) });
        let sending = async {
            sleep(4 * SHORT).await;
            sender.send(()).expect("it waits");
        };
        let (received, ()) = tokio::join!(waiting, sending);
        received.expect("it was not ended");
        assert!(*pulse.last.lock() < later, "a byte is a sign of life");
    }

    #[test]
    fn a_tunnel_may_be_quiet_for_five_minutes() {
        assert_eq!(Pulse::default().idle, Duration::from_secs(300));
    }
}
