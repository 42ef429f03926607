//! The head of an HTTP request, read strictly: a head that two readers could understand differently
//! is malformed.

use std::collections::HashSet;
use std::io;

use http::Uri;
use http::uri::Scheme;
use tokio::io::AsyncRead;

use super::ahead::{BufferedStream, MOST};
use crate::exec::net::PeerAddress;

/// The end of a head.
const END: &[u8] = b"\r\n\r\n";

/// The fields that are only about this connection, or that the relay writes itself.
const OWN_FIELDS: [&str; 11] = [
    "connection",
    "content-length",
    "host",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// The head of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RequestHead {
    pub(super) method: String,
    pub(super) target: String,
    /// True for HTTP/1.1.
    is_current: bool,
    /// The names, in lower case, and the values.
    fields: Vec<(String, String)>,
}

/// The length of the body of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyLength {
    /// It has this many bytes.
    Bytes(u64),
    /// It comes in chunks.
    Chunks,
}

/// Reads a head, with its end. Returns nothing if it is too long or has no end.
pub(super) async fn read<S: AsyncRead + Unpin>(
    from: &mut BufferedStream<S>,
) -> io::Result<Option<Vec<u8>>> {
    let mut seen: usize = 0;
    loop {
        // Its end may have come in two pieces.
        let start = seen.saturating_sub(END.len() - 1);
        let found = from.bytes()[start..].windows(END.len()).position(|bytes| bytes == END);
        if let Some(at) = found {
            return Ok(Some(from.take(start + at + END.len())));
        }
        seen = from.bytes().len();
        if seen >= MOST || from.more().await? == 0 {
            return Ok(None);
        }
    }
}

impl RequestHead {
    /// Parses a head, with its end.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes.strip_suffix(END)?).ok()?;
        // A field must not continue on a second line, which would begin with a space.
        let mut lines = text.split("\r\n");
        let mut words = lines.next()?.split(' ');
        let (method, target, version) = (words.next()?, words.next()?, words.next()?);
        let is_target = !target.is_empty() && target.bytes().all(|byte| byte.is_ascii_graphic());
        if words.next().is_some() || !is_token(method) || !is_target {
            return None;
        }
        let is_current = match version {
            "HTTP/1.1" => true,
            "HTTP/1.0" => false,
            _ => return None,
        };
        let field = |line: &str| {
            let (name, value) = line.split_once(':')?;
            let value = value.trim_matches([' ', '\t']);
            let is_value = value.chars().all(|it| it == '\t' || !it.is_control());
            (is_token(name) && is_value).then(|| (name.to_ascii_lowercase(), value.to_owned()))
        };
        let fields = lines.map(field).collect::<Option<Vec<_>>>()?;
        Some(Self { method: method.to_owned(), target: target.to_owned(), is_current, fields })
    }

    fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.fields.iter().filter(move |(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// Returns the length of the body, or nothing if it is ambiguous.
    pub(super) fn body(&self) -> Option<BodyLength> {
        let encodings: Vec<&str> = self.values("transfer-encoding").collect();
        let lengths: Vec<&str> = self.values("content-length").collect();
        match (encodings.as_slice(), lengths.as_slice()) {
            ([], []) => Some(BodyLength::Bytes(0)),
            ([], [length]) => {
                let is_number = !length.is_empty() && length.bytes().all(|it| it.is_ascii_digit());
                length.parse().ok().filter(|_| is_number).map(BodyLength::Bytes)
            }
            ([encoding], []) => {
                let is_chunked = self.is_current && encoding.eq_ignore_ascii_case("chunked");
                is_chunked.then_some(BodyLength::Chunks)
            }
            _ => None,
        }
    }

    fn uri(&self) -> Option<Uri> {
        self.target.parse::<Uri>().ok().filter(|uri| uri.scheme() == Some(&Scheme::HTTP))
    }

    /// Returns the peer of a request for a proxy. Its address counts, and `Host` does not.
    pub(super) fn peer(&self) -> Option<PeerAddress> {
        PeerAddress::of_authority(self.uri()?.authority()?, Some(80))
    }

    /// Returns the head as the peer gets it: with only the path, the peer as `Host`, and the end of
    /// the connection after one answer.
    pub(super) fn for_peer(&self, peer: &PeerAddress) -> Option<String> {
        let uri = self.uri()?;
        let path = uri.path_and_query().map_or("", |path| path.as_str());
        // An empty path before a query means the root's path, RFC 9112, section 3.2.1.
        let root = if path.starts_with('/') { "" } else { "/" };
        let host = match peer.port {
            80 => peer.host.to_string(),
            _ => peer.to_string(),
        };
        let mut head = format!("{} {root}{path} HTTP/1.1\r\nHost: {host}\r\n", self.method);
        let named: HashSet<String> = self
            .values("connection")
            .flat_map(|value| value.split(','))
            .map(|name| name.trim().to_ascii_lowercase())
            .collect();
        for (name, value) in &self.fields {
            if !OWN_FIELDS.contains(&name.as_str()) && !named.contains(name) {
                head += &format!("{name}: {value}\r\n");
            }
        }
        match self.body()? {
            // A request without a length has no body.
            BodyLength::Bytes(0) if self.values("content-length").next().is_none() => {}
            BodyLength::Bytes(length) => head += &format!("content-length: {length}\r\n"),
            BodyLength::Chunks => head += "transfer-encoding: chunked\r\n",
        }
        Some(head + "connection: close\r\n\r\n")
    }
}

fn is_token(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<RequestHead> {
        RequestHead::parse(text.as_bytes())
    }

    #[test]
    fn the_peer_of_a_request_is_that_of_its_address_and_gets_no_other_host() {
        let head = parse(
            "POST http://a.test:8080/x?y HTTP/1.1\r\nHost: b.test\r\nHOST: c.test\r\nA: b\r\n\
             Proxy-Authorization: secret\r\nConnection: X-Mine, close\r\nX-mine: 1\r\n\
             Content-Length: 3\r\n\r\n",
        )
        .expect("parses");
        let peer = head.peer().expect("a peer");
        assert_eq!(peer.to_string(), "a.test:8080");
        assert_eq!(
            head.for_peer(&peer).expect("a head"),
            "POST /x?y HTTP/1.1\r\nHost: a.test:8080\r\na: b\r\ncontent-length: 3\r\n\
             connection: close\r\n\r\n"
        );
    }

    #[test]
    fn the_path_of_a_request_begins_with_a_slash() {
        for (target, expected) in [
            ("http://good.test?@x/", "/?@x/"),
            ("http://good.test?", "/?"),
            ("http://good.test", "/"),
            ("http://good.test/a?b", "/a?b"),
        ] {
            let head = parse(&format!("GET {target} HTTP/1.1\r\n\r\n")).expect("parses");
            let peer = head.peer().expect("a peer");
            let sent = head.for_peer(&peer).expect("a head");
            let line = format!("GET {expected} HTTP/1.1\r\nHost: good.test\r\n");
            assert!(sent.starts_with(&line), "{target}: {sent}");
        }
    }

    #[test]
    fn a_head_that_could_be_read_in_two_ways_is_malformed() {
        for text in [
            "GET http://a.test/ HTTP/1.1\r\nA : b\r\n\r\n",
            "GET http://a.test/ HTTP/1.1\r\nA: b\r\n c: d\r\n\r\n",
            "GET http://a.test/ HTTP/1.1\r\nA: b\nHost: c\r\n\r\n",
            "GET http://a.test/ HTTP/1.1\r\nA: b\rHost: c\r\n\r\n",
            "GET http://a.test/ HTTP/1.1\r\nA: \0\r\n\r\n",
            "GET http://a.test/ HTTP/1.1\r\nno colon\r\n\r\n",
            "GET  http://a.test/ HTTP/1.1\r\n\r\n",
            "GET http://a.test/ x HTTP/1.1\r\n\r\n",
            "GET http://a.test/ HTTP/2.0\r\n\r\n",
            "GET http://a.test/\r\n\r\n",
            "\r\n\r\n",
        ] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_body_has_one_length() {
        let body = |fields: &str| {
            parse(&format!("POST http://a.test/ HTTP/1.1\r\n{fields}\r\n")).expect("parses").body()
        };
        assert_eq!(body(""), Some(BodyLength::Bytes(0)));
        assert_eq!(body("Content-Length: 12\r\n"), Some(BodyLength::Bytes(12)));
        assert_eq!(body("Transfer-Encoding: Chunked\r\n"), Some(BodyLength::Chunks));
        for fields in [
            "Content-Length: 1\r\nContent-Length: 1\r\n",
            "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
            "Transfer-Encoding: gzip, chunked\r\n",
            "Transfer-Encoding: xchunked\r\n",
            "Content-Length: +1\r\n",
            "Content-Length: 1, 1\r\n",
            "Content-Length: 0x1\r\n",
            "Content-Length: 99999999999999999999999\r\n",
            "Content-Length:\r\n",
        ] {
            assert_eq!(body(fields), None, "{fields:?}");
        }
        let old = parse("POST http://a.test/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n");
        assert_eq!(old.expect("parses").body(), None);
    }

    #[test]
    fn what_is_no_request_for_a_proxy_has_no_peer() {
        for target in [
            "/",
            "*",
            "a.test:80",
            "https://a.test/",
            "ftp://a.test/",
            "http://user@a.test/",
            "http://a.test:80@b.test/",
            "http://a.test:0/",
            "http://a.test:99999/",
            "http://a.test:+80/",
            "http://a.test:/",
            "http:///",
        ] {
            let head = parse(&format!("GET {target} HTTP/1.1\r\n\r\n"));
            assert_eq!(head.and_then(|head| head.peer()), None, "{target}");
        }
    }
}
