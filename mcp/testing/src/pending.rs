//! Waiting calls and questions: a call waits for its cancellation, a question for the client's
//! answer.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, Sender, channel};

use parking_lot::Mutex;
use serde_json::Value;

/// The calls and questions that wait for the client.
#[derive(Default)]
pub(crate) struct Pending {
    /// The calls, by the request's id.
    calls: Mutex<HashMap<String, Sender<()>>>,
    /// The questions, by the question's id.
    questions: Mutex<HashMap<String, Sender<Value>>>,
}

impl Pending {
    /// Returns a receiver that reports the cancellation of a call.
    pub(crate) fn until_cancelled(&self, id: &Value) -> Receiver<()> {
        let (sender, receiver) = channel();
        self.calls.lock().insert(id.to_string(), sender);
        receiver
    }

    /// Cancels a call. Ignores a call that has ended or never existed.
    pub(crate) fn cancel(&self, id: &Value) {
        if let Some(call) = self.calls.lock().remove(&id.to_string()) {
            // The thread of a call lives until this message.
            let _ = call.send(());
        }
    }

    /// Returns a receiver of the answer to a question of the peer.
    pub(crate) fn until_answered(&self, question: &Value) -> Receiver<Value> {
        let (sender, receiver) = channel();
        self.questions.lock().insert(question.to_string(), sender);
        receiver
    }

    /// Takes an answer. Returns `false` if it answers no question.
    pub(crate) fn answered(&self, question: &Value, answer: &Value) -> bool {
        let asked = self.questions.lock().remove(&question.to_string());
        asked.is_some_and(|asked| asked.send(answer.clone()).is_ok())
    }
}
