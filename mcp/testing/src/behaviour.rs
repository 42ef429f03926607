//! The behaviours that a tool of a peer can have, by name.

use serde_json::{Value, json};

/// The behaviour of a tool when it is called.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Behaviour {
    /// Answers with its arguments, byte for byte.
    Echo,
    /// Answers with a text, a picture and another text.
    Image,
    /// Answers that it failed.
    Error,
    /// Answers with a protocol error.
    Refuse,
    /// Answers with a result that violates the protocol.
    Malformed,
    /// Runs until it is cancelled. In the meantime, reports its progress if the client asked for
    /// it.
    Slow,
    /// Exits with code 3 and a text on stderr.
    Exit,
    /// Kills itself.
    Crash,
    /// Never answers, and stops reading.
    Hang,
    /// Leaves behind a child in its own process group.
    Fork,
    /// Reads the file `path`.
    Read,
    /// Writes to the file `path`.
    Write,
    /// Connects to `address`.
    Connect,
    /// Asks its environment's proxy for a tunnel to `address`.
    Tunnel,
    /// Answers with its environment.
    Env,
    /// Answers twice.
    Twice,
    /// Answers a request that was never sent, and then its own.
    UnknownId,
    /// Floods stdout with one line instead of an answer.
    FloodStdout,
    /// Answers with a line of 17 MiB.
    BigLine,
    /// Reports its progress `count` times, and answers.
    Progress,
    /// Asks the client's user.
    Elicit,
    /// Asks the client's model.
    Sampling,
}

const ALL: &[(&str, Behaviour)] = &[
    ("echo", Behaviour::Echo),
    ("image", Behaviour::Image),
    ("error", Behaviour::Error),
    ("refuse", Behaviour::Refuse),
    ("malformed", Behaviour::Malformed),
    ("slow", Behaviour::Slow),
    ("exit", Behaviour::Exit),
    ("crash", Behaviour::Crash),
    ("hang", Behaviour::Hang),
    ("fork", Behaviour::Fork),
    ("read", Behaviour::Read),
    ("write", Behaviour::Write),
    ("connect", Behaviour::Connect),
    ("tunnel", Behaviour::Tunnel),
    ("env", Behaviour::Env),
    ("twice", Behaviour::Twice),
    ("unknown-id", Behaviour::UnknownId),
    ("flood-stdout", Behaviour::FloodStdout),
    ("big-line", Behaviour::BigLine),
    ("progress", Behaviour::Progress),
    ("elicit", Behaviour::Elicit),
    ("sampling", Behaviour::Sampling),
];

impl Behaviour {
    /// Returns the behaviour of this name.
    pub(crate) fn named(name: &str) -> Result<Self, String> {
        let known = ALL.iter().find(|(known, _)| *known == name);
        known.map(|(_, it)| *it).ok_or_else(|| format!("there is no behaviour `{name}`"))
    }

    /// Returns the schema of the arguments, for a tool whose definition does not contain it.
    pub(crate) fn schema(self) -> Value {
        let key = match self {
            Self::Read | Self::Write => "path",
            Self::Connect | Self::Tunnel => "address",
            _ => return json!({ "type": "object" }),
        };
        json!({
            "type": "object",
            "properties": { key: { "type": "string" } },
            "required": [key],
        })
    }
}
