//! The ids of calls: unique in their conversation, and in a form that every provider accepts.

use std::collections::{HashMap, HashSet};

use crate::{Message, Part};

/// The maximum length of an id. OpenAI accepts 64 characters for `call_id`. Anthropic specifies the
/// characters (`^[a-zA-Z0-9_-]+$`) and no length.
const MAX_BYTES: usize = 64;

/// The ids that a conversation uses.
#[derive(Debug, Default)]
pub(super) struct CallIds {
    taken: HashSet<String>,
    /// The last number that was added to each id. The next search begins there, so that many calls
    /// with one id cost no more than many calls with different ids.
    suffixes: HashMap<String, usize>,
}

impl CallIds {
    /// Collects the ids of the calls in these messages.
    pub(super) fn from_messages(messages: &[Message]) -> Self {
        let mut ids = Self::default();
        for call in calls(messages) {
            ids.taken.insert(call.to_owned());
            ids.taken.insert(fitting(call));
        }
        ids
    }

    /// Returns an id for a new call: the received id if it is valid and free, and otherwise a
    /// similar one.
    pub(super) fn take(&mut self, came: &str) -> String {
        let base = fitting(if came.is_empty() { "call" } else { came });
        if !came.is_empty() && self.taken.insert(base.clone()) {
            return base;
        }
        let mut number = self.suffixes.get(&base).copied().unwrap_or(0);
        loop {
            number += 1;
            let suffix = format!("_{number}");
            // The id is ASCII.
            let kept = base.len().min(MAX_BYTES - suffix.len());
            let id = format!("{}{suffix}", &base[..kept]);
            if self.taken.insert(id.clone()) {
                self.suffixes.insert(base, number);
                return id;
            }
        }
    }
}

/// The ids that are sent, by the ids in the conversation. Ids that this crate made are sent
/// unchanged. Other ids may come from a conversation that another program stored.
#[derive(Debug)]
pub(super) struct SentIds<'a>(HashMap<&'a str, String>);

impl<'a> SentIds<'a> {
    /// Assigns an id to each call in these messages.
    pub(super) fn from_messages(messages: &'a [Message]) -> Self {
        let mut sent = HashMap::new();
        let mut ids = CallIds::default();
        for id in calls(messages) {
            sent.entry(id).or_insert_with(|| ids.take(id));
        }
        Self(sent)
    }

    /// Returns the id to send for `id`. If no call has the id, it is only made valid, and the
    /// provider refuses its result with a reason.
    pub(super) fn get(&self, id: &str) -> String {
        self.0.get(id).cloned().unwrap_or_else(|| fitting(id))
    }
}

fn calls(messages: &[Message]) -> impl Iterator<Item = &str> {
    messages.iter().flat_map(|message| &message.parts).filter_map(|part| match part {
        Part::Call(call) => Some(call.id.as_str()),
        _ => None,
    })
}

fn fitting(id: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    id.chars().map(plain).take(MAX_BYTES).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_and_fit() {
        let mut ids = CallIds::default();
        assert_eq!(ids.take("call_a"), "call_a");
        assert_eq!(ids.take("call_a"), "call_a_1");
        assert_eq!(ids.take("call_a"), "call_a_2");
        assert_eq!(ids.take("call_a_1"), "call_a_1_1");
        assert_eq!(ids.take(""), "call_1");
        assert_eq!(ids.take(""), "call_2");
        assert_eq!(ids.take("functions.f:0"), "functions_f_0");
        assert_eq!(ids.take("functions/f:0"), "functions_f_0_1");
        let long = "x".repeat(100);
        assert_eq!(ids.take(&long), "x".repeat(64));
        assert_eq!(ids.take(&long), format!("{}_1", "x".repeat(62)));
        assert_eq!(ids.take("é"), "_");
    }

    #[test]
    fn an_id_of_the_conversation_is_taken() {
        let call = crate::ModelCall {
            id: "a:1".into(),
            name: "f".into(),
            arguments: "{}".into(),
            blob: None,
        };
        let messages = [Message { role: crate::Role::Model, parts: vec![Part::Call(call)] }];
        assert_eq!(CallIds::from_messages(&messages).take("a_1"), "a_1_1");
        assert_eq!(SentIds::from_messages(&messages).get("a:1"), "a_1");
    }

    #[test]
    fn many_equal_ids_take_no_time() {
        let mut ids = CallIds::default();
        let all: HashSet<String> = (0..100_000).map(|_| ids.take("same")).collect();
        assert_eq!(all.len(), 100_000);
    }
}
