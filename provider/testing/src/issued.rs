//! The data that a server issued and recognises: its ids and its signatures.

use std::collections::HashMap;

use serde_json::Value;

/// The issued data of one server.
#[derive(Debug, Default)]
pub(crate) struct Issued {
    counter: u64,
    signed: HashMap<String, Value>,
    reasons: HashMap<String, String>,
}

impl Issued {
    /// Returns a new id.
    pub(crate) fn id(&mut self, prefix: &str) -> String {
        self.counter += 1;
        format!("{prefix}{:016x}", 0x00c0_ffee_0000_0000_u64 + self.counter)
    }

    /// Returns a signature for `what`. It has all characters of base64, including those that are
    /// invalid in an address or an id.
    pub(crate) fn sign(&mut self, what: Value) -> String {
        let signature = format!("{}+s/==", self.id("Eq"));
        self.signed.insert(signature.clone(), what);
        signature
    }

    /// Returns the value that a signature was issued for.
    pub(crate) fn signed(&self, signature: &str) -> Option<&Value> {
        self.signed.get(signature)
    }

    /// Records the reasoning item that an item came from.
    pub(crate) fn reasoned(&mut self, item: &str, reasoning: &str) {
        self.reasons.insert(item.to_owned(), reasoning.to_owned());
    }

    pub(crate) fn reason_of(&self, item: &str) -> Option<&str> {
        self.reasons.get(item).map(String::as_str)
    }
}
