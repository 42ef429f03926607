//! JSON-RPC messages: the client's, read from a line, and the peer's own.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

/// The revision in which each request names its own revision.
pub(crate) const MODERN: &str = "2026-07-28";

/// The revisions that open with a handshake, the newest first.
pub(crate) const LEGACY: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// The key of the revision in the metadata of a request.
pub(crate) const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";

/// The key of the client's capabilities in the metadata of a request.
pub(crate) const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";

/// The key of the subscription in the metadata of a notification.
pub(crate) const SUBSCRIPTION_KEY: &str = "io.modelcontextprotocol/subscriptionId";

/// The generation of the protocol that a request belongs to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Era {
    Legacy,
    Modern,
}

/// A message of the client.
#[derive(Debug)]
pub(crate) struct Message {
    /// The message without `params.arguments`, whose numbers may exceed any type.
    pub(crate) whole: Value,
    /// The text of `params.arguments`, as the client wrote it.
    pub(crate) arguments: Option<String>,
}

impl Message {
    /// Reads a line, which must be an object.
    pub(crate) fn read(line: &str) -> Result<Self, String> {
        let mut message = members(line)?;
        let mut arguments = None;
        let mut whole = Map::new();
        if let Some(params) = message.remove("params") {
            let mut params = members(params.get())?;
            arguments = params.remove("arguments").map(|arguments| arguments.get().to_owned());
            whole.insert("params".to_owned(), values(params)?);
        }
        let Value::Object(rest) = values(message)? else {
            return Err("a message is an object".to_owned());
        };
        whole.extend(rest);
        Ok(Self { whole: Value::Object(whole), arguments })
    }

    pub(crate) fn id(&self) -> Option<&Value> {
        self.whole.get("id")
    }

    pub(crate) fn method(&self) -> Option<&str> {
        self.whole.get("method").and_then(Value::as_str)
    }

    pub(crate) fn params(&self) -> &Value {
        &self.whole["params"]
    }

    pub(crate) fn meta(&self) -> &Value {
        &self.params()["_meta"]
    }

    /// Returns the generation that the message claims to belong to.
    pub(crate) fn era(&self) -> Era {
        let names_one =
            self.method() == Some("server/discover") || !self.meta()[VERSION_KEY].is_null();
        if names_one { Era::Modern } else { Era::Legacy }
    }
}

fn members(text: &str) -> Result<BTreeMap<String, &RawValue>, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

fn values(members: BTreeMap<String, &RawValue>) -> Result<Value, String> {
    let values = members.into_iter().map(|(key, value)| {
        let value = serde_json::from_str(value.get()).map_err(|error| error.to_string())?;
        Ok((key, value))
    });
    values.collect::<Result<Map<_, _>, String>>().map(Value::Object)
}

/// Returns an answer with a result, with the members that its generation requires.
pub(crate) fn result(era: Era, id: &Value, mut body: Value) -> Value {
    if era == Era::Modern {
        if body.get("resultType").is_none() {
            body["resultType"] = "complete".into();
        }
        body["_meta"]["io.modelcontextprotocol/serverInfo"] = server_info();
    }
    json!({ "jsonrpc": "2.0", "id": id, "result": body })
}

/// Returns a call's result that consists of one text.
pub(crate) fn text(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }] })
}

/// Returns an answer with an error.
pub(crate) fn error(id: &Value, code: i64, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}

/// Returns the name and the version of the peer.
pub(crate) fn server_info() -> Value {
    json!({ "name": "peer", "version": "1" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_kept_as_they_were_written() {
        let line = r#"{"id":1,"params":{"arguments":{ "b":1e400, "a" : "\u00fc"}, "name":"x"}}"#;
        let message = Message::read(line).expect("a message");
        assert_eq!(message.arguments.as_deref(), Some(r#"{ "b":1e400, "a" : "\u00fc"}"#));
        assert_eq!(message.params()["name"], "x");
        assert_eq!(message.era(), Era::Legacy);
    }

    #[test]
    fn results_of_the_newer_generation_have_a_type() {
        let id = json!(7);
        assert_eq!(
            result(Era::Legacy, &id, json!({})),
            json!({ "jsonrpc": "2.0", "id": 7, "result": {} })
        );
        let modern = result(Era::Modern, &id, text("a"));
        assert_eq!(modern["result"]["resultType"], "complete");
        let asking = result(Era::Modern, &id, json!({ "resultType": "input_required" }));
        assert_eq!(asking["result"]["resultType"], "input_required");
    }
}
