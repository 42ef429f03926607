//! The questions that wait for the user, one after the other.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::{KeyQuestion, KeyReply};

/// A function that is called with the answer.
type OnAnswer = Box<dyn FnOnce(KeyReply) + Send>;

/// A handle that asks the user questions at an editor, from any thread. The editor shows them while
/// it [watches](crate::Editor::watch). Clones share the queue.
#[derive(Clone, Default)]
pub struct QuestionSender(Arc<SharedQueue>);

#[derive(Default)]
struct SharedQueue {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<PendingQuestion>,
    is_closed: bool,
}

/// A question that was asked. Dropping this withdraws the question.
#[must_use = "the question is asked as long as this lives"]
#[derive(Debug)]
pub struct QuestionHandle(Arc<AtomicBool>);

/// A question that waits or is being asked.
pub(crate) struct PendingQuestion {
    pub(crate) question: KeyQuestion,
    on_answer: OnAnswer,
    is_void: Arc<AtomicBool>,
}

impl QuestionSender {
    /// Asks a question, and calls `on_answer` with the answer. If the question is withdrawn or the
    /// editor ends, `on_answer` is dropped without a call.
    pub fn ask(
        &self,
        question: KeyQuestion,
        on_answer: impl FnOnce(KeyReply) + Send + 'static,
    ) -> QuestionHandle {
        let is_void = Arc::new(AtomicBool::new(false));
        let asked = QuestionHandle(Arc::clone(&is_void));
        let pending = PendingQuestion { question, on_answer: Box::new(on_answer), is_void };
        let mut queue = self.0.queue.lock();
        if !queue.is_closed {
            queue.waiting.push_back(pending);
            self.0.changed.notify_all();
        }
        asked
    }

    /// Returns the next question that was not withdrawn.
    pub(crate) fn take(&self) -> Option<PendingQuestion> {
        self.0.queue.lock().take()
    }

    /// Returns the next question, and waits at most `time` for it.
    pub(crate) fn wait(&self, time: Duration) -> Option<PendingQuestion> {
        let mut queue = self.0.queue.lock();
        if queue.waiting.is_empty() {
            self.0.changed.wait_for(&mut queue, time);
        }
        queue.take()
    }

    /// Drops the questions that wait, and all later ones.
    pub(crate) fn close(&self) {
        let mut queue = self.0.queue.lock();
        queue.is_closed = true;
        let waiting = std::mem::take(&mut queue.waiting);
        drop(queue);
        drop(waiting);
    }
}

impl Queue {
    fn take(&mut self) -> Option<PendingQuestion> {
        self.waiting.retain(|pending| !pending.is_void());
        self.waiting.pop_front()
    }
}

impl PendingQuestion {
    pub(crate) fn is_void(&self) -> bool {
        self.is_void.load(Ordering::Relaxed)
    }

    pub(crate) fn answer(self, given: KeyReply) {
        (self.on_answer)(given);
    }
}

impl Drop for QuestionHandle {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl fmt::Debug for QuestionSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asker").field("waiting", &self.0.queue.lock().waiting.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn questions_wait_in_their_order_and_can_be_taken_back() {
        let asker = QuestionSender::default();
        let (sender, answers) = mpsc::channel();
        let ask = |text: &str| {
            let (sender, named) = (sender.clone(), text.to_owned());
            let question = KeyQuestion { text: text.to_owned(), ..KeyQuestion::default() };
            asker.ask(question, move |given| {
                sender.send((named, given)).expect("somebody listens");
            })
        };
        let (_first, second, _third) = (ask("first"), ask("second"), ask("third"));
        drop(second);
        let texts = || asker.wait(Duration::ZERO).map(|it| it.question.text.clone());
        let pending = asker.take().expect("the first");
        assert_eq!(pending.question.text, "first");
        pending.answer(KeyReply::Key('o'));
        assert_eq!(texts().as_deref(), Some("third"));
        assert_eq!(texts(), None);
        assert_eq!(answers.try_recv(), Ok(("first".to_owned(), KeyReply::Key('o'))));
        asker.close();
        let _late = ask("late");
        assert_eq!(texts(), None);
        drop(sender);
        assert!(answers.recv().is_err(), "nothing holds the function of a question that is gone");
    }
}
