//! One request over a separate connection, and the whole response.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use ikigai_provider_testing::{FakeServer, Vendor};
use serde_json::{Value, json};

/// A response.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) text: String,
}

impl Response {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// Returns the data of each event.
    pub(crate) fn events(&self) -> Vec<Value> {
        let data = self.text.lines().filter_map(|line| line.strip_prefix("data: "));
        data.map(|data| serde_json::from_str(data).expect("JSON")).collect()
    }
}

/// Returns the path of a streamed answer.
fn path(vendor: Vendor) -> &'static str {
    match vendor {
        Vendor::OpenAi => "/v1/responses",
        Vendor::OpenAiChat => "/v1/chat/completions",
        Vendor::Anthropic => "/v1/messages",
        Vendor::Google => "/v1beta/models/m:streamGenerateContent?alt=sse",
    }
}

/// Returns a question in the vendor's form, which it would answer.
pub(crate) fn question(vendor: Vendor) -> Value {
    let message = json!({ "role": "user", "content": "how?" });
    match vendor {
        Vendor::OpenAi => json!({
            "model": "m", "stream": true, "store": false,
            "include": ["reasoning.encrypted_content"], "input": [message],
        }),
        Vendor::OpenAiChat => json!({
            "model": "m", "stream": true, "stream_options": { "include_usage": true },
            "messages": [message],
        }),
        Vendor::Anthropic => {
            json!({ "model": "m", "stream": true, "max_tokens": 9, "messages": [message] })
        }
        Vendor::Google => {
            json!({ "contents": [{ "role": "user", "parts": [{ "text": "how?" }] }] })
        }
    }
}

pub(crate) fn ask(server: &FakeServer) -> Response {
    send(server, &question(server.vendor()))
}

/// Sends a body with the headers that the vendor requires.
pub(crate) fn send(server: &FakeServer, body: &Value) -> Response {
    let key = match server.vendor() {
        Vendor::OpenAi | Vendor::OpenAiChat => "Authorization: Bearer key",
        Vendor::Anthropic => "X-Api-Key: key",
        Vendor::Google => "X-Goog-Api-Key: key",
    };
    send_with(server, body, key)
}

/// Sends a body with a header that replaces the key.
pub(crate) fn send_with(server: &FakeServer, body: &Value, key: &str) -> Response {
    let body = body.to_string();
    let path = path(server.vendor());
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\n{key}\r\nanthropic-version: 2023-06-01\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(server.address()).expect("a connection");
    stream.write_all(format!("{head}{body}").as_bytes()).expect("sent");
    // The server sees the end of the requests, and closes once it has replied.
    stream.shutdown(std::net::Shutdown::Write).expect("half closed");
    let mut came = Vec::new();
    stream.read_to_end(&mut came).expect("read");
    response(&came)
}

fn response(came: &[u8]) -> Response {
    let end = came.windows(4).position(|window| window == b"\r\n\r\n").expect("a head");
    let head = std::str::from_utf8(&came[..end]).expect("text");
    let status = head.split(' ').nth(1).expect("a status").parse().expect("a number");
    let body = &came[end + 4..];
    let body =
        if head.contains("transfer-encoding: chunked") { chunks(body) } else { body.to_vec() };
    Response { status, text: String::from_utf8(body).expect("UTF-8") }
}

fn chunks(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let end = rest.windows(2).position(|window| window == b"\r\n").expect("a chunk");
        let length = std::str::from_utf8(&rest[..end]).expect("a length");
        let length = usize::from_str_radix(length, 16).expect("a length");
        if length == 0 {
            return body;
        }
        body.extend_from_slice(&rest[end + 2..end + 2 + length]);
        rest = &rest[end + 4 + length..];
    }
}
