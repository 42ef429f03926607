//! The view of a turn: shows its events on the screen as they happen.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use ikigai_host::limits::{Deadline, Extended};
use ikigai_terminal::editor::WorkKey;
use ikigai_terminal::{Busy, CallSummary, Screen, TimeLimit, in_words, one_line};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::keyboard::OnKey;
use super::out::Out;
use super::result::{ResultExcerpt, ResultView};
use super::results::RecentResults;
use crate::remedy;
use ikigai_agent::{CallError, Calling, FinishedCall, TurnEvent, Undone};

/// The lines of a result that are shown below its call.
const RESULT_LINES: usize = 4;

/// The lines of a change that are shown below its call.
const CHANGE_LINES: usize = 16;

/// The time that a key adds to the running calls.
const MORE_TIME: Duration = Duration::from_mins(2);

/// The hint on the line of a call about adding time.
const HOW_TO_GIVE_TIME: &str = "Ctrl-T adds 2 min";

/// The view of one turn. Clones share it.
#[derive(Clone)]
pub(super) struct Show {
    state: Arc<Mutex<DisplayState>>,
}

struct DisplayState {
    screen: Screen,
    is_live: bool,
    results: RecentResults,
    /// The hint about showing the whole result.
    more: &'static str,
    busy: Option<Busy>,
    /// The model's thoughts that are not on the screen yet: the beginning of a line.
    thought: String,
    is_thinking: bool,
    /// The number of calls that have a line and have not ended.
    running: usize,
    /// The running calls: the id, the name of the tool, and the deadline.
    deadlines: Vec<(String, String, Deadline)>,
    failed: Option<io::Error>,
    cancel: CancellationToken,
}

impl Show {
    /// Makes the view of a turn. If it cannot write to the terminal, it cancels `cancel`, since
    /// there is no reader for the rest.
    pub(super) fn new(out: &Out, results: &RecentResults, cancel: &CancellationToken) -> Self {
        let (screen, results, cancel) = (out.screen().clone(), results.clone(), cancel.clone());
        let is_live = out.look().live;
        // If the cursor cannot be moved, input is only read line by line.
        let more = if is_live { "Ctrl-O shows all" } else { "/last shows all" };
        let state = DisplayState {
            screen,
            is_live,
            results,
            more,
            busy: None,
            thought: String::new(),
            is_thinking: false,
            running: 0,
            deadlines: Vec::new(),
            failed: None,
            cancel,
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Returns a function that shows events.
    pub(super) fn on_event(&self) -> impl for<'e> FnMut(TurnEvent<'e>) + Send + use<> {
        let show = self.clone();
        move |event| {
            let mut state = show.state.lock();
            let shown = state.on_event(&event);
            state.keep_error(shown);
        }
    }

    /// Returns a function for the keys that the user presses during the turn.
    pub(super) fn on_key(&self) -> OnKey {
        let show = self.clone();
        Arc::new(move |key| {
            let mut state = show.state.lock();
            match key {
                WorkKey::Interrupt => state.cancel.cancel(),
                WorkKey::MoreTime => {
                    let shown = state.give_time();
                    state.keep_error(shown);
                }
            }
        })
    }

    /// Shows a text while ikigai waits.
    pub(super) fn wait_for(&self, what: &str) {
        let mut state = self.state.lock();
        let shown = state.wait_for(what);
        state.keep_error(shown);
    }

    /// Removes the text of [`Self::wait_for`].
    pub(super) fn stop_waiting(&self) {
        self.state.lock().busy = None;
    }

    /// Ends the view: the model's text, and the lines of calls that were dropped.
    pub(super) fn finish(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        state.busy = None;
        if let Some(error) = state.failed.take() {
            return Err(error);
        }
        state.end_thought()?;
        state.screen.end_calls("cancelled")?;
        state.screen.end_text()
    }
}

impl DisplayState {
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

    /// Shows the complete lines of the thoughts, above the spinner.
    fn think(&mut self, piece: &str) -> io::Result<()> {
        self.thought.push_str(piece);
        if let Some(end) = self.thought.rfind('\n') {
            let rest = self.thought.split_off(end + 1);
            let lines = std::mem::replace(&mut self.thought, rest);
            if !lines.trim().is_empty() {
                self.screen.thought(&lines)?;
            }
        }
        match std::mem::replace(&mut self.is_thinking, true) {
            true => Ok(()),
            false => self.wait_for("thinking"),
        }
    }

    fn end_thought(&mut self) -> io::Result<()> {
        self.is_thinking = false;
        let rest = std::mem::take(&mut self.thought);
        if rest.trim().is_empty() { Ok(()) } else { self.screen.thought(&rest) }
    }

    fn on_event(&mut self, event: &TurnEvent<'_>) -> io::Result<()> {
        if !matches!(event, TurnEvent::Thinking(_)) {
            self.end_thought()?;
        }
        match event {
            TurnEvent::Warning(text) => self.screen.line(&format!("warning: {text}")),
            TurnEvent::Image(image) => self.screen.line(&image.to_string()),
            TurnEvent::CrowdedOut(tools) => {
                self.screen.line(&format!("warning: {}", remedy::offer::warning(tools)))
            }
            TurnEvent::Text(text) => {
                self.busy = None;
                self.screen.text(text)
            }
            TurnEvent::Thinking(piece) => self.think(piece),
            TurnEvent::Asking(name) => self.wait_for(&format!("{name} …")),
            TurnEvent::Calling(Calling { id, name, arguments }) => {
                self.busy = None;
                self.running += 1;
                self.screen.queue_call(id, name, arguments)
            }
            TurnEvent::Running(Calling { id, name, arguments }, deadline) => {
                self.screen.begin_call(id, name, arguments)?;
                self.deadlines.push(((*id).to_owned(), (*name).to_owned(), (*deadline).clone()));
                let deadline = (*deadline).clone();
                self.screen.limit_call(id, move || time_limit(&deadline));
                Ok(())
            }
            TurnEvent::Called(called) => self.called(called),
            TurnEvent::Retry { wait, failure, .. } => {
                let seconds = wait.as_secs_f32();
                let text = format!("{failure}; trying again in {seconds:.1} s");
                // Use one line for all attempts, if a line can be replaced.
                if self.is_live { self.wait_for(&text) } else { self.screen.line(&text) }
            }
            TurnEvent::Answered(_) => {
                self.busy = None;
                self.screen.end_text()
            }
            TurnEvent::Compacted(compacted) => self.screen.line(&compacted.to_string()),
        }
    }

    /// Gives the running calls more time, and prints how much each has now.
    fn give_time(&self) -> io::Result<()> {
        let mut lines: Vec<String> = Vec::new();
        for (_, name, deadline) in &self.deadlines {
            let line = match deadline.extend(MORE_TIME) {
                Extended::To(time) => format!("{name} may now run for {}.", in_words(time)),
                Extended::ToCeiling(time) => {
                    format!("{name} may run for {}: policy allows no more.", in_words(time))
                }
                Extended::NotBegun => continue,
            };
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        if lines.is_empty() { Ok(()) } else { self.screen.line(&lines.join("\n")) }
    }

    fn called(&mut self, called: &FinishedCall) -> io::Result<()> {
        let FinishedCall { id, name, duration, characters, .. } = called;
        self.deadlines.retain(|(other, ..)| other != id);
        let error = called.error.as_ref().map(|error| in_short(called, error));
        let size = u64::try_from(*characters).unwrap_or(u64::MAX);
        let ended = CallSummary { duration: *duration, size, error };
        self.screen.end_call(id, name, ended)?;
        let result = ResultView::from_called(called);
        match (&called.error, &result.shown) {
            _ if called.is_cancelled => {}
            (Some(error), _) => {
                self.screen.line(&format!("  {}", beginning(&error.message)))?;
                if let Some(command) = &called.allow_with {
                    self.screen.line(&format!("  {}", remedy::allow_with(command)))?;
                }
                self.screen.result(&result.printed, RESULT_LINES, self.more)?;
            }
            (None, ResultExcerpt::Text(text)) => {
                self.screen.result(text, RESULT_LINES, self.more)?
            }
            (None, ResultExcerpt::Diff(diff)) => {
                self.screen.change(diff, CHANGE_LINES, self.more)?
            }
        }
        self.results.push(result);
        self.running = self.running.saturating_sub(1);
        if self.running == 0 { self.wait_for("waiting for the model") } else { Ok(()) }
    }
}

/// Returns the time limit of a call, if it is decided.
fn time_limit(deadline: &Deadline) -> Option<TimeLimit> {
    let time = deadline.time()?;
    Some(TimeLimit { time, hint: deadline.can_be_extended().then_some(HOW_TO_GIVE_TIME) })
}

/// Returns the outcome for each file that the last turn changed.
pub(super) fn undone(undone: &Undone) -> String {
    let Undone { restored, removed, kept } = undone;
    let restored = restored.iter().map(|path| format!("restored {}", path.display()));
    let removed = removed.iter().map(|path| format!("removed {}, which was new", path.display()));
    let kept = kept.iter().map(|(path, why)| format!("left {} unchanged: {why}", path.display()));
    let lines: Vec<String> = restored.chain(removed).chain(kept).collect();
    if lines.is_empty() {
        return "file_write and file_edit changed nothing in the last turn.".to_owned();
    }
    lines.join("\n")
}

/// Returns the error in one word. The next line has its message.
fn in_short<'a>(called: &FinishedCall, error: &'a CallError) -> &'a str {
    if called.is_cancelled { "cancelled" } else { &error.code }
}

/// Returns the beginning of an error on one line, short enough to read between two calls.
fn beginning(message: &str) -> String {
    const SHOWN: usize = 300;
    let line = one_line(&message.chars().take(SHOWN).collect::<String>());
    if message.chars().nth(SHOWN).is_some() { line + "…" } else { line }
}
