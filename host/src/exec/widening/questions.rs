//! The queue of questions of a host, which all of its calls share.

use bytes::Bytes;
use ikigai_protocol::Digest;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::consent::WidenAnswer;
use crate::policy::RequestedAccess;

/// The open questions of a host. Equal questions of parallel calls are asked once, and different
/// questions are asked one after the other.
#[derive(Default)]
pub(crate) struct OpenQuestions {
    turn: tokio::sync::Mutex<()>,
    open: Mutex<Vec<SharedQuestion>>,
}

/// An open question, and the other calls that wait for its answer.
struct SharedQuestion {
    key: QuestionKey,
    waiting: Vec<oneshot::Sender<WidenAnswer>>,
}

/// Everything that the user sees of a question. Two questions are equal if all of it is equal.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct QuestionKey {
    pub(super) title: String,
    pub(super) contents: Vec<Digest>,
    pub(super) arguments: Bytes,
    pub(super) reached: Vec<RequestedAccess>,
    pub(super) again: bool,
}

/// The turn of a question. No other question of the host is asked until this is dropped.
pub(super) struct QuestionTurn<'a> {
    _turn: tokio::sync::MutexGuard<'a, ()>,
    _closing: QuestionGuard<'a>,
}

/// Closes a question when this is dropped, answered or not. Calls that still wait then ask it
/// themselves.
struct QuestionGuard<'a> {
    questions: &'a OpenQuestions,
    key: &'a QuestionKey,
}

impl Drop for QuestionGuard<'_> {
    fn drop(&mut self) {
        self.questions.open.lock().retain(|it| it.key != *self.key);
    }
}

impl OpenQuestions {
    /// Waits for the turn of a question.
    ///
    /// # Errors
    ///
    /// Fails if the user answers an equal question of another call. The error is the answer.
    pub(super) async fn turn<'a>(
        &'a self,
        key: &'a QuestionKey,
    ) -> Result<QuestionTurn<'a>, WidenAnswer> {
        while let Some(waiting) = self.join(key) {
            // The call that asks may be cancelled. Then this call asks.
            if let Ok(answer) = waiting.await {
                return Err(answer);
            }
        }
        let closing = QuestionGuard { questions: self, key };
        Ok(QuestionTurn { _turn: self.turn.lock().await, _closing: closing })
    }

    /// Joins an equal open question, and returns the channel of its answer. If no equal question is
    /// open, opens this one and returns nothing.
    fn join(&self, key: &QuestionKey) -> Option<oneshot::Receiver<WidenAnswer>> {
        let mut open = self.open.lock();
        if let Some(equal) = open.iter_mut().find(|it| it.key == *key) {
            let (answer, waiting) = oneshot::channel();
            equal.waiting.push(answer);
            return Some(waiting);
        }
        open.push(SharedQuestion { key: key.clone(), waiting: Vec::new() });
        None
    }

    /// Gives the answer to the calls that wait for it.
    pub(super) fn answer_others(&self, key: &QuestionKey, answer: &WidenAnswer) {
        let mut open = self.open.lock();
        let equal = open.iter_mut().find(|it| it.key == *key);
        for waiting in equal.map(|it| std::mem::take(&mut it.waiting)).unwrap_or_default() {
            // Its call may have been cancelled.
            let _ = waiting.send(answer.clone());
        }
    }
}
