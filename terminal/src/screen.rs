//! What is written below the last prompt: streamed text, lines for calls that run and
//! have ended, and a word on what is being waited for.
//!
//! One owner of the output, so that a spinner never lands inside a sentence. Lines that
//! change are the last ones of the screen; everything above them is never touched again.

mod line;

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Style};

use self::line::{Line, What};
use crate::fold::folded;
use crate::look::{Look, Size};
use crate::markdown::Markdown;
use crate::sanitize::{harmless, one_line, written_out};

/// How often a spinner turns.
const TURN: Duration = Duration::from_millis(100);

/// The output of a conversation. Clones write to the same place.
#[derive(Clone)]
pub struct Screen {
    shared: Arc<Shared>,
}

/// How a call ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended<'a> {
    /// From its start to its answer.
    pub duration: Duration,
    /// Characters of its answer.
    pub size: u64,
    /// The code or the words of what went wrong, if something did.
    pub error: Option<&'a str>,
}

/// Shows what is being waited for until it is dropped.
#[must_use = "what is waited for is shown as long as this lives"]
#[derive(Debug)]
pub struct Busy {
    screen: Screen,
    id: u64,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    out: Box<dyn Write + Send>,
    look: Look,
    size: Box<dyn Fn() -> Size + Send>,
    markdown: Markdown,
    /// Whether text that is not rendered ends in the middle of a line.
    is_mid_line: bool,
    /// Whether an answer was written since somebody was last asked for a line.
    has_answered: bool,
    /// A line's beginning that waits for its end, because it stands where lines change.
    held: String,
    lines: VecDeque<Line>,
    /// The rows at the screen's end that will be replaced.
    drawn: usize,
    turns: usize,
    next_id: u64,
    has_ticker: bool,
}

impl Screen {
    /// A screen on `out`, which is a terminal of this process if `look` says so.
    #[must_use]
    pub fn new(out: impl Write + Send + 'static, look: Look) -> Self {
        Self::with_size(out, look, Size::now)
    }

    /// A screen whose size is what `size` says when something is about to be written.
    #[must_use]
    pub fn with_size(
        out: impl Write + Send + 'static,
        look: Look,
        size: impl Fn() -> Size + Send + 'static,
    ) -> Self {
        let state = State {
            out: Box::new(out),
            look,
            markdown: Markdown::new(size().columns, look.coloured),
            size: Box::new(size),
            is_mid_line: false,
            has_answered: false,
            held: String::new(),
            lines: VecDeque::new(),
            drawn: 0,
            turns: 0,
            next_id: 0,
            has_ticker: false,
        };
        Self { shared: Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() }) }
    }

    /// Writes the next piece of an answer.
    ///
    /// # Errors
    ///
    /// If the output cannot be written to, as after a terminal was closed.
    pub fn text(&self, piece: &str) -> io::Result<()> {
        let mut state = self.state();
        let columns = (state.size)().columns;
        state.markdown.set_width(columns);
        state.has_answered |= !piece.is_empty();
        let written =
            if state.look.live { state.markdown.push(piece) } else { harmless(piece).into_owned() };
        state.write(&written)
    }

    /// Ends an answer, so that what follows begins at the start of a line.
    ///
    /// # Errors
    ///
    /// If the output cannot be written to.
    pub fn end_text(&self) -> io::Result<()> {
        self.state().end_text()
    }

    /// Says that the cursor is at the start of a line, where something else put it.
    pub(crate) fn at_line_start(&self) {
        self.state().is_mid_line = false;
    }

    /// Sets the next prompt off from the answer to the one before.
    pub(crate) fn begin_prompt(&self) -> io::Result<()> {
        let mut state = self.state();
        state.end_text()?;
        if std::mem::take(&mut state.has_answered) { state.write("\n") } else { Ok(()) }
    }

    /// Leaves what stands left of the cursor and above it, and goes to the line below.
    pub(crate) fn clear_below(&self) -> io::Result<()> {
        self.state().write("\x1b[J\r\n")
    }

    /// Writes lines of the program's own, broken between words where that is more than a row.
    /// Ends the answer before them.
    ///
    /// # Errors
    ///
    /// If the output cannot be written to.
    pub fn line(&self, text: &str) -> io::Result<()> {
        let mut state = self.state();
        state.end_text()?;
        let text = harmless(text.trim_end_matches('\n'));
        let text = match state.look.live {
            true => folded(&text, (state.size)().columns),
            false => text.into_owned(),
        };
        state.write(&format!("{text}\n"))
    }

    /// Writes a unified diff, what comes and what goes in colours of their own. Its lines end
    /// with line feeds and nothing else; what would not be seen is written out, because somebody
    /// may be about to agree with it.
    ///
    /// # Errors
    ///
    /// If the output cannot be written to.
    pub fn diff(&self, diff: &str) -> io::Result<()> {
        let mut state = self.state();
        state.end_text()?;
        let look = state.look;
        let coloured = |line: &str| {
            let line = written_out(line);
            let style = match line.chars().next() {
                Some('+') => AnsiColor::Green.on_default(),
                Some('-') => AnsiColor::Red.on_default(),
                _ => Style::new(),
            };
            let style = look.style(style);
            format!("{style}{line}{style:#}\n")
        };
        let coloured: String = diff.split_terminator('\n').map(coloured).collect();
        state.write(&coloured)
    }

    /// Shows that a call is to run, and waits for others before it.
    ///
    /// # Errors
    ///
    /// If the output cannot be written to.
    pub fn queue_call(&self, id: &str, name: &str, arguments: &str) -> io::Result<()> {
        self.show(|line| Line::waiting(line, What::call(id, name, arguments))).map(drop)
    }

    /// Shows that a call runs, until [`end_call`](Self::end_call) with the same `id`. If it was
    /// [queued](Self::queue_call), its line shows that from now on; otherwise it gets one.
    ///
    /// # Errors
    ///
    /// If the output cannot be written to.
    pub fn begin_call(&self, id: &str, name: &str, arguments: &str) -> io::Result<()> {
        let mut state = self.state();
        let queued =
            state.lines.iter_mut().find(|line| line.since.is_none() && line.what.is_call(id));
        if let Some(line) = queued {
            line.since = Some(Instant::now());
            return state.write("");
        }
        drop(state);
        self.show(|line| Line::new(line, What::call(id, name, arguments))).map(drop)
    }

    /// Replaces the line of a call by what came of it. A call that was never begun gets
    /// a line too.
    ///
    /// # Errors
    ///
    /// If the output cannot be written to.
    pub fn end_call(&self, id: &str, name: &str, ended: Ended<'_>) -> io::Result<()> {
        let mut state = self.state();
        let at = state.lines.iter().position(|line| line.what.is_call(id));
        let line = at
            .and_then(|at| state.lines.remove(at))
            .unwrap_or_else(|| Line::new(0, What::call(id, name, "")));
        state.end_line(&line, ended)
    }

    /// Ends the lines of all calls that have none yet, with `error`: after a
    /// cancellation, no more will come of them.
    ///
    /// # Errors
    ///
    /// If the output cannot be written to.
    pub fn end_calls(&self, error: &str) -> io::Result<()> {
        let mut state = self.state();
        let is_call = |line: &Line| matches!(line.what, What::Call { .. });
        let (calls, others): (VecDeque<_>, _) =
            std::mem::take(&mut state.lines).into_iter().partition(is_call);
        state.lines = others;
        for line in calls {
            let duration = line.elapsed();
            state.end_line(&line, Ended { duration, size: 0, error: Some(error) })?;
        }
        Ok(())
    }

    /// Shows `what` is being waited for, where lines can be replaced.
    ///
    /// # Errors
    ///
    /// If the output cannot be written to.
    pub fn busy(&self, what: &str) -> io::Result<Busy> {
        let id = self.show(|line| Line::new(line, What::Wait(one_line(what))))?;
        Ok(Busy { screen: self.clone(), id })
    }

    fn show(&self, line: impl FnOnce(u64) -> Line) -> io::Result<u64> {
        let mut state = self.state();
        state.end_text()?;
        state.next_id += 1;
        let id = state.next_id;
        state.lines.push_back(line(id));
        state.write("")?;
        if state.look.live && !state.has_ticker {
            let shared = Arc::downgrade(&self.shared);
            thread::Builder::new().name("spinner".to_owned()).spawn(move || turn(&shared))?;
            state.has_ticker = true;
        }
        self.shared.changed.notify_all();
        Ok(id)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.shared)
    }
}

impl fmt::Debug for Screen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Screen").field("look", &self.state().look).finish_non_exhaustive()
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let mut state = self.screen.state();
        state.lines.retain(|line| line.id != self.id);
        self.screen.shared.changed.notify_all();
        // Who waited finds out with the next thing that is written.
        let _ = state.write("");
    }
}

impl State {
    /// Writes `text` above the lines that change, and those anew below it.
    fn write(&mut self, text: &str) -> io::Result<()> {
        let mut all = std::mem::take(&mut self.held);
        all.push_str(text);
        if self.look.live && !self.lines.is_empty() {
            // What is not a whole line yet would be where the lines are drawn.
            self.held = all.split_off(all.rfind('\n').map_or(0, |end| end + 1));
        }
        let mut bytes = self.erasure();
        bytes.push_str(&all);
        if !all.is_empty() {
            self.is_mid_line = !all.ends_with('\n');
        }
        if self.look.live {
            bytes.push_str(&self.drawing());
        }
        if bytes.is_empty() {
            return Ok(());
        }
        self.out.write_all(bytes.as_bytes())?;
        self.out.flush()
    }

    fn end_text(&mut self) -> io::Result<()> {
        let mut rest = self.markdown.finish();
        let before = format!("{}{rest}", self.held);
        if before.is_empty() && self.is_mid_line || !before.is_empty() && !before.ends_with('\n') {
            rest.push('\n');
        }
        if rest.is_empty() { Ok(()) } else { self.write(&rest) }
    }

    fn end_line(&mut self, line: &Line, ended: Ended<'_>) -> io::Result<()> {
        self.end_text()?;
        let columns = (self.size)().columns;
        let ended = line.ended(ended, columns, self.look);
        self.write(&format!("{ended}\n"))
    }

    /// Takes back the lines that change.
    ///
    /// A terminal that became narrower may have broken them into more rows. Going up as
    /// many rows as were drawn leaves the upper parts of such lines on the screen;
    /// going up further would erase text on terminals that cut lines instead.
    fn erasure(&mut self) -> String {
        match std::mem::take(&mut self.drawn) {
            0 => String::new(),
            1 => "\r\x1b[J".to_owned(),
            rows => format!("\r\x1b[{}A\x1b[J", rows - 1),
        }
    }

    /// Draws the lines that change, with the cursor at the end of the last.
    fn drawing(&mut self) -> String {
        let size = (self.size)();
        let room = size.rows.saturating_sub(1).max(1);
        let hidden = self.lines.len().saturating_sub(room);
        let lines = self.lines.iter().skip(hidden);
        let drawn: Vec<String> =
            lines.map(|line| line.running(self.turns, size.columns, self.look)).collect();
        self.drawn = drawn.len();
        drawn.join("\r\n")
    }
}

/// Turns the spinners of a screen, as long as it has some.
fn turn(shared: &Weak<Shared>) {
    while let Some(shared) = shared.upgrade() {
        let mut state = lock(&shared);
        if state.lines.is_empty() {
            state.has_ticker = false;
            return;
        }
        let waited = shared.changed.wait_timeout(state, TURN);
        let (mut state, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() && !state.lines.is_empty() {
            state.turns += 1;
            // A terminal that is gone is found out by whoever has something to say.
            let _ = state.write("");
        }
    }
}

fn lock(shared: &Shared) -> MutexGuard<'_, State> {
    // Nothing under this lock is left half done by a panic but a drawing.
    shared.state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "screen/tests.rs"]
mod tests;
