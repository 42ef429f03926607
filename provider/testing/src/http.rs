//! The part of HTTP/1.1 that the servers need: requests with a length, and responses with a length
//! or in chunks.

use serde_json::Value;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _};

use std::io;

/// A request that was received.
#[derive(Clone, Debug)]
pub struct Received {
    /// The method, in capitals.
    pub method: String,
    /// The path, with its query.
    pub path: String,
    /// The headers in their order; names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body as JSON; null if it is not JSON.
    pub body: Value,
}

impl Received {
    /// Returns the value of a header, by its name in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// Reads a request, or nothing if the connection ended before it.
pub(crate) async fn read(reader: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<Received>> {
    let Some(first) = line(reader).await? else { return Ok(None) };
    let mut words = first.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut request = Received {
        method: method.to_owned(),
        path: path.to_owned(),
        headers: Vec::new(),
        body: Value::Null,
    };
    while let Some(header) = line(reader).await?.filter(|line| !line.is_empty()) {
        let (name, value) = header.split_once(':').ok_or(io::ErrorKind::InvalidData)?;
        request.headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = request.header("content-length").map_or(Ok(0), str::parse::<usize>);
    let mut body = vec![0; length.map_err(|_| io::ErrorKind::InvalidData)?];
    reader.read_exact(&mut body).await?;
    request.body = serde_json::from_slice(&body).unwrap_or_default();
    Ok(Some(request))
}

async fn line(reader: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<String>> {
    let mut line = String::new();
    if reader.read_line(&mut line).await? == 0 {
        return Ok(None);
    }
    Ok(Some(line.trim_end().to_owned()))
}

/// The end of a body.
pub(crate) enum Body {
    Length(usize),
    Chunked,
}

/// Returns the head of a response.
pub(crate) fn head(
    status: u16,
    content_type: &str,
    body: &Body,
    headers: &[(String, String)],
) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {status} \r\ncontent-type: {content_type}\r\n");
    match body {
        Body::Length(length) => head.push_str(&format!("content-length: {length}\r\n")),
        Body::Chunked => head.push_str("transfer-encoding: chunked\r\n"),
    }
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    head.into_bytes()
}

/// Returns a chunk of a body; an empty one ends it.
pub(crate) fn chunk(bytes: &[u8]) -> Vec<u8> {
    let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
    chunk.extend_from_slice(bytes);
    chunk.extend_from_slice(b"\r\n");
    chunk
}
