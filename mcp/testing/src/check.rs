//! The specification's rules for messages of a client.

use std::collections::HashSet;

use serde_json::Value;

use crate::message::{CAPABILITIES_KEY, Era, Message, VERSION_KEY};

/// The earlier messages of a conversation, as far as the rules for later messages depend on them.
#[derive(Default)]
pub(crate) struct Seen {
    ids: HashSet<String>,
    /// `initialize` was requested.
    opened: bool,
    /// `notifications/initialized` arrived.
    initialized: bool,
}

impl Seen {
    /// Returns the violations in a message.
    pub(crate) fn check(&mut self, message: &Message) -> Vec<String> {
        let mut faults = Vec::new();
        if message.whole["jsonrpc"] != "2.0" {
            faults.push("`jsonrpc` is not `2.0`".to_owned());
        }
        match (message.method(), message.id()) {
            (Some(method), Some(id)) => self.request(method, id, message, &mut faults),
            (Some(method), None) => self.notification(method, message, &mut faults),
            (None, _) => answer(message, &mut faults),
        }
        faults
    }

    fn request(&mut self, method: &str, id: &Value, message: &Message, faults: &mut Vec<String>) {
        if !(id.is_string() || id.is_i64() || id.is_u64()) {
            faults.push(format!("`{method}` has the id `{id}`"));
        }
        if !self.ids.insert(id.to_string()) {
            faults.push(format!("the id `{id}` is used twice"));
        }
        match message.era() {
            Era::Modern => {
                let meta = message.meta();
                if !meta[VERSION_KEY].is_string() || !meta[CAPABILITIES_KEY].is_object() {
                    faults.push(format!("`{method}` lacks the metadata of its revision"));
                }
                if matches!(method, "initialize" | "ping") {
                    faults.push(format!("`{method}` is not in the revision that it names"));
                }
            }
            Era::Legacy if method == "initialize" => {
                if self.opened {
                    faults.push("a second `initialize`".to_owned());
                }
                self.opened = true;
                let params = message.params();
                let is_whole = params["protocolVersion"].is_string()
                    && params["capabilities"].is_object()
                    && params["clientInfo"]["name"].is_string()
                    && params["clientInfo"]["version"].is_string();
                if !is_whole {
                    faults.push("`initialize` lacks a member".to_owned());
                }
            }
            Era::Legacy if method == "ping" => {}
            Era::Legacy if !self.initialized => {
                faults.push(format!("`{method}` before `notifications/initialized`"));
            }
            Era::Legacy => {}
        }
        if method == "tools/call" {
            let arguments = message.arguments.as_deref();
            if !message.params()["name"].is_string() {
                faults.push("`tools/call` names no tool".to_owned());
            }
            if arguments.is_some_and(|arguments| !arguments.starts_with('{')) {
                faults.push("the arguments of `tools/call` are no object".to_owned());
            }
        }
    }

    fn notification(&mut self, method: &str, message: &Message, faults: &mut Vec<String>) {
        match method {
            "notifications/initialized" => {
                if !self.opened {
                    faults.push(format!("`{method}` before `initialize`"));
                }
                self.initialized = true;
            }
            "notifications/cancelled" => {
                let id = &message.params()["requestId"];
                if !self.ids.contains(&id.to_string()) {
                    faults.push(format!("the request `{id}` is cancelled and never was"));
                }
            }
            _ => {}
        }
    }
}

fn answer(message: &Message, faults: &mut Vec<String>) {
    let has = |key: &str| message.whole.get(key).is_some();
    if has("result") == has("error") {
        faults.push("an answer has either a result or an error".to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_specification_forbids_is_found() {
        let meta = format!(r#""_meta":{{"{VERSION_KEY}":"2026-07-28","{CAPABILITIES_KEY}":{{}}}}"#);
        let listed = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
        let opened = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;
        let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        let cancelled =
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
        let modern = |id: u8, method: &str, rest: &str| {
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{rest}}}}}"#)
        };
        let check = |lines: &[&str]| -> Vec<String> {
            let mut seen = Seen::default();
            lines
                .iter()
                .flat_map(|line| seen.check(&Message::read(line).expect("a message")))
                .collect()
        };
        let none = Vec::<String>::new();
        assert_eq!(check(&[opened, ready, listed, cancelled]), none);
        assert_eq!(check(&[&modern(1, "tools/list", &meta)]), none);
        assert_eq!(check(&[listed]), ["`tools/list` before `notifications/initialized`"]);
        assert_eq!(check(&[ready]), ["`notifications/initialized` before `initialize`"]);
        assert_eq!(check(&[cancelled]), ["the request `1` is cancelled and never was"]);
        assert_eq!(
            check(&[&modern(1, "server/discover", "")]),
            ["`server/discover` lacks the metadata of its revision"]
        );
        assert_eq!(
            check(&[&modern(1, "ping", &meta)]),
            ["`ping` is not in the revision that it names"]
        );
        assert_eq!(
            check(&[&modern(1, "tools/call", &format!("{meta},\"arguments\":[]"))]),
            ["`tools/call` names no tool", "the arguments of `tools/call` are no object"]
        );
        assert_eq!(check(&[opened, opened]), ["the id `0` is used twice", "a second `initialize`"]);
        assert_eq!(
            check(&[r#"{"jsonrpc":"1.0","id":null,"method":"ping"}"#]),
            ["`jsonrpc` is not `2.0`", "`ping` has the id `null`"]
        );
        assert_eq!(
            check(&[r#"{"jsonrpc":"2.0","id":1}"#]),
            ["an answer has either a result or an error"]
        );
    }
}
