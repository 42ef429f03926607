//! One message of a client over HTTP, and the messages that answer it.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;

use super::Server;
use super::request::{self, Request, Response};
use crate::message::{self, MODERN, VERSION_KEY};
use crate::peer::{Out, Outlet};

/// The time between two checks for a client that may have gone.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// The messages that answer one request.
struct Channel(Mutex<Sender<String>>);

impl Outlet for Channel {
    fn send(&self, line: &str) {
        // The exchange may have ended because the client has gone.
        let _ = self.0.lock().send(line.to_owned());
    }
}

fn outlet() -> (Out, Receiver<String>) {
    let (sender, receiver) = channel();
    (Arc::new(Channel(Mutex::new(sender))), receiver)
}

impl Server {
    /// Takes a message. Returns `false` if the connection ends with it.
    pub(super) fn post(&self, request: &Request, connection: &mut TcpStream) -> io::Result<bool> {
        let body = request.json();
        if let Some(refused) = self.mismatch(request, &body) {
            refused.write(connection)?;
            return Ok(true);
        }
        let (out, messages) = outlet();
        let id = &body["id"];
        let is_request = body["method"].is_string() && !id.is_null();
        // The body is one message, and may contain line breaks.
        self.peer.handle(&request.body, &out);
        drop(out);
        if !is_request {
            Response::empty(202).write(connection)?;
            return Ok(true);
        }
        let mut head = Response::empty(200);
        if self.http.sessions && body["method"] == "initialize" {
            head = head.header("mcp-session-id", &self.open_session());
        }
        if self.http.sse || body["method"] == "subscriptions/listen" {
            return self.stream(id, &messages, head, connection);
        }
        let Some(answer) = self.answer(id, &messages, connection) else { return Ok(false) };
        let answer: Value = serde_json::from_str(&answer)?;
        head.with_json(status(&body, &answer), &answer).write(connection)?;
        Ok(true)
    }

    /// Returns the refusal of a request of the newer generation whose headers differ from its body.
    fn mismatch(&self, request: &Request, body: &Value) -> Option<Response> {
        let version = body["params"]["_meta"][VERSION_KEY].as_str();
        if version != Some(MODERN) || body["id"].is_null() {
            return None;
        }
        let name = (body["method"] == "tools/call").then(|| body["params"]["name"].as_str());
        let wanted = [
            ("mcp-protocol-version", version),
            ("mcp-method", body["method"].as_str()),
            ("mcp-name", name.flatten()),
        ];
        let (header, _) = wanted
            .iter()
            .find(|(header, value)| value.is_some() && request.header(header) != *value)?;
        self.peer.journal.note(&format!("violation: the header `{header}` differs from the body"));
        Some(Response::json(400, &message::error(&body["id"], -32020, "header mismatch")))
    }

    /// Returns the answer to a request, or `None` if the client has gone before it.
    fn answer(
        &self,
        id: &Value,
        messages: &Receiver<String>,
        connection: &TcpStream,
    ) -> Option<String> {
        loop {
            // An answer in JSON cannot contain notifications.
            let message = self.next(id, messages, connection)?;
            if answers(&message, id) {
                return Some(message);
            }
        }
    }

    /// Streams the messages that answer a request. The last of them is its answer.
    fn stream(
        &self,
        id: &Value,
        messages: &Receiver<String>,
        head: Response,
        connection: &mut TcpStream,
    ) -> io::Result<bool> {
        head.begin(connection)?;
        while let Some(message) = self.next(id, messages, connection) {
            request::event(connection, &message)?;
            if answers(&message, id) {
                request::end(connection)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Streams the peer's own messages, until the client goes.
    pub(super) fn listen(&self, connection: &mut TcpStream) -> io::Result<bool> {
        let (out, messages) = outlet();
        self.peer.add_listener(out);
        Response::empty(200).begin(connection)?;
        while let Some(message) = self.next(&Value::Null, &messages, connection) {
            request::event(connection, &message)?;
        }
        Ok(false)
    }

    /// Returns the next message, or `None` once the client has gone, which cancels its request.
    fn next(
        &self,
        id: &Value,
        messages: &Receiver<String>,
        connection: &TcpStream,
    ) -> Option<String> {
        loop {
            match messages.recv_timeout(BETWEEN_LOOKS) {
                Ok(message) => return Some(message),
                // A request that is never answered stays open.
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(BETWEEN_LOOKS),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if has_gone(connection) {
                self.peer.journal.note("gone");
                self.peer.pending.cancel(id);
                return None;
            }
        }
    }
}

/// Returns `true` if the message is the answer to the request.
fn answers(message: &str, id: &Value) -> bool {
    let message: Value = serde_json::from_str(message).unwrap_or_default();
    message.get("method").is_none() && message["id"] == *id
}

fn has_gone(connection: &TcpStream) -> bool {
    let looked = connection.set_nonblocking(true).and_then(|()| {
        let peeked = connection.peek(&mut [0]);
        connection.set_nonblocking(false).and(Ok(peeked))
    });
    match looked {
        Ok(Ok(read)) => read == 0,
        Ok(Err(error)) => error.kind() != io::ErrorKind::WouldBlock,
        Err(_) => true,
    }
}

/// Returns the status of an answer. Errors of the newer generation have their own status.
fn status(request: &Value, answer: &Value) -> u16 {
    let is_modern = !request["params"]["_meta"][VERSION_KEY].is_null();
    match answer["error"]["code"].as_i64() {
        Some(-32601) if is_modern => 404,
        Some(-32022..=-32020) if is_modern => 400,
        _ => 200,
    }
}
