//! The output below the last prompt: streamed text, lines for running and ended calls, and a
//! status line while the program waits.
//!
//! The screen is the only writer of the output, so that a spinner never appears inside a sentence.
//! Lines that change are the last ones of the screen; everything above them is never written again.
//!
//! Between two writes the cursor is at the start of the first line that changes. A terminal that
//! becomes narrower breaks these lines into more rows or cuts them, and the program cannot know
//! which. In both cases the cursor stays before their first character.

mod excerpt;
mod line;
mod question;
mod typed;

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Write};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Style};
use ikigai_protocol::written_out;
use parking_lot::{Condvar, Mutex, MutexGuard};

use self::excerpt::ExcerptKind;
use self::line::{LimitSource, StatusLine, StatusSubject};
pub use self::line::{TimeLimit, in_words};
use self::question::DisplayedQuestion;
use self::typed::TypedLines;
use crate::cells;
use crate::fold::folded;
use crate::look::{OutputFeatures, TerminalSize};
use crate::markdown::Markdown;
use crate::sanitize::{one_line, sanitize};

/// The interval of a spinner's turns.
const TURN: Duration = Duration::from_millis(100);

/// The output of a conversation. Clones write to the same place.
#[derive(Clone)]
pub struct Screen {
    shared: Arc<SharedScreen>,
}

/// The result of a call, for its line.
#[derive(Clone, Copy, Debug)]
pub struct CallSummary<'a> {
    /// The time from its start to its answer.
    pub duration: Duration,
    /// The number of characters in its answer.
    pub size: u64,
    /// The code or the message of the error, if there was one.
    pub error: Option<&'a str>,
}

/// A status line, which is shown until this is dropped.
#[must_use = "the status line is shown as long as this lives"]
#[derive(Debug)]
pub struct Busy {
    screen: Screen,
    id: u64,
}

struct SharedScreen {
    state: Mutex<ScreenState>,
    changed: Condvar,
}

struct ScreenState {
    out: Box<dyn Write + Send>,
    look: OutputFeatures,
    size: Box<dyn Fn() -> TerminalSize + Send>,
    markdown: Markdown,
    /// `true` if the text on the screen ends in the middle of a line.
    is_mid_line: bool,
    /// The part of that line that is written, if lines can be replaced.
    unfinished: String,
    /// `true` if an answer was written since the last prompt.
    has_answered: bool,
    /// The beginning of an unfinished line. It waits for its end, because lines that change take
    /// its place on the screen.
    held: String,
    lines: VecDeque<StatusLine>,
    /// The lines for later that the user types while the program works.
    typed: TypedLines,
    /// The question that is being asked. Other output waits until it is answered.
    asked: Option<DisplayedQuestion>,
    /// The output that waits.
    deferred: String,
    /// `true` if there are rows after the cursor that will be replaced.
    is_drawn: bool,
    turns: usize,
    next_id: u64,
    has_ticker: bool,
}

impl Screen {
    /// Creates a screen on `out`, which is a terminal of this process if `look` says so.
    #[must_use]
    pub fn new(out: impl Write + Send + 'static, look: OutputFeatures) -> Self {
        Self::with_size(out, look, TerminalSize::now)
    }

    /// Creates a screen that calls `size` before each write.
    #[must_use]
    pub fn with_size(
        out: impl Write + Send + 'static,
        look: OutputFeatures,
        size: impl Fn() -> TerminalSize + Send + 'static,
    ) -> Self {
        let state = ScreenState {
            out: Box::new(out),
            look,
            markdown: Markdown::new(size().columns, look.coloured),
            size: Box::new(size),
            is_mid_line: false,
            unfinished: String::new(),
            has_answered: false,
            held: String::new(),
            lines: VecDeque::new(),
            typed: TypedLines::default(),
            asked: None,
            deferred: String::new(),
            is_drawn: false,
            turns: 0,
            next_id: 0,
            has_ticker: false,
        };
        Self {
            shared: Arc::new(SharedScreen { state: Mutex::new(state), changed: Condvar::new() }),
        }
    }

    /// Writes the next piece of an answer.
    ///
    /// # Errors
    ///
    /// Returns an error if the output cannot be written to, as after a terminal was closed.
    pub fn text(&self, piece: &str) -> io::Result<()> {
        let mut state = self.state();
        let columns = (state.size)().columns;
        state.markdown.set_width(columns);
        state.has_answered |= !piece.is_empty();
        let written =
            if state.look.live { state.markdown.push(piece) } else { sanitize(piece).into_owned() };
        state.write(&written)
    }

    /// Ends an answer, so that further output begins at the start of a line.
    ///
    /// # Errors
    ///
    /// Returns an error if the output cannot be written to.
    pub fn end_text(&self) -> io::Result<()> {
        self.state().end_text()
    }

    /// Records that other code has put the cursor at the start of a line.
    pub(crate) fn at_line_start(&self) {
        let mut state = self.state();
        state.is_mid_line = false;
        state.unfinished.clear();
    }

    /// Separates the next prompt from the answer before it.
    pub(crate) fn begin_prompt(&self) -> io::Result<()> {
        let mut state = self.state();
        state.end_text()?;
        if std::mem::take(&mut state.has_answered) { state.write("\n") } else { Ok(()) }
    }

    /// Clears the screen after the cursor, and moves to the line below. Call this before writing
    /// while a line waits to be read further, after [`EditorEvent::Edit`](crate::EditorEvent::Edit).
    ///
    /// # Errors
    ///
    /// Returns an error if the output cannot be written to.
    pub fn clear_below(&self) -> io::Result<()> {
        self.state().write("\x1b[J\r\n")
    }

    /// Writes a sequence that takes no place on the screen.
    pub(crate) fn control(&self, sequence: &str) -> io::Result<()> {
        let mut state = self.state();
        state.out.write_all(sequence.as_bytes())?;
        state.out.flush()
    }

    /// Shows the lines that were typed for later, and the line that is being typed, below
    /// everything else.
    pub(crate) fn show_typed(&self, queued: Vec<String>, draft: &str) -> io::Result<()> {
        let mut state = self.state();
        let mut bytes = String::new();
        let typed = TypedLines::new(queued, draft);
        if state.look.live && !state.has_changing_lines() && !typed.is_empty() {
            bytes = state.lift_unfinished();
        }
        state.typed = typed;
        state.write_after(bytes, "")
    }

    /// Writes a program's text unchanged except that it is sanitized; it is not rendered as
    /// Markdown.
    ///
    /// # Errors
    ///
    /// Returns an error if the output cannot be written to.
    pub fn print(&self, piece: &str) -> io::Result<()> {
        self.state().write(&sanitize(piece))
    }

    /// Writes the program's own lines, broken between words if they are wider than a row. This ends
    /// an answer before them.
    ///
    /// # Errors
    ///
    /// Returns an error if the output cannot be written to.
    pub fn line(&self, text: &str) -> io::Result<()> {
        self.lines_in(Style::new(), text)
    }

    /// Writes lines of the model's thoughts, dimmed, and otherwise as [`line`](Self::line) does.
    ///
    /// # Errors
    ///
    /// Returns an error if the output cannot be written to.
    pub fn thought(&self, text: &str) -> io::Result<()> {
        self.lines_in(Style::new().dimmed(), text)
    }

    /// Writes a line about the conversation above the next prompt, dimmed. It replaces the line
    /// that separates the prompt from an answer.
    ///
    /// # Errors
    ///
    /// Returns an error if the output cannot be written to.
    pub fn status(&self, text: &str) -> io::Result<()> {
        self.begin_prompt()?;
        self.thought(text)
    }

    fn lines_in(&self, style: Style, text: &str) -> io::Result<()> {
        let mut state = self.state();
        state.end_text()?;
        let text = sanitize(text.trim_end_matches('\n'));
        let text = match state.look.live {
            true => folded(&text, (state.size)().columns),
            false => text.into_owned(),
        };
        let style = state.look.style(style);
        let lines = text.split('\n').map(|line| format!("{style}{line}{style:#}\n"));
        state.write(&lines.collect::<String>())
    }

    /// Writes a unified diff, with added and removed lines in different colours. Only line feeds
    /// end its lines. Invisible characters are written out, because the user may be about to agree
    /// to the lines.
    ///
    /// # Errors
    ///
    /// Returns an error if the output cannot be written to.
    pub fn diff(&self, diff: &str) -> io::Result<()> {
        let mut state = self.state();
        state.end_text()?;
        let look = state.look;
        let coloured = |line: &str| {
            let line = sanitize(&written_out(line)).into_owned();
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

    /// Writes the beginning of a result below the line of its call: at most `most` lines, each
    /// within the width. The other lines are counted, and `more` tells how to see them.
    ///
    /// # Errors
    ///
    /// Returns an error if the output cannot be written to.
    pub fn result(&self, text: &str, most: usize, more: &str) -> io::Result<()> {
        self.excerpt(ExcerptKind::Text, text, most, more)
    }

    /// Writes the beginning of a change as [`result`](Self::result) does. The lines of `diff` begin
    /// with `+`, `-` or a space.
    ///
    /// # Errors
    ///
    /// Returns an error if the output cannot be written to.
    pub fn change(&self, diff: &str, most: usize, more: &str) -> io::Result<()> {
        self.excerpt(ExcerptKind::Diff, diff, most, more)
    }

    fn excerpt(&self, kind: ExcerptKind, text: &str, most: usize, more: &str) -> io::Result<()> {
        let mut state = self.state();
        state.end_text()?;
        let lines = excerpt::lines(kind, text, most, more, (state.size)().columns, state.look);
        state.write(&lines)
    }

    /// Shows a call that waits for others before it runs.
    ///
    /// # Errors
    ///
    /// Returns an error if the output cannot be written to.
    pub fn queue_call(&self, id: &str, name: &str, arguments: &str) -> io::Result<()> {
        self.show(|line| StatusLine::waiting(line, StatusSubject::call(id, name, arguments)))
            .map(drop)
    }

    /// Shows a running call, until [`end_call`](Self::end_call) with the same `id`. A
    /// [queued](Self::queue_call) call keeps its line; another gets a new one.
    ///
    /// # Errors
    ///
    /// Returns an error if the output cannot be written to.
    pub fn begin_call(&self, id: &str, name: &str, arguments: &str) -> io::Result<()> {
        let mut state = self.state();
        let queued =
            state.lines.iter_mut().find(|line| line.since.is_none() && line.subject.is_call(id));
        if let Some(line) = queued {
            line.since = Some(Instant::now());
            return state.write("");
        }
        drop(state);
        self.show(|line| StatusLine::new(line, StatusSubject::call(id, name, arguments))).map(drop)
    }

    /// Shows how much time a running call has, once half of it is over. `limit` is called whenever
    /// the line is drawn. For a call without a limit nothing is shown.
    pub fn limit_call(&self, id: &str, limit: impl Fn() -> Option<TimeLimit> + Send + 'static) {
        let mut state = self.state();
        if let Some(line) = state.lines.iter_mut().find(|line| line.subject.is_call(id)) {
            line.limit = LimitSource(Some(Box::new(limit)));
        }
    }

    /// Replaces the line of a call with its result. A call that was never begun gets a line too.
    ///
    /// # Errors
    ///
    /// Returns an error if the output cannot be written to.
    pub fn end_call(&self, id: &str, name: &str, ended: CallSummary<'_>) -> io::Result<()> {
        let mut state = self.state();
        let at = state.lines.iter().position(|line| line.subject.is_call(id));
        let line = at
            .and_then(|at| state.lines.remove(at))
            .unwrap_or_else(|| StatusLine::new(0, StatusSubject::call(id, name, "")));
        state.end_line(&line, ended)
    }

    /// Ends the lines of all calls without a result with `error`, for example after a cancellation.
    ///
    /// # Errors
    ///
    /// Returns an error if the output cannot be written to.
    pub fn end_calls(&self, error: &str) -> io::Result<()> {
        let mut state = self.state();
        let is_call = |line: &StatusLine| matches!(line.subject, StatusSubject::Call { .. });
        let (calls, others): (VecDeque<_>, _) =
            std::mem::take(&mut state.lines).into_iter().partition(is_call);
        state.lines = others;
        for line in calls {
            let duration = line.elapsed();
            state.end_line(&line, CallSummary { duration, size: 0, error: Some(error) })?;
        }
        Ok(())
    }

    /// Shows `what` the program waits for, if lines can be replaced.
    ///
    /// # Errors
    ///
    /// Returns an error if the output cannot be written to.
    pub fn busy(&self, what: &str) -> io::Result<Busy> {
        let id = self.show(|line| StatusLine::new(line, StatusSubject::Wait(one_line(what))))?;
        Ok(Busy { screen: self.clone(), id })
    }

    fn show(&self, line: impl FnOnce(u64) -> StatusLine) -> io::Result<u64> {
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

    fn state(&self) -> MutexGuard<'_, ScreenState> {
        self.shared.state.lock()
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
        // An error is reported by the next write.
        let _ = state.write("");
    }
}

impl ScreenState {
    fn has_changing_lines(&self) -> bool {
        !self.lines.is_empty() || !self.typed.is_empty() || self.asked.is_some()
    }

    /// Writes `text` above the lines that change, and draws those lines again below it.
    fn write(&mut self, text: &str) -> io::Result<()> {
        self.write_after(String::new(), text)
    }

    fn write_after(&mut self, bytes: String, text: &str) -> io::Result<()> {
        if self.asked.is_none() {
            return self.write_now(bytes, text);
        }
        self.deferred.push_str(text);
        self.write_now(bytes, "")
    }

    /// Writes `text` even while a question is asked.
    fn write_now(&mut self, mut bytes: String, text: &str) -> io::Result<()> {
        let mut all = std::mem::take(&mut self.held);
        all.push_str(text);
        if self.look.live && self.has_changing_lines() {
            // The lines that change would be drawn over an unfinished line.
            self.held = all.split_off(all.rfind('\n').map_or(0, |end| end + 1));
        }
        if std::mem::take(&mut self.is_drawn) {
            bytes.push_str("\r\x1b[J");
        }
        bytes.push_str(&all);
        self.note_end(&all);
        if self.look.live {
            bytes.push_str(&self.drawing());
        }
        if bytes.is_empty() {
            return Ok(());
        }
        self.out.write_all(bytes.as_bytes())?;
        self.out.flush()
    }

    /// Remembers the unfinished line at the end of `written`.
    fn note_end(&mut self, written: &str) {
        if written.is_empty() {
            return;
        }
        self.is_mid_line = !written.ends_with('\n');
        if !self.look.live {
            return;
        }
        let last = match written.rfind('\n') {
            Some(end) => {
                self.unfinished.clear();
                &written[end + 1..]
            }
            None => written,
        };
        self.unfinished.push_str(last);
    }

    /// Removes the unfinished line from the screen, so that it can be drawn with the lines that
    /// change. Returns the sequence that erases it.
    fn lift_unfinished(&mut self) -> String {
        if !std::mem::take(&mut self.is_mid_line) {
            return String::new();
        }
        self.held = std::mem::take(&mut self.unfinished);
        let columns = (self.size)().columns;
        match cells::styled_width(&self.held).saturating_sub(1) / columns {
            0 => "\r\x1b[J".to_owned(),
            above => format!("\r\x1b[{above}A\x1b[J"),
        }
    }

    fn end_text(&mut self) -> io::Result<()> {
        let mut rest = self.markdown.finish();
        let before = format!("{}{}{rest}", self.deferred, self.held);
        if before.is_empty() && self.is_mid_line || !before.is_empty() && !before.ends_with('\n') {
            rest.push('\n');
        }
        if rest.is_empty() { Ok(()) } else { self.write(&rest) }
    }

    fn end_line(&mut self, line: &StatusLine, ended: CallSummary<'_>) -> io::Result<()> {
        self.end_text()?;
        let columns = (self.size)().columns;
        let ended = line.ended(ended, columns, self.look);
        self.write(&format!("{ended}\n"))
    }

    /// Returns the lines that change, with the cursor at the start of the first.
    fn drawing(&mut self) -> String {
        let size = (self.size)();
        let mut rows = Vec::new();
        if self.has_changing_lines()
            && !self.held.is_empty()
            && cells::styled_width(&self.held) < size.columns
        {
            rows.push(self.held.clone());
        }
        match &self.asked {
            Some(open) => rows.extend(open.rows(size.columns, self.look)),
            None => {
                let running = |it: &StatusLine| it.running(self.turns, size.columns, self.look);
                rows.extend(self.lines.iter().map(running));
            }
        }
        rows.extend(self.typed.rows(size.columns, self.look));
        let room = size.rows.saturating_sub(1).max(1);
        let rows = &rows[rows.len().saturating_sub(room)..];
        self.is_drawn = !rows.is_empty();
        match rows.len() {
            0 => String::new(),
            1 => format!("{}\r", rows[0]),
            count => format!("{}\r\x1b[{}A", rows.join("\r\n"), count - 1),
        }
    }
}

/// Turns the spinners of a screen, while it has any.
fn turn(shared: &Weak<SharedScreen>) {
    while let Some(shared) = shared.upgrade() {
        let mut state = shared.state.lock();
        if state.lines.is_empty() {
            state.has_ticker = false;
            return;
        }
        let waited = shared.changed.wait_for(&mut state, TURN);
        // Nothing moves next to a question.
        if waited.timed_out() && !state.lines.is_empty() && state.asked.is_none() {
            state.turns += 1;
            // An error is reported by the next output that a caller waits for.
            let _ = state.write("");
        }
    }
}

#[cfg(test)]
#[path = "screen/tests.rs"]
mod tests;
