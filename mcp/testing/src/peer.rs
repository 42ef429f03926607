//! A peer: its state, and how it handles a message. It does not know the transport.

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::calls::{self, Call};
use crate::check::Seen;
use crate::definition::Definition;
use crate::journal::Journal;
use crate::message::{self, Era, LEGACY, MODERN, Message, SUBSCRIPTION_KEY};
use crate::pending::Pending;
use crate::tools;

/// Sends messages to the client that asked.
pub(crate) trait Outlet: Send + Sync {
    /// Sends a message, which is one line.
    fn send(&self, line: &str);
}

/// An outlet that the threads of calls share.
pub(crate) type Out = Arc<dyn Outlet>;

/// A peer that has started.
pub(crate) struct Peer {
    pub(crate) journal: Journal,
    pub(crate) pending: Pending,
    definition: Mutex<Arc<Definition>>,
    file: PathBuf,
    seen: Mutex<Seen>,
    listeners: Mutex<Vec<Listener>>,
}

/// A client that wants notifications of changes.
struct Listener {
    /// The id of the request for them, in the revision that requires a request.
    subscription: Option<Value>,
    out: Out,
}

impl Peer {
    pub(crate) fn new(definition: Definition, file: PathBuf) -> Arc<Self> {
        let journal = Journal::new(definition.journal.clone());
        journal.note("start");
        Arc::new(Self {
            journal,
            pending: Pending::default(),
            definition: Mutex::new(Arc::new(definition)),
            file,
            seen: Mutex::default(),
            listeners: Mutex::default(),
        })
    }

    /// Returns the current definition.
    pub(crate) fn definition(&self) -> Arc<Definition> {
        self.definition.lock().clone()
    }

    /// Handles a message.
    pub(crate) fn handle(self: &Arc<Self>, line: &str, out: &Out) {
        let message = match Message::read(line) {
            Ok(message) => message,
            Err(error) => return self.violation(&format!("no message: {error}")),
        };
        let faults = self.seen.lock().check(&message);
        for fault in faults {
            self.violation(&fault);
        }
        match (message.method(), message.id()) {
            (Some(method), Some(id)) => self.request(method, id, &message, out),
            (Some(method), None) => self.notification(method, &message, out),
            (None, Some(id)) => {
                self.journal.note("answer");
                if !self.pending.answered(id, &message.whole) {
                    self.violation("an answer to nothing");
                }
            }
            (None, None) => self.violation("a message with neither a method nor an id"),
        }
    }

    fn violation(&self, fault: &str) {
        self.journal.note(&format!("violation: {fault}"));
    }

    fn request(self: &Arc<Self>, method: &str, id: &Value, message: &Message, out: &Out) {
        let definition = self.definition();
        let (era, params) = (message.era(), message.params());
        match method {
            "initialize" => {
                let version = params["protocolVersion"].as_str().unwrap_or_default();
                self.journal.note(&format!("initialize {version}"));
            }
            "tools/call" => {
                let name = params["name"].as_str().unwrap_or_default();
                self.journal.note(&format!("tools/call {name}"));
            }
            _ => self.journal.note(method),
        }
        if let Some(text) = &definition.die {
            eprint(text);
            std::process::exit(1);
        }
        if era == Era::Modern && !definition.modern && definition.exits {
            eprint("the first request has to be `initialize`");
            std::process::exit(1);
        }
        let answer = match (method, era) {
            (_, Era::Modern) if !definition.modern => message::error(id, -32601, "no such method"),
            ("initialize", Era::Legacy) if definition.legacy => {
                message::result(era, id, initialized(params))
            }
            ("server/discover", Era::Modern) => message::result(era, id, discovered(&definition)),
            (_, Era::Modern) if message.meta()[message::VERSION_KEY] != MODERN => {
                unsupported(&definition, id, message)
            }
            (_, Era::Legacy) if !definition.legacy => {
                message::error(id, -32602, "the request names no revision")
            }
            ("ping", Era::Legacy) => message::result(era, id, json!({})),
            ("tools/list", _) => match tools::page(&definition, params, era) {
                Ok(page) => message::result(era, id, page),
                Err(error) => message::error(id, -32602, &error),
            },
            ("tools/call", _) => return calls::call(self, Call::new(id, era, message, out)),
            ("subscriptions/listen", Era::Modern) => return self.listen(id, out),
            _ => message::error(id, -32601, "no such method"),
        };
        out.send(&answer.to_string());
    }

    fn notification(&self, method: &str, message: &Message, out: &Out) {
        self.journal.note(method);
        match method {
            "notifications/cancelled" => self.pending.cancel(&message.params()["requestId"]),
            "notifications/initialized" => self.add_listener(out.clone()),
            _ => {}
        }
    }

    /// Adds a client that gets notifications of changes without having asked for them in a message.
    pub(crate) fn add_listener(&self, out: Out) {
        self.listeners.lock().push(Listener { subscription: None, out });
    }

    fn listen(&self, id: &Value, out: &Out) {
        let acknowledged = json!({
            "jsonrpc": "2.0",
            "method": "notifications/subscriptions/acknowledged",
            "params": {
                "notifications": { "toolsListChanged": true },
                "_meta": { SUBSCRIPTION_KEY: id },
            },
        });
        out.send(&acknowledged.to_string());
        self.listeners.lock().push(Listener { subscription: Some(id.clone()), out: out.clone() });
    }

    /// Reads the definition again. If it has changed, announces that its tools changed.
    pub(crate) fn look(&self) {
        // If the file is missing or does not parse, it is being written. It is read again at the
        // next check.
        let Ok(definition) = Definition::read(&self.file) else { return };
        if definition.text == self.definition().text {
            return;
        }
        let announces = definition.announces;
        *self.definition.lock() = Arc::new(definition);
        self.journal.note("reload");
        if announces {
            for listener in self.listeners.lock().iter() {
                let mut params = json!({});
                if let Some(id) = &listener.subscription {
                    params["_meta"] = json!({ SUBSCRIPTION_KEY: id });
                }
                let changed = json!({
                    "jsonrpc": "2.0",
                    "method": "notifications/tools/list_changed",
                    "params": params,
                });
                listener.out.send(&changed.to_string());
            }
        }
    }
}

/// Writes a line to stderr.
pub(crate) fn eprint(text: &str) {
    use std::io::Write as _;
    // A client may close stderr.
    let _ = writeln!(std::io::stderr(), "{text}");
}

fn capabilities() -> Value {
    json!({ "tools": { "listChanged": true } })
}

fn initialized(params: &Value) -> Value {
    let asked = params["protocolVersion"].as_str().unwrap_or_default();
    let version = LEGACY.iter().find(|known| **known == asked).unwrap_or(&LEGACY[0]);
    json!({
        "protocolVersion": version,
        "capabilities": capabilities(),
        "serverInfo": message::server_info(),
    })
}

fn versions(definition: &Definition) -> Vec<&'static str> {
    let legacy = if definition.legacy { &LEGACY[..] } else { &[] };
    [MODERN].iter().chain(legacy).copied().collect()
}

fn discovered(definition: &Definition) -> Value {
    json!({
        "supportedVersions": versions(definition),
        "capabilities": capabilities(),
        "ttlMs": 0,
        "cacheScope": "private",
    })
}

fn unsupported(definition: &Definition, id: &Value, message: &Message) -> Value {
    let mut answer = message::error(id, -32022, "unsupported protocol version");
    answer["error"]["data"] = json!({
        "supported": versions(definition),
        "requested": message.meta()[message::VERSION_KEY],
    });
    answer
}
