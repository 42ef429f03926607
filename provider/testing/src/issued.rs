//! What a server gave out and knows again: ids of its own making, and what it signed.

use std::collections::HashMap;

use serde_json::Value;

/// The memory of one server.
#[derive(Debug, Default)]
pub(crate) struct Issued {
    counter: u64,
    signed: HashMap<String, Value>,
    reasons: HashMap<String, String>,
}

impl Issued {
    /// An id that was not given out before.
    pub(crate) fn id(&mut self, prefix: &str) -> String {
        self.counter += 1;
        format!("{prefix}{:016x}", 0x00c0_ffee_0000_0000_u64 + self.counter)
    }

    /// A signature over `what`. It has the characters of base64, those included that an
    /// address or an id may not have.
    pub(crate) fn sign(&mut self, what: Value) -> String {
        let signature = format!("{}+s/==", self.id("Eq"));
        self.signed.insert(signature.clone(), what);
        signature
    }

    /// What a signature was given for.
    pub(crate) fn signed(&self, signature: &str) -> Option<&Value> {
        self.signed.get(signature)
    }

    /// Remembers that an item came of a reasoning item.
    pub(crate) fn reasoned(&mut self, item: &str, reasoning: &str) {
        self.reasons.insert(item.to_owned(), reasoning.to_owned());
    }

    /// The reasoning item that an item came of.
    pub(crate) fn reason_of(&self, item: &str) -> Option<&str> {
        self.reasons.get(item).map(String::as_str)
    }
}
