//! The part of HTTP/1.1 that the servers need: bodies with a length, and one request per
//! connection.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWrite};
use tokio::io::{AsyncWriteExt as _, BufReader};

/// A received request.
#[derive(Clone, Debug)]
pub struct Received {
    /// The method, in capitals.
    pub method: String,
    /// The path, with its query.
    pub path: String,
    /// The headers in their order, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// The headers, without those about the length and the connection.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Received {
    /// Returns the value of a header, by its name in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        find(&self.headers, name)
    }
}

impl Reply {
    /// Returns an answer with a body.
    #[must_use]
    pub fn new(status: u16, kind: &str, body: impl Into<Vec<u8>>) -> Self {
        let headers = vec![("content-type".to_owned(), kind.to_owned())];
        Self { status, headers, body: body.into() }
    }

    /// Returns the answer with another header.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Returns the head of an answer with a body of `length` bytes.
    pub(crate) fn head(&self, length: usize) -> Vec<u8> {
        let mut head = format!("HTTP/1.1 {} \r\ncontent-length: {length}\r\n", self.status);
        head.push_str("connection: close\r\n");
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        head.into_bytes()
    }

    /// Writes the answer. The answer to a `HEAD` request has no body.
    pub(crate) async fn write(
        &self,
        stream: &mut (impl AsyncWrite + Unpin),
        method: &str,
    ) -> io::Result<()> {
        stream.write_all(&self.head(self.body.len())).await?;
        if method != "HEAD" {
            stream.write_all(&self.body).await?;
        }
        stream.shutdown().await
    }
}

/// Reads a request. Returns `None` if the connection ended before it.
pub(crate) async fn request(
    reader: &mut (impl AsyncBufRead + Unpin),
) -> io::Result<Option<Received>> {
    // A TLS client begins differently, and waits for an answer.
    match reader.fill_buf().await?.first() {
        None => return Ok(None),
        Some(byte) if !byte.is_ascii_uppercase() => return Err(io::ErrorKind::InvalidData.into()),
        Some(_) => {}
    }
    let Some(first) = line(reader).await? else { return Ok(None) };
    let mut words = first.split(' ').map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let headers = headers(reader).await?;
    let mut body = Vec::new();
    if let Some(length) = find(&headers, "content-length") {
        body.resize(length.parse().map_err(|_| io::ErrorKind::InvalidData)?, 0);
        reader.read_exact(&mut body).await?;
    }
    Ok(Some(Received { method, path, headers, body }))
}

/// Reads an answer from a server that closes the connection after it.
pub(crate) async fn reply(
    reader: impl tokio::io::AsyncRead + Unpin,
    method: &str,
) -> io::Result<Reply> {
    let mut reader = BufReader::new(reader);
    let first = line(&mut reader).await?.ok_or(io::ErrorKind::UnexpectedEof)?;
    let status = first.split(' ').nth(1).and_then(|it| it.parse().ok());
    let status = status.ok_or(io::ErrorKind::InvalidData)?;
    let mut headers = headers(&mut reader).await?;
    let mut body = Vec::new();
    match find(&headers, "content-length").map(str::to_owned) {
        _ if method == "HEAD" => {}
        Some(length) => {
            body.resize(length.parse().map_err(|_| io::ErrorKind::InvalidData)?, 0);
            reader.read_exact(&mut body).await?;
        }
        None if find(&headers, "transfer-encoding").is_some() => body = chunks(&mut reader).await?,
        None => {
            reader.read_to_end(&mut body).await?;
        }
    }
    let own = ["content-length", "transfer-encoding", "connection"];
    headers.retain(|(name, _)| !own.contains(&name.as_str()));
    Ok(Reply { status, headers, body })
}

async fn chunks(reader: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let size = line(reader).await?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let size = u64::from_str_radix(&size, 16).map_err(|_| io::ErrorKind::InvalidData)?;
        (&mut *reader).take(size).read_to_end(&mut body).await?;
        line(reader).await?;
        if size == 0 {
            return Ok(body);
        }
    }
}

async fn headers(reader: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Vec<(String, String)>> {
    let mut headers = Vec::new();
    while let Some(header) = line(reader).await?.filter(|line| !line.is_empty()) {
        let (name, value) = header.split_once(':').ok_or(io::ErrorKind::InvalidData)?;
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    Ok(headers)
}

async fn line(reader: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<String>> {
    let mut line = String::new();
    if reader.read_line(&mut line).await? == 0 {
        return Ok(None);
    }
    Ok(Some(line.trim_end().to_owned()))
}

fn find<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}
