//! An HTTP/1.1 server with one request per connection. Its test chooses the answers.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// A received request. Header names are in lower case.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) method: String,
    pub(crate) path: String,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(it, _)| it == name).map(|(_, value)| &**value)
    }

    pub(crate) fn message(&self) -> Value {
        serde_json::from_str(&self.body).expect("JSON")
    }
}

/// A response.
pub(crate) struct Response {
    status: u16,
    headers: Vec<(String, String)>,
    body: String,
    is_endless: bool,
}

impl Response {
    pub(crate) fn status(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: String::new(), is_endless: false }
    }

    pub(crate) fn json(message: &Value) -> Self {
        let response = Self::status(200).with("Content-Type", "application/json; charset=utf-8");
        Self { body: message.to_string(), ..response }
    }

    pub(crate) fn events(messages: &[String]) -> Self {
        let body = messages.iter().map(|it| format!("event: message\ndata: {it}\n\n")).collect();
        Self { body, ..Self::status(200).with("Content-Type", "text/event-stream") }
    }

    /// Returns a response that is endless for the client.
    pub(crate) fn endless() -> Self {
        let response = Self::status(200).with("Content-Type", "application/json");
        Self { is_endless: true, ..response }
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Returns the response with another status.
    pub(crate) fn status_of(self, status: u16) -> Self {
        Self { status, ..self }
    }

    async fn write(self, stream: &mut TcpStream) -> std::io::Result<()> {
        let mut head = format!("HTTP/1.1 {} x\r\nConnection: close\r\n", self.status);
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !self.is_endless {
            head.push_str(&format!("Content-Length: {}\r\n", self.body.len()));
        }
        stream.write_all(format!("{head}\r\n{}", self.body).as_bytes()).await?;
        // More than any client may accept, but actually finite.
        for _ in 0..if self.is_endless { 64 } else { 0 } {
            stream.write_all(&[b' '; 1 << 20]).await?;
        }
        stream.shutdown().await
    }
}

/// A server. Dropping it ends it.
pub(crate) struct Server {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Received>>>,
    _serving: JoinSet<()>,
}

impl Server {
    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Returns the requests so far.
    pub(crate) fn requests(&self) -> Vec<Received> {
        self.requests.lock().expect("no panic").clone()
    }
}

/// Starts a server on a port that the system picks.
pub(crate) async fn serve(
    answer: impl Fn(&Received) -> Response + Send + Sync + 'static,
) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let requests = Arc::new(Mutex::new(Vec::new()));
    let mut serving = JoinSet::new();
    let (answer, received) = (Arc::new(answer), Arc::clone(&requests));
    serving.spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let (answer, received) = (Arc::clone(&answer), Arc::clone(&received));
            connections.spawn(async move {
                let Some(request) = read(&mut stream).await else { return };
                received.lock().expect("no panic").push(request.clone());
                // A client that has gone has read enough.
                let _ = answer(&request).write(&mut stream).await;
            });
        }
    });
    Server { address, requests, _serving: serving }
}

async fn read(stream: &mut TcpStream) -> Option<Received> {
    let mut stream = BufReader::new(stream);
    let mut first = String::new();
    stream.read_line(&mut first).await.ok().filter(|count| *count > 0)?;
    let mut words = first.split_whitespace().map(str::to_owned);
    let (method, path) = (words.next()?, words.next()?);
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length.map_or(0, |(_, length)| length.parse().expect("a number"));
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    let body = String::from_utf8(body).expect("UTF-8");
    Some(Received { method, path, headers, body })
}
