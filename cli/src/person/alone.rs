//! Questions at a terminal without an editor: each has a thread, which blocks until it is answered.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use ikigai_terminal::Screen;
use ikigai_terminal::question::{self, Question};
use tokio::sync::oneshot;

use super::{Place, Waiting};

/// The terminal of stdin, where one question is asked at a time.
pub(super) struct Alone {
    screen: Screen,
    /// Locked while a question has the terminal.
    terminal: Arc<Mutex<()>>,
}

/// A question that is asked as long as this lives.
struct Asked(Arc<AtomicBool>);

impl Drop for Asked {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Alone {
    pub(super) fn new(screen: Screen) -> Self {
        Self { screen, terminal: Arc::default() }
    }
}

impl Place for Alone {
    fn put(&self, question: Question) -> Waiting<'_> {
        let is_over = Arc::new(AtomicBool::new(false));
        let asked = Asked(Arc::clone(&is_over));
        let (screen, terminal) = (self.screen.clone(), Arc::clone(&self.terminal));
        let (sender, receiver) = oneshot::channel();
        let ask = move || {
            let one = terminal.lock().unwrap_or_else(PoisonError::into_inner);
            let given = question::ask(&screen, &question, &|| is_over.load(Ordering::Relaxed));
            drop(one);
            // The call may have ended meanwhile. A terminal that fails answers nothing.
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

    /// Waits. A question that was taken back gives the terminal up at once.
    fn settle(&self) {
        drop(self.terminal.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
