//! One HTTP request that was sent to a proxy, and its answer. The connection ends after the answer,
//! so no later request reaches a peer that was not checked.

use std::io;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::ahead::BufferedStream;
use super::head::{self, BodyLength, RequestHead};
use super::traffic::Metered;
use super::tunnel::Pulse;
use super::{PeerAddress, answer};

/// The longest line with the length of a chunk, in bytes.
const CHUNK_LINE: usize = 4 << 10;

/// The fields of an answer that are only about the connection to the peer.
const OF_CONNECTION: [&str; 5] =
    ["connection", "keep-alive", "proxy-authenticate", "proxy-connection", "upgrade"];

/// Sends the request, and passes the answer on until the peer closes.
pub(super) async fn run(
    mut client: BufferedStream<TcpStream>,
    mut server: Metered<TcpStream>,
    peer: &PeerAddress,
    head: &RequestHead,
) -> io::Result<()> {
    let (Some(own), Some(body)) = (head.for_peer(peer), head.body()) else {
        return Err(malformed("the request has no address"));
    };
    let pulse = Pulse::default();
    let taken = client.take(usize::MAX);
    let (reader, mut writer) = client.stream.split();
    let mut reader = BufferedStream::with(reader, taken);
    let (from_peer, mut to_peer) = server.split();
    let mut from_peer = BufferedStream::new(from_peer);
    let asking = async {
        let sent = async {
            pulse.within(to_peer.write_all(own.as_bytes())).await?;
            pass_body(&mut reader, &mut to_peer, body, &pulse).await
        };
        match sent.await {
            Err(error) if is_final(&error) => error,
            // A peer that takes no more of the request may still answer.
            _ => std::future::pending().await,
        }
    };
    tokio::select! {
        answered = pass_answer(&mut from_peer, &mut writer, &pulse) => answered,
        error = asking => Err(error),
    }
}

/// Returns whether waiting for an answer is useless after a request failed with this error.
fn is_final(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::QuotaExceeded)
}

/// Passes a body on, with the relay's own framing.
async fn pass_body(
    from: &mut BufferedStream<impl AsyncRead + Unpin>,
    to: &mut (impl AsyncWrite + Unpin),
    body: BodyLength,
    pulse: &Pulse,
) -> io::Result<()> {
    if let BodyLength::Bytes(length) = body {
        return pass(from, to, length, pulse).await;
    }
    loop {
        let line = pulse.within(from.line(CHUNK_LINE)).await?;
        let length = chunk_length(&line).ok_or_else(|| malformed("a chunk has no length"))?;
        pulse.within(to.write_all(format!("{length:x}\r\n").as_bytes())).await?;
        if length == 0 {
            // Everything after the last chunk is dropped.
            while !pulse.within(from.line(CHUNK_LINE)).await?.is_empty() {}
            return pulse.within(to.write_all(b"\r\n")).await;
        }
        pass(from, to, length, pulse).await?;
        if !pulse.within(from.line(2)).await?.is_empty() {
            return Err(malformed("a chunk is longer than it says"));
        }
        pulse.within(to.write_all(b"\r\n")).await?;
    }
}

/// Reads the length of a chunk. Extensions after it are dropped.
fn chunk_length(line: &[u8]) -> Option<u64> {
    let digits = line.split(|byte| matches!(byte, b';' | b' ' | b'\t')).next()?;
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit);
    let digits = std::str::from_utf8(digits).ok().filter(|_| is_number)?;
    u64::from_str_radix(digits, 16).ok()
}

async fn pass(
    from: &mut BufferedStream<impl AsyncRead + Unpin>,
    to: &mut (impl AsyncWrite + Unpin),
    length: u64,
    pulse: &Pulse,
) -> io::Result<()> {
    let mut left = length;
    while left > 0 {
        let bytes = pulse.within(from.some(left)).await?;
        if bytes.is_empty() {
            return Err(malformed("a body is shorter than it says"));
        }
        pulse.within(to.write_all(&bytes)).await?;
        left -= bytes.len() as u64;
    }
    Ok(())
}

/// Passes the answer on. Its head says that the connection ends, even if the peer says otherwise.
async fn pass_answer(
    from: &mut BufferedStream<impl AsyncRead + Unpin>,
    to: &mut (impl AsyncWrite + Unpin),
    pulse: &Pulse,
) -> io::Result<()> {
    loop {
        let Some(head) = pulse.within(head::read(from)).await? else {
            let why = answer("502 Bad Gateway", "the peer answered with no head of HTTP");
            return pulse.within(to.write_all(&why)).await;
        };
        let is_interim = is_interim(&head);
        let head = if is_interim { head } else { closing(&head) };
        pulse.within(to.write_all(&head)).await?;
        if !is_interim {
            break;
        }
    }
    loop {
        let bytes = pulse.within(from.some(u64::MAX)).await?;
        if bytes.is_empty() {
            return to.shutdown().await;
        }
        pulse.within(to.write_all(&bytes)).await?;
    }
}

/// Returns whether another head follows, as after `100 Continue`.
fn is_interim(head: &[u8]) -> bool {
    let status = head.split(|byte| *byte == b' ').nth(1);
    status.is_some_and(|it| it.starts_with(b"1") && !it.starts_with(b"101"))
}

/// Returns the head of an answer, with the end of the connection announced in it.
fn closing(head: &[u8]) -> Vec<u8> {
    let mut own = Vec::with_capacity(head.len() + 32);
    let mut is_dropped = false;
    for line in head.strip_suffix(b"\r\n").unwrap_or(head).split_inclusive(|byte| *byte == b'\n') {
        let goes_on = line.starts_with(b" ") || line.starts_with(b"\t");
        if !goes_on {
            let name = line.split(|byte| *byte == b':').next().unwrap_or(line);
            let name = String::from_utf8_lossy(name).trim().to_ascii_lowercase();
            is_dropped = OF_CONNECTION.contains(&name.as_str());
        }
        if !is_dropped {
            own.extend_from_slice(line);
        }
    }
    own.extend_from_slice(b"Connection: close\r\n\r\n");
    own
}

fn malformed(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn passed(chunks: &[u8]) -> io::Result<Vec<u8>> {
        let (mut from, mut to) = (BufferedStream::new(chunks), Vec::new());
        pass_body(&mut from, &mut to, BodyLength::Chunks, &Pulse::default()).await?;
        Ok(to)
    }

    #[tokio::test]
    async fn chunks_are_framed_anew_and_what_follows_them_is_left() {
        let sent = b"3;x=y\r\nabc\r\n0A\r\n0123456789\r\n0\r\nHost: b.test\r\n\r\nGET /";
        let passed = passed(sent).await.expect("passed");
        assert_eq!(passed, b"3\r\nabc\r\na\r\n0123456789\r\n0\r\n\r\n");
    }

    #[tokio::test]
    async fn chunks_that_could_be_read_in_two_ways_are_malformed() {
        for sent in [
            &b"3\nabc\r\n0\r\n\r\n"[..],
            b"3\r\nabcd\r\n0\r\n\r\n",
            b"0x3\r\nabc\r\n0\r\n\r\n",
            b"-1\r\n\r\n",
            b"\r\nabc\r\n",
            b"10000000000000000\r\nabc",
            b"3\r\nab",
            b"3 \r\r\nabc\r\n0\r\n\r\n",
        ] {
            let error = passed(sent).await.expect_err("malformed");
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{sent:?}");
        }
    }

    #[test]
    fn an_answer_says_that_the_connection_ends() {
        let head = b"HTTP/1.1 200 OK\r\nConnection: keep-alive,\r\n x\r\nA: b\r\n\r\n";
        let own = closing(head);
        assert_eq!(own, b"HTTP/1.1 200 OK\r\nA: b\r\nConnection: close\r\n\r\n");
        assert!(is_interim(b"HTTP/1.1 100 Continue\r\n\r\n"));
        assert!(!is_interim(b"HTTP/1.1 101 Switching Protocols\r\n\r\n") && !is_interim(head));
    }
}
