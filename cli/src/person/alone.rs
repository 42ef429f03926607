//! Questions at a terminal without an editor. Each has a thread, which blocks until there is an
//! answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use ikigai_terminal::Screen;
use ikigai_terminal::question::{self, KeyQuestion};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::{PendingAnswer, QuestionTerminal};

/// The terminal of stdin, which shows one question at a time.
pub(super) struct Alone {
    screen: Screen,
    /// Locked while a question has the terminal.
    terminal: Arc<Mutex<()>>,
}

/// An open question. Dropping this withdraws it.
struct QuestionMarker(Arc<AtomicBool>);

impl Drop for QuestionMarker {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Alone {
    pub(super) fn new(screen: Screen) -> Self {
        Self { screen, terminal: Arc::default() }
    }
}

impl QuestionTerminal for Alone {
    fn put(&self, question: KeyQuestion) -> PendingAnswer<'_> {
        let is_over = Arc::new(AtomicBool::new(false));
        let asked = QuestionMarker(Arc::clone(&is_over));
        let (screen, terminal) = (self.screen.clone(), Arc::clone(&self.terminal));
        let (sender, receiver) = oneshot::channel();
        let ask = move || {
            let one = terminal.lock();
            let given = question::ask(&screen, &question, &|| is_over.load(Ordering::Relaxed));
            drop(one);
            // The call may have ended in the meantime. A terminal that fails gives no answer.
            let _ = sender.send(given.ok().flatten());
        };
        let started = thread::Builder::new().name("question".to_owned()).spawn(ask);
        Box::pin(async move {
            started.ok()?;
            let given = receiver.await.ok().flatten();
            drop(asked);
            given
        })
    }

    /// Waits for the terminal. A withdrawn question releases it at once.
    fn settle(&self) {
        drop(self.terminal.lock());
    }
}
