//! A proxy in front of a registry that damages answers, one after the other.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use crate::http::{Received, Reply, reply, request};
use crate::serving::Serving;

/// The damage to one answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The connection ends after this many bytes of the body.
    Cut(usize),
    /// Nothing more arrives after this many bytes of the body.
    Stall(usize),
    /// One bit in this byte of the body is flipped.
    Flip(usize),
    /// The body is endless.
    Endless,
    /// The whole body arrives, labelled as the requested part.
    WrongRange,
    /// The beginning of the body arrives, labelled with the requested range.
    WrongPart,
    /// The whole body arrives, although a part was requested.
    Whole,
    /// The server reports an error.
    Unavailable,
}

/// A proxy on a port of this machine. Dropping it ends it.
pub struct Proxy(Serving<State>);

struct State {
    upstream: String,
    /// A part of the path, and what goes wrong with the next answer for it.
    faults: VecDeque<(String, Fault)>,
    seen: Vec<Received>,
}

impl Proxy {
    /// Starts a proxy in front of `HOST:PORT`.
    ///
    /// # Errors
    ///
    /// Fails if no port is free.
    pub async fn start(upstream: &str) -> io::Result<Self> {
        let (upstream, faults, seen) = (upstream.to_owned(), VecDeque::new(), Vec::new());
        Ok(Self(Serving::start(|_| State { upstream, faults, seen }, serve).await?))
    }

    /// Returns `HOST:PORT`.
    #[must_use]
    pub fn host(&self) -> String {
        self.0.host()
    }

    /// Adds a fault for the next answer to a path that contains `part`, after the faults that are
    /// already queued.
    pub fn next(&self, part: &str, fault: Fault) {
        self.0.state().faults.push_back((part.to_owned(), fault));
    }

    /// Returns the requests since the last call, and forgets them.
    #[must_use]
    pub fn seen(&self) -> Vec<Received> {
        std::mem::take(&mut self.0.state().seen)
    }

    /// Returns the number of faults that were not used yet.
    #[must_use]
    pub fn left(&self) -> usize {
        self.0.state().faults.len()
    }
}

impl State {
    fn fault(&mut self, asked: &Received) -> Option<Fault> {
        self.seen.push(asked.clone());
        let place = self.faults.iter().position(|(part, _)| asked.path.contains(part.as_str()))?;
        self.faults.remove(place).map(|(_, fault)| fault)
    }
}

async fn serve(mut stream: TcpStream, state: Arc<Mutex<State>>) -> io::Result<()> {
    let (reader, mut writer) = stream.split();
    let mut reader = BufReader::new(reader);
    let Some(asked) = request(&mut reader).await? else { return Ok(()) };
    let (fault, upstream) = {
        let mut state = state.lock();
        (state.fault(&asked), state.upstream.clone())
    };
    let keeps_range = !matches!(fault, Some(Fault::Whole | Fault::WrongRange | Fault::WrongPart));
    if fault == Some(Fault::Unavailable) {
        return Reply::new(503, "text/plain", "busy").write(&mut writer, &asked.method).await;
    }
    let mut reply = forward(&upstream, &asked, keeps_range).await?;
    let length = reply.body.len();
    match fault {
        None | Some(Fault::Whole | Fault::Unavailable) => {}
        Some(Fault::Cut(most) | Fault::Stall(most)) => {
            writer.write_all(&reply.head(length)).await?;
            writer.write_all(&reply.body[..most.min(length)]).await?;
            writer.flush().await?;
            if matches!(fault, Some(Fault::Stall(_))) {
                // Until the client stops reading.
                reader.read_to_end(&mut Vec::new()).await?;
            }
            return Ok(());
        }
        Some(Fault::Flip(byte)) => {
            if let Some(byte) = reply.body.get_mut(byte) {
                *byte ^= 1;
            }
        }
        Some(Fault::Endless) => {
            let head = format!(
                "HTTP/1.1 200 \r\ncontent-type: {}\r\nconnection: close\r\n\r\n",
                "application/vnd.oci.image.manifest.v1+json"
            );
            writer.write_all(head.as_bytes()).await?;
            loop {
                writer.write_all(&[b' '; 1 << 14]).await?;
            }
        }
        Some(Fault::WrongRange) => {
            let range = format!("bytes 0-{}/{length}", length - 1);
            reply = Reply { status: 206, ..reply }.with("content-range", &range);
        }
        Some(Fault::WrongPart) => {
            let from =
                asked.header("range").and_then(|it| it.strip_prefix("bytes=")?.strip_suffix('-'));
            let from: usize = from.and_then(|it| it.parse().ok()).unwrap_or(0);
            reply.body.truncate(length - from);
            let range = format!("bytes {from}-{}/{length}", length - 1);
            reply = Reply { status: 206, ..reply }.with("content-range", &range);
        }
    }
    reply.write(&mut writer, &asked.method).await
}

/// Forwards the request to the registry.
pub(crate) async fn forward(
    upstream: &str,
    asked: &Received,
    keeps_range: bool,
) -> io::Result<Reply> {
    let mut stream = TcpStream::connect(upstream).await?;
    let mut head = format!("{} {} HTTP/1.1\r\nconnection: close\r\n", asked.method, asked.path);
    for (name, value) in &asked.headers {
        if name != "connection" && (keeps_range || name != "range") {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(&asked.body).await?;
    reply(stream, &asked.method).await
}
