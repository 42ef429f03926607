//! One connection: reads requests and sends the reply to each, and notices when the client closes
//! the connection.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::{Plan, Shared};
use crate::Gate;
use crate::http::{self, Body};
use crate::reply::{Delivery, End};
use crate::stream::Step;

/// Accepts connections forever.
pub(super) async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (stream, _) = accepted.expect("a connection");
                connections.spawn(serve(stream, shared.clone()));
            }
            Some(ended) = connections.join_next() => ended.expect("a connection does not panic"),
        }
    }
}

async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let (reader, writer) = stream.into_split();
    let mut connection = Connection { reader: BufReader::new(reader), writer };
    // A client may end a connection between requests at any time and in any way.
    while let Ok(Some(request)) = http::read(&mut connection.reader).await {
        match connection.carry_out(shared.plan(request)).await {
            Ok(Next::Request) => {}
            Ok(Next::Close) => return,
            Err(_) => return shared.hung_up(),
        }
    }
}

struct Connection {
    reader: BufReader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
}

/// The state of a connection after a reply.
enum Next {
    Request,
    Close,
}

impl Connection {
    /// Sends a reply. Fails if the client closes the connection before the reply is complete.
    async fn carry_out(&mut self, plan: Plan) -> io::Result<Next> {
        match plan {
            Plan::HangUp => Ok(Next::Close),
            Plan::Silence(gate) => {
                self.pass(&gate).await?;
                Ok(Next::Close)
            }
            Plan::Response { status, content_type, headers, steps, delivery } => {
                let body = match steps.as_slice() {
                    [Step::Bytes(body)] if status != 200 => Body::Length(body.len()),
                    _ => Body::Chunked,
                };
                let head = http::head(status, &content_type, &body, &headers);
                self.writer.write_all(&head).await?;
                self.send(steps, &delivery, &body).await
            }
        }
    }

    async fn send(
        &mut self,
        steps: Vec<Step>,
        delivery: &Delivery,
        body: &Body,
    ) -> io::Result<Next> {
        let mut left = delivery.end.map_or(usize::MAX, |(bytes, _)| bytes);
        for step in steps {
            let bytes = match step {
                Step::Bytes(bytes) => bytes,
                Step::Stall(gate) => {
                    self.pass(&gate).await?;
                    continue;
                }
            };
            let sent = &bytes[..bytes.len().min(left)];
            for portion in sent.chunks(delivery.portion.unwrap_or(usize::MAX)) {
                match body {
                    Body::Chunked => self.writer.write_all(&http::chunk(portion)).await?,
                    Body::Length(_) => self.writer.write_all(portion).await?,
                }
                self.writer.flush().await?;
            }
            left -= sent.len();
            if left == 0 {
                break;
            }
        }
        match (left, delivery.end) {
            (0, Some((_, End::Cut))) => return Ok(Next::Close),
            (0, Some((_, End::Clean))) if matches!(body, Body::Length(_)) => {
                return Ok(Next::Close);
            }
            _ => {}
        }
        if matches!(body, Body::Chunked) {
            self.writer.write_all(&http::chunk(b"")).await?;
        }
        Ok(Next::Request)
    }

    /// Waits at a gate. Fails if the client closes the connection in the meantime.
    async fn pass(&mut self, gate: &Gate) -> io::Result<()> {
        tokio::select! {
            () = gate.pass() => Ok(()),
            gone = gone(&mut self.reader) => Err(gone),
        }
    }
}

/// Returns when the client closes the connection. Clients send nothing before they have the whole
/// reply; if one does, this never returns.
async fn gone(reader: &mut BufReader<OwnedReadHalf>) -> io::Error {
    match reader.fill_buf().await {
        Ok([]) => io::ErrorKind::UnexpectedEof.into(),
        Ok(_) => std::future::pending().await,
        Err(error) => error,
    }
}
