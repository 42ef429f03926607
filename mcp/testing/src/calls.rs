//! The calls of tools, by behaviour.

use std::env;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::behaviour::Behaviour;
use crate::definition::Stream;
use crate::floods;
use crate::message::{self, Era, Message, text};
use crate::peer::{Out, Peer, eprint};

/// The time between two progress reports of a call that runs until it is cancelled.
const BETWEEN_REPORTS: Duration = Duration::from_millis(100);

/// The time limit for connecting.
const CONNECTING: Duration = Duration::from_secs(5);

/// The length of the text of [`Behaviour::BigLine`], in bytes.
const BIG: usize = 17 << 20;

/// A picture of one pixel, as base64.
const PICTURE: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// A call of a tool.
pub(crate) struct Call {
    id: Value,
    era: Era,
    params: Value,
    /// The arguments as the client wrote them.
    arguments: String,
    out: Out,
}

impl Call {
    pub(crate) fn new(id: &Value, era: Era, message: &Message, out: &Out) -> Self {
        Self {
            id: id.clone(),
            era,
            params: message.params().clone(),
            arguments: message.arguments.clone().unwrap_or_else(|| "{}".to_owned()),
            out: out.clone(),
        }
    }

    fn send(&self, message: &Value) {
        self.out.send(&message.to_string());
    }

    fn finish(&self, result: Value) {
        self.send(&message::result(self.era, &self.id, result));
    }

    /// Returns an argument, or null if it is missing.
    fn argument(&self, key: &str) -> Value {
        let arguments: Value = serde_json::from_str(&self.arguments).unwrap_or_default();
        arguments[key].clone()
    }

    /// Reports the progress of the call, if the client asked for it.
    fn report(&self, progress: u64) {
        let token = &self.params["_meta"]["progressToken"];
        if !token.is_null() {
            self.send(&json!({
                "jsonrpc": "2.0",
                "method": "notifications/progress",
                "params": {
                    "progressToken": token,
                    "progress": progress,
                    "message": format!("step {progress}"),
                },
            }));
        }
    }
}

/// Performs the tool's behaviour.
pub(crate) fn call(peer: &Arc<Peer>, call: Call) {
    let definition = peer.definition();
    let tool = definition.tools.iter().find(|tool| call.params["name"] == tool.name());
    let Some(tool) = tool else {
        return call.send(&message::error(&call.id, -32602, "no such tool"));
    };
    match tool.does {
        Behaviour::Slow => slow(peer, call),
        Behaviour::Elicit => ask(peer, call, "elicitation/create", question()),
        Behaviour::Sampling => ask(peer, call, "sampling/createMessage", prompt()),
        Behaviour::Exit => {
            eprint("the tool gives up");
            std::process::exit(3);
        }
        Behaviour::Crash => std::process::abort(),
        Behaviour::Hang => floods::rest(),
        Behaviour::FloodStdout => floods::start(Stream::Stdout),
        Behaviour::Progress => {
            for step in 1..=call.argument("count").as_u64().unwrap_or(3) {
                call.report(step);
            }
            call.finish(text("done"));
        }
        Behaviour::Twice => {
            call.finish(text("first"));
            call.finish(text("second"));
        }
        Behaviour::UnknownId => {
            let stranger = json!("never asked");
            call.send(&message::result(call.era, &stranger, text("for nobody")));
            call.finish(text("for you"));
        }
        Behaviour::Refuse => call.send(&message::error(&call.id, -32603, "the tool refuses")),
        does => call.finish(answer(does, &call)),
    }
}

/// Returns the result of a call that answers at once, and once.
fn answer(does: Behaviour, call: &Call) -> Value {
    let reached = |reached: Result<String, std::io::Error>| match reached {
        Ok(found) => text(&found),
        Err(error) => failed(&error.to_string()),
    };
    let path = || call.argument("path").as_str().unwrap_or_default().to_owned();
    match does {
        Behaviour::Image => json!({ "content": [
            { "type": "text", "text": "before" },
            { "type": "image", "data": PICTURE, "mimeType": "image/png" },
            { "type": "text", "text": "after" },
        ] }),
        Behaviour::Error => failed("the tool failed"),
        Behaviour::Malformed => json!({ "content": 7 }),
        Behaviour::Fork => reached(fork()),
        Behaviour::Read => {
            reached(fs::read(path()).map(|found| String::from_utf8_lossy(&found).into_owned()))
        }
        Behaviour::Write => {
            reached(fs::write(path(), "written by the peer").map(|()| "written".to_owned()))
        }
        Behaviour::Connect => {
            let address = call.argument("address");
            reached(connect(address.as_str().unwrap_or_default()).map(|()| "connected".to_owned()))
        }
        Behaviour::Tunnel => {
            let address = call.argument("address");
            reached(tunnel(address.as_str().unwrap_or_default()))
        }
        Behaviour::Env => text(&environment()),
        Behaviour::BigLine => text(&"x".repeat(BIG)),
        _ => text(&call.arguments),
    }
}

fn failed(why: &str) -> Value {
    let mut result = text(why);
    result["isError"] = true.into();
    result
}

/// Runs until the call is cancelled.
fn slow(peer: &Arc<Peer>, call: Call) {
    let cancelled = peer.pending.until_cancelled(&call.id);
    let peer = peer.clone();
    thread::spawn(move || {
        let mut progress = 0;
        while cancelled.recv_timeout(BETWEEN_REPORTS) == Err(RecvTimeoutError::Timeout) {
            progress += 1;
            call.report(progress);
        }
        let name = call.params["name"].as_str().unwrap_or_default();
        peer.journal.note(&format!("cancelled {name}"));
    });
}

/// Asks the client, and answers with the client's answer, as JSON. Also asks a client that lacks
/// this capability, which the protocol forbids.
fn ask(peer: &Arc<Peer>, call: Call, method: &str, params: Value) {
    if call.era == Era::Modern {
        let answers = &call.params["inputResponses"];
        if answers.is_null() {
            call.finish(json!({
                "resultType": "input_required",
                "inputRequests": { "question": { "method": method, "params": params } },
                "requestState": format!("state of {method}"),
            }));
        } else if call.params["requestState"] == format!("state of {method}") {
            call.finish(text(&answers["question"].to_string()));
        } else {
            call.send(&message::error(&call.id, -32602, "this is not the state of the request"));
        }
        return;
    }
    let question = json!(format!("question of {}", call.id));
    let answered = peer.pending.until_answered(&question);
    call.send(&json!({ "jsonrpc": "2.0", "id": question, "method": method, "params": params }));
    thread::spawn(move || {
        // A client that has gone does not answer.
        let Ok(mut answer) = answered.recv() else { return };
        let key = if answer.get("error").is_some() { "error" } else { "result" };
        call.finish(text(&answer[key].take().to_string()));
    });
}

fn question() -> Value {
    json!({
        "mode": "form",
        "message": "Which colour?",
        "requestedSchema": {
            "type": "object",
            "properties": { "colour": { "type": "string" } },
            "required": ["colour"],
        },
    })
}

fn prompt() -> Value {
    json!({
        "messages": [{ "role": "user", "content": { "type": "text", "text": "say something" } }],
        "maxTokens": 10,
    })
}

#[allow(clippy::zombie_processes, reason = "the child is left behind on purpose")]
fn fork() -> std::io::Result<String> {
    let mut child = Command::new(env::current_exe()?);
    child.arg(crate::CHILD).process_group(0);
    child.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(child.spawn()?.id().to_string())
}

fn connect(address: &str) -> std::io::Result<()> {
    let address = address.to_socket_addrs()?.next();
    let address = address.ok_or_else(|| std::io::Error::other("the name has no address"))?;
    TcpStream::connect_timeout(&address, CONNECTING).map(drop)
}

/// Returns the first line of the proxy's answer to a request for a tunnel.
fn tunnel(address: &str) -> std::io::Result<String> {
    let proxy = env::var("HTTPS_PROXY").map_err(std::io::Error::other)?;
    let mut stream = TcpStream::connect(proxy.trim_start_matches("http://"))?;
    stream.write_all(format!("CONNECT {address} HTTP/1.1\r\n\r\n").as_bytes())?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    Ok(line.trim().to_owned())
}

fn environment() -> String {
    let mut lines: Vec<String> = env::vars_os()
        .map(|(name, value)| format!("{}={}", name.to_string_lossy(), value.to_string_lossy()))
        .collect();
    lines.sort();
    lines.join("\n")
}
