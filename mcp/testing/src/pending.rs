//! Calls that wait: for their end by the client, or for its answer to a question.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use serde_json::Value;

use crate::peer::lock;

/// The calls and the questions that a peer waits on.
#[derive(Default)]
pub(crate) struct Pending {
    /// By the id of the request.
    calls: Mutex<HashMap<String, Sender<()>>>,
    /// By the id of the question.
    questions: Mutex<HashMap<String, Sender<Value>>>,
}

impl Pending {
    /// Returns a receiver of the end of a call.
    pub(crate) fn until_cancelled(&self, id: &Value) -> Receiver<()> {
        let (sender, receiver) = channel();
        lock(&self.calls).insert(id.to_string(), sender);
        receiver
    }

    /// Ends a call; one that has ended, or never was, is left alone.
    pub(crate) fn cancel(&self, id: &Value) {
        if let Some(call) = lock(&self.calls).remove(&id.to_string()) {
            // The thread of a call lives until this message.
            let _ = call.send(());
        }
    }

    /// Returns a receiver of the answer to a question of the peer.
    pub(crate) fn until_answered(&self, question: &Value) -> Receiver<Value> {
        let (sender, receiver) = channel();
        lock(&self.questions).insert(question.to_string(), sender);
        receiver
    }

    /// Takes an answer. Returns `false` if nothing was asked.
    pub(crate) fn answered(&self, question: &Value, answer: &Value) -> bool {
        let asked = lock(&self.questions).remove(&question.to_string());
        asked.is_some_and(|asked| asked.send(answer.clone()).is_ok())
    }
}
