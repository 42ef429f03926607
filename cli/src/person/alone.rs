//! Questions at a terminal without an editor: each has a thread, which blocks until it is answered.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use ikigai_terminal::Screen;
use ikigai_terminal::question::{self, Given, Question};
use tokio::sync::oneshot;

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

    /// Asks, and returns nothing if the terminal fails. A future that is dropped takes its question
    /// back.
    pub(super) async fn ask(&self, question: Question) -> Option<Given> {
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
        thread::Builder::new().name("question".to_owned()).spawn(ask).ok()?;
        let given = receiver.await.ok().flatten();
        drop(asked);
        given
    }

    /// Waits until no question has the terminal. One that was taken back gives it up at once.
    pub(super) fn settle(&self) {
        drop(self.terminal.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
