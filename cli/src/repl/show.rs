//! The view of a turn: its events on the screen, as they happen.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ikigai_terminal::{Busy, Ended, Screen, one_line};
use tokio_util::sync::CancellationToken;

use super::out::Out;
use crate::remedy;
use ikigai_agent::{CallError, Called, Calling, Event};

/// The view of one turn. Clones share it.
#[derive(Clone)]
pub(super) struct Show {
    state: Arc<Mutex<State>>,
}

struct State {
    screen: Screen,
    busy: Option<Busy>,
    /// The number of calls that have a line and have not ended.
    running: usize,
    failed: Option<io::Error>,
    cancel: CancellationToken,
}

impl Show {
    /// Makes the view of a turn. It cancels `cancel` if the terminal cannot be written to, since
    /// nobody would read the rest.
    pub(super) fn new(out: &Out, cancel: &CancellationToken) -> Self {
        let (screen, cancel) = (out.screen().clone(), cancel.clone());
        let state = State { screen, busy: None, running: 0, failed: None, cancel };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Returns a function that shows events.
    pub(super) fn on_event(&self) -> impl for<'e> FnMut(Event<'e>) + Send + use<> {
        let show = self.clone();
        move |event| {
            let mut state = show.lock();
            let shown = state.on_event(&event);
            state.keep_error(shown);
        }
    }

    /// Shows a text while something is waited for.
    pub(super) fn wait_for(&self, what: &str) {
        let mut state = self.lock();
        let shown = state.wait_for(what);
        state.keep_error(shown);
    }

    /// Removes the text of [`Self::wait_for`].
    pub(super) fn stop_waiting(&self) {
        self.lock().busy = None;
    }

    /// Ends the view: the text of the model, and the lines of calls that were dropped.
    pub(super) fn finish(&self) -> io::Result<()> {
        let mut state = self.lock();
        state.busy = None;
        if let Some(error) = state.failed.take() {
            return Err(error);
        }
        state.screen.end_calls("cancelled")?;
        state.screen.end_text()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Keeps the first error of the screen, and cancels the turn.
    fn keep_error(&mut self, shown: io::Result<()>) {
        if let Err(error) = shown {
            self.failed.get_or_insert(error);
            self.cancel.cancel();
        }
    }

    fn wait_for(&mut self, what: &str) -> io::Result<()> {
        self.busy = None;
        self.busy = Some(self.screen.busy(what)?);
        Ok(())
    }

    fn on_event(&mut self, event: &Event<'_>) -> io::Result<()> {
        match event {
            Event::Warning(text) => self.screen.line(&format!("warning: {text}")),
            Event::CrowdedOut(tools) => {
                self.screen.line(&format!("warning: {}", remedy::offer::warning(tools)))
            }
            Event::Text(text) => {
                self.busy = None;
                self.screen.text(text)
            }
            Event::Thinking => self.wait_for("thinking"),
            Event::Asking(name) => self.wait_for(&format!("{name} …")),
            Event::Calling(Calling { id, name, arguments }) => {
                self.busy = None;
                self.running += 1;
                self.screen.queue_call(id, name, arguments)
            }
            Event::Running(Calling { id, name, arguments }) => {
                self.screen.begin_call(id, name, arguments)
            }
            Event::Called(called) => self.called(called),
            Event::Retry { wait, failure, .. } => {
                let seconds = wait.as_secs_f32();
                self.screen.line(&format!("{failure}; trying again in {seconds:.1} s"))
            }
            Event::Answered(_) => {
                self.busy = None;
                self.screen.end_text()
            }
            Event::Compacted(compacted) => self.screen.line(&compacted.to_string()),
        }
    }

    fn called(&mut self, called: &Called) -> io::Result<()> {
        let Called { id, name, duration, characters, .. } = called;
        let error = called.error.as_ref().map(|error| in_short(called, error));
        let size = u64::try_from(*characters).unwrap_or(u64::MAX);
        let ended = Ended { duration: *duration, size, error };
        self.screen.end_call(id, name, ended)?;
        if let Some(error) = called.error.as_ref().filter(|_| !called.is_cancelled) {
            self.screen.line(&format!("  {}", beginning(&error.message)))?;
        }
        self.running = self.running.saturating_sub(1);
        if self.running == 0 { self.wait_for("waiting for the model") } else { Ok(()) }
    }
}

/// Returns the error in a word. Its message is on the line after it.
fn in_short<'a>(called: &Called, error: &'a CallError) -> &'a str {
    if called.is_cancelled { "cancelled" } else { &error.code }
}

/// Returns the beginning of an error on one line, as much as a person reads between two calls.
fn beginning(message: &str) -> String {
    const SHOWN: usize = 300;
    let line = one_line(&message.chars().take(SHOWN).collect::<String>());
    if message.chars().nth(SHOWN).is_some() { line + "…" } else { line }
}
