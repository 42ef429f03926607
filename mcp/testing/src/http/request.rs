//! The part of HTTP/1.1 that the peer needs: requests and responses with a length, and event
//! streams in chunks.

use std::io::{self, BufRead, Write};

use serde_json::Value;

/// The largest body that is read, in bytes.
const LARGEST: usize = 32 << 20;

/// A request.
pub(crate) struct Request {
    pub(crate) method: String,
    /// The path with its query.
    pub(crate) target: String,
    /// The headers, with names in lower case.
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Request {
    /// Reads a request. Returns `None` if the connection ended before it.
    pub(crate) fn read(reader: &mut impl BufRead) -> io::Result<Option<Self>> {
        let Some(first) = line(reader)? else { return Ok(None) };
        let mut words = first.split(' ').map(str::to_owned);
        let (method, target) = (words.next(), words.next());
        let (Some(method), Some(target)) = (method, target) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let mut headers = Vec::new();
        while let Some(header) = line(reader)?.filter(|line| !line.is_empty()) {
            let (name, value) = header.split_once(':').ok_or(io::ErrorKind::InvalidData)?;
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut request = Self { method, target, headers, body: String::new() };
        let length = request.header("content-length").map_or(Ok(0), str::parse::<usize>);
        let length = length.ok().filter(|length| *length <= LARGEST);
        let mut body = vec![0; length.ok_or(io::ErrorKind::InvalidData)?];
        reader.read_exact(&mut body)?;
        request.body = String::from_utf8(body).map_err(|_| io::ErrorKind::InvalidData)?;
        Ok(Some(request))
    }

    /// Returns a header by its name in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the path without its query.
    pub(crate) fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// Returns the body as JSON, or null if it is not JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    /// Returns a parameter of the query.
    pub(crate) fn query(&self, name: &str) -> Option<String> {
        parameter(self.target.split_once('?')?.1, name)
    }

    /// Returns a field of a form in the body.
    pub(crate) fn field(&self, name: &str) -> Option<String> {
        parameter(&self.body, name)
    }
}

fn line(reader: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    Ok(Some(line.trim_end().to_owned()))
}

fn parameter(text: &str, name: &str) -> Option<String> {
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.into_iter().find(|(known, _)| *known == name)?;
    decoded(value)
}

/// Decodes percent-encoding. Returns `None` if it is malformed.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::new();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits = [bytes.next()?, bytes.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(decoded).ok()
}

/// Returns a text with percent-encoding.
pub(crate) fn encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        other => format!("%{other:02X}"),
    };
    text.bytes().map(encode).collect()
}

/// A response.
#[derive(Debug)]
pub(crate) struct Response {
    status: u16,
    headers: Vec<(String, String)>,
    body: String,
}

impl Response {
    /// Returns a response without a body.
    pub(crate) fn empty(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: String::new() }
    }

    /// Returns a response with JSON.
    pub(crate) fn json(status: u16, body: &Value) -> Self {
        Self::empty(status).with_json(status, body)
    }

    /// Returns the response with a status and JSON.
    pub(crate) fn with_json(mut self, status: u16, body: &Value) -> Self {
        self.status = status;
        self.body = body.to_string();
        self.header("content-type", "application/json")
    }

    /// Returns the response with a further header.
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Writes the response.
    pub(crate) fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let length = ("content-length".to_owned(), self.body.len().to_string());
        let head = self.head(&length);
        to.write_all(format!("{head}{}", self.body).as_bytes())?;
        to.flush()
    }

    /// Writes the head of a response whose body is an event stream.
    pub(crate) fn begin(self, to: &mut impl Write) -> io::Result<()> {
        let chunked = ("transfer-encoding".to_owned(), "chunked".to_owned());
        let head = self.header("content-type", "text/event-stream").head(&chunked);
        to.write_all(head.as_bytes())?;
        to.flush()
    }

    fn head(&self, body: &(String, String)) -> String {
        let headers = self.headers.iter().chain([body]);
        let headers: String = headers.map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        format!("HTTP/1.1 {} \r\n{headers}\r\n", self.status)
    }
}

/// Writes an event of a stream.
pub(crate) fn event(to: &mut impl Write, message: &str) -> io::Result<()> {
    let event = format!("event: message\ndata: {message}\n\n");
    to.write_all(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes())?;
    to.flush()
}

/// Ends a stream.
pub(crate) fn end(to: &mut impl Write) -> io::Result<()> {
    to.write_all(b"0\r\n\r\n")?;
    to.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_survives_its_encoding() {
        let text = "http://127.0.0.1:1/a b?ü=%&+";
        let query = format!("a=1&uri={}&b=x+y", encoded(text));
        assert_eq!(parameter(&query, "uri").as_deref(), Some(text));
        assert_eq!(parameter(&query, "b").as_deref(), Some("x y"));
        assert_eq!(parameter(&query, "c"), None);
        assert_eq!(parameter("a=%4", "a"), None);
    }
}
